"""What a slow number means where other work used the CPU: evidence, hardware, or configuration; never fitness."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checks.documents.host_load import Contention
from checks.judge.cpu_contention import RecordedLoads
from checks.judge.culprits.findings import judge as judge_ranks
from checks.judge.not_measured import not_measured
from checks.judge.reachability import judge as judge_hosts
from checks.judge.rules import apply
from checks.judge.rules.values import RuleContext
from checks.model import Cause, Finding, Level, Observation, Outcome, Value
from checks.model_details import Unmeasured
from checks.policy import CheckPolicy, Over, Rule
from tasks.gate_file.references import SHIPPED, read_policy
from tests.checks.culprit.rows import tournament
from tests.checks.local_policy import local_policy
from tests.sample_reports import FACTS, POLICY, healthy

BUSY: Mapping[str, Value] = {"host_load": 25.0, "host_taken": 0.8, "host_idle": 0.0, "host_cpus": 2}
QUIET: Mapping[str, Value] = {"host_load": 0.3, "host_taken": 0.01}
HELD_BACK: Mapping[str, Value] = {**BUSY, "host_throttled": 0.9}
RULE = Rule("copy_gbps", "a test", fail_below=0.5, warn_below=1.0, cause=Cause.CONFIGURATION, needs_cpu=True)
# Three nodes on three machines; two of one machine.
APART = {"node-0": "boot-a", "node-1": "boot-b", "node-2": "boot-c"}
TOGETHER = dict.fromkeys(APART, "boot-a")


def _row(node: int, gbps: float, load: Mapping[str, Value], **more: Value) -> Observation:
    metrics: dict[str, Value] = {"copy_gbps": gbps, **load, **more}
    return Observation("memory", f"node-{node}/rank-{node}", Outcome.MEASURED, 1.0, metrics)


def _found(*rows: Observation, rule: Rule = RULE, hosts: Mapping[str, str] = APART) -> list[Finding]:
    return list(apply.apply("memory", CheckPolicy(rules=(rule,)), rows, len(rows), RuleContext(hosts=hosts)))


def _said(*rows: Observation, rule: Rule = RULE, hosts: Mapping[str, str] = APART) -> list[str]:
    # Equal findings are one, as in a verdict.
    found = dict.fromkeys(_found(*rows, rule=rule, hosts=hosts))
    return [f"{one.subject} {one.level.value} {one.cause.value}" for one in found]


def test_slow_while_others_took_the_cpu_is_evidence() -> None:
    """Nobody can tell: the message says how busy the node was, the remedy what to do."""
    (found,) = _found(_row(0, 0.44, BUSY))

    assert (Level.FAIL, Cause.EVIDENCE) == (found.level, found.cause)
    assert found.is_predicate and found.message == (
        "copies 0.44 GB/s in memory, threshold 0.5; this is no proof, because node-0 was busy: load 25 on 2 CPUs, "
        "other work used 80% of them"
    )
    assert found.remedy.startswith("Stop other work")


@pytest.mark.parametrize(
    ("gbps", "load", "far"),
    [
        (0.008, BUSY, True),  # 62 times; 12.5 processes shared each CPU
        (0.022, BUSY, False),  # 23 times: less than twice that
        (0.044, {**BUSY, "host_load": 3.0}, True),  # 11 times, and hardly two shared a CPU
        (0.44, {**BUSY, "host_load": 3.0}, False),
        (0.0, BUSY, False),
    ],
)
def test_a_value_that_no_load_explains_leads_to_the_policy_as_well(
    gbps: float, load: Mapping[str, Value], far: bool
) -> None:
    """By the line that sets its threshold; the decision is that of every slow value on a busy node."""
    (found,) = _found(_row(0, gbps, load))

    assert (Level.FAIL, Cause.EVIDENCE) == (found.level, found.cause)
    assert found.remedy.startswith("Stop other work")
    assert ('threshold of copy_gbps under [checks."memory"]' in found.remedy) is far
    assert ("declared instance type" in found.remedy) is far


@pytest.mark.parametrize(
    "load",
    [
        pytest.param({}, id="no record"),
        pytest.param(QUIET, id="quiet"),
        pytest.param({"host_load": 400.0, "host_taken": 0.9}, id="a record without idle time"),
        pytest.param({**BUSY, "host_idle": 0.6}, id="CPUs were free"),
        pytest.param({**BUSY, "host_taken": 0.1}, id="others took little, however high the load"),
        pytest.param({**BUSY, "host_taken": "most of it"}, id="no number"),
    ],
)
def test_without_a_record_that_others_took_the_cpu_slow_is_slow(load: Mapping[str, Value]) -> None:
    """Missing data is no excuse at all, and neither is a load average alone."""
    assert ["node-0/rank-0 FAIL CONFIGURATION"] == _said(_row(0, 0.44, load))


def test_slow_busy_host_is_hardware_when_equally_busy_hosts_are_fast() -> None:
    """And the node is condemned by it."""
    (found,) = _found(_row(0, 0.44, BUSY), _row(1, 9.0, BUSY), _row(2, 8.0, BUSY))

    assert (Cause.HARDWARE, "node-0/rank-0") == (found.cause, found.subject)
    assert found.message.endswith("and 2 equally busy hosts are not slow")


@pytest.mark.parametrize(
    ("peers", "hosts"),
    [
        pytest.param((_row(1, 9.0, QUIET), _row(2, 9.0, QUIET)), APART, id="peers that were not busy"),
        pytest.param((_row(1, 9.0, BUSY), _row(2, 9.0, BUSY)), TOGETHER, id="nodes of the same machine"),
        pytest.param((_row(1, 9.0, BUSY), _row(2, 9.0, BUSY)), {}, id="machines that are not known"),
        pytest.param((_row(1, 9.0, BUSY), _row(2, 0.3, BUSY)), APART, id="as many are slow as are not"),
        pytest.param((_row(1, 9.0, {}), _row(2, 9.0, {})), APART, id="peers without a record"),
    ],
)
def test_other_peers_show_nothing(peers: tuple[Observation, ...], hosts: Mapping[str, str]) -> None:
    """Only other machines that were as busy, and most of them."""
    assert "node-0/rank-0 FAIL EVIDENCE" in _said(_row(0, 0.44, BUSY), *peers, hosts=hosts)


def test_a_cpu_quota_is_no_other_work() -> None:
    """Its own counters say so: that is configuration, however busy the host looks."""
    (found,) = _found(_row(0, 0.44, HELD_BACK))

    assert (Level.FAIL, Cause.CONFIGURATION) == (found.level, found.cause)
    assert "node-0 was throttled by its CPU quota in 90% of the scheduler's periods" in found.message
    assert "quota" in found.remedy


def test_a_good_second_value_does_not_hide_a_bad_first_one() -> None:
    """An intermittent fault stays visible as a WARN; other work on the CPU at that time explains it."""
    first: dict[str, Value] = {"first_copy_gbps": 0.44}
    quiet, busy = ({f"first_{name}": value for name, value in load.items()} for load in (QUIET, BUSY))

    (found,) = _found(_row(0, 9.0, QUIET, **first, **quiet))
    assert (Level.WARN, Cause.CONFIGURATION) == (found.level, found.cause)
    assert found.message.startswith(
        "copies 0.44 GB/s in memory, threshold 0.5 (first measurement; the second"
    )
    assert [] == _said(_row(0, 9.0, QUIET, **first, **busy))
    assert ["node-0/rank-0 FAIL CONFIGURATION"] == _said(_row(0, 0.4, QUIET, **first, **busy))
    assert ["node-0/rank-0 WARN CONFIGURATION"] == _said(_row(0, 9.0, BUSY, **first, **quiet))


@pytest.mark.parametrize(
    ("first", "second", "load", "said"),
    [
        (0.5, 1.0, QUIET, ["node-0/rank-0 WARN HARDWARE"]),
        (0.5, 0.5, QUIET, ["node-0/rank-0 FAIL HARDWARE"]),
        (1.0, 1.0, QUIET, []),
        (0.5, 1.0, BUSY, []),
    ],
)
@pytest.mark.parametrize("again", [1, 8])
@pytest.mark.parametrize("needs_cpu", [True, False])
def test_a_first_value_that_only_its_peers_show_to_be_slow_stays_visible(
    first: float, second: float, load: Mapping[str, Value], said: list[str], again: int, needs_cpu: bool
) -> None:
    """All ranks of a group measure again, or this one alone; whatever other rule called it slow."""
    rule = Rule("overlap_gflops", "a test", Over.PEERS, warn_below=0.95, fail_below=0.9, needs_cpu=needs_cpu)
    loads = {f"first_{name}": value for name, value in load.items()}
    rows = [_row(0, 9.0, QUIET, overlap_gflops=second, first_overlap_gflops=first, **loads)]
    for node in range(1, 8):
        more = {"first_overlap_gflops": 1.0} if node < again else {}
        rows.append(_row(node, 9.0, QUIET, overlap_gflops=1.0, **more))

    assert said == _said(*rows, rule=rule)


def test_busy_node_makes_a_slow_collective_missing_evidence() -> None:
    """The slowest rank sets the pace of all; the busy node is named as a field, so that its row in the store can be a doubt."""
    rule = replace(RULE, over=Over.CLUSTER, warn_below=None)
    [shared] = dict.fromkeys(_found(_row(0, 0.1, QUIET), _row(1, 0.1, BUSY), rule=rule))

    assert [("node-1",), ()] == [shared.named_nodes, _found(_row(0, 0.44, BUSY))[0].named_nodes]

    assert ["cluster FAIL EVIDENCE"] == _said(_row(0, 0.1, QUIET), _row(1, 0.1, BUSY), rule=rule)
    assert ["cluster FAIL CONFIGURATION"] == _said(_row(0, 0.1, QUIET), _row(1, 0.1, QUIET), rule=rule)


def test_a_rule_that_is_not_about_the_cpu_is_excused_by_nothing() -> None:
    """Wrong elements and GPU rates are what they are."""
    rule = replace(RULE, needs_cpu=False)
    assert ["node-0/rank-0 FAIL CONFIGURATION"] == _said(_row(0, 0.44, BUSY), rule=rule)


SHARE = st.floats(0, 1)


@given(
    gbps=st.lists(st.floats(0.01, 5), min_size=1, max_size=3),
    first=st.floats(0.01, 5),
    load=st.fixed_dictionaries(
        {}, optional={f"host_{n}": SHARE for n in ("taken", "idle", "throttled", "load")}
    ),
)
def test_no_record_makes_a_fail_less_than_a_fail(
    gbps: list[float], first: float, load: Mapping[str, Value]
) -> None:
    """A claim to be busy ends in "nobody can tell", never in "fit"."""
    rows = [_row(place, rate, load, first_copy_gbps=first) for place, rate in enumerate(gbps)]
    failed = {one.subject for one in _found(*rows) if one.level is Level.FAIL}

    assert {row.subject for row, rate in zip(rows, gbps, strict=True) if rate < 0.5} == failed


def test_the_shipped_policies_excuse_speeds_alone() -> None:
    """By the unit at the metric's end, and two ratios of times; nothing of GPU memory, products or NVLink."""
    excused = {
        (check, rule.metric)
        for path in SHIPPED.glob("*.toml")
        for check, line in read_policy(path).checks.items()
        for rule in line.rules
        if rule.needs_cpu
    }

    units = ("_gbps", "gflops", "tokens_per_s", "_iops", "per_s_per_cpu", "of_sequential", "cpu_share")
    assert [] == [one for one in excused if not one[1].endswith(units)]
    nvidia = read_policy(SHIPPED / "nvidia.toml").checks
    for check in ("compute.gemm", "compute.memory_bandwidth", "nccl.intra_node"):
        assert not any(rule.needs_cpu for rule in nvidia[check].rules)
    assert ("compute.memory_bandwidth", "copy_gbps") in excused


