"""The report of a drill, for a terminal and as JSON. Pure."""

from __future__ import annotations

import signal

from tasks.drills.model import DrillResult, Milestone
from tasks.text.inert import one_line

WORDS = {Milestone.RETURNED: "back"}


def report_text(result: DrillResult) -> str:
    """A line with the answer, one with the times, and what a person has to know or do."""
    lines = [f"drill {result.drill} on {result.node}: {result.end.value}", _times(result)]
    if result.signal:
        lines.append(f"It was ended by {signal.Signals(result.signal).name} after {result.seconds:.1f} s.")
    if result.why:
        lines.append(f"It ended because: {one_line(result.why, 500)}.")
    lines += [f"- {one_line(text, 300)}" for text in result.details]
    lines += [f"not known: {one_line(text, 400)}" for text in result.problems if text != result.why]
    lines.append(_cleaned(result))
    lines += [one_line(text, 600) for text in (result.stays, result.left) if text]
    return "\n".join(lines) + "\n"


def report_table(result: DrillResult) -> dict[str, object]:
    """The same as JSON has it; times in seconds from the injection, null for what was not reached."""
    reached = result.reached_s or {}
    return {
        "drill": result.drill,
        "node": result.node,
        "end": result.end.name.lower(),
        "injected": result.reached_s is not None,
        "milestones": [
            {
                "name": one.value,
                "after_s": round(reached[one], 2) if one in reached else None,
                "within_s": result.limits.within_s[one],
                "expected": one in result.expected,
                "in_time": one not in result.missing if one in result.expected else None,
            }
            for one in Milestone
        ],
        "seconds": round(result.seconds, 2),
        "cleaned_up": result.clean,
        "undo_command": result.undo_command or None,
        "why": result.why or None,
        "details": list(result.details),
        "problems": list(result.problems),
        "stays": result.stays or None,
        "left": result.left or None,
        "error": None,
    }


def _times(result: DrillResult) -> str:
    if result.reached_s is None:
        return "the fault was not injected"
    parts = []
    for one in Milestone:
        word = WORDS.get(one, one.value)
        if one in result.reached_s:
            late = one in result.expected and one in result.missing
            parts.append(
                f"{word} after {result.reached_s[one]:.1f} s"
                + (f" (limit {result.limits.within_s[one]:g} s)" if late else "")
            )
        elif one in result.expected:
            parts.append(f"not {word}")
        else:
            parts.append(f"{word}: not expected")
    return ", ".join(parts)


def _cleaned(result: DrillResult) -> str:
    if result.clean:
        return "The fault is undone." if not result.stays else "What can be undone of the fault is undone."
    return f"IT IS NOT KNOWN THAT THE FAULT IS UNDONE. Run this: {result.undo_command}"
