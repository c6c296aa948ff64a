"""stress-ng: what a run of one of its stressors says, from its metrics lines of any version since 0.09.

    stress-ng: metrc: [6297] cpu   3601   2.00   2.07   0.00   1799.50   1739.85
    stress-ng: fail:  [6301] cpu: fft error detected, ...

Exit codes (stress-ng.h): 0 well, 2 a stressor failed, 3 too few resources, 4 not built in, 5 killed, 7 no sound metrics.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from checks import tool
from checks.check import CheckError

STRESSOR_FAILED = 2
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


@dataclass(frozen=True)
class Stressed:
    """One stressor's run. `failures` are what --verify found wrong; seconds are of all its workers together."""

    workers: int
    operations: int
    wall_s: float
    cpu_s: float
    operations_per_s: float
    failures: tuple[str, ...]


def parse(text: str, stressor: str, exit_code: int) -> Stressed:
    """What stress-ng printed. Raises CheckError where that is not a whole run."""
    failures = tuple(_FAIL.findall(text))
    rows = [found for found in _METRICS.finditer(text) if found[1] == stressor]
    if failures and exit_code:
        return _stressed(rows[-1] if rows else None, text, failures)
    if exit_code:
        raise CheckError(f"stress-ng ended with exit code {exit_code} and names no failure: {_last(text)}")
    if not rows or not _WELL.search(text):
        raise CheckError(f"stress-ng says nothing of {stressor}, or does not end well: {_last(text)}")
    return _stressed(rows[-1], text, failures)


def run(arguments: Sequence[str], stressor: str, seconds: float, timeout_s: float) -> tuple[Stressed, str]:
    """Run it, and the account of the run. Raises ToolMissing, and CheckError where nobody can tell."""
    whole_s = max(1, math.ceil(seconds))  # stress-ng cuts "0.5s" to 0, which means for ever
    argv = ("stress-ng", *arguments, "--verify", "--timeout", f"{whole_s}s", "--metrics-brief")
    said = tool.run(argv, min(whole_s + SLACK_S, timeout_s))
    if said.code is None or said.cut:
        why = "did not end in time" if said.code is None else "printed more than can be read"
        raise CheckError(f"stress-ng {why}: {said.account()[-400:]}")
    return parse(f"{said.stdout}\n{said.stderr}", stressor, said.code), said.account()


def _stressed(found: re.Match[str] | None, text: str, failures: tuple[str, ...]) -> Stressed:
    hogs = _HOGS.search(text)
    if hogs is None:
        raise CheckError(f"stress-ng does not say how many workers it started: {_last(text)}")
    if found is None:
        return Stressed(int(hogs[1]), 0, 0.0, 0.0, 0.0, failures)
    cpu_s = float(found[4]) + float(found[5])
    return Stressed(int(hogs[1]), int(found[2]), float(found[3]), cpu_s, float(found[6]), failures)


def _last(text: str) -> str:
    return " / ".join(text.strip().splitlines()[-3:])[:300] or "it printed nothing"
