"""Reads a matrix from separated values: a square with one name per row and column, or one test per line. Pure."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from checks.culprit.matrix import Better
from checks.explain.matrix_cells import (
    Cell,
    WrittenMatrix,
    better_of,
    cell_value,
    is_untried,
    require_names,
    says_better,
    unit_of,
    what_of,
)
from checks.explain.reading import Broken, NotRecognised

SOURCES = ("source", "src", "from", "sender", "client")
TARGETS = ("target", "dst", "dest", "destination", "to", "receiver", "server")
VALUES = ("value", "result")
# Values for two message sizes are not two measurements of the same thing.
SIZES = ("size", "bytes", "size_bytes", "msg_size", "message_size", "message_bytes")
# The time and the duration of a test are not results of it.
TIMES = ("timestamp", "date", "duration", "elapsed", "start", "end")
# A test with a failed status gave no value, whatever number is beside it.
STATES = (
    "status",
    "state",
    "error",
    "errors",
    "failure",
    "failures",
    "exit_code",
    "exit_status",
    "rc",
    "returncode",
)
FINE = (
    *("", "-", "0", "ok", "pass", "passed", "success", "succeeded", "done", "completed"),
    *("none", "null", "no", "false", "n/a"),
)
DELIMITERS = "\t;,"
_NAMES = re.compile(r"[A-Za-z0-9]")


@dataclass(frozen=True)
class Row:
    """The fields of one line."""

    line: int
    fields: tuple[str, ...]


@dataclass(frozen=True)
class Sheet:
    """`title` is the text above the header: comments, or a line of words."""

    title: str
    header: Row
    rows: tuple[Row, ...]


def looks_like(text: str) -> bool:
    """Whether the first lines look like such a file."""
    try:
        sheet = read_sheet("\n".join(text[:65536].splitlines()[:40]), whole=False)
    except (Broken, NotRecognised):
        return False
    first, names = sheet.rows[0].fields, sheet.header.fields
    bare = len(first) == len(names) + 1 and first[0] == names[0]
    return _is_long(sheet.header) or (len(names) > 2 and (bare or first[0] in names[1:]))


def read_sheet(text: str, whole: bool = True) -> Sheet:
    """The lines as fields. Raises NotRecognised without a header, and Broken if a second table follows."""
    title, header, rows, ended = list[str](), None, list[Row](), False
    delimiter = ","
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("#"):
            title.append(line.strip("# \t"))
        elif not line.strip():
            ended = bool(rows)
        elif ended and whole:
            raise Broken(
                f"line {number} begins again after a blank line: it holds several tables. Explain them one by one"
            )
        elif header is None:
            delimiter = next((one for one in DELIMITERS if one in line), "")
            if delimiter:
                header = Row(number, _fields(line, delimiter, number))
            else:
                title.append(line.strip())
        elif not ended:
            rows.append(Row(number, _fields(line, delimiter, number)))
    if header is None or not rows:
        raise NotRecognised("it has no header and rows, separated by commas, semicolons or tabs")
    return _without_last(Sheet(" ".join(title), header, tuple(rows)))


def written(sheet: Sheet, asked: Better | None) -> tuple[WrittenMatrix, ...]:
    """The matrices of the sheet, one per column of values. Raises Broken, UnclearDirection."""
    if not _is_long(sheet.header):
        return (_square(sheet, asked),)
    keys = require_names(sheet.header.fields, f"line {sheet.header.line}")
    rows = []
    for row in sheet.rows:
        _require_length(row, len(keys))
        rows.append((f"line {row.line}", row.line, dict(zip(keys, row.fields, strict=True))))
    return long_form(keys, rows, sheet.title, asked)


def long_form(
    keys: Sequence[str],
    rows: Sequence[tuple[str, int, Mapping[str, str]]],
    title: str,
    asked: Better | None,
) -> tuple[WrittenMatrix, ...]:
    """Rows with one test each (its place, its line, its fields), as one matrix per column of values. Raises Broken,
    UnclearDirection.
    """
    source, target = _one_of(keys, SOURCES), _one_of(keys, TARGETS)
    sizes = {fields[key] for _, _, fields in rows for key in keys if _key(key) in SIZES}
    if len(sizes) > 1:
        raise Broken(f"it mixes {len(sizes)} message sizes. Give the tests of one size")
    names: dict[str, None] = {}
    for where, _, fields in rows:
        for key in (source, target):
            if not fields[key]:
                raise Broken(f"{where} does not say {key}")
            names[fields[key]] = None
    columns = [key for key in keys if says_better(key) is not None and not _key(key).startswith(TIMES)]
    columns = columns or [key for key in keys if _key(key) in VALUES]
    if not columns:
        raise Broken(
            f"none of its columns is named bandwidth, latency, value or a unit: {', '.join(keys)[:200]}"
        )
    ends = require_names(tuple(names), "it")
    return tuple(_column(column, title, ends, rows, (source, target), asked) for column in columns)


def _column(
    column: str,
    title: str,
    names: tuple[str, ...],
    rows: Sequence[tuple[str, int, Mapping[str, str]]],
    ends: tuple[str, str],
    asked: Better | None,
) -> WrittenMatrix:
    words = column if says_better(column) is not None else f"{column} {title}"
    better = better_of(words, asked)
    cells = []
    for where, line, fields in rows:
        source, target, text = fields[ends[0]], fields[ends[1]], fields[column]
        if source != target and not is_untried(text):
            said = f"{where}, {column} from {source} to {target},"
            value = cell_value(text, said, better)
            cells.append(Cell(source, target, None if _failed(fields) else value, line))
    what = what_of(words)
    return WrittenMatrix(
        what if _key(column) in VALUES else column, unit_of(words), what, better, names, cells
    )


def _failed(fields: Mapping[str, str]) -> bool:
    return any(_key(key) in STATES and text.strip().lower() not in FINE for key, text in fields.items())


def _square(sheet: Sheet, asked: Better | None) -> WrittenMatrix:
    first = sheet.rows[0].fields
    # R writes no field above the names of the rows.
    bare = len(first) == len(sheet.header.fields) + 1
    corner, columns = ("", sheet.header.fields) if bare else (sheet.header.fields[0], sheet.header.fields[1:])
    names = require_names(columns, f"line {sheet.header.line}")
    if len(names) < 2 or not all(_NAMES.search(name) for name in names):
        raise Broken(f"line {sheet.header.line} does not name the columns")
    words = f"{corner} {sheet.title}"
    better = better_of(words, asked)
    cells, seen = list[Cell](), dict[str, int]()
    for row in sheet.rows:
        _require_length(row, len(names) + 1)
        source = row.fields[0]
        if source not in names:
            raise Broken(
                f'line {row.line}: "{source[:80]}" is the name of no column (line {sheet.header.line})'
            )
        if source in seen:
            raise Broken(f'lines {seen[source]} and {row.line} both are the row of "{source}"')
        seen[source] = row.line
        cells += _row(row, source, names, better)
    what = what_of(words) if says_better(words) else better_word(better)
    return WrittenMatrix(what, unit_of(words), what, better, names, _without_empty_triangle(cells, names))


def better_word(better: Better) -> str:
    """The name of values about which only the good direction is known."""
    return "bandwidth" if better is Better.HIGHER else "latency"


def _row(row: Row, source: str, names: tuple[str, ...], better: Better) -> Iterator[Cell]:
    for target, text in zip(names, row.fields[1:], strict=True):
        if source != target and not is_untried(text):
            where = f"line {row.line} ({source}), column {target}"
            yield Cell(source, target, cell_value(text, where, better), row.line)


def _without_empty_triangle(cells: list[Cell], names: tuple[str, ...]) -> list[Cell]:
    """A half that is completely empty was not tried: some tools write each pair once."""
    place = {name: index for index, name in enumerate(names)}
    for sign in (1, -1):
        half = [cell for cell in cells if sign * (place[cell.source] - place[cell.target]) > 0]
        rest = [cell for cell in cells if sign * (place[cell.source] - place[cell.target]) < 0]
        if len(names) > 2 and all(c.value is None for c in half) and any(c.value is not None for c in rest):
            return rest
    return cells


def _is_long(header: Row) -> bool:
    keys = [_key(field) for field in header.fields]
    return any(key in SOURCES for key in keys) and any(key in TARGETS for key in keys)


def _one_of(keys: Sequence[str], words: Sequence[str]) -> str:
    found = [key for key in keys if _key(key) in words]
    if len(found) != 1:
        raise Broken(f"it has {len(found)} columns of {', '.join(words)}: one must say it")
    return found[0]


def _key(field: str) -> str:
    return field.strip().lower().replace(" ", "_")


def _fields(line: str, delimiter: str, number: int) -> tuple[str, ...]:
    try:
        found = next(csv.reader([line], delimiter=delimiter, strict=True))
    except csv.Error as error:
        raise Broken(f"line {number} cannot be read: {error}") from error
    return tuple(field.strip() for field in found)


def _require_length(row: Row, wanted: int) -> None:
    if len(row.fields) != wanted:
        raise Broken(
            f"line {row.line} ({row.fields[0][:80]}) has {len(row.fields)} fields, it must have {wanted}"
        )


def _without_last(sheet: Sheet) -> Sheet:
    """The rows without an empty last column, because some tools end each line with a delimiter."""
    if sheet.header.fields[-1] or any(row.fields[-1] for row in sheet.rows):
        return sheet
    rows = tuple(Row(row.line, row.fields[:-1]) for row in sheet.rows)
    return Sheet(sheet.title, Row(sheet.header.line, sheet.header.fields[:-1]), rows)
