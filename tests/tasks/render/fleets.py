"""Reports of p5.48xlarge clusters of any size with bandwidths by size, and parts that are bad. Constructed, not measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache

from checks.facts.builtin import builtin
from checks.judge.baseline.bands import Baseline
from checks.judge.rules.expected_questions import taking_part
from checks.judge.rules.expected_values import expected_busbw, transport_of
from checks.judge.verdict import decide
from checks.model import Observation, Outcome, Report, Skip, Value, Verdict, node_of
from checks.model_details import PairOutcome
from checks.policy import Policy
from tasks.render.context import VerdictContext, verdict_context
from tests.catalogue_reports import catalogue_report, policy_of

TYPE = "p5.48xlarge"
SIZES = tuple(1024 * 4**step for step in range(11))
# What a collective reaches where nobody published one: enough to draw.
USUAL_GBPS = 320.0
# What network.pairs measures of a healthy pair here.
TCP_GBPS = 9.5


@cache
def fleet(nodes: int, peers: bool = True) -> Report:
    """A report that says nothing bad of anybody, named as EC2 names its hosts."""
    report = catalogue_report(TYPE, nodes, peers=peers)
    names = {f"node-{i}": f"ip-10-0-{i // 200}-{i % 200 + 11}" for i in range(nodes)}
    rows = tuple(_named(_with_curve(row, report), names) for row in report.observations)
    pairs = [(node, names[node.name]) for node in report.nodes]
    found = tuple(replace(node, name=name, identity=_identity(name, node.rank)) for node, name in pairs)
    declared = replace(report.declared, node_names=tuple(names.values()))
    return replace(
        report, gate_id="gate-p5-prod", declared=declared, nodes=found, observations=rows,
        measured_at="2026-11-22T03:12:00+00:00",
    )  # fmt: skip


def changed(report: Report, check: str, node: str, change: Callable[[Observation], Observation]) -> Report:
    """The report with a check's observations of one node changed; there must be some."""
    hit = [row for row in report.observations if row.check == check and node_of(row.subject) == node]
    assert hit
    rows = tuple(change(row) if row in hit else row for row in report.observations)
    return replace(report, observations=rows)


def with_metrics(report: Report, check: str, node: str, **metrics: Value) -> Report:
    """The report with these metrics on one node."""
    return changed(report, check, node, lambda row: replace(row, metrics={**row.metrics, **metrics}))


def slower(report: Report, check: str, node: str, factor: float) -> Report:
    """The report with a node whose ranks reach this share of their bus bandwidth."""

    def slow(row: Observation) -> Observation:
        speeds, peak = row.metrics["busbw_gbps"], row.metrics["busbw_peak_gbps"]
        assert isinstance(speeds, tuple) and isinstance(peak, (int, float))
        numbers = tuple(factor * v for v in speeds if isinstance(v, (int, float)))
        return replace(row, metrics={**row.metrics, "busbw_gbps": numbers, "busbw_peak_gbps": factor * peak})

    return changed(report, check, node, slow)


