"""The state of every machine: what makes it proven, what keeps a finding open, and that nothing else is called health."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checks.judge.trend.numbers import GateNumbers, NodeIdentity, NodeNumbers
from checks.model import Cause, Finding, Level, Profile
from tasks.machines.base import Holder, Machine, ServiceState
from tasks.reports.fleet.engine_view import Disagreement, MachineRow, OurState
from tasks.reports.fleet.fleet import Fleet, FleetNode, NodeState
from tasks.reports.fleet.states import HOUR_S, fleet_of
from tasks.reports.fleet.text import answer_line, fleet_code, fleet_document, fleet_text, node_text
from tasks.store.node_rows import GateNodes, NodeRow, Standing
from tests.benchmarks.fleet_history import made_up
from tests.tasks.kept_gates import known_of

NOW = 1_795_000_000.0
DAY_S = 24 * HOUR_S
ALL = ("compute.gemm", "dcgm.diag", "system.clock")
SILENT = Finding(Level.FAIL, Cause.EVIDENCE, "report", "a", "sent no report", is_predicate=True)
_SUMS = Finding(Level.FAIL, Cause.HARDWARE, "compute.gemm", "a/rank-3", "computes wrong sums", metric="wrong")
GEMM = replace(_SUMS, is_predicate=True)
_TIME = replace(SILENT, level=Level.WARN, cause=Cause.CONFIGURATION, message="is not synchronised")
CLOCK = replace(_TIME, check="system.clock", metric="synchronised")


def utc(at: float) -> str:
    """As records have it."""
    from datetime import UTC, datetime

    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def node(
    name: str,
    standing: Standing = Standing.PROVEN,
    findings: Sequence[Finding] = (),
    machine: str | None = "",
    driver: str = "570",
) -> NodeRow:
    """A node of a machine that is called as its name unless it says otherwise; None: without a report."""
    identity = None
    if machine is not None:
        identity = NodeIdentity((f"GPU {machine or name}",), (machine or name,), {"driver": driver})
    return NodeRow(name, standing, 0.0, 0, tuple(findings), identity)


def gate(
    age_s: float,
    *nodes: NodeRow,
    checks: Sequence[str] = ALL,
    cluster: str = "c",
    profile: Profile = Profile.QUICK,
) -> GateNodes:
    """A gate that was judged so long ago; nodes without a report measured nothing."""
    at = NOW - age_s
    name = f"g-{age_s:.0f}"
    sets = (tuple(checks), ())
    rows = tuple(replace(row, measured_at=at, checks=0 if row.identity else 1) for row in nodes)
    known = tuple(NodeNumbers(row.node, row.identity, ()) for row in nodes if row.identity)
    numbers = GateNumbers(name, name, utc(at), "alone", (), known, cluster=cluster)
    return GateNodes(1, name, utc(at), profile, "p", sets, rows, (), numbers)


def fleet(*gates: GateNodes, fresh_s: float = DAY_S, rows: dict[str, MachineRow] | None = None) -> Fleet:
    """What these gates say now."""
    return fleet_of(known_of(gates), NOW, fresh_s, views=rows)


def only(found: Fleet) -> FleetNode:
    """The one machine."""
    (one,) = found.nodes
    return one


@pytest.mark.parametrize("age_s", [DAY_S + 60, -HOUR_S])
def test_an_old_proof_and_one_of_the_future_prove_nothing(age_s: float) -> None:
    """Never green: the age of a proof must be known, and short."""
    found = fleet(gate(age_s, node("a")))

    assert (NodeState.UNPROVEN, 3) == (only(found).state, fleet_code(found))


def test_a_name_that_another_node_had_in_a_smaller_gate_replaces_nobody() -> None:
    """On Kubernetes the nodes of each gate are counted from node-0 on; only the engine's name says which they are."""
    first, second = (replace(node(f"node-{at}", machine=f"m{at}"), engine_node=f"ip-{at}") for at in (0, 1))
    found = fleet(gate(3600, first, second), gate(1800, replace(second, node="node-0")))

    assert ((), ["ip-0", "ip-1"]) == (found.replaced, sorted(one.engine_node for one in found.nodes))


