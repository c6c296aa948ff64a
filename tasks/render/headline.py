"""The one sentence that a person reads first: the answer, the culprit, and what it is based on (pure)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from datetime import UTC, datetime

from checks.judge.rules.wording import percent, several
from checks.judge.verdict import NOTHING
from checks.model import (
    ANSWER_WORDS,
    CLUSTER,
    LINK,
    Answer,
    Cause,
    Count,
    Coverage,
    Level,
    Report,
    Verdict,
    node_of,
)
from checks.model_details import Images, image_digest
from checks.value_types import listed_names
from tasks.render.findings import Group, failed_everywhere, gathered
from tasks.render.views.nodes import places
from tasks.text.inert import one_line
from tasks.text.tables import counted

# What findings about a node's whole report have for a check.
REPORT = "report"
# So many checks are named of those that every node fails.
MOST_ALIKE = 3
# Verdict and measurement of one gate are usually nearer than this.
APART_S = 3600.0
DAY_S = 86_400.0


def headline(verdict: Verdict, name: str) -> str:
    """Such as "NO-GO local: node-1, rank 3 computes wrong sums (12 wrong values in all_reduce)", or "GO local: 2 of 2 nodes, ...".

    `name` is the cluster or the gate that the verdict is about. Only a GO says how much was observed: it is what a GO is based on. Of
    its warnings it names the checks, and of a single one the subject.
    """
    text = basis(verdict)
    return f"{opening(verdict, name)}: {text}" if text else opening(verdict, name)


def basis(verdict: Verdict) -> str:
    """The headline after its opening: what the answer is based on."""
    observed = coverage_text(verdict.coverage) if verdict.answer is Answer.GO else ""
    return "; ".join(filter(None, (observed, _first_finding(verdict))))


def _first_finding(verdict: Verdict) -> str:
    groups = _groups(verdict)
    if groups and verdict.answer is Answer.GO:
        first, count = groups[0], sum(len(item.subjects) for item in groups)
        checks = listed_names(list(dict.fromkeys(one_line(item.check, 80) for item in groups)), MOST_ALIKE)
        return f"{counted(count, 'warning')}: {_short(first) if count == len(first.subjects) else checks}"
    return _reason(verdict, groups) if groups else ""


def opening(verdict: Verdict, name: str) -> str:
    """How the headline begins, such as "NO-GO local"."""
    return f"{ANSWER_WORDS[verdict.answer]} {one_line(name, 80)}"


def sensitivity_lines(verdict: Verdict) -> Iterator[str]:
    """For each check that compares pairs: how slow a part would have been named."""
    by_check: dict[str, list[str]] = {}
    for entry in verdict.seen_from:
        limit = "at no known limit" if entry.seen_from is None else f"from {percent(entry.seen_from)}"
        by_check.setdefault(entry.check, []).append(f"a {entry.component} {limit}")
    for check, limits in by_check.items():
        if not any(entry.seen_from for entry in verdict.seen_from if entry.check == check):
            yield f"{check} has too few parts to say how small a slowdown it would have named."
            continue
        yield f"How small a slowdown {check} could have seen, below the others: {', '.join(limits)}."


def run_lines(report: Report, images: Images | None = None) -> tuple[str, ...]:
    """In which images it was measured and trains, and which numbers somebody raised for this run; () where there is neither. `images`
    are those of the gate, where they may be others than the report has.
    """
    images, lines = images or report.images, []
    if images is not None and images.checks == images.training:
        lines.append(f"image of the checks and the training: {images.checks}")
    elif images is not None:
        lines.append(
            f"image of the checks: {images.checks or 'none'}; of the training: {images.training or 'none'}"
        )
    if report.raised:
        lines.append(f"raised for this run (--option): {', '.join(report.raised)}")
    return tuple(lines)


def run_json(report: Report | None) -> dict[str, object]:
    """The document holds what `run_lines` says, for programs. Each key is there only where there is something to say."""
    images = images_json(report.images if report is not None else None)
    raised = list(report.raised) if report is not None else []
    return {**({"images": images} if images else {}), **({"raised": raised} if raised else {})}


def images_json(images: Images | None) -> dict[str, object] | None:
    """Both images with their digests, null where the name has none; None if the gate names no image."""
    if images is None:
        return None
    return {
        role: {"image": image, "digest": image_digest(image) or None} if image else None
        for role, image in (("checks", images.checks), ("training", images.training))
    }


def explanation_before(verdict: Verdict, failed: str) -> str:
    """The explanation of a verdict; of one that let something go on that `failed` afterwards, it says that it is about before that."""
    return f"The checks had ended before that. {explanation(verdict)}" if failed else explanation(verdict)


def explanation(verdict: Verdict) -> str:
    """One plain sentence on what the answer means for the machines."""
    if verdict.answer is Answer.GO:
        if verdict.level is Level.WARN:
            return "There are warnings, which the policy accepts: they do not stop the training."
        return "PASS: every required check ran and met the policy."
    if verdict.answer is Answer.ASK:
        return "There are warnings, and the policy leaves the decision to a person."
    if verdict.answer is Answer.CANNOT_TELL:
        lacks = (
            "evidence is missing"
            if _lacks(verdict)
            else "nothing is missing, but the measurements cannot be judged as they are"
        )
        return f"The gate cannot tell: {lacks}. This does not mean that any machine is broken."
    if verdict.suspect_policy:
        return f"{counted(len(verdict.condemned), 'node')} fail alike, so the image or the policy is suspected before any machine."
    if verdict.level is Level.WARN:
        return "There are only warnings, and the policy refuses warnings."
    if alike := failed_everywhere(verdict):
        text = f"All {verdict.coverage.nodes.required} nodes fail {', '.join(alike[:MOST_ALIKE])}"
        return f"{text}: suspect the policy, the image or what the nodes share before any machine."
    fails = [f for f in verdict.findings if f.level is Level.FAIL and f.cause is not Cause.EVIDENCE]
    failed = {node_of(f.subject) for f in fails if LINK not in f.subject} - {CLUSTER}
    broken = dict.fromkeys(
        f.subject if LINK in f.subject else node_of(f.subject) for f in fails if f.cause is Cause.HARDWARE
    )
    fault = f"the fault is in the hardware of {listed_names([*broken], MOST_ALIKE)}"
    if all(LINK in subject for subject in broken):
        links = listed_names(
            [" and ".join(map(str.strip, subject.split(LINK))) for subject in broken], MOST_ALIKE
        )
        fault = (
            f"the fault is between {links}, and no node is blamed"
            if broken
            else "no broken hardware was found"
        )
    if not failed or not verdict.coverage.nodes.required:
        return f"At least one check failed; {fault}."
    return f"{len(failed)} of {counted(verdict.coverage.nodes.required, 'node')} failed a check; {fault}."


def time_before(judged_s: float | None, measured_s: float | None) -> str:
    """How long before its verdict something was measured, such as "3 days"; "" where that is usual, or a time (Unix seconds) is not
    known.
    """
    if judged_s is None or measured_s is None or not judged_s - measured_s > APART_S:
        return ""
    apart = judged_s - measured_s
    size, unit = (DAY_S, "day") if apart >= 2 * DAY_S else (3600.0, "hour")
    return counted(round(apart / size), unit)


def measured_before(judged_s: float | None, measured_s: float | None) -> str:
    """The sentence about it, with the time of the measurement; "" as in `time_before`."""
    before = time_before(judged_s, measured_s)
    if not before or measured_s is None:
        return ""
    at = datetime.fromtimestamp(measured_s, UTC).strftime("%Y-%m-%d %H:%M UTC")
    return f"The nodes were measured {before} before this verdict, {at}."


def _lacks(verdict: Verdict) -> bool:
    """Whether something was not observed, and not only of no use, such as what a busy machine measured."""
    decided = deciding(verdict)
    return not verdict.coverage.complete or not decided or any(item.unmeasured for item in decided)


def counts_of(coverage: Coverage) -> tuple[tuple[str, Count], ...]:
    """How many nodes, GPUs, ranks and observations there are of those required, without what nobody asked for."""
    counts = (
        ("nodes", coverage.nodes), ("GPUs", coverage.gpus), ("ranks", coverage.ranks), ("observations", coverage.checks)
    )  # fmt: skip
    return tuple((unit, count) for unit, count in counts if count.required)


def coverage_text(coverage: Coverage) -> str:
    """Such as "2 of 2 nodes, 4 of 4 ranks, 20 of 22 observations, 2 certified by earlier gates"."""
    if coverage == NOTHING:
        return "nothing"
    texts = [f"{count.observed} of {count.required} {unit}" for unit, count in counts_of(coverage)]
    texts += [f"{coverage.certified} certified by earlier gates"] if coverage.certified else []
    return ", ".join(texts)


def sentence(item: Group, names: bool = False) -> str:
    """The finding as one sentence: "node-1, rank 3 computes wrong sums (12 wrong values in all_reduce)".

    Without a predicate the check is named, because the message alone may not say what was looked at. `names`: of more subjects than
    are named in a headline, the first ones are.
    """
    message, topic = one_line(item.message), one_line(item.who_named if names else item.subject_text, 600)
    if item.unmeasured:
        verb = "were" if item.also else "was"
        return f"{topic}: {item.where} {verb} {message}"
    if item.is_predicate:
        return f"{topic} {several(message) if item.are_several else message}"
    # "report" is no check: what is said of it is about the subject as a whole. Nor is a check named twice.
    check = one_line(item.check, 80)
    return f"{topic}: {message}" if check == REPORT or check in message else f"{topic}: {message} ({check})"


def _short(item: Group) -> str:
    """What a warning is about: "collective.pairs on the cluster". Its finding says the rest."""
    check = item.where if item.unmeasured else one_line(item.check, 80)
    return f"{f'the {check} of' if check == REPORT else f'{check} on'} {one_line(item.subject_text, 600)}"


def _reason(verdict: Verdict, groups: tuple[Group, ...]) -> str:
    culprits, alike = deciding(verdict), failed_everywhere(verdict)
    is_shared = verdict.suspect_policy or culprits[0].check in alike
    further = {} if verdict.suspect_policy else _further_failures(culprits, alike)
    left = [item for item in groups if not item.follows and item != culprits[0]]
    lacks = sum(item.cause is Cause.EVIDENCE and item.level is Level.FAIL for item in left)
    warnings = sum(item.level is not Level.FAIL for item in left)
    failures = len(left) - lacks - warnings - sum(map(len, further.values()))
    also = [f"{listed_names(texts)} ({one_line(check, 80)})" for check, texts in further.items()]
    rest = f"; also {listed_names(also)}" if also else ""
    numbers = ((failures, "more failure"), (lacks, "missing measurement"), (warnings, "warning"))
    more = [counted(number, text) for number, text in numbers if number > 0]
    rest += f"; {', '.join(more)}" if more else ""
    if not is_shared:
        return f"{sentence(culprits[0])}{rest}"
    share = f"all {verdict.coverage.nodes.required} nodes fail {culprits[0].check}"
    if verdict.suspect_policy:
        share = f"{len(verdict.condemned)} of {verdict.coverage.nodes.required} nodes fail"
    return f"suspect the image or the policy: {share}; {sentence(culprits[0])}{rest}"


def _further_failures(culprits: Sequence[Group], alike: Collection[str]) -> dict[str, list[str]]:
    """Check -> the subjects of its failures that touch a node which no failure before them touches. Those of a check that all nodes
    fail are left out.
    """
    nodes_before, subjects = _nodes_of(culprits[0]), defaultdict[str, list[str]](list)
    for item in culprits[1:]:
        nodes = _nodes_of(item)
        if item.cause is not Cause.EVIDENCE and item.check not in alike and not nodes <= nodes_before:
            subjects[item.check].append(one_line(item.subject_text, 200))
        nodes_before |= nodes
    return subjects


def _nodes_of(item: Group) -> set[str]:
    return {node for subject in item.subjects for node in places(subject)}


def _groups(verdict: Verdict) -> tuple[Group, ...]:
    return gathered([finding for finding in verdict.findings if finding.level is not Level.PASS])


def deciding(verdict: Verdict) -> tuple[Group, ...]:
    """The findings from which the answer follows, the one that a headline names first; () if there is no finding."""
    groups = _groups(verdict)
    return tuple(item for item in groups if _decides(item, verdict)) or groups


def culprits(verdict: Verdict) -> tuple[str, ...]:
    """The nodes to blame; "cluster" if the image or the policy is to blame; () if there is no evidence against any machine."""
    if verdict.suspect_policy:
        return (CLUSTER,)
    if verdict.condemned:
        return verdict.condemned
    if verdict.answer not in (Answer.NO_GO, Answer.ASK):
        return ()
    alike = failed_everywhere(verdict)
    blamed = (f for f in verdict.findings if f.cause is not Cause.EVIDENCE and f.level is verdict.level)
    nodes = dict.fromkeys(node for f in blamed if f.check not in alike for node in places(f.subject))
    return tuple(nodes) or ((CLUSTER,) if alike else ())


def lacking(verdict: Verdict) -> tuple[str, ...]:
    """The result names where required evidence is missing. It holds the nodes whose reports are missing, or else a check that is
    missing everywhere, or else the nodes that lack any check. It is () if nothing is missing.
    """
    missing = defaultdict[str, set[str]](set)
    for finding in verdict.findings:
        if finding.level is Level.FAIL and finding.cause is Cause.EVIDENCE:
            missing[finding.check] |= {node_of(end.strip()) for end in finding.subject.split(LINK)}
    silent = missing.get(REPORT, set()) - {CLUSTER}
    if silent and len(silent) < verdict.coverage.nodes.required:
        return tuple(sorted(silent))
    for check, nodes in missing.items():
        if CLUSTER in nodes or len(nodes) >= verdict.coverage.nodes.required:
            return (check,)
    return tuple(sorted({node for nodes in missing.values() for node in nodes}))


def _decides(item: Group, verdict: Verdict) -> bool:
    if verdict.answer is Answer.NO_GO and verdict.level is Level.FAIL:
        return item.level is Level.FAIL and item.cause is not Cause.EVIDENCE
    return item.level is verdict.level
