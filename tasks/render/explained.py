"""What a tool's output says, in a terminal: what it is, each finding with the lines it rests on (pure)."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from checks.model import Answer, Cause, Level, Verdict
from tasks.render.clean import clean, one_line
from tasks.render.grouping import Group, gathered
from tasks.render.headline import WORDS, explanation

LINES = 12
_BOLD = {Answer.GO: "1;32", Answer.NO_GO: "1;31", Answer.CANNOT_TELL: "1;35", Answer.ASK: "1;33"}


def explained_text(
    verdict: Verdict,
    name: str,
    title: str,
    held: Sequence[str] = (),
    left_out: Sequence[str] = (),
    colour: bool = False,
    width: int = 120,
    decoded: Sequence[str] = (),
) -> str:
    """The answer and what the input is on the first line, whole; then why; then what was held to which rules.

    Lines of the input are never folded, so that they can be searched for.
    """
    head = _paint(WORDS[verdict.answer], _BOLD[verdict.answer], colour)
    lines = [
        f"{head} {one_line(name, 200)}: {one_line(title)}",
        *_folded(_meaning(verdict, bool(decoded)), width, ""),
    ]
    for item in gathered(verdict.findings):
        lines += ["", *_finding(item, colour, width)]
    if held or left_out or decoded:
        lines.append("")
    for said in decoded:
        lines += _folded(f"decoded: {one_line(said, 600)}", width)
    if held:
        lines += _folded(f"held to the policy: {', '.join(map(one_line, held))}", width)
    for said in not_judged(left_out):
        lines += _folded(f"not judged: {one_line(said, 2000)}", width)
    return "\n".join(lines) + "\n"


def not_judged(left_out: Sequence[str]) -> list[str]:
    """What was left out for one reason, said once: "gpu.inventory models, vbios: it compares nodes ..."."""
    found: dict[str, dict[str, list[str]]] = {}
    for line in left_out:
        name, _, why = line.partition(": ")
        check, _, metric = name.partition(" ")
        found.setdefault(why, {}).setdefault(check, []).append(metric)
    return [
        one_line(
            "; ".join(f"{check} {', '.join(names)}" for check, names in checks.items()) + f": {why}", 4000
        )
        for why, checks in found.items()
    ]


def _meaning(verdict: Verdict, decoded: bool) -> str:
    """The words for a gate suppose that all was observed; this is the output of one tool."""
    if verdict.answer is Answer.GO and verdict.level is Level.PASS and decoded:
        return "PASS: no part stands out in it. What it does not show is not judged."
    if verdict.answer is Answer.GO and verdict.level is Level.PASS:
        return "PASS: all that this output shows is within the policy. What it does not show is not judged."
    if verdict.answer is Answer.CANNOT_TELL:
        return "Nobody can tell from this: evidence is missing. That says nothing against any machine."
    return explanation(verdict)


def _finding(item: Group, colour: bool, width: int) -> list[str]:
    tone = {Level.FAIL: "31", Level.WARN: "33", Level.PASS: "32"}[item.level]
    if item.level is Level.FAIL and item.cause is Cause.EVIDENCE:
        tone = "35"
    head = f"{item.word} {item.cause.value}"
    checks = one_line(", ".join(item.checks), 600)
    first, *rest = _folded(f"{head} {checks}: {one_line(item.message, 600)}", width)
    lines = [_paint(head, tone, colour) + first.removeprefix(head), *rest]
    raw = [line for _, evidence in item.evidence[:1] for line in clean(evidence).splitlines()]
    lines += [f"  | {one_line(line)}" for line in raw[:LINES]]
    if len(raw) > LINES:
        lines.append(f"  | ({len(raw) - LINES} more lines: see --format json)")
    if item.remedy:
        lines += _folded(f"  do: {one_line(item.remedy, 600)}", width, "      ")
    return lines


def _folded(text: str, width: int, indent: str = "  ") -> list[str]:
    return textwrap.wrap(
        text, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    ) or [text]


def _paint(text: str, code: str, colour: bool) -> str:
    return f"\x1b[{code}m{text}\x1b[0m" if colour else text
