"""What this cluster's last gates said, oldest first, and the numbers that moved: what a page shows as its trend (pure)."""

from __future__ import annotations

from dataclasses import dataclass

from checks.model import Answer


@dataclass(frozen=True)
class PastGate:
    """One gate of the cluster. `when` is UTC, ISO 8601; `is_this` marks the page's own."""

    gate_id: str
    when: str
    answer: Answer
    finding: str
    is_this: bool = False


@dataclass(frozen=True)
class PastNumber:
    """One number over the gates: `spark` for text, `line` and `dots` for a drawing of 240 x 48; `worse`: it degrades."""

    title: str
    said: str
    worse: bool
    spark: str
    line: str
    dots: tuple[tuple[str, str], ...]
    low: str
    high: str


@dataclass(frozen=True)
class Past:
    """`problems` say what could not be read: a short strip must not look like a short history."""

    gates: tuple[PastGate, ...] = ()
    hidden: int = 0
    numbers: tuple[PastNumber, ...] = ()
    reports: int = 0
    problems: tuple[str, ...] = ()

    @property
    def said(self) -> str:
        """Such as "12 gates, 9 go, 2 no-go, 1 cannot tell"."""
        words = {Answer.GO: "go", Answer.NO_GO: "no-go", Answer.CANNOT_TELL: "cannot tell", Answer.ASK: "ask"}
        counts = {word: sum(gate.answer is answer for gate in self.gates) for answer, word in words.items()}
        several = "gate" if len(self.gates) == 1 else "gates"
        parts = [f"{count} {word}" for word, count in counts.items() if count]
        return ", ".join([f"{len(self.gates)} {several}", *parts])