# ------------------------------------------------------------------------------------------------ pairs


def _pairs(
    nodes: int,
    per: int,
    loads: Mapping[int, Mapping[str, Value]],
    hosts: Mapping[str, str],
    slow: set[tuple[int, int]],
) -> list[str]:
    report = tournament(nodes, per, lambda a, b: {"bandwidth_gbps": 0.001} if (a, b) in slow else {})
    rows = [
        replace(row, metrics={**row.metrics, **loads.get(int(row.subject[5]), QUIET)})
        for row in report.observations
    ]
    found = tuple(replace(node, identity={"boot_id": hosts.get(node.name, "")}) for node in report.nodes)
    line = local_policy().checks["collective.pairs"]
    policy = replace(POLICY, checks={"collective.pairs": line}, max_unfit_fraction=0.25)
    judged = judge_ranks(replace(report, nodes=found), {"collective.pairs": rows}, policy, FACTS)[0]
    # What is no proof has no probability.
    assert not any("probability" in one.message and "no proof" in one.message for one in judged)
    return [f"{one.subject} {one.level.value} {one.cause.value}" for one in judged if one.level is Level.FAIL]


def test_a_slow_pair_of_a_busy_node_is_evidence() -> None:
    """Two nodes on one machine, the first gate on a laptop: no NO-GO, whoever would be named."""
    busy = {0: BUSY, 1: BUSY}

    assert {"FAIL EVIDENCE"} == {said.partition(" ")[2] for said in _pairs(2, 2, busy, {}, {(3, 2)})}
    assert {"FAIL EVIDENCE"} == {said.partition(" ")[2] for said in _pairs(2, 2, busy, {}, {(3, 2), (2, 3)})}
    assert ["node-1/rank-2<->node-1/rank-3 FAIL HARDWARE"] == _pairs(2, 2, {}, {}, {(3, 2), (2, 3)})


