"""Merges the reports of nodes into one report. Pure. What cannot be read, or belongs to another gate, is listed in `collection`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime

from checks.bundle import Bundle, plan_of
from checks.documents.certificates import dump
from checks.documents.columns import Observations, by_check
from checks.documents.report import NodeReport, load_node
from checks.judge.certificates.decision import machine_digest
from checks.model import Node, Report, Skip
from checks.value_types import DecodeError


def merge(
    bundle: Bundle,
    attempt: str,
    files: Mapping[str, bytes],
    started_at: str,
    load: Callable[[bytes], NodeReport] = load_node,
) -> Report:
    """The report of one attempt from its nodes' files (name -> bytes).

    `started_at` (UTC, ISO 8601) is the report's time if no node gives one. `load` reads one file, and raises DecodeError; a caller
    that has decoded the files before passes a reader that remembers them.
    """
    nodes: list[NodeReport] = []
    problems: list[str] = []
    for name in sorted(files):
        try:
            report = load(files[name])
        except DecodeError as error:
            problems.append(f"{name}: its report cannot be read: {error}"[:500])
            continue
        problem = _stranger(bundle, report)
        if problem:
            problems.append(f"{name}: {problem}"[:500])
        else:
            nodes.append(report)
    return Report(
        gate_id=bundle.gate_id,
        attempt=attempt,
        measured_at=max((n.measured_at for n in nodes), default=started_at),
        profile=bundle.profile,
        declared=bundle.declared,
        catalogue=bundle.catalogue,
        plan=plan_of(bundle)[1],
        nodes=tuple(sorted(map(_dated, nodes), key=lambda node: (node.rank, node.name))),
        observations=Observations(
            by_check([item for report in nodes for item in report.observations]).values()
        ),
        collection=tuple(problems),
        certificates=_offered(bundle, nodes),
        raised=bundle.raised,
    )


def _offered(bundle: Bundle, reports: Iterable[NodeReport]) -> str:
    """The certificates that the gate offered to the machines that reported; "" if there are none."""
    machines = {machine_digest(report.node.identity) for report in reports}
    offered = tuple(each for each in bundle.certificates.certificates if each.machine in machines)
    return dump(replace(bundle.certificates, certificates=offered)) if offered else ""


def _dated(report: NodeReport) -> Node:
    return replace(report.node, measured_at=report.measured_at)


def _stranger(bundle: Bundle, report: NodeReport) -> str:
    """Why a node's report does not belong to this gate, or ""."""
    if report.gate_id != bundle.gate_id:
        return f"its report is of gate {report.gate_id:.64}"
    if report.declared != bundle.declared or report.profile != bundle.profile:
        return "its report was made for another declaration"
    foreign = next(
        (entry for entry in report.observations if entry.subject.partition("/")[0] != report.node.name), None
    )
    if foreign is not None:
        return f"its report contains observations of {foreign.subject:.80}"
    left_out = {entry.check for entry in report.observations if entry.skip is Skip.GATE_FILE} - {*bundle.skip}
    if left_out:
        return f"it skipped {min(left_out):.80}, which the gate file does not skip"
    try:
        datetime.fromisoformat(report.measured_at.replace("Z", "+00:00"))
    except ValueError:
        return f"its time {report.measured_at!r:.40} is not an ISO 8601 time"
    return ""
