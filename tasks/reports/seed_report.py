"""Reads the tools' raw outputs inside a report of brunopistone/sagemaker-training-jobs-cluster-health-check, with the parsers of these
tools. Pure.

The report's own results are no evidence of health: one that is worse than the raw output, and a test without its raw output, are
"cannot tell". Numbers without raw output are not judged.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from checks.check import CheckError
from checks.documents.decode import parse_json
from checks.explain.reading import CheckData, ExplainError, Garbled, OutputKind, Reading, ReadOptions
from checks.explain.registry import claimed_by
from checks.explain.registry import read as read_output
from checks.model import Value
from checks.probes.efa.libfabric import DATAGRAM, HEADER, parse
from checks.value_types import DecodeError

TOOL = "sagemaker-training-jobs-cluster-health-check"
OURS = (
    "prelaunch_report"  # a report of Prelaunch with the tool's tables beside it (tasks/render/seed_report.py)
)
TABLES = ("cluster_info", "cluster_summary", "nodes")
SIZE_BYTES = 64 << 20
OUTPUT_CHARACTERS = 256 << 10  # sixteen times the output of dcgmi diag -r 3 for eight GPUs
MOST_UNREAD = 64
REMEDY = "Test the node with prelaunch check, or give the whole report."
RAW = ("raw_output", "stdout")
BAD = ("FAIL", "WARN", "ERROR")
NODE = re.compile(r"(nodes\.node_)\d+")
NUMBERS = "numbers without a raw output: the report has only the tool's own (gpu, system, network, nccl)"


@dataclass
class _Outputs:
    """What the walk through the report finds."""

    outputs: dict[str, str] = field(default_factory=dict)
    unread: list[str] = field(default_factory=list)


def detect(text: str) -> bool:
    """Whether it may be a report of the tool."""
    begins = text.lstrip()[:1] == "{" and f'"{OURS}"' not in text
    return begins and all(f'"{key}"' in text for key in TABLES)


def read(text: str, options: ReadOptions) -> Reading:
    """All raw outputs together. Raises Garbled."""
    try:
        report = parse_json(text.encode(), SIZE_BYTES)
    except DecodeError as error:
        raise Garbled(str(error)) from error
    nodes = report.get("nodes") if isinstance(report, Mapping) else None
    if not isinstance(report, Mapping) or not isinstance(nodes, Mapping) or not nodes:
        raise Garbled("it has no table of nodes")
    outputs = _Outputs()
    _walk(report, "", outputs)
    readings = [_reading(path, output, options, outputs) for path, output in outputs.outputs.items()]
    checks = tuple(check for reading in readings for check in reading.checks)
    unread = [*_about_nodes(report, nodes, options, outputs), *outputs.unread]
    more = [f"{len(unread) - MOST_UNREAD} more are not shown"] if len(unread) > MOST_UNREAD else []
    left_out = [line for reading in readings for line in reading.left_out]
    return Reading(
        OutputKind.REPORT,
        f"a report of {TOOL}, {len(outputs.outputs)} raw outputs of {len(nodes)} nodes",
        checks,
        (*unread[:MOST_UNREAD], *more),
        left_out=tuple(dict.fromkeys([*left_out, NUMBERS])),
        driver=next((reading.driver for reading in readings if reading.driver), ""),
        remedy=REMEDY,
        unreported=tuple(pair for reading in readings for pair in reading.unreported),
    )


def _walk(value: object, path: str, collected: _Outputs) -> None:
    """Collects the raw outputs below the path, what the tool itself calls failed, and tests without a raw output."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            _walk(item, f"{path}[{index}]", collected)
    if not isinstance(value, Mapping):
        return
    collected.unread += [f"{path}: {reason}" for reason in _failures(value)]
    outputs = {str(value[key]): key for key in RAW if isinstance(value.get(key), str) and value[key].strip()}
    collected.outputs |= {f"{path}.{key}": output for output, key in outputs.items()}
    if not outputs and ("parsed_output" in value or any(key in value for key in RAW)):
        collected.unread.append(f"{path}: its raw output is missing")
    for key, item in value.items():
        _walk(item, f"{path}.{key}".lstrip("."), collected)


