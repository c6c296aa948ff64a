"""Which rights a gate needs, and of whom: the files that grant them, by what the gate file asks for. Pure.

What each file grants is in it; this says only which of them apply. The documents beside them say how they are attached.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from flows.cli.examples import SHIPPED
from tasks.gate_file.model import Gate, OptionValue
from tasks.launchers.base import Placement
from tasks.store.open import is_remote

IAM = "iam"
# Of SageMaker: policies that every gate needs, and those that an option or table brings (docs/sagemaker.md).
EVERY_GATE = ("orchestrator-jobs", "orchestrator-reports", "orchestrator-logs", "orchestrator-preflight")
STORE = "orchestrator-store"
# Of Kubernetes: the workloads of operators.
OPERATORS = ("pytorchjob", "hyperpodpytorchjob")
KEYS = ("volume_kms_key", "output_kms_key")


def rights_of(gate: Gate, placement: Placement, store: str) -> tuple[str, ...]:
    """One line each: who needs what. `store` is the address of the gate's store."""
    options = gate.cluster.options
    lines = {"sagemaker": _sagemaker, "kubernetes": _kubernetes, "slurm": _slurm, "local": _local}
    found = [*lines.get(gate.cluster.launcher, _own)(gate, placement, options)]
    if is_remote(store) and gate.cluster.launcher == "sagemaker":
        found.append(f"the store {store}: {_policies([STORE])}")
    elif is_remote(store):
        found.append(
            f"the store {store}: who runs the gate reads, writes, lists and deletes there, such as {_policies([STORE])}"
        )
    return tuple(found)


def _sagemaker(gate: Gate, placement: Placement, options: Mapping[str, OptionValue]) -> Iterator[str]:
    keys = any(options.get(name) for name in KEYS)
    runs = [
        *EVERY_GATE,
        *(["orchestrator-pool"] if placement is Placement.POOLED else []),
        *(["orchestrator-training-plan"] if options.get("training_plan_arn") else []),
        *(["orchestrator-kms"] if keys else []),
    ]
    jobs = [
        "execution-role-trust",
        "execution-role",
        *(["execution-role-vpc"] if options.get("subnets") else []),
        *(["execution-role-kms"] if keys else []),
        *(["model-trainer"] if gate.training.model_trainer else []),
    ]
    yield f"who runs the gate: {_policies(runs)} (docs/sagemaker.md fills them in; preflight asks for what can be asked)"
    yield f"the jobs ({options.get('role_arn', 'role_arn')}): {_policies(jobs)}; for data or checkpoints in S3 execution-role-data"


def _kubernetes(gate: Gate, placement: Placement, options: Mapping[str, OptionValue]) -> Iterator[str]:
    folder = _shown("kubernetes", "hyperpod" if options.get("workload") in OPERATORS else "gate")
    yield (
        f"who runs the gate: the Role of {folder}, in namespace {options.get('namespace', 'default')}: kubectl apply -k {folder} "
        "(preflight names each rule that is missing)"
    )
    if options.get("reports") == "s3":
        yield f"the pods and who runs the gate: S3 below {options.get('prefix', 'prefix')} (docs/kubernetes.md)"


def _slurm(gate: Gate, placement: Placement, options: Mapping[str, OptionValue]) -> Iterator[str]:
    yield (
        "who runs the gate: an account that may submit to the partition (sbatch, srun, squeue, scancel, scontrol show, sinfo), and no "
        "right of an operator"
    )


def _local(gate: Gate, placement: Placement, options: Mapping[str, OptionValue]) -> Iterator[str]:
    image = options.get("container_image")
    needs = [
        *(["root, for network namespaces"] if options.get("network") == "namespaces" else []),
        *([f"the use of {options.get('container_engine', 'docker')}"] if image else []),
    ]
    yield f"who runs the gate: {' and '.join(needs) or 'none beyond those of this user'}"


def _own(gate: Gate, placement: Placement, options: Mapping[str, OptionValue]) -> Iterator[str]:
    return iter(())


def _policies(names: Sequence[str]) -> str:
    return f"{', '.join(names)} in {_shown(IAM)}"


def _shown(*parts: str) -> str:
    """The folder of the installation, from here where it is below the current folder."""
    folder = SHIPPED.joinpath(*parts)
    return str(folder.relative_to(Path.cwd())) if folder.is_relative_to(Path.cwd()) else str(folder)
