"""Whether this machine can play the nodes that a gate declares. Pure, except `this_machine`.

A gate of several nodes on one machine, or of a type that the machine is not, is legitimate: it shows how a gate behaves. So nothing is
refused here; what will hardly end well is a warning.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from checks import bundle as bundles
from checks.bundle import Bundle
from checks.check import CheckError
from checks.facts.builtin import builtin
from checks.probes.host.system import resource_metrics
from checks.value_types import DecodeError
from tasks.launchers.base import JobSpec, PreflightCheck, PreflightResult
from tasks.launchers.torch_need import has_rank_checks

SUBJECT = "this machine"
# Measured with profile quick on a machine of 2 CPUs without a GPU (2 nodes with 2 ranks each): CPU seconds and bytes (PSS) of a node's
# torchrun, and of a rank. A GPU's rank needs more, so that these are the least.
NODE_CPU_S, RANK_CPU_S = 2.1, 1.6
NODE_BYTES, RANK_BYTES = 0.25e9, 0.2e9
GIB = 2.0**30
# A type's memory is what it is sold with; the kernel keeps a part of it.
KERNEL_PART = 0.9


@dataclass(frozen=True)
class Machine:
    """What processes of this machine may use: CPUs, bytes of memory, and its NVIDIA devices."""

    cpus: float
    memory_bytes: float
    gpus: int

    def __str__(self) -> str:
        gpus = f", {_many(self.gpus, 'NVIDIA GPU')}" if self.gpus else ""
        return f"{_many(round(self.cpus, 1), 'CPU')}, {self.memory_bytes / 1e9:,.1f} GB of memory{gpus}"


def this_machine(root: Path = Path("/")) -> Machine | None:
    """This machine as its cgroups allow; None where that cannot be read."""
    try:
        found = resource_metrics(root, root, len(os.sched_getaffinity(0)))
        gpus = sum(1 for one in (root / "dev").glob("nvidia[0-9]*") if one.name[6:].isdigit())
        return Machine(float(str(found["cpus"])), float(str(found["memory_limit_bytes"])), gpus)
    except (CheckError, OSError, ValueError):
        return None


def played(nodes: int, ranks: int, machine: Machine) -> str:
    """What a gate means here, for people."""
    each = f" with {_many(ranks // nodes, 'rank')}" + (" each" if nodes > 1 else "")
    who = "The node is" if nodes == 1 else f"All {nodes:,} nodes are"
    return f"{who} played by this machine ({machine}): {_many(nodes, 'node')}{each} are {_many(nodes + ranks, 'process')} at least."


def doubts(jobs: Sequence[JobSpec], machine: Machine | None) -> tuple[PreflightCheck, ...]:
    """A warning for each reason why the checks of the jobs will hardly pass here."""
    job = next((one for one in jobs if has_rank_checks(one)), None)
    if job is None or machine is None:
        return ()
    try:
        bundle = bundles.load(job.files["bundle.json"])
    except (KeyError, DecodeError):
        return ()
    return tuple(
        PreflightCheck(SUBJECT, PreflightResult.WARNING, said, remedy)
        for said, remedy in (*_too_many(bundle, machine), *_another(bundle, machine))
    )


def _too_many(bundle: Bundle, machine: Machine) -> Iterator[tuple[str, str]]:
    nodes, ranks = bundle.declared.nodes, bundle.declared.ranks
    what = f"{_many(nodes, 'node')} with {_many(ranks, 'rank')}"
    fewer = "Declare fewer: --set cluster.declared.nodes=2"
    seconds = (nodes * NODE_CPU_S + ranks * RANK_CPU_S) / machine.cpus
    if seconds > bundle.stage_s:
        yield (
            f"the rank checks of {what} take about {seconds:,.0f} s on {_many(round(machine.cpus, 1), 'CPU')} "
            f"({RANK_CPU_S:g} s of CPU time per rank and {NODE_CPU_S:g} s per node), and [checks] stage_s is {bundle.stage_s:g} s",
            f"{fewer}, or raise stage_s.",
        )
    needed = nodes * NODE_BYTES + ranks * RANK_BYTES
    if needed > machine.memory_bytes:
        yield (
            f"the rank checks of {what} need about {needed / 1e9:,.1f} GB of memory ({RANK_BYTES / 1e9:g} GB per rank and "
            f"{NODE_BYTES / 1e9:g} GB per node), and there are {machine.memory_bytes / 1e9:,.1f} GB",
            f"{fewer}.",
        )


def _another(bundle: Bundle, machine: Machine) -> Iterator[tuple[str, str]]:
    """Where the declared type has more than this machine: its checks find that."""
    declared = bundle.declared
    instance = builtin().of(declared).instances.get(declared.instance_type)
    lacking = []
    if declared.gpus_per_node > machine.gpus:
        lacking.append(
            f"{_many(declared.gpus_per_node, 'GPU')} per node {'is' if declared.gpus_per_node == 1 else 'are'} declared "
            f"and it has {machine.gpus}"
        )
    if instance is not None and instance.vcpus is not None and instance.vcpus > machine.cpus:
        lacking.append(f"it has {machine.cpus:g} CPUs of {instance.vcpus}")
    if (
        instance is not None
        and instance.memory_gib is not None
        and instance.memory_gib * GIB * KERNEL_PART > machine.memory_bytes
    ):
        lacking.append(f"it has {machine.memory_bytes / GIB:,.0f} GiB of memory of {instance.memory_gib:,}")
    if lacking:
        said = f"it is no {declared.instance_type}: {', '.join(lacking)}, so that checks will fail or not run"
        yield (
            said,
            'Declare instance_type = "cpu" for a machine without GPUs, or start the gate on such a machine.',
        )


def _many(count: float, noun: str) -> str:
    plural = f"{noun}es" if noun.endswith("s") else f"{noun}s"
    return f"{count:,g} {noun if count == 1 else plural}"
