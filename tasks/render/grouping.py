"""Findings that differ in their subject alone, said once to people (JSON keeps them apart). Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from checks.localise import LINK
from checks.model import CLUSTER, Cause, Finding, Level, Verdict
from tasks.render.clean import one_line

NAMED = 6
WORDS = {Level.PASS: "PASS", Level.WARN: "WARN", Level.FAIL: "FAIL"}
CANNOT_TELL = "CANNOT TELL"


@dataclass(frozen=True)
class Group:
    """One message and everybody that it is about, in the verdict's order."""

    level: Level
    cause: Cause
    check: str
    message: str
    remedy: str
    subjects: tuple[str, ...]
    evidence: tuple[tuple[str, str], ...]

    @property
    def who(self) -> str:
        """Short: "node-1/rank-3", "3 ranks", "2 links"."""
        if len(self.subjects) == 1:
            return one_line(self.subjects[0], 120)
        return f"{len(self.subjects)} {_kind(self.subjects)}"

    @property
    def names(self) -> str:
        """All of them up to six, then how many more."""
        named = ", ".join(one_line(subject, 120) for subject in self.subjects[:NAMED])
        more = len(self.subjects) - NAMED
        return f"{named} and {more} more" if more > 0 else named

    @property
    def word(self) -> str:
        """WARN, FAIL, or CANNOT TELL where what is missing is evidence."""
        unknown = self.cause is Cause.EVIDENCE and self.level is Level.FAIL
        return CANNOT_TELL if unknown else WORDS[self.level]


def group(findings: Sequence[Finding]) -> tuple[Group, ...]:
    """Groups in the order of their first finding."""
    found: dict[tuple[str, ...], list[Finding]] = {}
    for f in findings:
        found.setdefault((f.level.value, f.cause.value, f.check, f.message, f.remedy), []).append(f)
    return tuple(_group(members) for members in found.values())


def remedy_of(item: Group | Finding, verdict: Verdict) -> str:
    """What to do. While the image or the policy is the suspect, no machine is to be touched for it."""
    if verdict.suspect_policy and item.cause is Cause.HARDWARE:
        return "Look at the image and the policy first: too many nodes fail alike. Replace none of them yet."
    return item.remedy


def _group(members: Sequence[Finding]) -> Group:
    first = members[0]
    subjects = tuple(dict.fromkeys(member.subject for member in members))
    evidence = tuple((member.subject, member.evidence) for member in members if member.evidence)
    return Group(first.level, first.cause, first.check, first.message, first.remedy, subjects, evidence)


def _kind(subjects: Sequence[str]) -> str:
    if all(LINK in subject for subject in subjects):
        return "links"
    if all("/rank-" in subject for subject in subjects):
        return "ranks"
    if any(subject == CLUSTER or "/" in subject or LINK in subject for subject in subjects):
        return "subjects"
    return "nodes"
