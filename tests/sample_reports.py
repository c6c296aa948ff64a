"""Reports of healthy clusters for tests, and ways to break them. Catalogue and policy are small and fixed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256

from checks.check import Check, Measurement, check
from checks.check import Context as Context
from checks.facts.instances import Facts, Instance
from checks.facts.provenance import NumberKind, Provenance
from checks.judge.verdict import decide, unreadable
from checks.model import (
    CLUSTER,
    Answer,
    Cause,
    Declared,
    Finding,
    MachinePart,
    Node,
    Observation,
    Outcome,
    Planned,
    Profile,
    Report,
    Scope,
    Skip,
    Value,
    Verdict,
    rank_subject,
)
from checks.policy import CheckPolicy, OnWarn, Over, Policy, Rule

MADE_UP = Provenance("test", "made up for a test", "2026-11", NumberKind.DERIVED)
FACTS = Facts(
    {"cpu": Instance(0, "", MADE_UP), "toy.4x": Instance(4, "Toy", MADE_UP)},
    sha256(b"made-up facts").hexdigest(),
)
# As deployments/policies/local.toml says it.
EXACT_SUMS = (
    "sums of integers below 2^24 are exact in float32: one wrong element, of however many, is corruption"
)
OUT = "Do not train on this rank's node, and run the gate without it."
WHEN = "2026-11-21T08:00:00+00:00"
SIZES = tuple(1024 * 4**step for step in range(8))
GROUPED = ("collective.all_reduce", "training.ddp")
PAIRED = ("network.reachability", "network.pairs")


PLAN = (
    Planned("system.identity", Scope.NODE, ("kernel", "cpu_model")),
    Planned("system.clock", Scope.NODE, ("wall_rate", "synchronised")),
    Planned("gpu.inventory", Scope.NODE, ("gpus_found", "gpus_missing")),
    Planned("network.reachability", Scope.NODE, ("peers", "failures", "refused", "connect_ms", "rendezvous")),
    Planned("network.pairs", Scope.NODE, ("peers", "failures", "latency_us", "bandwidth_gbps")),
    Planned("compute.gemm", Scope.RANK, ("wrong_elements", "gflops")),
    Planned("collective.all_reduce", Scope.RANK, ("wrong_elements", "sizes_bytes", "busbw_gbps")),
    Planned("training.ddp", Scope.RANK, ("loss_ratio", "weights_digest")),
    Planned("storage.write", Scope.CLUSTER, ("seconds_to_write",)),
    Planned("training.step", Scope.RANK, ("gflops",)),
)

POLICY = Policy(
    name="sample",
    instance_types=("cpu", "toy.4x"),
    on_warn=OnWarn.GO,
    max_unfit_fraction=0.25,
    checks={
        "system.identity": CheckPolicy(
            rules=(Rule("kernel", "drift", Over.CLUSTER, same=True, level="WARN", cause=Cause.CONFIGURATION),)
        ),
        "system.clock": CheckPolicy(
            accept_skips=(Skip.NOT_PERMITTED,),
            rules=(
                Rule("wall_rate", "chrony", fail_below=0.9, fail_above=1.1, cause=Cause.CONFIGURATION),
                Rule("synchronised", "judgement", equals=True, level="WARN", cause=Cause.CONFIGURATION),
            ),
        ),
        "gpu.inventory": CheckPolicy(
            part=MachinePart.GPU, rules=(Rule("gpus_missing", "declared", equals=0),)
        ),
        "network.reachability": CheckPolicy(min_nodes=2),
        "network.pairs": CheckPolicy(min_nodes=2, options={"floor_gbps": 0.05, "slow_ratio": 0.25}),
        "compute.gemm": CheckPolicy(
            rules=(
                Rule("wrong_elements", "exact", equals=0, remedy="Take the GPU out of use."),
                Rule("gflops", "floor", fail_below=1.0),
            )
        ),
        "collective.all_reduce": CheckPolicy(
            min_ranks=2,
            rules=(
                Rule("wrong_elements", EXACT_SUMS, equals=0, remedy=OUT),
                Rule("busbw_gbps", "floor", warn_below=0.0001),
            ),
        ),
        "training.ddp": CheckPolicy(
            min_ranks=2,
            rules=(
                Rule("loss_ratio", "must fall", fail_above=0.9, cause=Cause.APPLICATION),
                Rule("weights_digest", "equal", Over.CLUSTER, same=True),
            ),
        ),
        "storage.write": CheckPolicy(
            required=False, rules=(Rule("seconds_to_write", "judgement", warn_above=600.0),)
        ),
        "training.step": CheckPolicy(
            required=False, rules=(Rule("gflops", "peers", Over.PEERS, warn_below=0.5, min_peers=4),)
        ),
    },
)


WITHOUT_NETWORK = replace(
    POLICY, checks={name: line for name, line in POLICY.checks.items() if name not in PAIRED}
)


def healthy(
    nodes: int = 2, ranks_per_node: int = 2, gpus: int = 0, named: bool = True, network: bool = True
) -> Report:
    """A report that POLICY passes without a finding; without `network`, WITHOUT_NETWORK does."""
    names = tuple(f"node-{i}" for i in range(nodes))
    type_ = "toy.4x" if gpus else "cpu"
    declared = Declared(type_, nodes, gpus, max(ranks_per_node, gpus), names if named else ())
    plan = tuple(replace(p, skip=_skip(p.check, declared)) for p in PLAN if network or p.check not in PAIRED)
    rows = tuple(row for p in plan if p.skip is None for row in _rows(p, declared, names))
    found = tuple(
        Node(n, i, "attempt-1", "c" * 64, True, {"host": n, "boot_id": f"b-{i}", "driver": "570.1"}, WHEN)
        for i, n in enumerate(names)
    )
    return Report("sample-gate", "attempt-1", WHEN, Profile.QUICK, declared, "c" * 64, plan, found, rows)


def verdict_of(report: Report, policy: Policy = POLICY) -> Verdict:
    """What the engine says."""
    return decide(report, policy, FACTS)


def answered(answer: Answer, *findings: Finding) -> Verdict:
    """A verdict about nothing, with this answer."""
    return replace(unreadable("", POLICY, FACTS, b""), answer=answer, findings=findings)


def with_row(report: Report, name: str, subject: str, change: Callable[[Observation], Observation]) -> Report:
    """The report with one observation changed; it must be there."""
    assert any((row.check, row.subject) == (name, subject) for row in report.observations)
    rows = (change(r) if (r.check, r.subject) == (name, subject) else r for r in report.observations)
    return replace(report, observations=tuple(rows))


def with_metric(report: Report, name: str, subject: str, metric: str, value: Value) -> Report:
    """The report with one metric changed."""
    return with_row(report, name, subject, lambda row: replace(row, metrics={**row.metrics, metric: value}))


def without_row(report: Report, name: str, subject: str) -> Report:
    """The report without one observation; it must be there."""
    rows = tuple(row for row in report.observations if (row.check, row.subject) != (name, subject))
    assert len(rows) == len(report.observations) - 1
    return replace(report, observations=rows)


def without_node(report: Report, name: str) -> Report:
    """The report as it is when this node never wrote a word."""
    rows = tuple(row for row in report.observations if row.subject.partition("/")[0] != name)
    return replace(report, nodes=tuple(node for node in report.nodes if node.name != name), observations=rows)


def wrong_sums(report: Report, subject: str = "node-1/rank-3") -> Report:
    """The report with a collective that returned wrong elements on one rank."""
    return with_metric(report, "collective.all_reduce", subject, "wrong_elements", 12)


def findings_of(verdict: Verdict, cause: Cause) -> list[Finding]:
    """The verdict's findings of one cause."""
    return [finding for finding in verdict.findings if finding.cause is cause]


