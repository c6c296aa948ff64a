"""The one sentence that a person reads first: the answer, the culprit, and what it is based on (pure)."""

from __future__ import annotations

from checks.model import ANSWER_WORDS, CLUSTER, Answer, Cause, Coverage, Level, Verdict
from tasks.render.findings import Group, group
from tasks.text.inert import one_line


def headline(verdict: Verdict, name: str) -> str:
    """Such as "NO-GO local: collective.all_reduce on node-1/rank-3: wrong_elements is 12; observed ..."

    `name` is the cluster or the gate that the verdict is about.
    """
    start, what, observed = opening(verdict, name), _what(verdict), coverage_text(verdict.coverage)
    if verdict.answer is Answer.GO or not what:
        return f"{start}: {observed}; {what}" if what else f"{start}: {observed}"
    return f"{start}: {what}; observed {observed}"


def without_coverage(verdict: Verdict, name: str) -> str:
    """The headline where the coverage is shown apart from it."""
    what = _what(verdict)
    return f"{opening(verdict, name)}: {what}" if what else opening(verdict, name)


def _what(verdict: Verdict) -> str:
    groups = _groups(verdict)
    if groups and verdict.answer is Answer.GO:
        count = _plural(sum(len(item.subjects) for item in groups), "warning")
        return f"{count}, first {sentence(groups[0])}"
    return _reason(verdict, groups) if groups else ""


def opening(verdict: Verdict, name: str) -> str:
    """How the headline begins, such as "NO-GO local"."""
    return f"{ANSWER_WORDS[verdict.answer]} {one_line(name, 80)}"


def named(verdict: Verdict) -> tuple[Group, int] | None:
    """The finding about one subject that the headline names, and how many more there are; None if it names no such one."""
    groups = _groups(verdict)
    if not groups or verdict.answer is Answer.GO or verdict.suspect_policy:
        return None
    first = _culprits(verdict, groups)[0]
    return (first, len(groups) - 1) if len(first.subjects) == 1 and first.check != "report" else None


def answer_word(verdict: Verdict) -> str:
    """GO, NO-GO, CANNOT TELL or ASK."""
    return ANSWER_WORDS[verdict.answer]


def explanation(verdict: Verdict) -> str:
    """One plain sentence on what the answer means for the machines."""
    if verdict.answer is Answer.GO:
        if verdict.level is Level.WARN:
            return "WARN: there are warnings, and the policy accepts them."
        return "PASS: every required check ran and met the policy."
    if verdict.answer is Answer.ASK:
        return "There are warnings, and the policy leaves the decision to a person."
    if verdict.answer is Answer.CANNOT_TELL:
        return "The gate cannot tell: evidence is missing. This does not mean that any machine is broken."
    if verdict.suspect_policy:
        count = _plural(len(verdict.condemned), "node")
        return (
            f"{count} failed: suspect the image or the policy before the machines. Replace none of them yet."
        )
    if verdict.level is Level.WARN:
        return "There are only warnings, and the policy refuses warnings."
    return "At least one check failed."


def coverage_text(coverage: Coverage) -> str:
    """Such as "2 of 2 nodes, 4 of 4 ranks, 22 of 22 observations", without what nobody asked for."""
    counts = [(coverage.nodes, "nodes"), (coverage.gpus, "GPUs"), (coverage.ranks, "ranks")]
    parts = [f"{c.observed} of {c.required} {what}" for c, what in counts if c.required]
    return ", ".join([*parts, f"{coverage.checks.observed} of {coverage.checks.required} observations"])


def sentence(item: Group) -> str:
    """Such as "compute.gemm on node-1/rank-3: wrong_elements is 12", or "compute.gemm on 3 ranks: ..."."""
    message, check = one_line(item.message), one_line(item.check, 80)
    # "report" is no check: what is said of it is about the subject as a whole.
    if len(item.subjects) == 1 and check == "report":
        return f"{item.who}: {message}"
    return f"{check} on {'the cluster' if item.subjects == (CLUSTER,) else item.who}: {message}"


def _reason(verdict: Verdict, groups: tuple[Group, ...]) -> str:
    culprits = _culprits(verdict, groups)
    more = len(groups) - 1
    rest = f" (and {_plural(more, 'more finding')})" if more else ""
    if verdict.suspect_policy:
        share = f"{len(verdict.condemned)} of {verdict.coverage.nodes.required} nodes fail"
        check, message = one_line(culprits[0].check, 80), one_line(culprits[0].message)
        return f"suspect image or policy: {share}, first {check}: {message}{rest}"
    return f"{sentence(culprits[0])}{rest}"


def _groups(verdict: Verdict) -> tuple[Group, ...]:
    return group([finding for finding in verdict.findings if finding.level is not Level.PASS])


def _culprits(verdict: Verdict, groups: tuple[Group, ...]) -> list[Group]:
    return [item for item in groups if _decides(item, verdict)] or list(groups)


def _decides(item: Group, verdict: Verdict) -> bool:
    if verdict.answer is Answer.NO_GO and verdict.level is Level.FAIL:
        return item.level is Level.FAIL and item.cause is not Cause.EVIDENCE
    return item.level is verdict.level


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
