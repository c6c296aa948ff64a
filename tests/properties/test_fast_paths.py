"""What is judged by whole columns is judged as one by one: the same values, the same refusals, the same findings."""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from checks.documents import decode as decoding
from checks.documents.columns import CheckTable, Columns
from checks.documents.report import NodeReport, ReportFile, dump, dump_plain, load
from checks.facts.builtin import builtin
from checks.judge.completeness import unfit
from checks.judge.rules import apply, prefilter
from checks.judge.rules.values import RuleContext
from checks.judge.verdict import decide
from checks.model import Answer, Declared, Observation, Outcome, Planned, Scope, Value, Verdict
from checks.policy import CheckPolicy, Expect, Over, Overlay, Rule
from checks.probes.kernel.xid_catalogue import NEEDS
from checks.value_types import DecodeError
from tasks.gate_file.references import default_policy
from tests.benchmarks import fleet
from tests.sample_reports import healthy

FAST = settings(max_examples=30)
NUMBERS = st.integers(-(2**70), 2**70) | st.floats() | st.sampled_from([10**400, 0, -0.0, 1.0, True])
SCALARS = st.none() | NUMBERS | st.text(max_size=3) | st.sampled_from(["MEASURED", "OK", "node-0", "<b>"])
ANY = SCALARS | st.lists(SCALARS, max_size=3) | st.dictionaries(st.text(max_size=2), SCALARS, max_size=2)
COLUMN = st.one_of(
    st.lists(NUMBERS, max_size=6), st.lists(SCALARS, max_size=6), st.lists(st.lists(NUMBERS, max_size=3), max_size=4),
    st.lists(st.lists(st.sampled_from([1, 2.5, "a", None]), max_size=2), max_size=5), st.lists(ANY, max_size=6),
)  # fmt: skip
GOOD = json.loads(dump(healthy(2, 2)))
KEYS = sorted(GOOD["checks"]["compute.gemm"])
METRIC_VALUES = st.one_of(
    st.floats(0, 20),
    st.integers(0, 20),
    st.sampled_from([0, 1, 1.0, True, "a", "b", None, 1e305, float("nan")]),
)
METRICS = st.one_of(METRIC_VALUES, st.lists(METRIC_VALUES, min_size=1, max_size=4).map(tuple))


def _decoded(kind: Any, value: Any) -> str:
    try:
        return repr(decoding.decode(kind, value))
    except DecodeError as error:
        return f"refused: {error}"


def _one_by_one(kind: Any, value: Any) -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decoding, "column", lambda kind, items: None)
        return _decoded(kind, value)


@FAST
@given(st.sampled_from(KEYS), COLUMN)
def test_a_column_is_read_as_its_elements_are(key: str, column: list[Any]) -> None:
    """Whatever stands in it: taken alike, or refused in the same words."""
    check = dict(GOOD["checks"]["compute.gemm"])
    check[key] = {"m": column} if key == "metrics" else column

    assert _one_by_one(Columns, check) == _decoded(Columns, check)


@FAST
@given(
    st.lists(st.dictionaries(st.sampled_from([*GOOD["nodes"][0], "surprise"]), ANY, min_size=5), max_size=3)
)
def test_tables_are_read_as_each_of_them_is(tables: list[dict[str, Any]]) -> None:
    """Also with keys that are missing, unknown, or of another type."""
    nodes = [{**GOOD["nodes"][0], **table} for table in tables]
    document = {**GOOD, "nodes": nodes}

    assert _one_by_one(ReportFile, document) == _decoded(ReportFile, document)


def test_a_node_report_is_read_as_its_rows_are() -> None:
    """Rows of unlike metrics, by columns and one by one."""
    report = healthy(1, 2)
    node = NodeReport(
        1, "g", "t", report.profile, report.declared, report.plan, report.nodes[0], tuple(report.observations)
    )
    value = json.loads(dump_plain(node))

    assert _one_by_one(NodeReport, value) == _decoded(NodeReport, value)


H100 = RuleContext(builtin().instances["p5.48xlarge"], facts=builtin())
BOUNDS = st.sampled_from([
    {"fail_below": 5.0}, {"warn_below": 8.0, "fail_below": 2.0}, {"fail_above": 12.0}, {"warn_above": 9.0, "fail_below": 1.0},
])  # fmt: skip
RATIOS = st.sampled_from([{"fail_below": 0.8}, {"warn_below": 0.9, "fail_below": 0.5}, {"fail_above": 1.2}])
RULES = st.one_of(
    st.builds(lambda b: Rule("m", "s", **b), BOUNDS),
    st.builds(lambda b: Rule("m", "s", Over.CLUSTER, **b), BOUNDS),
    st.builds(lambda o, b, d: Rule("m", "s", o, min_peers=2, deviations=d, **b),
              st.sampled_from([Over.PEERS, Over.NODE, Over.FLEET, Over.SLOWEST]), RATIOS, st.sampled_from([0.0, 2.0])),
    st.builds(lambda v: Rule("m", "s", equals=v), st.sampled_from([0, 1, True, 1.0, "a"])),
    st.just(Rule("m", "s", Over.CLUSTER, same=True)),
    st.just(Rule("m", "s", uniform=True)),
)  # fmt: skip


