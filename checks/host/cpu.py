"""cpu.stress: every CPU computes what is known, and is checked."""

from __future__ import annotations

import math
import os
from pathlib import Path

from checks import tool
from checks.cgroup import CgroupError, read_limits
from checks.check import CheckError, Context, Measurement, Resource, Skipped, check
from checks.host import stress
from checks.model import Profile, Scope, Skip

ROOT = Path("/")


@check(
    "cpu.stress",
    Scope.NODE,
    timeout_s=120,
    metrics=("failures", "workers_missing", "cpu_share", "operations_per_s_per_cpu"),
    needs="stress-ng",
    cost="seconds",
    profiles=(Profile.STANDARD, Profile.DEEP),
    uses=(Resource.CPU,),
)
def cpu_stress(context: Context) -> Measurement | Skipped:
    """Loads every CPU with stress-ng's arithmetic for a while and verifies the results.

    One worker a CPU that this process may use, for `seconds`. `failures` counts wrong results. `cpu_share` is the time
    that the workers got of what they asked for. `operations_per_s_per_cpu` are stress-ng's "bogo operations": comparable
    between nodes of one type and one version alone.
    """
    seconds = context.options.get("seconds", 5.0)
    workers = usable_cpus(ROOT)
    try:
        ran, account = stress.run(("--cpu", str(workers)), "cpu", seconds, context.timeout_s)
    except tool.ToolMissing as error:
        return Skipped(Skip.TOOL_MISSING, str(error))
    return measured(ran, workers, account)


def usable_cpus(root: Path) -> int:
    """How many CPUs this process may keep busy: by affinity, and by its cgroup's quota. Raises CheckError."""
    affinity = len(os.sched_getaffinity(0))
    try:
        quota = read_limits(root).cpus
    except CgroupError as error:
        raise CheckError(str(error)) from error
    return affinity if quota is None else max(1, min(affinity, math.ceil(quota)))


def measured(ran: stress.Stressed, workers: int, account: str) -> Measurement:
    """The metrics of a run. Raises CheckError where the workers did nothing."""
    if not ran.failures and (ran.operations <= 0 or ran.wall_s <= 0):
        raise CheckError(f"stress-ng did {ran.operations} operations in {ran.wall_s:g} s")
    return Measurement(
        {
            "failures": len(ran.failures),
            "workers_missing": max(workers - ran.workers, 0),
            "workers": ran.workers,
            "seconds": ran.wall_s,
            "cpu_share": ran.cpu_s / (ran.wall_s * workers) if ran.wall_s else 0.0,
            "operations_per_s_per_cpu": ran.operations_per_s / workers,
        },
        account,
    )
