"""What a tool's output says, in a terminal: what it is, each finding with the lines it rests on (pure)."""

from __future__ import annotations

from collections.abc import Sequence

from checks.model import Answer, Cause, Level, Verdict
from tasks.render.clean import clean, one_line
from tasks.render.grouping import Group, group
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
) -> str:
    """The answer and what the input is on the first line; then why; then what was held to which rules."""
    head = _paint(WORDS[verdict.answer], _BOLD[verdict.answer], colour)
    lines = [f"{head} {one_line(name, 200)}: {one_line(title)}", _meaning(verdict)]
    for item in group(verdict.findings):
        lines += ["", *_finding(item, colour)]
    if held or left_out:
        lines.append("")
    if held:
        lines.append(f"held to the policy: {', '.join(held)}")
    lines += [f"not judged: {one_line(why)}" for why in left_out]
    return "\n".join(lines) + "\n"


def _meaning(verdict: Verdict) -> str:
    """The words for a gate suppose that all was observed; this is the output of one tool."""
    if verdict.answer is Answer.GO and verdict.level is Level.PASS:
        return "PASS: all that this output shows is within the policy. What it does not show is not judged."
    if verdict.answer is Answer.CANNOT_TELL:
        return "Nobody can tell from this: evidence is missing. That says nothing against any machine."
    return explanation(verdict)


def _finding(item: Group, colour: bool) -> list[str]:
    tone = {Level.FAIL: "31", Level.WARN: "33", Level.PASS: "32"}[item.level]
    if item.level is Level.FAIL and item.cause is Cause.EVIDENCE:
        tone = "35"
    head = _paint(f"{item.word} {item.cause.value}", tone, colour)
    lines = [f"{head} {one_line(item.check, 80)}: {one_line(item.message, 600)}"]
    raw = [line for _, evidence in item.evidence[:1] for line in clean(evidence).splitlines()]
    lines += [f"  | {one_line(line)}" for line in raw[:LINES]]
    if len(raw) > LINES:
        lines.append(f"  | ({len(raw) - LINES} more lines: see --format json)")
    if item.remedy:
        lines.append(f"  do: {one_line(item.remedy, 600)}")
    return lines


def _paint(text: str, code: str, colour: bool) -> str:
    return f"\x1b[{code}m{text}\x1b[0m" if colour else text
