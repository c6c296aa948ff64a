"""Findings about what was not measured: the finding, and the sentence that is made from its field `unmeasured`. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from checks.model import Cause, ErrorKind, Finding, FindingKind, Level, NodeEnd
from checks.model_details import Hindrance, Unmeasured

RAISE = (
    'Raise "{check}" in [checks] timeouts_s of the gate file, or leave it out there, and run the gate again.'
)
FOLLOWS = (
    "The reason names what failed before it. Do what the finding about that says, then run the gate again."
)
ASKED_TO_END = (143, -15)  # exit codes of SIGTERM, as a shell and as Python say it
HINDRANCES = {
    ErrorKind.LIMIT_PASSED: Hindrance.LIMIT,
    ErrorKind.LIMIT_TOO_SHORT: Hindrance.LIMIT,
    ErrorKind.NOT_RUN: Hindrance.EARLIER,
}


def is_accepted_gap(finding: Finding) -> bool:
    """Whether it says that evidence is missing which the policy does not require: a warning then, and no doubt about the node.

    Where a threshold was crossed (`metric`) it is a doubt: a value that was slow on a busy node, for example.
    """
    return finding.level is Level.WARN and finding.cause is Cause.EVIDENCE and not finding.metric


def hindrance_of(error_kind: ErrorKind | None) -> Hindrance:
    """What kept a check from measuring that ended so."""
    return Hindrance.ITSELF if error_kind is None else HINDRANCES.get(error_kind, Hindrance.ITSELF)


def remedy_of(hindrance: Hindrance, check: str) -> str:
    """What to do about it; "" for ITSELF, of which only the check knows it."""
    return {Hindrance.LIMIT: RAISE.format(check=check), Hindrance.EARLIER: FOLLOWS, Hindrance.ITSELF: ""}[
        hindrance
    ]


# What to do where a check ran, and what it wrote lacks something.
INCOMPLETE = "Run the gate again. If the finding returns, use one version of Prelaunch for the checks, the policy and the verdict."


def not_measured(
    check: str,
    subject: str,
    unmeasured: Unmeasured,
    level: Level,
    evidence: str = "",
    remedy: str = INCOMPLETE,
) -> Finding:
    """The finding, cause EVIDENCE, that this check of this subject, or one value of it, was not measured."""
    message = summary([unmeasured])
    if unmeasured.value:
        message = f"not measured: {unmeasured.value} {unmeasured.reason}"
    finding = Finding(level, Cause.EVIDENCE, check, subject, message, evidence, remedy)
    return replace(finding, kind=FindingKind.NOT_MEASURED, unmeasured=unmeasured)


def summary(lacking: Iterable[Unmeasured]) -> str:
    """One sentence about all of them. Values with one reason are named together: "not measured: links, sram (has no value)"."""
    values: dict[str, list[str]] = {}
    for each in lacking:
        values.setdefault(each.reason, []).extend([each.value] if each.value else [])
    clauses = [f"{', '.join(names)} ({reason})" if names else reason for reason, names in values.items()]
    return f"not measured: {'; '.join(clauses)}"


def followers(ends: Collection[NodeEnd]) -> frozenset[str]:
    """The nodes whose process was ended by SIGTERM while another node has another end, or none: an engine ends the rest of a job once
    one node has failed, so these are not the first to name.
    """
    ended = frozenset(end.node for end in ends if end.exit_code in ASKED_TO_END)
    return ended if len(ended) < len(ends) else frozenset()
