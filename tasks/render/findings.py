"""Findings as they are shown: those that differ only in their subject are combined for people; a verdict as JSON. Pure.

JSON keeps findings apart, and is the same on stdout and in the store.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from checks import model
from checks.documents.report import plain
from checks.judge.not_measured import summary
from checks.judge.rules.wording import subjects_text
from checks.model_details import Unmeasured
from checks.value_types import listed_names
from tasks.text.inert import one_line
from tasks.text.tables import counted

MOST_NAMES = 6
LABELS = {model.Level.PASS: "NOTE", model.Level.WARN: "WARN", model.Level.FAIL: "FAIL"}


@dataclass(frozen=True)
class Group:
    """One message and everybody that it is about, in the verdict's order; `also`: other checks that say the same; `follows`: the
    silent node of which it is a consequence.
    """

    level: model.Level
    cause: model.Cause
    check: str
    message: str
    remedy: str
    subjects: tuple[str, ...]
    evidence: tuple[tuple[str, str], ...]
    also: tuple[str, ...] = ()
    action: model.Action = model.Action.NONE
    source: str = ""
    elements: tuple[str, ...] = ()
    unmeasured: tuple[Unmeasured, ...] = ()
    is_predicate: bool = False
    follows: str = ""

    @property
    def checks(self) -> tuple[str, ...]:
        """The check, and those that say the same."""
        return (self.check, *self.also)

    @property
    def where(self) -> str:
        """Short: "gpu.memory", "gpu.memory and 9 more checks"."""
        more = f" and {counted(len(self.also), 'more check')}" if self.also else ""
        return f"{one_line(self.check, 80)}{more}"

    @property
    def are_several(self) -> bool:
        """Whether it is about more than one subject."""
        return len(self.subjects) > 1

    @property
    def subject_text(self) -> str:
        """Short, in words: "node-1, rank 3", "node-1, ranks 0 to 7"."""
        return subjects_text(self.subjects)

    @property
    def who_named(self) -> str:
        """The text names the subjects as `who` does. Where `who` says only their number, the first names follow: 37 nodes (node-12,
        node-13, ... and 31 more).
        """
        text = self.subject_text
        return f"{text} ({self.names})" if text[:1].isdigit() else text

    @property
    def names(self) -> str:
        """All of them up to six, then how many more."""
        return listed_names([one_line(subject, 120) for subject in self.subjects], MOST_NAMES)

    @property
    def label(self) -> str:
        """WARN, FAIL, CANNOT TELL if evidence is missing, or NOTE for a finding that changes no answer."""
        unknown = self.cause is model.Cause.EVIDENCE and self.level is model.Level.FAIL
        return model.ANSWER_WORDS[model.Answer.CANNOT_TELL] if unknown else LABELS[self.level]

    @property
    def heading(self) -> str:
        """Such as "FAIL HARDWARE"; the cause of CANNOT TELL is always missing evidence."""
        unknown = model.ANSWER_WORDS[model.Answer.CANNOT_TELL]
        return self.label if self.label == unknown else f"{self.label} {self.cause.value}"


# What a finding with this cause is.
CONFIGURATION = (
    "It concerns how nodes are set up, or what else ran on them. It says nothing about their hardware."
)
# What is said before the remedy for one node.
ALIKE = "All nodes fail this check: look at its threshold in the policy, and at the image, first. If both are right: "


def group(findings: Sequence[model.Finding]) -> tuple[Group, ...]:
    """Groups in the order of their first finding."""
    groups: dict[tuple[str, ...], list[model.Finding]] = {}
    for f in findings:
        groups.setdefault(_alike(f), []).append(f)
    return tuple(_group(members) for members in groups.values())


def _alike(f: model.Finding) -> tuple[str, ...]:
    return (
        f.level.value,
        f.cause.value,
        f.check,
        f.message,
        f.remedy,
        f.action.value,
        f.source,
        f.kind or "",
        str(f.is_predicate),
        f.follows,
        *((f.unmeasured.value, f.unmeasured.reason) if f.unmeasured else ("", "")),
        *f.elements,
    )


def gathered(findings: Sequence[model.Finding]) -> tuple[Group, ...]:
    """Groups for a page: everything that could not be measured for one reason, or by one check, is one group.

    A machine without a driver leaves a finding a check, a GPU that is lost one a metric: a list that hides the rest.
    """
    by_check = _joined(group(findings), lambda item: (item.check,), _one_check)
    return _joined(by_check, lambda item: item.unmeasured, _one_reason)


def remedy_of(item: Group | model.Finding, verdict: model.Verdict) -> str:
    """The remedy. While the image or the policy is the suspect, no machine should be touched."""
    if verdict.suspect_policy and item.cause is model.Cause.HARDWARE:
        return "Look at the image and the policy first: too many nodes fail alike. Replace none of them yet."
    text = in_number(item.remedy, item.subjects if isinstance(item, Group) else (item.subject,))
    failed = item.level is model.Level.FAIL and item.cause is not model.Cause.EVIDENCE
    return f"{ALIKE}{text}" if failed and item.check in failed_everywhere(verdict, item.check) else text


def in_number(remedy: str, subjects: Sequence[str]) -> str:
    """The remedy, which is written for one node, as it is said of these subjects."""
    nodes = {
        frozenset(model.node_of(end.strip()) for end in subject.split(model.LINK)) for subject in subjects
    }
    return f"For each named node: {remedy}" if remedy and len(nodes) > 1 else remedy


def failed_everywhere(verdict: model.Verdict, only: str = "") -> tuple[str, ...]:
    """The checks that every node fails, of two nodes or more; where `only` is given, of that check. Missing evidence is no failure,
    and fewer links than nodes are not everywhere.
    """
    nodes, failing = max(verdict.coverage.nodes.required, 2), defaultdict[str, set[str]](set)
    for finding in verdict.findings:
        is_wanted = not only or finding.check == only
        if is_wanted and finding.level is model.Level.FAIL and finding.cause is not model.Cause.EVIDENCE:
            failing[finding.check].add(finding.subject)
    everywhere = []
    for check, subjects in failing.items():
        links = [subject for subject in subjects if model.LINK in subject]
        names = {model.node_of(subject) for subject in subjects.difference(links)} - {model.CLUSTER}
        if len(links) >= nodes:
            names |= {model.node_of(end.strip()) for link in links for end in link.split(model.LINK)}
        everywhere += [check] if len(names) >= nodes else []
    return tuple(everywhere)


def _joined(
    groups: Iterable[Group],
    key: Callable[[Group], tuple[object, ...]],
    join: Callable[[Sequence[Group]], Group],
) -> tuple[Group, ...]:
    by_key: dict[object, list[Group]] = {}
    for index, item in enumerate(groups):
        fits = item.cause is model.Cause.EVIDENCE and item.unmeasured
        same = (item.level, item.remedy, item.subjects, item.follows, *key(item)) if fits else index
        by_key.setdefault(same, []).append(item)
    return tuple(members[0] if len(members) == 1 else join(members) for members in by_key.values())


def _one_check(members: Sequence[Group]) -> Group:
    """All that one check did not measure of these subjects: every value and every reason is in the sentence."""
    unmeasured = tuple(each for item in members for each in item.unmeasured)
    evidence = _evidence(members)
    return replace(members[0], message=summary(unmeasured), evidence=evidence, unmeasured=unmeasured)


def _one_reason(members: Sequence[Group]) -> Group:
    return replace(members[0], also=tuple(item.check for item in members[1:]), evidence=_evidence(members))


def _evidence(members: Sequence[Group]) -> tuple[tuple[str, str], ...]:
    """All evidence, one line per subject; evidence that several share is shown once."""
    texts: dict[str, dict[str, None]] = {}
    for subject, text in (pair for item in members for pair in item.evidence):
        texts.setdefault(subject, {})[text.rstrip("\n")] = None
    return tuple((subject, "\n".join(evidence)) for subject, evidence in texts.items())


def decisive_first(evidence: str, elements: Sequence[str]) -> str:
    """The evidence with what it says of these elements above the rest, of which not all may be shown. Indented lines belong to the
    line above them.
    """
    form = re.compile("|".join(rf"(?<!\w){re.escape(element)}(?!\w)" for element in elements) or "(?!)")
    return "\n".join(sorted(re.split(r"\n(?=\S)", evidence), key=lambda block: form.search(block) is None))


def _group(members: Sequence[model.Finding]) -> Group:
    first = members[0]
    subjects = tuple(dict.fromkeys(member.subject for member in members))
    evidence = tuple(
        (member.subject, decisive_first(member.evidence, member.elements))
        for member in members
        if member.evidence
    )
    return Group(
        first.level, first.cause, first.check, first.message, first.remedy, subjects, evidence,
        action=first.action, source=first.source, elements=first.elements,
        unmeasured=(first.unmeasured,) if first.unmeasured else (), is_predicate=first.is_predicate,
        follows=first.follows,
    )  # fmt: skip


def verdict_json(verdict: model.Verdict) -> dict[str, object]:
    """The verdict as the command line prints it. No key is ever absent but `certified`, which is there if a certificate stands for a
    check, and `named_nodes` and `follows` of a finding that names none.
    """
    c = verdict.coverage
    return {
        "answer": verdict.answer.value,
        "level": verdict.level.value,
        "coverage": {
            "nodes": _count(c.nodes, "declared"),
            "gpus": _count(c.gpus, "declared"),
            "ranks": _count(c.ranks, "declared"),
            "checks": _count(c.checks, "required"),
            **({"certified": c.certified} if c.certified else {}),
        },
        "findings": plain(verdict.findings),
        "condemned": list(verdict.condemned),
        "suspect_policy": verdict.suspect_policy,
        "seen_from": plain(verdict.seen_from),
        "digests": plain(verdict.digests),
    }


def _count(count: model.Count, total: str) -> dict[str, int]:
    return {"observed": count.observed, total: count.required}


def independent(groups: Sequence[Group]) -> tuple[tuple[Group, ...], tuple[Group, ...]]:
    """The groups that stand by themselves, and those that follow from a silent node."""
    return tuple(g for g in groups if not g.follows), tuple(g for g in groups if g.follows)


def followed(groups: Sequence[Group]) -> str:
    """Such as "7 other findings follow from what node-1 did not report"; "" for none."""
    if not groups:
        return ""
    several = len(groups) > 1
    nodes = ", ".join(one_line(name, 120) for name in dict.fromkeys(item.follows for item in groups))
    verb = "findings follow" if several else "finding follows"
    return f"{len(groups)} other {verb} from what {nodes} did not report"
