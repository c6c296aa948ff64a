"""A replay for people: each verdict that would change and why, then the sum of them all; as text, Markdown or JSON rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from checks.model import Answer
from checks.report import plain
from tasks.findingdiff import Change
from tasks.render.clean import one_line
from tasks.replaying import Fate, Replayed, Said

WORDS = {
    Answer.GO: "GO",
    Answer.NO_GO: "NO-GO",
    Answer.CANNOT_TELL: "CANNOT TELL",
    Answer.ASK: "ASK",
}
SHOWN = (Fate.CHANGED, Fate.NO_VERDICT, Fate.NOT_COMPARED)
LINES = 10


@dataclass
class Sum:
    """What a replay has come to so far."""

    fates: Counter[Fate] = field(default_factory=Counter)
    moves: Counter[str] = field(default_factory=Counter)

    def add(self, one: Replayed) -> None:
        """Count it."""
        self.fates[one.fate] += 1
        if one.fate is Fate.CHANGED:
            self.moves[move(one)] += 1

    @property
    def compared(self) -> int:
        """Verdicts that were compared with what was kept."""
        return sum(self.fates[fate] for fate in (Fate.SAME, Fate.FINDINGS, Fate.CHANGED))

    @property
    def line(self) -> str:
        """ "312 reports: 4 would change: 3 GO -> NO-GO, 1 NO-GO -> GO"."""
        total = sum(self.fates.values())
        reports = f"{total} report{'' if total == 1 else 's'}"
        changed = f"{self.fates[Fate.CHANGED] or 'none'} would change"
        said = [f"{reports}: {changed if self.compared else 'nothing was compared'}"]
        moves = sorted(self.moves.items(), key=lambda item: (-item[1], item[0]))
        said += [", ".join(f"{count} {name}" for name, count in moves)] if moves else []
        rest = [
            (Fate.FINDINGS, "with the same verdict for other reasons"),
            (Fate.NO_VERDICT, "without a kept verdict"),
            (Fate.NOT_COMPARED, "that cannot be compared"),
            (Fate.OTHER_TYPE, "of types that the policy was not written for"),
        ]
        more = [f"{self.fates[fate]} {words}" for fate, words in rest if self.fates[fate]]
        return "; ".join([": ".join(said), *more])


def move(one: Replayed) -> str:
    """ "GO -> NO-GO"; where the answer stays, what else does not."""
    before, after = one.before, one.after
    if before is None or after is None:
        return ""
    if before.answer is not after.answer:
        return f"{WORDS[before.answer]} -> {WORDS[after.answer]}"
    if before.level is not after.level:
        return f"{WORDS[after.answer]} {before.level.value} -> {WORDS[after.answer]} {after.level.value}"
    return f"{WORDS[after.answer]} about other nodes"


def text_of(one: Replayed) -> str:
    """The lines about one gate, "" for one that is only counted."""
    if one.fate not in SHOWN:
        return ""
    head = f"{_headline(one)}\n"
    return head + "".join(f"    {line}\n" for line in _lines(one))


def markdown_of(one: Replayed) -> str:
    """A list item about one gate, "" for one that is only counted."""
    if one.fate not in SHOWN:
        return ""
    return f"- {_safe(_headline(one))}\n" + "".join(f"  - {_safe(line)}\n" for line in _lines(one))


def row_of(one: Replayed) -> dict[str, object]:
    """One gate as JSON; no key is ever absent."""
    return {
        "gate_id": one.gate_id,
        "fate": one.fate.value,
        "cluster": one.cluster,
        "judged_at": one.judged_at,
        "before": plain(one.before),
        "after": plain(one.after),
        "changes": plain(one.changes),
        "more_changes": one.hidden,
        "why": one.why,
        "notes": list(one.notes),
    }


def _headline(one: Replayed) -> str:
    where = f" on {one_line(one.cluster, 63)}" if one.cluster else ""
    when = f", {one.judged_at}" if one.judged_at else ""
    what = move(one) if one.fate is Fate.CHANGED else one.why
    if one.fate is Fate.NO_VERDICT and one.after is not None:
        what += f"; it would be {WORDS[one.after.answer]}"
    return f"{one_line(one.gate_id, 100)}{where}{when}: {what}"


def _lines(one: Replayed) -> Iterator[str]:
    yield from (_change(change) for change in one.changes[:LINES])
    hidden = max(0, len(one.changes) - LINES) + one.hidden
    if hidden:
        yield f"and {hidden} more findings (--format json lists 100 of each)"
    if one.before is not None and one.after is not None and one.before.condemned != one.after.condemned:
        yield f"condemned: {_nodes(one.before)} -> {_nodes(one.after)}"
    if one.fate is Fate.CHANGED and one.why:
        yield one.why
    if one.notes:
        yield f"note: {'; '.join(one.notes)}"


def _change(change: Change) -> str:
    levels = " -> ".join(level.value for level in (change.before, change.after) if level is not None)
    return f"{change.how.value}: {levels} {change.cause.value} {change.subject}: {change.check}: {change.message}"


def _nodes(said: Said) -> str:
    shown = ", ".join(one_line(name, 100) for name in said.condemned[:LINES])
    more = len(said.condemned) - LINES
    return (shown + (f" and {more} more" if more > 0 else "")) or "none"


def _safe(text: str) -> str:
    return "".join(f"\\{c}" if c in r"\`*_{}[]<>#|~" else c for c in text)