def test_a_slow_node_among_equally_busy_machines_is_hardware() -> None:
    """All eight are as busy, and one is slow."""
    apart = {f"node-{n}": f"boot-{n}" for n in range(8)}
    slow = {(3, n) for n in range(8)} | {(n, 3) for n in range(8)}

    assert ["node-3 FAIL HARDWARE"] == _pairs(8, 1, dict.fromkeys(range(8), BUSY), apart, slow)
    assert ["node-3 FAIL EVIDENCE"] == _pairs(8, 1, {3: BUSY}, apart, slow)


def _hosts(loads: Mapping[int, Mapping[str, Value]], gbps: float, **first: Value) -> list[Finding]:
    report = healthy(2, 1)
    rows = [
        replace(row, metrics={**row.metrics, "bandwidth_gbps": (gbps,), **first, **loads.get(node, {})})
        for node, row in enumerate(row for row in report.observations if row.check == "network.pairs")
    ]
    return list(judge_hosts(report, {"network.pairs": rows}, POLICY))


def test_a_slow_link_between_hosts() -> None:
    """Either end that was busy may have slowed it; without a record it is the link."""
    said = [
        [(one.level.value, one.cause.value) for one in _hosts(loads, 0.01)]
        for loads in ({}, {0: BUSY}, {1: BUSY})
    ]

    assert [[("FAIL", "HARDWARE")], [("FAIL", "EVIDENCE")], [("FAIL", "EVIDENCE")]] == said


