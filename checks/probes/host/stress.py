"""cpu.stress and memory.stress: run stress-ng and read its metrics lines, of any version since 0.09.

    stress-ng: metrc: [6297] cpu   3601   2.00   2.07   0.00   1799.50   1739.85
    stress-ng: fail:  [6301] cpu: fft error detected, ...

cpu.stress has every CPU compute values that are known beforehand and compares them. memory.stress writes a share of the free
memory and reads it back.

Exit codes (stress-ng.h): 0 well, 2 a stressor failed, 3 too few resources, 4 not built in, 5 killed, 7 no sound metrics.
"""

from __future__ import annotations

import math
import os
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from checks.check import CheckError, Context, Measurement, Resource, check
from checks.model import Profile, Scope
from checks.model_details import Contents
from checks.probes.host import system
from checks.process import tool
from checks.process.cgroup import CgroupError, read_limits

# How long a run may take beyond its seconds: to start, to free its memory, to write its metrics.
SLACK_S = 20.0
_METRICS = re.compile(
    r"stress-ng: (?:info|metrc): +\[\d+\] (\w[\w-]*) +(\d+) +([\d.]+) +([\d.]+) +([\d.]+) +([\d.]+) +[\d.]+",
    re.ASCII,
)
_FAIL = re.compile(r"stress-ng: fail: +\[\d+\] (.*)")
_HOGS = re.compile(r"stress-ng: info: +\[\d+\] dispatching hogs: (\d+) ")
# After a failure the last line differs: "unsuccessful run completed in", "failed: 1: cpu (1)".
_WELL = re.compile(r"stress-ng: info: +\[\d+\] successful run completed in")
ROOT = Path("/")
# stress-ng divides --vm-bytes among its workers; were a version to give it to each, two workers with the deepest
# profile's 40 % would still leave a fifth of the free memory.
WORKERS = 2
MOST_SHARE = 0.4
LEAST_BYTES = 64 << 20
LONGER = 3.0


@dataclass(frozen=True)
class StressRun:
    """One stressor's run. `failures` are what --verify found wrong; seconds are of all its workers together."""

    workers: int
    operations: int
    wall_s: float
    cpu_s: float
    operations_per_s: float
    failures: tuple[str, ...]


def parse(text: str, stressor: str, exit_code: int) -> StressRun:
    """What stress-ng printed. Raises CheckError if that is not a whole run."""
    failures = tuple(_FAIL.findall(text))
    matches = [match for match in _METRICS.finditer(text) if match[1] == stressor]
    if failures and exit_code:
        return _stressed(matches[-1] if matches else None, text, failures)
    if exit_code:
        message = f"stress-ng ended with exit code {exit_code} without a failure message: {_last(text)}"
        raise CheckError(message)
    if not matches or not _WELL.search(text):
        raise CheckError(f"stress-ng printed no result for {stressor}, or no successful end: {_last(text)}")
    return _stressed(matches[-1], text, failures)


def run(arguments: Sequence[str], stressor: str, seconds: float, timeout_s: float) -> tuple[StressRun, str]:
    """Run it, and the account of the run. Raises ToolMissing, and CheckError where nobody can tell."""
    whole_s = max(1, math.ceil(seconds))  # stress-ng cuts "0.5s" to 0, which means for ever
    argv = ("stress-ng", *arguments, "--verify", "--timeout", f"{whole_s}s", "--metrics-brief")
    result = tool.run(argv, min(whole_s + SLACK_S, timeout_s))
    if result.code is None or result.cut:
        reason = "did not end in time" if result.code is None else "printed more than can be read"
        raise CheckError(f"stress-ng {reason}: {result.account()[-400:]}")
    return parse(f"{result.stdout}\n{result.stderr}", stressor, result.code), result.account()


def _stressed(match: re.Match[str] | None, text: str, failures: tuple[str, ...]) -> StressRun:
    hogs = _HOGS.search(text)
    if hogs is None:
        raise CheckError(f"stress-ng does not say how many workers it started: {_last(text)}")
    if match is None:
        return StressRun(int(hogs[1]), 0, 0.0, 0.0, 0.0, failures)
    cpu_s = float(match[4]) + float(match[5])
    return StressRun(int(hogs[1]), int(match[2]), float(match[3]), cpu_s, float(match[6]), failures)