def cut_off(report: Report, bad: Sequence[str], gbps: float) -> Report:
    """The report with hosts that reach every other, and are reached, this slowly: over TCP, and in the pair tests by the same share.

    The ranks' peers are numbers, of which the node follows. What is slow was measured again three times, as a rank does.
    """
    per, names = report.declared.ranks_per_node, report.declared.node_names

    def slow(row: Observation) -> Observation:
        peers, speeds = row.metrics["peers"], row.metrics["bandwidth_gbps"]
        assert isinstance(peers, tuple) and isinstance(speeds, tuple)
        pairs = zip(peers, speeds, strict=True)
        made = tuple(gbps if (peer in bad) != (row.subject in bad) else v for peer, v in pairs)
        return replace(row, metrics={**row.metrics, "bandwidth_gbps": made})  # type: ignore[dict-item]

    def tested(row: Observation) -> Observation:
        peers = row.metrics["peers"]
        assert isinstance(peers, tuple)
        mine = node_of(row.subject) in bad
        hit = [at for at, peer in enumerate(peers) if (names[int(str(peer)) // per] in bad) != mine]
        order = [*range(len(peers)), *hit * 3]
        lists = {name: value for name, value in row.metrics.items() if isinstance(value, tuple)}
        columns = {name: tuple(value[at] for at in order) for name, value in lists.items()}
        rates, share = columns["bandwidth_gbps"], gbps / TCP_GBPS
        pairs = zip(order, rates, strict=True)
        columns["bandwidth_gbps"] = tuple(share * rate if at in hit else rate for at, rate in pairs)
        rounds = row.metrics["rounds"]
        assert isinstance(rounds, int)
        again = range(rounds, rounds + 3 * len(hit))
        columns["in_round"] = (*columns["in_round"][: len(peers)], *again)
        columns["began_s"] = (*columns["began_s"][: len(peers)], *(0.1 * at + 2.0 for at in again))
        return replace(row, metrics={**row.metrics, **columns})

    changes = {"network.pairs": slow, "nccl.pairs": tested}
    rows = tuple(changes[row.check](row) if row.check in changes else row for row in report.observations)
    return replace(report, observations=rows)


def silent(report: Report, *lost: str) -> Report:
    """The report as it is when these nodes never wrote a word: whoever was to test a pair with them had no answer."""
    per, names = report.declared.ranks_per_node, report.declared.node_names

    def unanswered(row: Observation) -> Observation:
        peers = row.metrics["peers"]
        assert isinstance(peers, tuple)
        instead = {"results": PairOutcome.NO_ANSWER.value, "failures": "no answer for 20 s"}
        columns = {
            name: tuple(
                instead.get(name) if names[int(str(peer)) // per] in lost else v
                for peer, v in zip(peers, value, strict=True)
            )
            for name, value in row.metrics.items()
            if isinstance(value, tuple) and name not in ("peers", "in_round", "began_s")
        }
        return replace(row, metrics={**row.metrics, **columns})  # type: ignore[dict-item]

    left = [row for row in report.observations if node_of(row.subject) not in lost]
    rows = tuple(unanswered(row) if row.check == "nccl.pairs" else row for row in left)
    return replace(report, nodes=tuple(n for n in report.nodes if n.name not in lost), observations=rows)


def unable(report: Report, check: str, node: str) -> Report:
    """The report of a node that could not run a check."""
    return changed(
        report, check, node, lambda row: replace(
            row, outcome=Outcome.SKIPPED, metrics={}, skip=Skip.TOOL_MISSING, reason="there is no program fio"
        )
    )  # fmt: skip


def judged(
    report: Report, policy: Policy | None = None, baseline: Baseline | None = None
) -> tuple[Verdict, VerdictContext]:
    """What the engine says, and what stands beside it."""
    rules = policy or policy_of(TYPE)
    verdict = decide(report, rules, builtin(), baseline)
    return verdict, verdict_context(report, rules, verdict, "slurm", "gate-p5-prod-check-1", facts=builtin())


def _with_curve(row: Observation, report: Report) -> Observation:
    if "busbw_gbps" not in row.metrics or "sizes_bytes" not in row.metrics:
        return row
    group, facts = taking_part(row.check, report.declared), builtin()
    transport = transport_of(facts.instances[TYPE], group.nodes)
    speeds = []
    for size in SIZES:
        known = expected_busbw(facts, TYPE, group.nodes, group.ranks, group.collective, size, transport)
        speeds.append(0.97 * known.value if known else USUAL_GBPS * size / (size + 6e7))
    jitter = 1 - 0.002 * (sum(map(ord, row.subject)) % 9)
    metrics: Mapping[str, Value] = {
        **row.metrics, "sizes_bytes": SIZES, "busbw_gbps": tuple(jitter * v for v in speeds),
        "busbw_peak_gbps": max(speeds), "sizes_left_out": 0,
    }  # fmt: skip
    return replace(row, metrics=metrics)


def _named(row: Observation, names: Mapping[str, str]) -> Observation:
    node, slash, rest = row.subject.partition("/")
    metrics = dict(row.metrics)
    peers = metrics.get("peers")
    if isinstance(peers, tuple):
        # Where ranks are tested in pairs the peers are numbers.
        metrics["peers"] = tuple(names.get(str(peer), peer) for peer in peers)  # type: ignore[assignment]
    return replace(row, subject=f"{names.get(node, node)}{slash}{rest}", metrics=metrics)


def _identity(name: str, rank: int) -> dict[str, str]:
    gpus = ",".join(f"GPU-{rank:08x}-0000-4000-8000-{gpu:012x}" for gpu in range(8))
    return {
        "host": name, "boot_id": f"{rank:032x}", "driver": "570.133.20", "kernel": "6.8.0-1021-aws",
        "product_uuid": f"ec2{rank:029x}", "gpu_uuids": gpus,
    }  # fmt: skip
