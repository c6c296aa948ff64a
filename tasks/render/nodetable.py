"""One row a node for tables such as Prefect's, the worst first (pure)."""

from __future__ import annotations

from checks.model import CLUSTER, Report, Verdict
from tasks.render.clean import one_line
from tasks.render.grouping import group
from tasks.render.headline import sentence
from tasks.render.matrix import finding_state, node_lines, places

IDENTITY = ("host", "driver", "kernel", "boot_id", "gpu_uuids")


def node_rows(report: Report | None, verdict: Verdict) -> list[dict[str, object]]:
    """Rows of verdict, node, rank, first finding, findings and the machine's identity: no key is ever absent.

    A node that never reported has a row too. A report that cannot be read makes one row, about the cluster.
    """
    first = _first_findings(verdict)
    if report is None:
        return [
            _row(finding_state(f).word, CLUSTER, None, first.get(CLUSTER, ""), 1, {})
            for f in verdict.findings[:1]
        ]
    identities = {node.name: node.identity for node in report.nodes}
    return [
        _row(
            line.state.word,
            line.name,
            line.rank,
            first.get(line.name, ""),
            line.findings,
            identities.get(line.name, {}),
        )
        for line in node_lines(report, verdict)
    ]


def _row(
    verdict: str, node: str, rank: int | None, finding: str, findings: int, identity: object
) -> dict[str, object]:
    known = identity if isinstance(identity, dict) else {}
    cells = {key: one_line(str(known.get(key, "")), 200) for key in IDENTITY}
    return {
        "verdict": verdict,
        "node": one_line(node, 120),
        "rank": "" if rank is None else rank,
        "first finding": finding,
        "findings": findings,
        **cells,
    }


def _first_findings(verdict: Verdict) -> dict[str, str]:
    first: dict[str, str] = {}
    for finding in verdict.findings:
        for place in places(finding.subject):
            if place not in first:
                first[place] = sentence(group([finding])[0])
    return first
