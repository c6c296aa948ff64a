"""`dcgmi diag -j` of DCGM 3.3 and 4.x -> Diagnosis (pure).

Shapes, from dcgmi/Diag.cpp and nvvs of those versions: the root key was renamed in 4.0; a result names its GPU by `gpu_id` ("0", 3.3)
or `entity_group` and `entity_id` (4.x), or not at all (tests of the node); the message of a warning is `warning` (of a test of the
node before 4.0: `warnings`). Text may stand before and after the document.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from checks.check import CheckError
from checks.probes.dcgm.dcgmi import document
from checks.probes.dcgm.diagnosis import (
    DcgmStatus,
    Diagnosis,
    Problem,
    Result,
    major_of,
    severity_of,
    status_of,
)
from checks.probes.dcgm.error_table import dcgm_facts

ROOT_4, ROOT_3 = "DCGM Diagnostic", "DCGM GPU Diagnostic"
MOST_GPUS = 4096
# The keys that a result has. A result under a key that this module does not know would be missed.
_TELLING = frozenset(("status", "error_id", "error_severity", "warning", "warnings"))


def parse(text: str) -> Diagnosis:
    """The diagnosis. Raises CheckError."""
    whole = document(text)
    root = whole.get(ROOT_4, whole.get(ROOT_3))
    if not isinstance(root, dict):
        raise CheckError(f"the document has neither {ROOT_4!r} nor {ROOT_3!r}: {', '.join(whole)[:200]}")
    version, driver = _versions(whole, root)
    if (ROOT_4 in whole) != (major_of(version) >= 4):
        raise CheckError(f"a document of DCGM {version} has another root key")
    if error := root.get("runtime_error", whole.get("runtime_error")):
        raise CheckError(f"nothing was tested: {error}")
    results = tuple(_results(root, major_of(version), _status_lines(text, whole)))
    if not results:
        raise CheckError("the document has no test result")
    tested = {result.gpu for result in results if result.gpu is not None}
    listed = set(_listed(whole))
    if not tested <= listed:
        raise CheckError(f"the document lists {len(listed)} GPUs but has results of {len(tested | listed)}")
    return Diagnosis(version, driver, "JSON", tuple(sorted(tested | listed)), results)


def _versions(whole: Mapping[str, object], root: Mapping[str, object]) -> tuple[str, str]:
    """The versions of DCGM and of the driver."""
    places = [section for section in (whole.get("metadata"), whole, root) if isinstance(section, dict)]
    version = next(
        (section["version"] for section in places if isinstance(section.get("version"), str)), None
    )
    driver = next((str(p["Driver Version Detected"]) for p in places if "Driver Version Detected" in p), "")
    if version is None:
        raise CheckError("the document lacks DCGM's version, without which its numbers have no meaning")
    return str(version), driver


def _keys(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        yield from value
        for inner in value.values():
            yield from _keys(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _keys(inner)


def _listed(whole: Mapping[str, object]) -> Iterator[int]:
    """The GPUs that the document lists as tested, besides the results."""
    groups = whole.get("entity_groups")
    for group in groups if isinstance(groups, list) else []:
        if isinstance(group, dict) and group.get("entity_group") == "GPU":
            entities = group.get("entities")
            for entity in entities if isinstance(entities, list) else []:
                yield _number(entity.get("entity_id") if isinstance(entity, dict) else None, "an entity")
    ids, serials = whole.get("GPU Device IDs"), whole.get("GPU Device Serials")
    if isinstance(ids, list) and isinstance(serials, dict) and len(ids) != len(serials):
        raise CheckError(f"the document lists {len(ids)} GPUs but {len(serials)} serial numbers")
    yield from range(len(ids) if isinstance(ids, list) else 0)


def _results(root: Mapping[str, object], major: int, lines: Mapping[int, int]) -> Iterator[Result]:
    _require_read(root, "the document", "test_categories")
    for category in _list(root, "test_categories", "the document"):
        _require_read(_mapping(category, "a category"), "a category", "tests")
        for test in _list(_mapping(category, "a category"), "tests", "a category"):
            if test is None:  # DCGM 4 writes null for a test for which the group has no entity
                continue
            details = _mapping(test, "a test")
            title = details.get("name")
            if not isinstance(title, str):
                raise CheckError("a test has no name")
            yield from _of_test(dcgm_facts().canonical(title), details, major, lines)


def _of_test(name: str, test: Mapping[str, object], major: int, lines: Mapping[int, int]) -> Iterator[Result]:
    records = [_mapping(record, name) for record in _list(test, "results", name)]
    _require_read(test, name, "results", "test_summary")
    owners: set[tuple[str, int | None]] = set()
    messages: set[str] = set()
    statuses: set[DcgmStatus] = set()
    for record in records:
        result = _of_row(name, record, major, lines.get(id(record), 0))
        if (result.test, result.gpu) in owners:
            raise CheckError(f"{result.test} has two results for {_subject(result.gpu)}")
        owners.add((result.test, result.gpu))
        messages.update(problem.message for problem in result.problems)
        statuses.add(result.status)
        yield result
    summary = test.get("test_summary")
    if not isinstance(summary, dict):
        if major >= 4:
            raise CheckError(f"{name} has no test_summary")
        return
    whole = _result(name, None, summary, lines.get(id(summary), 0))
    # The summary repeats the worst result of its GPUs (and from 4.5 on their messages); everything else in it is about the node.
    more = tuple(problem for problem in whole.problems if problem.message not in messages)
    said_by_rows = whole.status in statuses or (
        whole.status is not DcgmStatus.FAIL and statuses - {DcgmStatus.PASS}
    )
    if more or (whole.status is not DcgmStatus.PASS and not said_by_rows):
        yield replace(whole, problems=more)


def _of_row(name: str, record: Mapping[str, object], major: int, line: int) -> Result:
    gpu: int | None
    if "entity_id" in record or "entity_group" in record:
        gpu = _number(record.get("entity_id"), name)
        if not isinstance(record.get("entity_group"), str):
            raise CheckError(f"a result of {name} does not name its entity")
        if record["entity_group"] != "GPU":
            return _result(f"{name} ({record['entity_group']} {gpu})", None, record, line)
    elif major < 4 and dcgm_facts().is_deployment(name):
        gpu = _blamed(record.get("gpu_id"))
    elif "gpu_id" in record:
        gpu = _number(record["gpu_id"], name)
    else:
        raise CheckError(f"a result of {name} names no GPU")
    return _result(name, gpu, record, line)


def _blamed(gpu: object) -> int | None:
    """Before 4.0 a test of the node may name the GPU of its last error; -1 or no entry means none."""
    return gpu if isinstance(gpu, int) and not isinstance(gpu, bool) and 0 <= gpu < MOST_GPUS else None


def _result(name: str, gpu: int | None, record: Mapping[str, object], line: int) -> Result:
    _require_read(record, name, "warnings", "info")
    status = record.get("status")
    if not isinstance(status, str):
        raise CheckError(f"a result of {name} for {_subject(gpu)} has no status")
    return Result(name, gpu, status_of(status), status, tuple(_problems(record.get("warnings"))), line)


def _problems(warnings: object) -> Iterator[Problem]:
    if warnings is not None and not isinstance(warnings, list):
        raise CheckError(f"the warnings have an unknown form: {warnings!r:.80}")
    for warning in warnings or []:
        fields = _mapping(warning, "a warning")
        number, category, severity = (
            fields.get(key) for key in ("error_id", "error_category", "error_severity")
        )
        yield Problem(
            " ".join(str(fields.get("warning", fields.get("warnings", ""))).split()) or "no message",
            number if isinstance(number, int) and number > 0 else None,
            severity_of(severity) if isinstance(severity, int) else "",
            category if isinstance(category, int) else None,
        )


def _status_lines(text: str, whole: Mapping[str, object]) -> dict[int, int]:
    """The line with each object's "status", by the object's identity; empty if they cannot be matched."""
    at = [index for index, line in enumerate(text.splitlines(), 1) if re.search(r'"status"\s*:', line)]
    owners = list(_owners(whole))
    return dict(zip(owners, at, strict=True)) if len(at) == len(owners) else {}


def _owners(value: object) -> Iterator[int]:
    if isinstance(value, dict):
        for key, inner in value.items():
            if key == "status":
                yield id(value)
            else:
                yield from _owners(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _owners(inner)


def _require_read(node: Mapping[str, object], where: str, *read: str) -> None:
    """Raises CheckError if there are results in a place that this program does not know."""
    for key, value in node.items():
        if key not in read and isinstance(value, (dict, list)) and _TELLING & set(_keys(value)):
            raise CheckError(f"{where} has results in {key!r:.40}, which no known version of DCGM uses")


def _mapping(value: object, where: str) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise CheckError(f"{where} is not an object")
    return value


def _list(value: Mapping[str, object], key: str, where: str) -> list[object]:
    items = value.get(key)
    if not isinstance(items, list):
        raise CheckError(f"{where} has no {key}")
    return items


def _number(value: object, where: str) -> int:
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < MOST_GPUS:
        raise CheckError(f"{value!r:.40} in {where} is not a GPU number")
    return value


def _subject(gpu: int | None) -> str:
    return "the node" if gpu is None else f"GPU {gpu}"
