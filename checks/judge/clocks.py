"""Compares the clocks of the nodes of one attempt by the times at which their reports ended. Pure.

Nodes end together: each waits for the others at the barriers, and what comes after the rank checks takes a node some seconds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from statistics import median

from checks.model import CLUSTER, Cause, Finding, Level, Node

# Five minutes is what Kerberos accepts (MIT krb5: clockskew = 300; RFC 4120, 1.6), and AWS when it checks a signature
# (Signature Version 4: requests older than five minutes are refused).
WARN_S = 300.0
# A wrong time zone makes a difference of an hour or more, and no closing check runs that long.
FAIL_S = 3600.0
CLOCK_REMEDY = (
    "Check this node's clock (timedatectl, chronyc tracking) and correct it. "
    "If it is right, find out why its report ended at another time."
)


def judge_clocks(nodes: Sequence[Node]) -> Iterator[Finding]:
    """A finding for each finished node whose clock is far from the median of all nodes, or whose report has no time."""
    whole = [node for node in nodes if node.complete]
    if len(nodes) < 2:
        return
    times = {node.name: seconds_of(node.measured_at) for node in whole}
    mute = [name for name, time in times.items() if time is None]
    if mute:
        message = f"{len(mute)} of {len(nodes)} reports have no timestamp, so their clocks were not compared: {mute[0]}"
        remedy = "Use one version of Prelaunch on every node."
        yield Finding(Level.WARN, Cause.EVIDENCE, "report", CLUSTER, message, "", remedy)
    clocks = {name: time for name, time in times.items() if time is not None}
    middle = median(clocks.values()) if clocks else 0.0
    far = {name for name, time in clocks.items() if abs(time - middle) > WARN_S}
    spread = max(clocks.values(), default=0.0) - min(clocks.values(), default=0.0)
    # Two halves at the same distance from the median: it is unknown which is right.
    if spread > WARN_S and not far:
        first, last = min(clocks, key=lambda name: clocks[name]), max(clocks, key=lambda name: clocks[name])
        message = (
            f"the clocks of the nodes differ by {spread:,.0f} s (threshold {WARN_S:.0f} s): {last} is ahead of {first}, and which "
            "of them is right is not known"
        )
        yield Finding(_level(spread), Cause.EVIDENCE, "report", CLUSTER, message, "", CLOCK_REMEDY)
    for name, time in clocks.items():
        if name in far:
            apart = abs(time - middle)
            side = "ahead of" if time > middle else "behind"
            message = f"has a clock that is {apart:,.0f} s {side} the median of all nodes (threshold {WARN_S:.0f} s)"
            yield Finding(
                _level(apart), Cause.EVIDENCE, "report", name, message, "", CLOCK_REMEDY, is_predicate=True
            )


def _level(apart_s: float) -> Level:
    return Level.FAIL if apart_s > FAIL_S else Level.WARN


def seconds_of(iso: str) -> float | None:
    """The Unix time in seconds of a UTC time in ISO 8601; None if the text is not a time."""
    try:
        moment = datetime.fromisoformat(iso.replace("Z", "+00:00"))
        return moment.timestamp() if moment.tzinfo else moment.replace(tzinfo=timezone.utc).timestamp()
    except (ValueError, OverflowError):
        return None
