"""How a commissioning ended for each cluster, in words: the sentence, and the page with what changed since the last one.

Pure: values in, text out. tasks/commission.py keeps and shows it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from checks.documents.report import Version
from checks.model import ANSWER_WORDS, Answer
from tasks.render.markdown import escape
from tasks.text.inert import one_line


class CommissionResult(StrEnum):
    """The result of a commissioning for one cluster, the worst first."""

    REFUSED = "REFUSED"
    CANNOT_TELL = ANSWER_WORDS[Answer.CANNOT_TELL]
    BUSY = "BUSY"
    NO_CAPACITY = "NO CAPACITY"
    REJECTED = "REJECTED"
    WARNINGS = "WARNINGS"
    PASSED = "PASSED"


WORST = tuple(CommissionResult)


@dataclass(frozen=True)
class ClusterResult:
    """One cluster. `gate_id` is "" if nothing was started; `baseline` is "" if there was nothing to learn from.

    `says_answer`: `sentence` begins with the gate's answer, as "NO-GO p5: ...", so that the result need not be said beside it.

    `about` holds check and subject of what decided the verdict ("network.pairs node-1"); () if nothing was found or judged.

    `since` says what is different from the cluster's last commissioning, and `changed` that something is.
    """

    cluster: str
    gate_file: str
    result: CommissionResult
    sentence: str
    gate_id: str = ""
    about: tuple[str, ...] = ()
    baseline: str = ""
    since: str = ""
    changed: bool = False
    says_answer: bool = False


@dataclass(frozen=True)
class KeptResult:
    """How a cluster's commissioning ended, as its store keeps it. `at` is in Unix seconds."""

    schema_version: Version
    result: CommissionResult
    why: str
    gate_id: str
    at: float
    about: tuple[str, ...] = ()


def since(result: ClusterResult, last: KeptResult | None) -> tuple[str, bool]:
    """What is different from the last commissioning, and whether something is. Pure."""
    if last is None:
        return "first commissioning", True
    day = time.strftime("%Y-%m-%d", time.gmtime(last.at))
    if last.result is not result.result:
        return f"was {last.result.value} on {day}", True
    if result.result is not CommissionResult.PASSED and last.about != result.about:
        return f"also {last.result.value} on {day}, but: {one_line(last.why, 200)}", True
    return f"as on {day}", False


def summary_line(results: Sequence[ClusterResult]) -> str:
    """ "1 of 3 clusters passed. NO-GO p5-prod: node-2 ... | BUSY: ..."; the worst first, each answer once."""
    count = _count(results)
    bad = [result for result in results if result.result is not CommissionResult.PASSED]
    return f"{count}. " + " | ".join(map(_sentence, bad))[:1800] if bad else f"PASSED: {count}"


def result_page(results: Sequence[ClusterResult]) -> str:
    """One page: how many passed, what changed since the last time, and every cluster, the worst first. Markdown."""
    changed = [result for result in results if result.changed]
    lines = [f"**{escape(_count(results))}**", "", "## What changed since the last commissioning", ""]
    lines += [
        f"- **{result.result.value}** {escape(result.cluster)}: {escape(result.since)}" for result in changed
    ] or ["Nothing."]
    lines += ["", "## Clusters", "", "| Result | Cluster | Why | Last time | Gate file | Baseline |"]
    lines += ["| --- | --- | --- | --- | --- | --- |"]
    for result in results:
        last = "see above" if result.changed else result.since
        cells = (result.cluster, result.sentence, last, result.gate_file, result.baseline or "-")
        lines.append(f"| **{result.result.value}** | {' | '.join(map(escape, cells))} |")
    return "\n".join([*lines, ""])


def _count(results: Sequence[ClusterResult]) -> str:
    passed = sum(result.result is CommissionResult.PASSED for result in results)
    return f"{passed} of {len(results)} cluster{'' if len(results) == 1 else 's'} passed"


def _sentence(result: ClusterResult) -> str:
    """The sentence about a cluster, with its result and name where the sentence does not begin with them."""
    if result.says_answer:
        return result.sentence
    return f"{result.result}: {result.sentence if result.cluster in result.sentence else f'{result.cluster}: {result.sentence}'}"