def _failures(table: Mapping[str, object]) -> Iterator[str]:
    """What the tool itself says against the table."""
    if table.get("success") is False or table.get("exit_code_zero") is False:
        yield "the tool says that it failed"
    if table.get("skipped") is True:
        yield "it was skipped"
    for key, value in table.items():
        if key not in RAW and isinstance(value, str) and value.strip().upper().startswith(BAD):
            yield f"the tool says {value.strip()[:40]} of {key[:40]}"
    if table.get("issues"):
        yield f"the tool lists issues: {str(table['issues'])[:300]}"
    if table.get("data_completeness", "complete") != "complete":
        yield f"its data is {str(table['data_completeness'])[:40]}"


def _reading(path: str, output: str, options: ReadOptions, outputs: _Outputs) -> Reading:
    """The raw output at the path, each line of it with the path. One that cannot be read is added to `unread`."""
    try:
        if len(output) > OUTPUT_CHARACTERS:
            raise Garbled(f"it has {len(output)} characters, more than the {OUTPUT_CHARACTERS} that are read")
        is_pingpong = any(map(HEADER.match, output.splitlines()))
        reading = _pingpong(output) if is_pingpong else read_output(claimed_by(output), output, options)
    except ExplainError as error:
        outputs.unread.append(f"{path}: {error}")
        return Reading(OutputKind.REPORT, path, ())
    outputs.unread += [f"{path}: {reason}" for reason in reading.unread]
    return replace(reading, checks=tuple(_placed(check, path) for check in reading.checks))


def _pingpong(output: str) -> Reading:
    """The output of fi_pingpong -p efa, which the tool runs over its default endpoint. Raises Garbled."""
    try:
        tables = parse(output, DATAGRAM)
    except CheckError as error:
        raise Garbled(str(error)) from error
    metrics: dict[str, Value] = {
        "pairs": tuple(f"table {number}" for number in range(1, len(tables) + 1)),
        "failures": ("ok",) * len(tables),
        "acks_missing": tuple(table.acks_missing for table in tables),
    }
    return Reading(OutputKind.FI_PINGPONG, "fi_pingpong", (CheckData("efa.pingpong", metrics, {}, output),))


def _placed(reading: CheckData, path: str) -> CheckData:
    """The part with the path before each of its lines."""
    lines = {metric: _with_path(text, path) for metric, text in reading.lines.items()}
    return replace(reading, lines=lines, evidence=_with_path(reading.evidence, path))


def _with_path(text: str, path: str) -> str:
    return "\n".join(f"{path} {line}" for line in text.splitlines())


def _about_nodes(
    report: Mapping[str, object], nodes: Mapping[str, object], options: ReadOptions, outputs: _Outputs
) -> Iterator[str]:
    """Nodes that are missing or twice, and those without a raw output that others have."""
    info = report.get("cluster_info")
    topology = info.get("cluster_topology") if isinstance(info, Mapping) else None
    total = topology.get("total_nodes") if isinstance(topology, Mapping) else None
    wanted = options.declared.nodes if options.declared else total
    if wanted != len(nodes):
        yield f"it has tables of {len(nodes)} nodes, and {str(wanted)[:20]} are declared"
    hosts = [_host(table) for table in nodes.values()]
    if len(set(hosts)) < len(hosts):
        yield "two of its tables are of one machine, or do not say of which"
    kinds = dict.fromkeys(NODE.sub(r"\1*", path) for path in outputs.outputs)
    for name in nodes:
        own = {pattern.replace("nodes.node_*", f"nodes.{name}", 1) for pattern in kinds}
        for path in sorted(own - outputs.outputs.keys()):
            yield f"{path} is missing, which another node has"
    if not kinds:
        yield "it holds no raw output of a tool"


def _host(table: object) -> str:
    """The name of the node's host; "" if the table has none."""
    info = table.get("node_info") if isinstance(table, Mapping) else None
    return str(info.get("hostname", "")) if isinstance(info, Mapping) else ""
