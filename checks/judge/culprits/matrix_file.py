"""Findings from a matrix that another tool measured: the suspects that the decoder names, or why there is no answer. Pure.

The values are compared with each other, and with a number only if --floor gives one. The policy has no rule for them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from checks.culprit.decode import decode
from checks.culprit.matrix import Better, Decoded, Entity, MatrixAnswer, Span, Suspect, Tolerance
from checks.documents.report import clip
from checks.explain.reading import Reading, ReadOptions, TextMatrix
from checks.judge.culprits import wording
from checks.model import Cause, Finding, Level

CHECK, SUBJECT = "matrix", "input"
# A port that trained at half its width halves its tests. Healthy matrices of eight GPUs hold all cells within 0.76 of
# the median (six A6000 on two sockets, NVIDIA/nvbandwidth issue 50: 21.8 to 26.4 GB/s).
SLOW = 0.6
# Judgement: another tier of switches, or a busy host, is up to twice as late and carries as much.
LATE = 0.4
# Below this probability another explanation is possible, and no machine should be repaired because of it.
SURE = 0.9
ALIKE = "matrix level: values are only compared with each other; to find out whether all are equally bad, use --floor"
AGAIN = "Measure the pairs in the evidence again, preferably on idle machines, then explain both outputs."


@dataclass(frozen=True)
class DecodedTable:
    """One table, and what was decoded from it."""

    table: TextMatrix
    decoded: Decoded


def decoded_tables(
    reading: Reading, options: ReadOptions, max_unfit_fraction: float
) -> tuple[DecodedTable, ...]:
    """Every table of the output, decoded. A floor is used only if all tables have one unit."""
    floor = options.floor if len(_units(reading)) == 1 else None
    return tuple(
        DecodedTable(table, decode(table.matrix, _tolerance(table, options.ratio, floor, max_unfit_fraction)))
        for table in reading.tables
        if any(value is not None for value in table.matrix.values)
    )


def findings(reading: Reading, tables: Sequence[DecodedTable], options: ReadOptions) -> Iterator[Finding]:
    """The findings about the tables, and about what they do not contain."""
    units = _units(reading)
    if options.floor is not None and len(units) > 1:
        yield _evidence(
            f"one --floor cannot apply to {len(units)} kinds of values. Explain them one by one, or omit --floor"
        )
    whole = {id(decoded_table.table) for decoded_table in tables}
    for table in reading.tables:
        if id(table) not in whole:
            yield _evidence(f"{table.name}: none of its {len(table.matrix.values)} tests gave a number")
    yield from _undeclared(reading, options)
    for decoded_table in tables:
        yield from _of_table(decoded_table)
    yield from _suspects(tables)


def summary(decoded_table: DecodedTable) -> str:
    """ "bandwidth: no part is worse than the rest; 56 tests, the usual is 37 GB/s, bad is below 22 GB/s"."""
    matrix, noise = decoded_table.table.matrix, decoded_table.decoded.noise
    message = f"{decoded_table.table.name}: {_answer(decoded_table.decoded)}; {len(matrix.values)} tests"
    if decoded_table.decoded.answer is MatrixAnswer.TOO_FEW:
        return message
    message += (
        f", typical value {wording.number(noise.usual, matrix.unit)}, {wording.bad_is(matrix, noise.line)}"
    )
    share = f"a bad part shows in {wording.percent(noise.sensitivity)} of its tests, a good one in {wording.percent(noise.hiccup)}"
    return f"{message}; {share}" if decoded_table.decoded.answer is MatrixAnswer.BLAMED else message


def _answer(decoded: Decoded) -> str:
    if decoded.answer is not MatrixAnswer.BLAMED:
        return str(decoded.answer.value)
    count = len(decoded.suspects)
    return f"{count} suspect{'' if count == 1 else 's'}"


def _units(reading: Reading) -> set[tuple[str, Better]]:
    return {(table.matrix.unit, table.matrix.better) for table in reading.tables}


def _tolerance(
    table: TextMatrix, ratio: float | None, floor: float | None, max_unfit_fraction: float
) -> Tolerance:
    usual = SLOW if table.matrix.better is Better.HIGHER else LATE
    return Tolerance(usual if ratio is None else ratio, floor, max_unfit_fraction)


def _of_table(decoded_table: DecodedTable) -> Iterator[Finding]:
    """The findings about a table as a whole."""
    matrix, decoded = decoded_table.table.matrix, decoded_table.decoded
    prefix = "" if decoded_table.table.name == matrix.metric else f"{decoded_table.table.name}: "
    evidence = cells(decoded_table.table, decoded.bad)
    if decoded.answer is MatrixAnswer.FABRIC:
        text = prefix + wording.fabric(matrix, decoded)
        yield Finding(Level.FAIL, Cause.CONFIGURATION, CHECK, SUBJECT, text, evidence, wording.FABRIC_REMEDY)
    elif decoded.answer is MatrixAnswer.UNEXPLAINED:
        yield _evidence(prefix + wording.unexplained(matrix, decoded, decoded.bad), evidence, AGAIN)
    elif decoded.answer is MatrixAnswer.TOO_FEW:
        yield _evidence(
            prefix + wording.too_few(matrix),
            "",
            "Give more pairs, or set the value that each must reach with --floor.",
        )


def _suspects(tables: Sequence[DecodedTable]) -> Iterator[Finding]:
    """A finding per suspect. If several tables name the same one, the table with the highest probability counts."""
    by_subject: dict[tuple[Entity, str], list[tuple[DecodedTable, Suspect]]] = {}
    for table in tables:
        for suspect in table.decoded.suspects if table.decoded.answer is MatrixAnswer.BLAMED else ():
            by_subject.setdefault((suspect.kind, suspect.subject), []).append((table, suspect))
    for pairs in by_subject.values():
        (table, suspect), *rest = sorted(pairs, key=lambda pair: -pair[1].probability)
        more = f"in {len(rest)} more {'matrix' if len(rest) == 1 else 'matrices'}"
        yield _suspect_finding(table, suspect, [more] if rest else [])


def _suspect_finding(table: DecodedTable, suspect: Suspect, also: Sequence[str]) -> Finding:
    prefix = {Entity.LINK: "link ", Entity.SWITCH: "switch "}.get(suspect.kind, "")
    text = wording.suspect(table.table.matrix, table.decoded, suspect, also, None)
    message = f"{prefix}{suspect.subject} {text}{wording.odds(suspect)}"
    message += "" if table.table.name == table.table.matrix.metric else f" (in {table.table.name})"
    sure = suspect.probability >= SURE
    cause = Cause.HARDWARE if sure else Cause.EVIDENCE
    remedy = wording.remedy(suspect.kind, table.table.matrix) if sure else AGAIN
    return Finding(Level.FAIL, cause, CHECK, SUBJECT, message, cells(table.table, suspect.cells), remedy)


def cells(table: TextMatrix, which: Sequence[int]) -> str:
    """The tests as lines of text, with their places in the input."""
    matrix = table.matrix
    lines = []
    for k in which[: wording.MOST_CELLS]:
        value, line = matrix.values[k], table.lines[k] if table.lines else 0
        text = "no result" if value is None else wording.number(value, matrix.unit)
        where = f"{line}: " if line else ""
        lines.append(
            f"{where}{matrix.endpoints[matrix.sources[k]].name} -> {matrix.endpoints[matrix.targets[k]].name}: {text}"
        )
    more = len(which) - len(lines)
    return clip("\n".join([*lines, f"and {more} more"] if more > 0 else lines))[0]


def _undeclared(reading: Reading, options: ReadOptions) -> Iterator[Finding]:
    """Findings about declared nodes that are in no row, and about pairs of nodes without a test."""
    if options.declared is None:
        return
    ends = {end for table in reading.tables for end in table.matrix.endpoints}
    nodes, spans = {end.node for end in ends}, {table.matrix.span for table in reading.tables}
    wanted, noun = options.declared.nodes, "nodes"
    count = len(nodes)
    if wanted == 1 and spans == {Span.INSIDE}:
        wanted, noun, count = options.declared.gpus_per_node, "GPUs", len({end.name for end in ends})
    if ends and count != wanted:
        yield _evidence(f"it contains {count} {noun}, but {wanted} are declared")
    elif ends and wanted > 1 and noun == "nodes" and Span.BETWEEN not in spans:
        yield _evidence(f"it contains no test between two of the {wanted} nodes")


def _evidence(
    text: str, evidence: str = "", remedy: str = "Give the whole matrix, with every pair in both directions."
) -> Finding:
    return Finding(Level.FAIL, Cause.EVIDENCE, CHECK, SUBJECT, text, evidence, remedy)
