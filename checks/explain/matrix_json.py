"""Reads a matrix from JSON: names and values, a list of tests, or the output of nvbandwidth --json. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from checks.culprit.matrix import Better
from checks.documents.decode import nearest, parse_json
from checks.explain.matrix_cells import (
    Cell,
    Ends,
    WrittenMatrix,
    better_of,
    cell_value,
    is_untried,
    require_names,
    says_better,
    unit_of,
    what_of,
)
from checks.explain.matrix_csv import SOURCES, TARGETS, better_word, long_form
from checks.explain.matrix_nvidia import THIS_HOST, Copies, FoundMatrices, Line, host_metric, part_of
from checks.explain.reading import Broken, NotRecognised, Part
from checks.value_types import DecodeError

MOST_BYTES = 64 << 20
KEYS = ("names", "values", "tests", "what", "unit", "better", "nodes", "rails", "switches")
_SQUARE = '"bandwidth_matrix"'


def looks_like(text: str) -> bool:
    """Whether the text begins like one of the three."""
    head = text[:65536].lstrip()
    if head.startswith("{"):
        return ('"names"' in head and '"values"' in text) or '"nvbandwidth"' in head[:200] or _tests(head)
    return head.startswith("[") and _tests(head)


def read_json(text: str, asked: Better | None) -> FoundMatrices:
    """The matrices. Raises NotRecognised, Broken, UnclearDirection."""
    try:
        value = parse_json(text, MOST_BYTES)
    except DecodeError as error:
        raise Broken(f"{error}; what gave nothing is null" if "NaN" in str(error) else str(error)) from error
    if isinstance(value, list):
        return FoundMatrices("a list of tests", _listed(value, "", asked, Ends()), (), ())
    if not isinstance(value, dict):
        raise NotRecognised("it is neither an object nor a list of tests")
    if isinstance(value.get("nvbandwidth"), dict):
        return _nvbandwidth(value["nvbandwidth"])
    return _object(value, asked)


def _tests(head: str) -> bool:
    return any(f'"{word}"' in head for word in SOURCES) and any(f'"{word}"' in head for word in TARGETS)


def _object(value: Mapping[str, object], asked: Better | None) -> FoundMatrices:
    for key in value:
        if key not in KEYS:
            near = nearest(key, KEYS)
            raise Broken(
                f'it has a key "{key[:80]}"'
                + (f': is "{near}" meant?' if near else f", not one of {', '.join(KEYS)}")
            )
    words = " ".join(str(value[key]) for key in ("what", "unit") if isinstance(value.get(key), str))
    asked = _better(value, asked)
    if "tests" in value:
        tests = value["tests"]
        if not isinstance(tests, list) or "values" in value:
            raise Broken("tests must be a list, without names and values beside it")
        return FoundMatrices("a list of tests", _listed(tests, words, asked, _ends(value, ())), (), ())
    names = _texts(value.get("names"), "names")
    ends, better = _ends(value, names), better_of(words, asked)
    what = what_of(words) if says_better(words) else better_word(better)
    cells = _cells(_rows(value.get("values"), names), names, better)
    return FoundMatrices(
        "names and values", (WrittenMatrix(what, unit_of(words), what, better, names, cells, ends),), (), ()
    )


def _better(value: Mapping[str, object], asked: Better | None) -> Better | None:
    said = value.get("better")
    if said is None:
        return asked
    if said not in [one.value for one in Better]:
        raise Broken(f"better is {str(said)[:40]!r}: it is higher or lower")
    if asked is not None and asked.value != said:
        raise Broken(f"it says that {said} values are good, and --better says {asked.value}")
    return Better(said)


def _rows(values: object, names: Sequence[str]) -> list[list[object]]:
    if not isinstance(values, list) or len(values) != len(names):
        count = len(values) if isinstance(values, list) else "no"
        raise Broken(f"values has {count} rows, and there are {len(names)} names")
    for name, row in zip(names, values, strict=True):
        if not isinstance(row, list) or len(row) != len(names):
            count = len(row) if isinstance(row, list) else "no"
            raise Broken(f"the row of {name} has {count} cells, and there are {len(names)} names")
    return values


def _cells(rows: Sequence[Sequence[object]], names: Sequence[str], better: Better) -> tuple[Cell, ...]:
    return tuple(
        Cell(source, target, cell_value(text, f"the cell from {source} to {target}", better), 0)
        for source, row in zip(names, rows, strict=True)
        for target, cell in zip(names, row, strict=True)
        if source != target and not is_untried(text := _text(cell))
    )


def _listed(
    tests: Sequence[object], words: str, asked: Better | None, ends: Ends
) -> tuple[WrittenMatrix, ...]:
    rows, keys = [], dict[str, None]()
    for place, test in enumerate(tests, 1):
        if not isinstance(test, dict):
            raise Broken(f"test {place} is no object")
        keys |= dict.fromkeys(test)
        rows.append((f"test {place}", 0, {key: _text(field) for key, field in test.items()}))
    for where, _, fields in rows:
        if missing := [key for key in keys if key not in fields]:
            raise Broken(f"{where} does not say {missing[0]}")
    if not rows:
        raise Broken("its list of tests is empty")
    made = long_form(tuple(keys), rows, words, asked)
    return tuple(
        WrittenMatrix(one.name, one.unit or unit_of(words), one.what, one.better, one.names, one.cells, ends)
        for one in made
    )


def _ends(value: Mapping[str, object], names: Sequence[str]) -> Ends:
    nodes = {name: str(node) for name, node in _by_name(value, "nodes", names).items()}
    rails = _by_name(value, "rails", names)
    if any(type(rail) is not int or not 0 <= rail < 1024 for rail in rails.values()):
        raise Broken("rails are numbers from 0 on")
    switches = _by_name(value, "switches", names)
    made = {
        name: (own,) if isinstance(own, str) else _texts(own, f"switches of {name}")
        for name, own in switches.items()
    }
    return Ends(nodes, {name: int(str(rail)) for name, rail in rails.items()}, made)


def _by_name(value: Mapping[str, object], key: str, names: Sequence[str]) -> dict[str, object]:
    """An object by name, or a list in the order of the names, with an entry for every name or for none."""
    found = value.get(key, {})
    if isinstance(found, list) and names and len(found) == len(names):
        return dict(zip(names, found, strict=True))
    if not isinstance(found, dict):
        raise Broken(f"{key} is neither an object with a key a name nor a list with an entry a name")
    lacking = [name for name in names if name not in found]
    if found and lacking:
        raise Broken(f"{key} says nothing of {lacking[0]}")
    return dict(found)


def _texts(value: object, key: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(one, (str, int)) for one in value):
        raise Broken(f"{key} is no list of names")
    return require_names([str(one) for one in value], key)


def _text(cell: object) -> str:
    """The value as it would be written in separated values. What is neither text nor a number is no number there either."""
    return "" if cell is None else cell if isinstance(cell, str) else repr(cell)


def _nvbandwidth(value: Mapping[str, object]) -> FoundMatrices:
    """The matrices between GPUs. A failed test leaves an entry with the status Running, and an error beside it."""
    cases, written, unread, left_out = value.get("testcases"), list[WrittenMatrix](), list[str](), list[str]()
    parts: list[Part] = []
    if not isinstance(cases, list):
        raise Broken("nvbandwidth has no list of testcases")
    if value.get("error"):
        unread.append(f"nvbandwidth says: {str(value['error'])[:200]}")
    for case in cases:
        if not isinstance(case, dict):
            raise Broken("a testcase is no object")
        name, status, said = (
            str(case.get(key, ""))[:120] for key in ("name", "status", "bandwidth_description")
        )
        if (metric := host_metric(name)) and status == "Passed":
            parts.append(part_of(_copies(name, metric, case.get("bandwidth_matrix"))))
        elif "GPU(row)" not in said and not name.startswith("device_to_device"):
            left_out.append(f"nvbandwidth {name}: it is not between two GPUs")
        elif status != "Passed":
            unread.append(f"{name}: its status is {status or 'missing'}")
        else:
            written.append(_of_case(name, said, case.get("bandwidth_matrix")))
    return FoundMatrices("nvbandwidth as JSON", tuple(written), tuple(unread), tuple(left_out), tuple(parts))


def _copies(name: str, metric: str, matrix: object) -> Copies:
    rows = matrix if isinstance(matrix, list) else []
    if not rows or not all(isinstance(row, list) and row and len(row) == len(rows[0]) for row in rows):
        raise Broken(f"{name}: its bandwidth_matrix has no whole rows")
    return Copies(
        metric, name, tuple(Line(0, f"CPU {at}", tuple(map(_text, row))) for at, row in enumerate(rows))
    )


def _of_case(name: str, said: str, matrix: object) -> WrittenMatrix:
    count = len(matrix) if isinstance(matrix, list) else 0
    names = tuple(f"GPU {place}" for place in range(count))
    better = better_of(said, None)
    rows = _rows(matrix, names)
    turned = [list(column) for column in zip(*rows, strict=True)] if "<- GPU(column)" in said else rows
    cells, ends = _cells(turned, names, better), Ends(dict.fromkeys(names, THIS_HOST))
    return WrittenMatrix(name, unit_of(said), what_of(said), better, names, cells, ends)