def test_the_answer_is_first_and_the_worst_node_comes_next() -> None:
    """One of each kind."""
    found = fleet(
        gate(9 * DAY_S, node("old"), node("a"), node("b"), node("c"), node("d")),
        gate(HOUR_S, node("a"), node("b", Standing.CONDEMNED, [replace(GEMM, subject="b/rank-1")]),
             node("c", Standing.DOUBTFUL, [replace(CLOCK, subject="c")]), node("d", Standing.CANNOT_TELL, [SILENT], None)),
    )  # fmt: skip

    assert ["b", "d", "c", "old", "a"] == [one.name for one in found.nodes]
    assert answer_line(found) == (
        "1 of 5 nodes proven within 24 h; 1 condemned; 1 cannot tell; 1 doubtful; 1 unproven (the oldest proof is 9 days old)"
    )
    assert fleet_text(found).startswith(answer_line(found))
    assert 1 == fleet_code(found)


def test_a_gate_that_measures_less_answers_no_finding() -> None:
    """A quick GO after a deep FAIL: the machine stays condemned until that check measures it again."""
    bad = node("a", Standing.CONDEMNED, [replace(GEMM, check="dcgm.diag")])
    deep = gate(3 * HOUR_S, bad, profile=Profile.DEEP)
    quick = gate(HOUR_S, node("a"), checks=("compute.gemm", "system.clock"))
    again = gate(60, node("a"), profile=Profile.DEEP)

    before, after = only(fleet(deep, quick)), only(fleet(deep, quick, again))
    assert NodeState.CONDEMNED is before.state
    assert ["dcgm.diag"] == [one.finding.check for one in before.open]
    assert (NodeState.PROVEN, ()) == (after.state, after.open)


def test_a_warning_is_a_doubt_until_its_check_passes() -> None:
    """Whatever else passes meanwhile."""
    warned = gate(3 * HOUR_S, node("a", Standing.DOUBTFUL, [CLOCK]))
    other = gate(HOUR_S, node("a"), checks=("compute.gemm",))

    assert NodeState.DOUBTFUL is only(fleet(warned, other)).state
    assert NodeState.PROVEN is only(fleet(warned, gate(HOUR_S, node("a")))).state


def test_an_accepted_gap_leaves_a_node_proven() -> None:
    """A policy that does without dcgmi gives such a node its GO: it is proven, and the gap is listed."""
    gap = replace(SILENT, level=Level.WARN, check="dcgm.policy", message="tool not installed on this node")
    found = only(fleet(gate(HOUR_S, node("a", Standing.PROVEN, [gap]))))

    assert (NodeState.PROVEN, ["dcgm.policy"]) == (found.state, [one.finding.check for one in found.open])


def test_missing_evidence_ends_with_the_next_proof() -> None:
    """It is no fault of the machine."""
    silent = gate(3 * HOUR_S, node("a", Standing.CANNOT_TELL, [SILENT], None))

    assert NodeState.CANNOT_TELL is only(fleet(gate(4 * HOUR_S, node("a")), silent)).state
    assert NodeState.PROVEN is only(fleet(silent, gate(HOUR_S, node("a")))).state


def test_a_check_that_could_not_measure_ends_with_the_next_proof_as_well() -> None:
    """A gate that plans less proves the node for what it plans; a doubtful one proves nothing."""
    lacking = replace(SILENT, check="dcgm.diag", subject="a", message="was not measured")
    deep = gate(3 * HOUR_S, node("a", Standing.CANNOT_TELL, [lacking]), checks=("system.clock",))
    proof = gate(HOUR_S, node("a"), checks=("compute.gemm",))
    doubt = gate(HOUR_S, node("a", Standing.DOUBTFUL, [CLOCK]), checks=("compute.gemm",))

    assert (NodeState.PROVEN, ()) == (only(fleet(deep, proof)).state, only(fleet(deep, proof)).open)
    assert ["dcgm.diag", "system.clock"] == sorted(one.finding.check for one in only(fleet(deep, doubt)).open)


def test_numbers_that_move_are_counted_and_named() -> None:
    """Of each machine, and of what the nodes reach together."""
    gates = list(made_up(8, 60, NOW))
    falling = []
    for place, one in enumerate(gates):
        together = (100.0 if place < 40 else 50.0, *one.numbers.together[1:])
        falling.append(replace(one, numbers=replace(one.numbers, together=together)))
    found = fleet_of(known_of(falling), NOW, DAY_S)
    trends = {one.name: one.trend for one in found.nodes}

    pair = (trends["node-0000"], trends["node-0003"])
    assert [(37, 0, 0), (0, 37, 0)] == [(len(one.degrading), one.steady, one.unknown) for one in pair]
    assert ["all together (a group)"] == list(found.groups)
    assert "all together (a group): area.check0 value_gbps" in fleet_text(found)
    assert "1 gets worse" in answer_line(found) and 1 == fleet_code(found)
    assert {} == fleet_of(known_of(gates), NOW, DAY_S).groups


