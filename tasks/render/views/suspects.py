"""What the decoder found in each matrix, as tables: the suspects, and what was compared with what (pure)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from checks.culprit.matrix import Better, Decoded, Entity, Matrix, MatrixAnswer, Suspect
from checks.judge.culprits import wording
from checks.judge.culprits.pattern_findings import MatrixReading
from tasks.text.inert import one_line
from tasks.text.tables import Table, counted, table

MOST_ROWS = 30
SUSPECTS_HEAD = ("Suspect", "Probability", "Bad tests", "Of the usual", "In", "Next likeliest")
MATRICES_HEAD = (
    "Matrix", "Answer", "Bad tests", "Typical value", "Bad tests are", "Sensitivity", "Disturbances",
)  # fmt: skip


@dataclass(frozen=True)
class DecodedMatrix:
    """One matrix and its answer. `check` measured it; `title` says what it holds, in the words of a sentence."""

    check: str
    title: str
    matrix: Matrix
    decoded: Decoded


def of_readings(readings: Sequence[MatrixReading]) -> tuple[DecodedMatrix, ...]:
    """The matrices of a report's pair tests."""
    return tuple(
        DecodedMatrix(item.check, f"{item.matrix.metric} {item.matrix.span.value}", item.matrix, item.decoded)
        for item in readings
    )


def suspects_table(matrices: Sequence[DecodedMatrix], most: int = MOST_ROWS) -> Table:
    """The suspects, the likeliest first, once per matrix that names them."""
    pairs = [(matrix, suspect) for matrix in matrices for suspect in _named_suspects(matrix)]
    pairs.sort(key=lambda pair: -pair[1].probability)
    return table(SUSPECTS_HEAD, (_suspect(matrix, suspect) for matrix, suspect in pairs), most)


def matrices_table(matrices: Sequence[DecodedMatrix]) -> Table:
    """One row per matrix: its answer, what was usual, and the noise that was fitted to it. Those that name a suspect come first."""
    quiet = (MatrixAnswer.NOBODY, MatrixAnswer.TOO_FEW)
    ordered = sorted(matrices, key=lambda matrix: matrix.decoded.answer in quiet)
    return table(MATRICES_HEAD, map(_matrix, ordered))


def is_quiet(matrices: Sequence[DecodedMatrix]) -> bool:
    """Whether no matrix holds more than one sentence for all of them can say: each was compared, and no part is worse."""
    return all(matrix.decoded.answer is MatrixAnswer.NOBODY for matrix in matrices)


def said_of(matrices: Sequence[DecodedMatrix]) -> str:
    """One sentence about all of them, also if there is no suspect."""
    suspects = {(s.kind, s.subject) for matrix in matrices for s in _named_suspects(matrix)}
    if suspects:
        return f"{counted(len(suspects), 'suspect')}, the likeliest first"
    answers = {matrix.decoded.answer for matrix in matrices}
    if MatrixAnswer.FABRIC in answers:
        return "Nearly all tests are bad, so no single part is to blame. Suspect the configuration before any machine"
    if MatrixAnswer.UNEXPLAINED in answers:
        return "Some tests are bad, and no single part explains them"
    if answers == {MatrixAnswer.TOO_FEW}:
        return "There are too few tests to compare, so no suspect can be named"
    return "No single node or link is worse than the rest"


def _named_suspects(matrix: DecodedMatrix) -> Sequence[Suspect]:
    return matrix.decoded.suspects if matrix.decoded.answer is MatrixAnswer.BLAMED else ()


def _suspect(matrix: DecodedMatrix, suspect: Suspect) -> tuple[str, ...]:
    other, direction = suspect.runner_up, f", {suspect.way.value}" if suspect.kind is not Entity.LINK else ""
    return (
        _label(suspect.kind, suspect.subject),
        _percent(suspect.probability),
        f"{suspect.bad} of {suspect.tests}{direction}",
        "no value" if suspect.ratio is None else f"{suspect.ratio:.3g}",
        one_line(matrix.title, 120),
        "none" if other is None else f"{_label(other.kind, other.subject)}, {_percent(other.probability)}",
    )


def _label(part_type: Entity, subject: str) -> str:
    """ "node n-3", "rail 3"."""
    return f"{part_type.value} {one_line(subject, 200).removeprefix(f'{part_type.value} ')}"


def _percent(probability: float) -> str:
    return "< 0.01 %" if probability < 0.0001 else wording.percent(probability)


def _matrix(entry: DecodedMatrix) -> tuple[str, ...]:
    matrix, noise, answer = entry.matrix, entry.decoded.noise, entry.decoded.answer
    blind = answer is MatrixAnswer.TOO_FEW
    no_unit, side = blind or not matrix.unit, "below" if matrix.better is Better.HIGHER else "above"
    return (
        f"{one_line(entry.check, 80)}: {one_line(entry.title, 120)}",
        counted(len(entry.decoded.suspects), "suspect") if answer is MatrixAnswer.BLAMED else answer.value,
        f"{len(entry.decoded.bad)} of {len(matrix.values)}",
        "" if no_unit else wording.number(noise.usual, matrix.unit),
        "" if no_unit else f"{side} {wording.number(noise.line, matrix.unit)}",
        _percent(noise.sensitivity) if answer is MatrixAnswer.BLAMED else "",
        "" if blind else _percent(noise.hiccup),
    )