@FAST
@given(RULES, st.lists(METRICS, min_size=1, max_size=9), st.booleans(), METRICS, st.integers(1, 9))
def test_a_rule_finds_by_columns_what_it_finds_row_by_row(
    rule: Rule, values: list[Value | None], ranks: bool, usual: Value | None, alike: int
) -> None:
    """Numbers, texts, arrays, holes and NaN, of nodes or ranks; most of them alike, as in a fleet."""
    values = values[:1] + [usual] * alike if alike > 4 else values
    subjects = [f"node-{i // 2}/rank-{i}" if ranks else f"node-{i}" for i in range(len(values))]
    shown: list[dict[str, Value]] = [{} if value is None else {"m": value} for value in values]
    rows = tuple(
        Observation("c", subject, Outcome.MEASURED, 1.0, metrics, evidence=f"e{subject}")
        for subject, metrics in zip(subjects, shown, strict=True)
    )
    known = RuleContext(declared=Declared("cpu", len(rows), 0, 2))
    alike_by_columns("c", CheckPolicy(rules=(rule,)), rows, known)


def alike_by_columns(check: str, line: CheckPolicy, rows: Sequence[Observation], known: RuleContext) -> None:
    """Columns and rows have the same findings."""
    slow = apply.apply(check, line, rows, len(rows), known)
    fast = apply.apply(check, line, CheckTable.collect(check, rows), len(rows), known)

    assert sorted(map(repr, slow)) == sorted(map(repr, fast))


GIB = 1 << 30
LABELS = st.sampled_from(
    [(), ("bf16",), ("bf16", "fp8"), (GIB,), (GIB, 2 * GIB), (float(GIB),), ("GPU 0", "GPU 0")]
)
# What an H100 does in such units, what none can, what is slow, and what is no number.
HEALTHY = st.sampled_from([1.0, 1.0, 0.99, 1.01])
NEAR = st.sampled_from([0.7, 0.85, 1.15, 1.3])
ODD = st.sampled_from([1e6, 100.0, 600.0, 0, -1.0, 1e301, None, True, "a"]) | st.floats(1e-3, 5e3)


@st.composite
def _shown(draw: st.DrawFn) -> list[tuple[Value | None, Value]]:
    """What many show that were measured alike, with an odd number among them, or labels, or a whole row."""
    labels = draw(LABELS)
    count = len(labels) or 1
    usual = draw(st.sampled_from([440.0, 700]))
    arrays = st.lists(HEALTHY.map(lambda share: share * usual), min_size=count, max_size=count)
    many: list[list[Any]] = draw(st.lists(arrays, min_size=2, max_size=10))
    if draw(st.booleans()):
        row, place = many[draw(st.integers(0, len(many) - 1))], draw(st.integers(0, count - 1))
        row[place] = draw(ODD | NEAR.map(lambda share: share * usual))
    shown: list[Any] = [(tuple(values) if labels else values[0], labels) for values in many]
    spoilt = draw(st.sampled_from(["", "", "type", "labels", "row"]))
    if spoilt == "type" and labels and type(labels[0]) is int:
        shown.append((shown[0][0], tuple(map(float, labels))))
    elif spoilt == "labels":
        shown.append((shown[0][0], tuple(f"other {label}" for label in labels)))
    elif spoilt == "row":
        shown.append((draw(ODD | st.lists(ODD, max_size=3).map(tuple)), draw(LABELS)))
    return shown


HELD = st.builds(
    lambda kind, over, bounds, deviations: replace(kind, over=over, min_peers=2, deviations=deviations, **bounds),
    st.sampled_from([
        Rule("m", "s", expect=Expect.GEMM, at="l", each="l"), Rule("m", "s", expect=Expect.COLLECTIVE, at="l"),
        Rule("m", "s", expect=Expect.MEMORY),
    ]),
    st.sampled_from([Over.EXPECTED, Over.EXPECTED, Over.NODE, Over.FLEET, Over.PEERS]), RATIOS, st.sampled_from([0.0, 2.0]),
)  # fmt: skip


BY_SIZE = Rule("m", "s", Over.EXPECTED, expect=Expect.COLLECTIVE, at="l", min_peers=2, warn_below=0.9)