def test_a_node_that_never_reported_is_there() -> None:
    """Declared, and nobody knows it."""
    silent = node("b", Standing.CANNOT_TELL, [replace(SILENT, subject="b")], None)
    found = fleet(gate(HOUR_S, node("a"), silent))

    states = [(one.name, one.state, one.proof_age_s) for one in found.nodes]
    assert [("b", NodeState.CANNOT_TELL, None), ("a", NodeState.PROVEN, HOUR_S)] == states


def test_a_silent_node_is_the_machine_that_had_its_name() -> None:
    """One row, which says since when it is proven no more."""
    silent = gate(HOUR_S, node("a", Standing.CANNOT_TELL, [SILENT], None))
    one = only(fleet(gate(5 * HOUR_S, node("a", machine="x")), silent))

    assert (NodeState.CANNOT_TELL, 2, 5 * HOUR_S) == (one.state, one.count, one.proof_age_s)


def test_a_replaced_machine_counts_for_nothing() -> None:
    """Its name belongs to another one; what it was found to be is still listed."""
    bad = gate(5 * HOUR_S, node("a", Standing.CONDEMNED, [GEMM], machine="x"))
    found = fleet(bad, gate(HOUR_S, node("a", machine="y")))

    assert (NodeState.PROVEN, 0) == (only(found).state, fleet_code(found))
    assert [("a", NodeState.CONDEMNED)] == [(one.name, one.state) for one in found.replaced]
    assert "1 machine was replaced" in fleet_text(found)


BARE = NodeRow("a", Standing.PROVEN, 0.0, 0, (), NodeIdentity())


@pytest.mark.parametrize(
    ("later", "states", "replaced"),
    [
        ([[BARE]], {"a": NodeState.CONDEMNED}, 0),
        ([[BARE], [node("a", machine="y")]], {"a": NodeState.PROVEN}, 1),
        ([[BARE], [node("a", machine="y")], [BARE]], {"a": NodeState.PROVEN}, 1),
        ([[BARE, node("b", machine="x")]], {"a": NodeState.PROVEN, "b": NodeState.CONDEMNED}, 0),
    ],
)
def test_a_report_without_ids_is_of_the_machine_that_had_its_name(
    later: Sequence[Sequence[NodeRow]], states: dict[str, NodeState], replaced: int
) -> None:
    """Ids that could not be read make no other machine; those of another machine do."""
    rounds = ([node("a", Standing.CONDEMNED, [GEMM], machine="x")], *later)
    measured = [("compute.gemm",), *[("system.clock",)] * len(later)]
    gates = [gate((9 - at) * HOUR_S, *own, checks=measured[at]) for at, own in enumerate(rounds)]
    found = fleet(*gates)

    assert (states, replaced) == ({one.name: one.state for one in found.nodes}, len(found.replaced))


def test_machine_name_in_two_clusters_is_two_machines() -> None:
    """Even if nothing but the name is known."""
    found = fleet(gate(2 * HOUR_S, BARE), gate(HOUR_S, BARE, cluster="other"))

    assert ["c", "other"] == sorted(one.cluster for one in found.nodes)


def test_a_machine_that_no_gate_names_any_more_is_counted_apart() -> None:
    """It is in the first line, and neither proven nor a reason to refuse for ever; a day earlier it still is one."""
    old, new = node("old", Standing.CONDEMNED, [GEMM]), gate(HOUR_S, node("a"))
    found, before = fleet(gate(91 * DAY_S, old), new), fleet(gate(89 * DAY_S, old), new)

    assert [["a"], ["old"]] == [[one.name for one in nodes] for nodes in (found.nodes, found.unseen)]
    assert 0 == fleet_code(found)
    assert answer_line(found) == "1 of 1 node proven within 24 h; 1 more not named by any gate for 90 days"
    assert "Not named by any gate for 90 days: old" in fleet_text(found)
    assert (1, 0) == (fleet_code(before), len(before.unseen))


def test_a_report_without_a_time_hides_no_node() -> None:
    """Nothing is known of its course, and the node is there."""
    bad = gate(HOUR_S, node("a"))
    bad = replace(bad, numbers=replace(bad.numbers, measured_at="yesterday"))

    assert NodeState.PROVEN is only(fleet(bad)).state


def machine(service: ServiceState) -> MachineRow:
    """What the engine says of a node without acts."""
    return MachineRow("a", Machine("a", service, Holder.NOBODY, "IDLE"), OurState.UNTOUCHED, None)


