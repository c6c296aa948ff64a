"""The JSON that nccl-tests write with -J, schema version 3 (2.17.3 and later, src/util.cu)."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping

from checks.documents.decode import parse_json
from checks.probes.collectives.nccl_tests_result import Footer, Placement, Plan, RankLine, Row, Run
from checks.value_types import DecodeError

SCHEMA = 3
MOST_BYTES = 1 << 26


class IncompleteFile(ValueError):
    """The file is not a complete output of -J. The message says what is missing."""


def recognised(text: str) -> bool:
    """Whether this is, or was before it was damaged, an output of -J."""
    return (text.lstrip().startswith("{") and '"average_bus_bandwidth"' in text) or _begins(text)


def _begins(text: str) -> bool:
    head = text.lstrip()[:65536]
    return (
        head.startswith("{") and '"nccl_version"' in head and '"config"' in head and '"minimum_bytes"' in head
    )


def read(text: str) -> Run:
    """The run. Raises IncompleteFile if anything is missing, because the program writes the file completely or not at all."""
    try:
        value = parse_json(text.encode("utf-8", "replace"), MOST_BYTES)
    except DecodeError as error:
        raise IncompleteFile(f"the JSON is truncated or garbled: {error}") from error
    if not isinstance(value, dict) or value.get("version") != SCHEMA:
        raise IncompleteFile(f"the schema version is not {SCHEMA}, which is the only one that can be read")
    try:
        return _run(value)
    except KeyError as error:
        raise IncompleteFile(f"{error.args[0]!r} is missing") from error
    except (TypeError, ValueError, AttributeError, IndexError) as error:
        raise IncompleteFile(str(error)) from error


def _run(value: Mapping[str, object]) -> Run:
    config, bounds, average = (
        _table(value, key) for key in ("config", "out_of_bounds", "average_bus_bandwidth")
    )
    gpus, threads = _whole(config, "ngpus"), _whole(config, "nthreads")
    # If both steps are written, the factor is used; step_bytes is there if it is not.
    by_factor = "step_factor" in config
    step = _whole(config, "step_factor" if by_factor else "step_bytes")
    validated = _whole(config, "validation") != 0
    plan = Plan(
        _whole(config, "minimum_bytes"),
        _whole(config, "maximum_bytes"),
        step,
        by_factor,
        threads,
        gpus,
        validated,
    )
    rows = tuple(_row(_a_table(item, "results"), at) for at, item in enumerate(_list(value, "results")))
    ranks = tuple(_rank(_a_table(item, "devices")) for item in _list(config, "devices"))
    passed, slow = bounds["okay"] == "true", average["okay"] == "false"
    if bounds["okay"] not in ("true", "false"):
        raise ValueError(f"out_of_bounds.okay is {bounds['okay']!r}")
    footer = Footer(
        _whole(bounds, "count"), passed, _number(average["bandwidth"]), slow, _shown("out_of_bounds", bounds)
    )
    program = str(_list(value, "args")[0]).rpartition("/")[2]
    if not program.endswith("_perf"):
        raise ValueError(f"args begins with {program!r}, which is not a program of nccl-tests")
    errors = tuple(f"errors: {error}" for error in _list(value, "errors"))
    lines = {"plan": _shown("config", {key: item for key, item in config.items() if key != "devices"})}
    return Run(
        program, f"JSON {SCHEMA}", plan, ranks, rows, footer, bool(value["end_time"]), errors, lines=lines
    )


def _row(item: Mapping[str, object], at: int) -> Row:
    halves = [_placement(_table(item, key)) for key in ("out_of_place", "in_place")]
    return Row(
        _whole(item, "size"), str(item["redop"]), halves[0], halves[1], f"results[{at}]: {json.dumps(item)}"
    )


def _placement(item: Mapping[str, object]) -> Placement:
    wrong = item["nwrong"]
    return Placement(
        _number(item["alg_bw"]), _number(item["bus_bw"]), None if wrong is None else _number(wrong)
    )


def _rank(item: Mapping[str, object]) -> RankLine:
    return RankLine(_whole(item, "rank"), _whole(item, "pid"), str(item["hostname"]), str(item["device"]))


def _table(value: Mapping[str, object], key: str) -> Mapping[str, object]:
    return _a_table(value[key], key)


def _a_table(value: object, key: str) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise TypeError(f"{key} is not a table")
    return value


def _list(value: Mapping[str, object], key: str) -> list[object]:
    found = value[key]
    if not isinstance(found, list):
        raise TypeError(f"{key} is not a list")
    return found


def _whole(value: Mapping[str, object], key: str) -> int:
    found = value[key]
    if type(found) is not int:
        raise TypeError(f"{key} is {found!r}, which is not an integer")
    return found


def _number(value: object) -> float:
    """A number of the file. A number that is not finite is written as text ("nan")."""
    if type(value) not in (int, float):
        raise TypeError(f"{value!r:.40} is not a number")
    number = float(value)  # type: ignore[arg-type]
    if not math.isfinite(number) or number < 0:
        raise ValueError(f"{number} is not a finite number")
    return number


def _shown(key: str, value: object) -> str:
    return f"{key}: {json.dumps(value)}"