def test_a_link_that_was_slow_at_first_stays_visible() -> None:
    """Unless a host was busy then."""
    assert [Level.WARN] == [one.level for one in _hosts({}, 3.0, first_bandwidth_gbps=(0.01,))]
    assert [] == _hosts({0: BUSY}, 3.0, first_bandwidth_gbps=(0.01,))


def test_contention_metrics_of_a_quiet_host_are_short() -> None:
    """A fleet's report holds a million observations."""
    quiet = Contention(192, 3.04, 0.004, 0.98, pressure=0.02)

    assert {"host_load": 3.0, "host_taken": 0.0} == quiet.metrics()
    throttled = Contention(2, 25.0, 0.8, 0.0, throttled=0.3)
    assert throttled == Contention.from_metrics(throttled.metrics())


def test_a_value_that_is_missing_stays_missing_on_a_busy_node() -> None:
    """Other work explains a slow value, and none that is not there: the sentence begins with what is missing."""
    found = not_measured(
        "memory", "node-0/rank-0", Unmeasured("copy_gbps", "is missing"), Level.FAIL, remedy="Look."
    )
    loads = RecordedLoads([_row(0, 0.44, BUSY)], APART)
    seen = loads.weighed(found, {"node-0"})

    assert seen.message.startswith("not measured: copy_gbps is missing; node-0 was busy: load 25")
    assert (seen.remedy, seen.unmeasured) == ("Look.", found.unmeasured)