def _last(text: str) -> str:
    return " / ".join(text.strip().splitlines()[-3:])[:300] or "it printed nothing"


@check(
    "memory.stress",
    Scope.NODE,
    timeout_s=300,
    metrics=("failures", "tested_bytes", "rounds"),
    needs="stress-ng, /proc/meminfo",
    cost="seconds",
    profiles=(Profile.STANDARD, Profile.DEEP),
    uses=(Resource.CPU, Resource.MEMORY),
    holds=lambda _: (Contents("rounds", 1, less="failures"),),
)
def memory_stress(context: Context) -> Measurement:
    """Fills a share of the free memory with patterns by stress-ng and verifies what comes back.

    The share (`share`, at most `max_bytes`) is of what is free within the cgroup's limit too, so that nobody is killed
    for want of memory. `failures` counts wrong bits; `rounds` are stress-ng's operations, each over its whole part.
    """
    seconds = context.options.get("seconds", 5.0)
    size = size_to_test(ROOT, context.options.get("share", 0.1), context.options.get("max_bytes", 4 << 30))
    workers = min(WORKERS, len(os.sched_getaffinity(0)))
    arguments = ("--vm", str(workers), "--vm-bytes", str(size), "--vm-method", "all")
    ran, account = run_a_round(arguments, seconds, context.timeout_s)
    return memory_measurement(ran, size, account)


def run_a_round(arguments: Sequence[str], seconds: float, timeout_s: float) -> tuple[StressRun, str]:
    """A run in which stress-ng went round its memory once at least, as far as the time allows: a busy host is slower.

    Raises as stress.run.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        ran, account = run(arguments, "vm", seconds, deadline - time.monotonic())
        seconds *= LONGER
        if ran.failures or ran.operations > 0 or time.monotonic() + seconds + SLACK_S > deadline:
            return ran, account


def size_to_test(root: Path, share: float, most: float) -> int:
    """Bytes, whole pages. Raises CheckError if too little is free, or it cannot be read how much is."""
    try:
        limits = read_limits(root)
        text = (root / "proc/meminfo").read_text(encoding="utf-8")
    except (CgroupError, OSError) as error:
        raise CheckError(f"the amount of free memory is unknown: {error}") from error
    free = system.memory_metrics(system.parse_table(text, "proc/meminfo"), limits)["memory_available_bytes"]
    if not isinstance(free, int):
        raise CheckError(f"the free memory is {free!r}")
    size = int(min(free * min(share, MOST_SHARE), most)) // 4096 * 4096
    if size < LEAST_BYTES:
        raise CheckError(f"only {free} bytes of memory are free, which is too little to test")
    return size


def memory_measurement(ran: StressRun, size: int, account: str) -> Measurement:
    """The metrics of a run. Raises CheckError if nothing was written."""
    if not ran.failures and ran.operations <= 0:
        raise CheckError("stress-ng completed no pass over the memory")
    return Measurement(
        {
            "failures": len(ran.failures),
            "tested_bytes": size,
            "rounds": ran.operations,
            "seconds": ran.wall_s,
        },
        account,
    )


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
def cpu_stress(context: Context) -> Measurement:
    """Loads every CPU with stress-ng's arithmetic for a while and verifies the results.

    One worker a CPU that this process may use, for `seconds`. `failures` counts wrong results. `cpu_share` is the time
    that the workers got of what they asked for. `operations_per_s_per_cpu` are stress-ng's "bogo operations": comparable
    between nodes of one type and one version alone.
    """
    seconds = context.options.get("seconds", 5.0)
    workers = usable_cpus(ROOT)
    ran, account = run(("--cpu", str(workers)), "cpu", seconds, context.timeout_s)
    return cpu_measurement(ran, workers, account)


def usable_cpus(root: Path) -> int:
    """How many CPUs this process may keep busy: by affinity, and by its cgroup's quota. Raises CheckError."""
    affinity = len(os.sched_getaffinity(0))
    try:
        quota = read_limits(root).cpus
    except CgroupError as error:
        raise CheckError(str(error)) from error
    return affinity if quota is None else max(1, min(affinity, math.ceil(quota)))


def cpu_measurement(ran: StressRun, workers: int, account: str) -> Measurement:
    """The metrics of a run. Raises CheckError if the workers did nothing."""
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
