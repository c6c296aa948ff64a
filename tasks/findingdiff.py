"""What came, went and changed its level between the findings of two verdicts on one report (pure)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from checks.model import Cause, Level
from tasks.render.clean import one_line
from tasks.store.verdictfile import KeptFinding

MOST = 100
MESSAGE_CHARACTERS = 300
NUMBER = re.compile(r"[-+]?\d[\d.,]*(e[-+]?\d+)?", re.IGNORECASE)


class How(StrEnum):
    """What happened to a finding."""

    APPEARS = "appears"
    DISAPPEARS = "disappears"
    CHANGES = "changes level"


@dataclass(frozen=True)
class Change:
    """One finding; `before` and `after` are its levels, None where it was not or is no more."""

    how: How
    before: Level | None
    after: Level | None
    cause: Cause
    check: str
    subject: str
    message: str


def changes(before: Iterable[KeptFinding], after: Iterable[KeptFinding]) -> tuple[tuple[Change, ...], int]:
    """The changes, worst first, and how many more there are than are listed.

    Two findings are one if check, subject, cause and words are the same but for the numbers: a threshold that moved
    within a message is no change.
    """
    old, new = Counter(before), Counter(after)
    gone, come = _by_key((old - new).elements()), _by_key((new - old).elements())
    found: list[Change] = []
    for key in gone.keys() | come.keys():
        found += _of_key(gone.get(key, []), come.get(key, []))
    ordered = sorted(found, key=_turn)
    return tuple(ordered[:MOST]), max(0, len(ordered) - MOST)


def _of_key(gone: list[KeptFinding], come: list[KeptFinding]) -> Iterator[Change]:
    pairs = min(len(gone), len(come))
    for was, now in zip(gone[:pairs], come[:pairs], strict=True):
        if was.level is not now.level:
            yield _change(How.CHANGES, was.level, now.level, now)
    for was in gone[pairs:]:
        yield _change(How.DISAPPEARS, was.level, None, was)
    for now in come[pairs:]:
        yield _change(How.APPEARS, None, now.level, now)


def _change(how: How, before: Level | None, after: Level | None, of: KeptFinding) -> Change:
    said = one_line(of.message, MESSAGE_CHARACTERS)
    return Change(how, before, after, of.cause, one_line(of.check, 100), one_line(of.subject, 300), said)


def _by_key(findings: Iterable[KeptFinding]) -> dict[tuple[str, str, str, str], list[KeptFinding]]:
    found: dict[tuple[str, str, str, str], list[KeptFinding]] = {}
    for one in sorted(findings, key=lambda f: (f.level.rank, f.message)):
        words = NUMBER.sub("#", one.message)
        found.setdefault((one.check, one.subject, one.cause.value, words), []).append(one)
    return found


def _turn(change: Change) -> tuple[object, ...]:
    worst = max(level.rank for level in (change.before, change.after) if level is not None)
    return (-worst, change.how, change.check, change.subject, change.cause.value, change.message)