@pytest.mark.parametrize(
    ("standing", "service", "differs"),
    [
        (Standing.CONDEMNED, ServiceState.SERVING, Disagreement.CONDEMNED),
        (Standing.PROVEN, ServiceState.OUT, Disagreement.PROVEN),
        (Standing.PROVEN, ServiceState.SERVING, None),
        (Standing.CONDEMNED, ServiceState.OUT, None),
        (Standing.PROVEN, ServiceState.UNKNOWN, None),
    ],
)
def test_the_engine_s_state_is_beside_ours(
    standing: Standing, service: ServiceState, differs: Disagreement | None
) -> None:
    """Where the two contradict each other, that is said."""
    own = [GEMM] if standing is Standing.CONDEMNED else []
    found = fleet(gate(HOUR_S, node("a", standing, own)), rows={"a": machine(service)})

    assert differs is only(found).differs
    assert ("differs from the engine" in answer_line(found)) is (differs is not None)
    assert service.value in fleet_text(replace(found, has_reply=True))


def test_fleet_headline_states_that_it_is_not_complete() -> None:
    """And keeps a fleet from being proven."""
    found = replace(fleet(gate(HOUR_S, node("a"))), problems=("a gate is broken",))

    assert "may be incomplete, because 1 record could not be read" in fleet_text(found).splitlines()[0]
    assert 3 == fleet_code(found)
    silent = replace(found, problems=("it is silent",), has_reply=False)
    assert 3 == fleet_code(silent)
    assert answer_line(silent).endswith("; this list may be incomplete, because the engine did not answer")


def test_no_node_is_no_health() -> None:
    """An empty fleet is not a proven one."""
    assert (3, "No gate has tested a node yet") == (fleet_code(fleet()), answer_line(fleet()))


def test_the_document_has_every_key_and_the_same_numbers() -> None:
    """As the text says."""
    found = fleet(gate(9 * DAY_S, node("old")), gate(HOUR_S, node("a", Standing.CONDEMNED, [GEMM])))
    document = fleet_document(found)

    assert answer_line(found) == document["said"]
    assert {"condemned": 1, "cannot_tell": 0, "doubtful": 0, "unproven": 1, "proven": 0} == document["counts"]
    assert "computes wrong sums" in node_text(found.nodes[0], found)


STANDINGS = st.sampled_from((Standing.PROVEN, Standing.DOUBTFUL, Standing.CONDEMNED, Standing.CANNOT_TELL))
ROUNDS = st.lists(st.tuples(STANDINGS, st.sets(st.sampled_from(ALL), min_size=1)), min_size=1, max_size=8)


@settings(max_examples=200)
@given(ROUNDS, st.data())
def test_without_a_proof_nothing_is_ever_proven(
    rounds: list[tuple[Standing, set[str]]], data: st.DataObject
) -> None:
    """Whatever gates there were: a proven node has a fresh proof as its newest word. A proof that is taken away helps nobody."""
    found = {Standing.CONDEMNED: (GEMM,), Standing.DOUBTFUL: (CLOCK,), Standing.CANNOT_TELL: (SILENT,)}
    gates = []
    for place, (standing, checks) in enumerate(rounds):
        row = node("a", standing, found.get(standing, ()))
        gates.append(gate((len(rounds) - place) * HOUR_S, row, checks=sorted(checks)))
    made = only(fleet(*gates))
    proofs = [place for place, (standing, _) in enumerate(rounds) if standing is Standing.PROVEN]

    assert (made.last_proof is not None) is bool(proofs)
    if made.state is NodeState.PROVEN:
        assert rounds[-1][0] is Standing.PROVEN and not made.open
    if proofs and len(gates) > 1:
        gone = data.draw(st.sampled_from(proofs))
        left = only(fleet(*(one for place, one in enumerate(gates) if place != gone)))
        assert left.state.rank <= made.state.rank


@pytest.mark.parametrize(("age_h", "state"), [(5, NodeState.PROVEN), (30, NodeState.UNPROVEN)])
def test_a_gate_with_certified_checks_makes_no_proof_younger(age_h: int, state: NodeState) -> None:
    """The proof is the gate that measured everything, and grows old."""
    certified = gate(HOUR_S, node("a", Standing.CERTIFIED), checks=("system.clock",))
    found = only(fleet(gate(age_h * HOUR_S, node("a")), certified))

    assert state is found.state
    assert found.last_proof is not None
    assert abs(found.last_proof.measured_at - (NOW - age_h * HOUR_S)) < 60
