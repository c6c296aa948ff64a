"""The two jobs of a gate as a launcher takes them, and what they are called (pure)."""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Mapping

from checks import bundle as bundles
from checks.bundle import Pass
from tasks.gatefile import Mode
from tasks.launchers.base import JobSpec
from tasks.lease import CHECK, TRAIN
from tasks.setting import Setting

CHECK_COMMAND = ("{python}", "-m", "checks", "run", "--bundle", "{job}/bundle.json", "--out", "{out}")
CONFIRM = (
    "{python}", "-m", "checks", "gate",
    "--bundle", "{job}/bundle.json", "--confirm", "{job}/pass.json", "--out", "{out}",
)  # fmt: skip
TORCHRUN = (
    "{python}", "-m", "torch.distributed.run",
    "--nnodes", "{nodes}", "--node-rank", "{node_rank}", "--nproc-per-node", "{ranks_per_node}",
    "--master-addr", "{master_addr}", "--master-port", "{master_port}", "--max-restarts", "0",
)  # fmt: skip


def new_gate_id(name: str, unix_s: float) -> str:
    """ "local-20261121-083000-1f3a": the gate file's name, UTC, four random digits; at most 40 characters."""
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime(unix_s))
    return f"{name}-{stamp}-{secrets.token_hex(2)}"


def check_job(setting: Setting, gate_id: str, name: str) -> JobSpec:
    """The health check: every node runs all checks and writes its report; its exit code is no verdict."""
    files = {"bundle.json": bundles.dump(setting.bundle(gate_id))}
    minutes = setting.gate.checks.max_runtime_minutes
    return _job(setting, name, CHECK_COMMAND, minutes, files, {})


def train_job(setting: Setting, gate_id: str, name: str, proven: Pass) -> JobSpec:
    """The training: every node confirms that it is the machine that was proven, then becomes the command."""
    training = setting.gate.training
    here = str(setting.here)
    command = tuple(word.replace("{here}", here) for word in training.command)
    behind = TORCHRUN if training.distributed == "torchrun" else ()
    files = {"bundle.json": bundles.dump(setting.bundle(gate_id)), "pass.json": bundles.dump(proven)}
    environment = {key: value.replace("{here}", here) for key, value in training.environment.items()}
    observe = ("--observe",) if setting.gate.policy.mode is Mode.OBSERVE else ()
    whole = (*CONFIRM, *observe, "--", *behind, *command)
    return _job(setting, name, whole, training.max_runtime_minutes, files, environment)


def planned_jobs(setting: Setting) -> tuple[JobSpec, JobSpec]:
    """Both jobs as a plan shows them: the gate's id and the proven machines are not known yet."""
    gate_id = f"{setting.gate.name}-plan"
    proven = Pass(1, gate_id, hashlib.sha256(b"").hexdigest(), "", ())
    check = check_job(setting, gate_id, f"{gate_id}-{CHECK}-1")
    return check, train_job(setting, gate_id, f"{gate_id}-{TRAIN}-1", proven)


def _job(
    setting: Setting,
    name: str,
    command: tuple[str, ...],
    minutes: float,
    files: Mapping[str, bytes],
    environment: Mapping[str, str],
) -> JobSpec:
    declared = setting.declared
    return JobSpec(
        name=name,
        command=command,
        nodes=declared.nodes,
        ranks_per_node=declared.ranks_per_node,
        max_runtime_s=minutes * 60,
        files=files,
        environment=environment,
    )
