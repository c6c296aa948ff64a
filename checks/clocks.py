"""Clocks that disagree: the times at which the nodes of one attempt say that they ended (pure).

Nodes end together: each waits for the others at the barriers, and what comes after the ranks takes a node seconds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from statistics import median

from checks.model import CLUSTER, Cause, Finding, Level, Node

# Five minutes is what Kerberos bears (MIT krb5: clockskew = 300; RFC 4120, 1.6), and AWS when it checks a signature
# (Signature Version 4: requests older than five minutes are refused).
WARN_S = 300.0
# A time zone taken for another is off by an hour and more; no closing check runs that long.
FAIL_S = 3600.0
REMEDY = (
    "Set this node's clock: timedatectl, chronyc tracking. If it is right, find out why its report ends then."
)


def judge(nodes: Sequence[Node]) -> Iterator[Finding]:
    """A finding for each finished node whose clock is far from the middle one's, or that says no time."""
    whole = [node for node in nodes if node.complete]
    if len(nodes) < 2:
        return
    times = {node.name: seconds_of(node.measured_at) for node in whole}
    mute = [name for name, time in times.items() if time is None]
    if mute:
        said = (
            f"{len(mute)} of {len(nodes)} reports say no time, so that clocks cannot be compared: {mute[0]}"
        )
        yield Finding(
            Level.WARN, Cause.EVIDENCE, "report", CLUSTER, said, "", "Use one version on every node."
        )
    known = {name: time for name, time in times.items() if time is not None}
    middle = median(known.values()) if known else 0.0
    far = {name for name, time in known.items() if abs(time - middle) > WARN_S}
    spread = max(known.values(), default=0.0) - min(known.values(), default=0.0)
    if spread > WARN_S and not far:  # two halves, each as far from the middle: nobody knows which is right
        said = f"the nodes' clocks are {spread:.0f} s apart, {WARN_S:.0f} s are borne"
        yield Finding(_level(spread), Cause.EVIDENCE, "report", CLUSTER, said, "", REMEDY)
    for name, time in known.items():
        if name in far:
            apart = abs(time - middle)
            side = "ahead of" if time > middle else "behind"
            said = (
                f"its clock is {apart:.0f} s {side} that of the nodes in the middle, {WARN_S:.0f} s are borne"
            )
            yield Finding(_level(apart), Cause.EVIDENCE, "report", name, said, "", REMEDY)


def _level(apart_s: float) -> Level:
    return Level.FAIL if apart_s > FAIL_S else Level.WARN


def seconds_of(iso: str) -> float | None:
    """Unix seconds of a UTC time in ISO 8601; None for what is none."""
    try:
        made = datetime.fromisoformat(iso.replace("Z", "+00:00"))
        return made.timestamp() if made.tzinfo else made.replace(tzinfo=timezone.utc).timestamp()
    except (ValueError, OverflowError):
        return None
