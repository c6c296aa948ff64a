"""Reads a matrix of another tool: CSV, JSON, p2pBandwidthLatencyTest, nvbandwidth.

A matrix that is truncated, has one direction only, or contradicts itself is reported as such, and never passes.
"""

from __future__ import annotations

from collections.abc import Sequence

from checks.explain import matrix_csv, matrix_json, matrix_nvidia
from checks.explain.matrix_cells import UnclearDirection, WrittenMatrix, tables_of, untested
from checks.explain.matrix_nvidia import FoundMatrices
from checks.explain.reading import Broken, Kind, NotRecognised, Reading, ReadOptions, Table

FORMS = "CSV or JSON of names and numbers, nor a matrix of p2pBandwidthLatencyTest or nvbandwidth"


def detect(text: str) -> bool:
    """Whether the text has one of the forms, by its beginning or by the titles of the tools' matrices."""
    if any(form.search(text) for form in (matrix_nvidia.P2P, matrix_nvidia.NVBANDWIDTH, matrix_nvidia.HOST)):
        return True
    return matrix_json.looks_like(text) if text.lstrip()[:1] in ("{", "[") else matrix_csv.looks_like(text)


def read(text: str, asked: ReadOptions) -> Reading:
    """The reading. Raises NotRecognised, Broken."""
    try:
        found = _found(text, asked)
    except UnclearDirection as error:
        raise Broken(str(error)) from error
    tables = tuple(table for one in found.written for table in tables_of(one))
    unread = [*found.unread, *(line for one in found.written for line in untested(one))]
    if not tables and not found.parts:
        unread.append("it holds no test between two parts")
    copies = sum(
        len(values) for part in found.parts for values in part.metrics.values() if isinstance(values, tuple)
    )
    counted = _counted(found.written, tables) if tables else f"{copies} copies between host and GPUs"
    title = f"{found.title}, {counted}"
    understood = frozenset(range(1, len(text.splitlines()) + 1))
    return Reading(
        Kind.MATRIX, title, found.parts, tuple(unread), tables, found.left_out, understood=understood
    )


def _found(text: str, asked: ReadOptions) -> FoundMatrices:
    is_p2p = matrix_nvidia.P2P.search(text) is not None
    is_nvbandwidth = any(form.search(text) for form in (matrix_nvidia.NVBANDWIDTH, matrix_nvidia.HOST))
    if is_p2p and is_nvbandwidth:
        raise Broken(
            "it holds the output of p2pBandwidthLatencyTest and of nvbandwidth. Explain them one by one", ""
        )
    if is_p2p or is_nvbandwidth:
        return matrix_nvidia.p2p(text) if is_p2p else matrix_nvidia.nvbandwidth(text)
    if text.lstrip()[:1] in ("{", "["):
        return matrix_json.read_json(text, asked.better)
    if not matrix_csv.looks_like(text):
        raise NotRecognised(f"it is neither {FORMS}")
    return FoundMatrices("a matrix", matrix_csv.written(matrix_csv.read_sheet(text), asked.better), (), ())


def _counted(written: Sequence[WrittenMatrix], tables: Sequence[Table]) -> str:
    parts = len({name for one in written for name in one.names})
    tests = sum(len(table.matrix.values) for table in tables)
    several = f"{len(tables)} matrices, " if len(tables) > 1 else ""
    return f"{several}{tests} tests between {parts} parts"
