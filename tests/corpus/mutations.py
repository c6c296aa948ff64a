"""What can happen to a recording on its way: a line is lost, or the rest of the file."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tests.corpus.case import RecordProperty

TENTHS = 10
SHORT, MOST_LINES = 30, 400


@dataclass(frozen=True)
class Mutant:
    """A recording without the lines `lost` (whole or in part); `what` says it for a person."""

    what: str
    text: str
    lost: tuple[str, ...]


def mutants(text: str, most: int = MOST_LINES) -> Iterator[Mutant]:
    """Each line deleted, then the file cut at each tenth of its bytes."""
    lines = text.splitlines(keepends=True)
    for index in chosen(lines, most):
        rest = "".join(lines[:index] + lines[index + 1 :])
        yield Mutant(f"without line {index + 1}: {lines[index].strip():.80}", rest, (lines[index].strip(),))
    data = text.encode()
    for tenth in range(TENTHS):
        kept = data[: len(data) * tenth // TENTHS].decode("utf-8", "ignore")
        whole = kept.count("\n")
        lost = tuple(line.strip() for line in lines[whole:])
        yield Mutant(f"cut at {tenth}/10, in line {whole + 1}", kept, lost)


def chosen(lines: Sequence[str], most: int = MOST_LINES) -> Sequence[int]:
    """All lines of a file of up to 30. Of a longer one the first and the last of those that differ in their numbers
    alone (a file of eight GPUs says everything eight times), and of these `most`, at equal distances.
    """
    if len(lines) <= SHORT:
        return range(len(lines))
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for index, line in enumerate(lines):
        shape = re.sub(r"(0x)?[0-9a-f]*[0-9][0-9a-f]*", "0", line.lower())
        first.setdefault(shape, index)
        last[shape] = index
    found = sorted({*first.values(), *last.values()})
    step = max(1.0, len(found) / most)
    return [found[int(place * step)] for place in range(min(len(found), most))]


def passed_wrongly(
    text: str,
    passes: Callable[[str], bool],
    irrelevant: Mapping[str, str],
    record: RecordProperty,
    most: int = MOST_LINES,
) -> list[str]:
    """The mutants that pass although they lost a line that is not `irrelevant`, and the expressions that no mutant needs."""

    def excused(line: str) -> bool:
        return any(re.search(pattern, line) for pattern in irrelevant)

    made = list(mutants(text, most))
    passed = [mutant for mutant in made if passes(mutant.text)]
    wrong = [mutant.what for mutant in passed if not all(map(excused, mutant.lost))]
    record("mutations", [len(made), len(wrong), len(passed) - len(wrong)])
    used = {line for mutant in passed for line in mutant.lost}
    stale = [why for pattern, why in irrelevant.items() if not any(re.search(pattern, line) for line in used)]
    return [*wrong[:40], *(f"no mutation needs the excuse: {why}" for why in stale)]