@settings(FAST, max_examples=60)
@example(BY_SIZE, [((440.0,), (GIB,))] * 3 + [((1e6,), (GIB,))], 0)
@example(replace(BY_SIZE, over=Over.NODE), [((440.0,), (GIB,))] * 3 + [((370.0,), (GIB,))], 4)
@example(replace(BY_SIZE, over=Over.FLEET), [((440.0,), (GIB,))] * 4, 4)
@given(HELD, _shown(), st.sampled_from([0, 2, 4]))
def test_labelled_arrays_are_judged_by_columns_as_row_by_row(
    rule: Rule, shown: list[tuple[Value | None, Value]], ranks: int
) -> None:
    """Against what the facts expect of an H100, and with each other: sizes, precisions, holes, what is impossible."""
    rows = []
    for i, pair in enumerate(shown):
        subject = f"node-{i // ranks}/rank-{i}" if ranks else f"node-{i}"
        metrics = {name: item for name, item in zip("ml", pair, strict=True) if item not in (None, ())}
        rows.append(Observation("nccl.intra_node", subject, Outcome.MEASURED, 1.0, metrics))
    known = replace(H100, declared=Declared("p5.48xlarge", len(rows), 8, 8))
    alike_by_columns("nccl.intra_node", CheckPolicy(rules=(rule,)), rows, known)


@pytest.mark.parametrize("overlay", list(Overlay))
@pytest.mark.parametrize(
    "change", [{}, {"incidents": 1}, {"act": (0, 2)}, {"gpus": ("a",)}, {"incidents": False}]
)
def test_quiet_kernels_are_judged_by_columns_as_row_by_row(
    overlay: Overlay, change: dict[str, Value]
) -> None:
    """A cloud's overlay says nothing of nodes without an incident, and still sees the one that lists none of its own."""
    line = replace(default_policy("p5.48xlarge")[1].checks["kernel.xid"], overlay=overlay)
    calm: dict[str, Value] = dict.fromkeys((rule.metric for rule in line.rules), 0)
    calm.update({"gpus": ("a", "b"), "incidents": 0, **{need.value: (0, 0) for need in NEEDS}})
    shown = [calm, calm, {**calm, **change}]
    rows = [Observation("kernel.xid", f"node-{i}", Outcome.MEASURED, 1.0, m) for i, m in enumerate(shown)]
    alike_by_columns("kernel.xid", line, rows, H100)


def test_a_column_that_subjects_share_is_read_once_and_one_odd_value_is_still_seen() -> None:
    """Equal values of other types are other objects; a number among texts is looked at."""
    shared, odd = ("GPU 0", "GPU 1"), (1e12,)
    subjects = [f"node-{index}" for index in range(4)]

    def table(*values: Value) -> CheckTable:
        rows = [
            Observation("gpu.x", subject, Outcome.MEASURED, 1.0, {"names": value})
            for subject, value in zip(subjects, values, strict=True)
        ]
        return CheckTable.collect("gpu.x", rows)

    planned = Planned("gpu.x", Scope.NODE, ("names",))

    assert (shared,) == table(shared, shared, shared, shared).objects("names")
    assert [1, True] == [*table(1, True, 1, True).objects("names")]
    assert frozenset() == unfit(planned, table(shared, shared, shared, shared))
    assert {2} == unfit(planned, table(shared, shared, (-1.0,), odd))


def test_a_long_column_is_searched_stretch_by_stretch() -> None:
    """The odd ones are found wherever they lie, and nothing else is."""
    column: list[Value | None] = [1.0] * 1000
    for place in (0, 255, 256, 999):
        column[place] = 0.0
    rows = tuple(
        Observation("c", f"node-{i:04}", Outcome.MEASURED, 1.0, {"m": v or 0.0}) for i, v in enumerate(column)
    )
    found = prefilter.suspects(Rule("m", "s", fail_below=0.5), CheckTable.collect("c", rows), RuleContext())

    assert ["node-0000", "node-0255", "node-0256", "node-0999"] == [row.subject for row in found]


def _judged(made: fleet.Fleet) -> tuple[int, Verdict]:
    """How many calls of functions it takes to read and judge the fleet, and its verdict."""
    data, calls = dump(made.report), itertools.count()
    sys.setprofile(lambda frame, event, argument: next(calls) and None)
    try:
        verdict = decide(load(data), made.policy, builtin())
    finally:
        sys.setprofile(None)
    return next(calls), verdict


@pytest.mark.parametrize(("form", "nodes"), [("values", 40), ("full", 20)])
def test_a_fleet_is_judged_in_a_time_that_grows_with_it(form: str, nodes: int) -> None:
    """Four times the nodes, less than four times the calls (some are made once), and the faulty ones are named: they alone."""
    calls = {}
    for size in (nodes, 4 * nodes):
        made = fleet.fleet(form, size)
        calls[size], verdict = _judged(made)
        assert {*made.bad} == {finding.subject.partition("/")[0] for finding in verdict.findings}
        assert Answer.NO_GO is verdict.answer

    assert calls[4 * nodes] < 4 * calls[nodes]
