"""memory.stress: a share of the free memory is written and read back."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

from checks import system, tool
from checks.cgroup import CgroupError, read_limits
from checks.check import CheckError, Context, Measurement, Resource, Skipped, check
from checks.host import stress
from checks.model import Profile, Scope, Skip

ROOT = Path("/")
# stress-ng divides --vm-bytes among its workers; were a version to give it to each, two workers with the deepest
# profile's 40 % would still leave a fifth of the free memory.
WORKERS = 2
MOST_SHARE = 0.4
LEAST_BYTES = 64 << 20
LONGER = 3.0


@check(
    "memory.stress",
    Scope.NODE,
    timeout_s=300,
    metrics=("failures", "tested_bytes", "rounds"),
    needs="stress-ng, /proc/meminfo",
    cost="seconds",
    profiles=(Profile.STANDARD, Profile.DEEP),
    uses=(Resource.CPU, Resource.MEMORY),
)
def memory_stress(context: Context) -> Measurement | Skipped:
    """Fills a share of the free memory with patterns by stress-ng and verifies what comes back.

    The share (`share`, at most `max_bytes`) is of what is free within the cgroup's limit too, so that nobody is killed
    for want of memory. `failures` counts wrong bits; `rounds` are stress-ng's operations, each over its whole part.
    """
    seconds = context.options.get("seconds", 5.0)
    size = size_to_test(ROOT, context.options.get("share", 0.1), context.options.get("max_bytes", 4 << 30))
    workers = min(WORKERS, len(os.sched_getaffinity(0)))
    asked = ("--vm", str(workers), "--vm-bytes", str(size), "--vm-method", "all")
    try:
        ran, account = run_a_round(asked, seconds, context.timeout_s)
    except tool.ToolMissing as error:
        return Skipped(Skip.TOOL_MISSING, str(error))
    return measured(ran, size, account)


def run_a_round(asked: Sequence[str], seconds: float, timeout_s: float) -> tuple[stress.Stressed, str]:
    """A run in which stress-ng went round its memory once at least, as far as the time allows: a busy host is slower.

    Raises as stress.run.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        ran, account = stress.run(asked, "vm", seconds, deadline - time.monotonic())
        seconds *= LONGER
        if ran.failures or ran.operations > 0 or time.monotonic() + seconds + stress.SLACK_S > deadline:
            return ran, account


def size_to_test(root: Path, share: float, most: float) -> int:
    """Bytes, whole pages. Raises CheckError where too little is free, or it cannot be read how much is."""
    try:
        limits = read_limits(root)
        text = (root / "proc/meminfo").read_text(encoding="utf-8")
    except (CgroupError, OSError) as error:
        raise CheckError(f"nobody can tell how much memory is free: {error}") from error
    free = system.memory_metrics(system.parse_table(text, "proc/meminfo"), limits)["memory_available_bytes"]
    if not isinstance(free, int):
        raise CheckError(f"the free memory is {free!r}")
    size = int(min(free * min(share, MOST_SHARE), most)) // 4096 * 4096
    if size < LEAST_BYTES:
        raise CheckError(f"only {free} bytes of memory are free: too few to test any of it")
    return size


def measured(ran: stress.Stressed, size: int, account: str) -> Measurement:
    """The metrics of a run. Raises CheckError where nothing was written."""
    if not ran.failures and ran.operations <= 0:
        raise CheckError("stress-ng went round no memory at all")
    return Measurement(
        {
            "failures": len(ran.failures),
            "tested_bytes": size,
            "rounds": ran.operations,
            "seconds": ran.wall_s,
        },
        account,
    )