def toy_check(name: str = "toy.check") -> Check:
    """A catalogue line."""

    def body(context: Context) -> Measurement:
        """Measures a toy."""
        return Measurement({"value": 1})

    return check(name, Scope.NODE, timeout_s=1, metrics=("value",))(body)


def _skip(name: str, declared: Declared) -> Skip | None:
    if name == "gpu.inventory" and not declared.gpus_per_node:
        return Skip.NO_GPU_DECLARED
    if name in PAIRED and declared.nodes == 1:
        return Skip.ONE_NODE_DECLARED
    return Skip.ONE_RANK_DECLARED if name in GROUPED and declared.ranks == 1 else None


def _rows(planned: Planned, declared: Declared, names: tuple[str, ...]) -> list[Observation]:
    if planned.scope is Scope.CLUSTER:
        subjects = [(CLUSTER, 0, "")]
    elif planned.scope is Scope.NODE:
        subjects = [(name, i, name) for i, name in enumerate(names)]
    else:
        per = declared.ranks_per_node
        subjects = [
            (rank_subject(name, i * per + j), i * per + j, name)
            for i, name in enumerate(names)
            for j in range(per)
        ]
    check, begun = planned.check, 0.125 * [line.check for line in PLAN].index(planned.check)
    rows = []
    for subject, number, node in subjects:
        metrics, seconds = _metrics(check, number, node, names, declared), 0.25 + number / 8
        rows.append(Observation(check, subject, Outcome.MEASURED, seconds, metrics, started_s=begun))
    return rows


def _metrics(
    name: str, number: int, node: str, names: tuple[str, ...], declared: Declared
) -> dict[str, Value]:
    if name in PAIRED:
        return _metrics_of_peers(name, tuple(other for other in names if other != node))
    tables: dict[str, dict[str, Value]] = {
        "system.identity": {"kernel": "6.1.0", "cpu_model": "Toy CPU"},
        "system.clock": {"wall_rate": 1.0, "synchronised": True},
        "gpu.inventory": {"gpus_found": declared.gpus_per_node, "gpus_missing": 0},
        "compute.gemm": {"wrong_elements": 0, "gflops": 40.0 + number},
        "collective.all_reduce": {
            "wrong_elements": 0, "sizes_bytes": SIZES,
            "busbw_gbps": tuple((1 + 0.04 * number) * 3.2 * s / (s + 3e5) for s in SIZES),
        },
        "training.ddp": {"loss_ratio": 0.4, "weights_digest": "ab" * 32},
        "storage.write": {"seconds_to_write": 1.5},
        "training.step": {"gflops": 40.0 + number},
    }  # fmt: skip
    return tables[name]


def _metrics_of_peers(name: str, peers: tuple[str, ...]) -> dict[str, Value]:
    ok = ("ok",) * len(peers)
    if name == "network.reachability":
        refused, times = (0,) * len(peers), (0.5,) * len(peers)
        return {"peers": peers, "failures": ok, "refused": refused, "connect_ms": times, "rendezvous": "ok"}
    bandwidths = tuple(4.0 + 0.1 * i for i, _ in enumerate(peers))
    return {"peers": peers, "failures": ok, "latency_us": (30.0,) * len(peers), "bandwidth_gbps": bandwidths}
