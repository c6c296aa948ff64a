"""Where a number comes from. Every row of a table of facts has a provenance.

A row has the four keys itself, or names an entry of its file's own "provenance" table; further keys beside the name override those
of the entry.

    {"provenance": {"aws": {"source": "...", "conditions": "as sold", "date": "2026-11", "kind": "documented"}},
     "instances": {"p5.48xlarge": {"gpus": 8, "provenance": "aws"}}}
"""

from __future__ import annotations

import re
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from checks.documents.decode import decode, parse_json
from checks.documents.nearest import nearest
from checks.value_types import DecodeError

DATE = r"\d{4}-(0[1-9]|1[0-2])(-(0[1-9]|[12]\d|3[01]))?"
TABLE = "provenance"
MOST_BYTES = 1 << 24
T = TypeVar("T")


class NumberKind(str, Enum):
    """The kind of number: measured on a machine, documented by the maker, somebody's threshold, or derived from others."""

    MEASURED = "measured"
    DOCUMENTED = "documented"
    THRESHOLD = "threshold"
    DERIVED = "derived"


@dataclass(frozen=True)
class Provenance:
    """`conditions` say under which conditions the number holds (at least "as sold"); `date` is YYYY-MM or YYYY-MM-DD: when it was
    measured, else when the source was read.
    """

    source: str
    conditions: str
    date: str
    kind: NumberKind

    def __str__(self) -> str:
        """One line for people."""
        return f"{self.source} ({self.conditions}; {self.kind.value}, {self.date})"


KEYS = tuple(field.name for field in fields(Provenance))


@cache
def table_bytes(path: Path) -> bytes:
    """A shipped table of facts. A process reads it once, because its own reader and the digest of all facts both need it."""
    return path.read_bytes()


def resolved(document: object, *tables: str) -> dict[str, object]:
    """A file of facts whose rows, in each of `tables`, hold {"provenance": {the four keys}}, ready for `decode`.

    A table is a list of rows or a mapping name -> row. Raises DecodeError, with the path of the row, where one of the
    four is missing, empty or malformed, or where a name is not in the file's table.
    """
    if not isinstance(document, Mapping):
        raise DecodeError("expected a table")
    provenances = entries(document.get(TABLE, {}))
    tables_by_name = {key: value for key, value in document.items() if key != TABLE}
    for table in tables:
        if table in tables_by_name:
            tables_by_name[table] = _resolved_table(tables_by_name[table], table, provenances)
    return tables_by_name


def rows_of(document: object, table: str, record_type: type[T]) -> tuple[T, ...]:
    """The rows of one table of a file of facts. Raises DecodeError."""
    form: Any = types.GenericAlias(tuple, (record_type, ...))
    records: tuple[T, ...] = decode(form, resolved(document, table)[table], table)
    return records


def shipped_rows(path: Path, table: str, record_type: type[T]) -> tuple[T, ...]:
    """The rows of one table of a file that is shipped."""
    return rows_of(parse_json(table_bytes(path), MOST_BYTES), table, record_type)


def every_row(document: object) -> Iterator[tuple[str, Provenance]]:
    """(path, provenance) of each row of each table of a file. Raises DecodeError for a row without one.

    Every key of a file but "provenance" is a table; "columns" alone names entries, for the columns of a table.
    """
    if not isinstance(document, Mapping):
        raise DecodeError("expected a table")
    tables = [key for key in document if key not in (TABLE, "columns")]
    tables_by_name = resolved(document, *tables)
    for table in tables:
        records: Any = tables_by_name[table]
        items = records.items() if isinstance(records, Mapping) else enumerate(records)
        for key, record in items:
            yield f"{table}.{key}", decode(Provenance, record[TABLE])


def entries(value: object) -> dict[str, Provenance]:
    """The file's own table: name -> provenance. Raises DecodeError."""
    if not isinstance(value, Mapping):
        raise DecodeError("expected a table", TABLE)
    return {str(name): _checked(entry, f"{TABLE}.{name}") for name, entry in value.items()}


def _resolved_table(value: object, path: str, provenances: Mapping[str, Provenance]) -> object:
    if isinstance(value, Mapping):
        return {key: _resolve(record, f"{path}.{key}", provenances) for key, record in value.items()}
    if isinstance(value, (list, tuple)):
        return [_resolve(record, f"{path}[{index}]", provenances) for index, record in enumerate(value)]
    raise DecodeError("expected rows", path)


def _resolve(record: object, path: str, provenances: Mapping[str, Provenance]) -> dict[str, object]:
    if not isinstance(record, Mapping):
        raise DecodeError("expected a row", path)
    own = {key: record[key] for key in KEYS if key in record}
    base: dict[str, object] = {}
    if TABLE in record:
        name = record[TABLE]
        if not isinstance(name, str) or name not in provenances:
            raise DecodeError(
                f"{name!r:.80} is not in the file's own table",
                f"{path}.{TABLE}",
                nearest(str(name), provenances),
            )
        base = dict(_pairs(provenances[name]))
    rest = {key: value for key, value in record.items() if key not in KEYS}
    return {**rest, TABLE: dict(_pairs(_checked({**base, **own}, path)))}


def _pairs(provenance: Provenance) -> Iterator[tuple[str, object]]:
    for key in KEYS:
        value = getattr(provenance, key)
        yield key, value.value if isinstance(value, NumberKind) else value


def _checked(value: object, path: str) -> Provenance:
    provenance = decode(Provenance, value, path)
    for key in ("source", "conditions", "date"):
        if not getattr(provenance, key).strip():
            raise DecodeError("says nothing", f"{path}.{key}")
    if not re.fullmatch(DATE, provenance.date):
        raise DecodeError(f"{provenance.date!r:.40} is not of the form YYYY-MM or YYYY-MM-DD", f"{path}.date")
    return provenance
