"""What the decoder found in each matrix, as rows of plain text for tables: suspects, and what was compared with what (pure)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from checks.culprit.matrix import Answer, Better, Decoded, Kind, Matrix, Suspect
from checks.judge.culprits import wording
from checks.judge.culprits.matrix_file import DecodedTable
from checks.judge.culprits.pattern_findings import Reading
from tasks.text.inert import one_line

NAMED = 30


@dataclass(frozen=True)
class DecodedMatrix:
    """One matrix and its answer. `check` measured it; `title` says what it holds, in the words of a sentence."""

    check: str
    title: str
    matrix: Matrix
    decoded: Decoded


@dataclass(frozen=True)
class SuspectRow:
    """One suspect, every field as people read it."""

    kind: str
    subject: str
    probability: str
    bad: str
    of_usual: str
    way: str
    matrix: str
    next_likeliest: str


@dataclass(frozen=True)
class MatrixRow:
    """One matrix: its answer, what was usual, and the noise that was fitted to it."""

    check: str
    matrix: str
    answer: str
    named: bool
    bad: str
    usual: str
    line: str
    sensitivity: str
    hiccup: str


def of_readings(readings: Sequence[Reading]) -> tuple[DecodedMatrix, ...]:
    """The matrices of a report's pair tests."""
    return tuple(
        DecodedMatrix(one.check, f"{one.matrix.what} {one.matrix.span.value}", one.matrix, one.decoded)
        for one in readings
    )


def of_told(told: Sequence[DecodedTable]) -> tuple[DecodedMatrix, ...]:
    """The matrices of another tool's text."""
    return tuple(DecodedMatrix("matrix", one.table.name, one.table.matrix, one.decoded) for one in told)


def suspect_rows(shown: Sequence[DecodedMatrix]) -> tuple[SuspectRow, ...]:
    """The suspects, the likeliest first, once per matrix that names them."""
    found = [
        (one, suspect)
        for one in shown
        if one.decoded.answer is Answer.NAMED
        for suspect in one.decoded.suspects
    ]
    found.sort(key=lambda pair: -pair[1].probability)
    return tuple(_suspect(one, suspect) for one, suspect in found)


def matrix_rows(shown: Sequence[DecodedMatrix]) -> tuple[MatrixRow, ...]:
    """One row per matrix; those that name a suspect come first."""
    quiet = (Answer.NOBODY, Answer.TOO_FEW)
    return tuple(_matrix(one) for one in sorted(shown, key=lambda one: one.decoded.answer in quiet))


def is_quiet(shown: Sequence[DecodedMatrix]) -> bool:
    """Whether no matrix holds more than one sentence for all of them can say: each was compared, and no part is worse."""
    return all(one.decoded.answer is Answer.NOBODY for one in shown)


def said_of(shown: Sequence[DecodedMatrix]) -> str:
    """One sentence about all of them, also if there is no suspect."""
    named = {
        (s.kind, s.subject)
        for one in shown
        if one.decoded.answer is Answer.NAMED
        for s in one.decoded.suspects
    }
    if named:
        return f"{len(named)} suspect{'' if len(named) == 1 else 's'}, the likeliest first"
    answers = {one.decoded.answer for one in shown}
    if Answer.FABRIC in answers:
        return "Nearly all tests are bad, so no single part is to blame. Suspect the configuration before any machine"
    if Answer.UNEXPLAINED in answers:
        return "Some tests are bad, and no single part explains them"
    if answers == {Answer.TOO_FEW}:
        return "There are too few tests to compare, so no suspect can be named"
    return "No single node or link is worse than the rest"


def _suspect(one: DecodedMatrix, suspect: Suspect) -> SuspectRow:
    other = suspect.runner_up
    return SuspectRow(
        kind=suspect.kind.value,
        subject=_bare(suspect.kind, suspect.subject),
        probability=_percent(suspect.probability),
        bad=f"{suspect.bad} of {suspect.tests}",
        of_usual="no value" if suspect.ratio is None else f"{suspect.ratio:.3g}",
        way=suspect.way.value if suspect.kind is not Kind.LINK else "",
        matrix=one_line(one.title, 120),
        next_likeliest=""
        if other is None
        else f"{other.kind.value} {_bare(other.kind, other.subject)}, {_percent(other.probability)}",
    )


def _bare(kind: Kind, subject: str) -> str:
    """ "rail 3" without its kind, which stands before it."""
    return one_line(subject, 200).removeprefix(f"{kind.value} ")


def _percent(probability: float) -> str:
    return "< 0.01 %" if probability < 0.0001 else wording.percent(probability)


def _matrix(one: DecodedMatrix) -> MatrixRow:
    matrix, noise, answer = one.matrix, one.decoded.noise, one.decoded.answer
    blind = answer is Answer.TOO_FEW
    word = "below" if matrix.better is Better.HIGHER else "above"
    named = len(one.decoded.suspects)
    told = f"{named} suspect{'' if named == 1 else 's'}" if answer is Answer.NAMED else answer.value
    return MatrixRow(
        check=one.check,
        matrix=one_line(one.title, 120),
        answer=told,
        named=answer not in (Answer.NOBODY, Answer.TOO_FEW),
        bad=f"{len(one.decoded.bad)} of {len(matrix.values)}",
        usual="" if blind or not matrix.unit else wording.number(noise.usual, matrix.unit),
        line="" if blind or not matrix.unit else f"{word} {wording.number(noise.line, matrix.unit)}",
        sensitivity=_percent(noise.sensitivity) if answer is Answer.NAMED else "",
        hiccup="" if blind else _percent(noise.hiccup),
    )
