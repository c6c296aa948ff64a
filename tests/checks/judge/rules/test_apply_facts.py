"""Rules that hold to the instance table, label their elements, or look within one node."""

from __future__ import annotations

import pytest

from checks.catalog import CATALOG
from checks.documents.columns import CheckTable
from checks.facts.builtin import builtin
from checks.facts.instances import Instance, is_of_model
from checks.judge.rules.apply import apply
from checks.judge.rules.prefilter import suspects
from checks.judge.rules.values import RuleContext
from checks.model import Cause, Finding, Observation, Outcome, Value
from checks.policy import CheckPolicy, Rule
from tests.sample_reports import MADE_UP

H100 = Instance(8, "H100 80GB HBM3", MADE_UP, efa_devices=32, nvlinks=18, gpu_memory_mib=81559)
LABELS = ("GPU 0", "GPU 1", "GPU 2")


def _found(rule: Rule, value: Value, known: RuleContext) -> list[Finding]:
    row = Observation("gpu.nvlink", "node-0", Outcome.MEASURED, 1.0, {"m": value, "gpus": LABELS})
    return list(apply("gpu.nvlink", CheckPolicy(rules=(rule,)), [row], 1, known))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ((18, 18, 18), []),
        ((18, 17, 18), [("FAIL", "HARDWARE", "GPU 1: m is 17, but the instance type has 18")]),
        ((18, 18, 20), [("WARN", "CONFIGURATION", "GPU 2: m is 20, but the instance table has 18")]),
        ((18, None, 18), [("FAIL", "EVIDENCE", "not measured: GPU 1: m has no value")]),
    ],
)
def test_a_fact_is_what_each_element_must_reach(value: Value, expected: list[tuple[str, str, str]]) -> None:
    """Less is the part's fault, more is the declaration's, and a hole is no evidence."""
    found = _found(Rule("m", "table", fact="nvlinks", each="gpus"), value, RuleContext(H100))

    assert [(f.level.value, f.cause.value, f.message) for f in found] == expected


def test_a_fact_that_the_table_lacks_is_said() -> None:
    """No expectation is no pass: a WARN, cause EVIDENCE, without a type and for a type without the column."""
    rule = Rule("m", "table", fact="pcie_width")
    for known in (RuleContext(), RuleContext(H100)):
        [finding] = _found(rule, (16, 16, 16), known)
        assert (finding.level.value, finding.cause) == ("WARN", Cause.EVIDENCE)


def test_a_policy_may_accept_that_the_table_lacks_a_fact() -> None:
    """Only of a type that the table has: without one nothing was compared."""
    rule = Rule("m", "table", fact="pcie_width", accept_unknown=True)

    assert [] == _found(rule, (16, 16, 16), RuleContext(H100))
    assert ["WARN"] == [finding.level.value for finding in _found(rule, (16, 16, 16), RuleContext())]


def test_a_tolerance_is_a_fraction_of_the_fact() -> None:
    """Within three percent on either side is the same memory."""
    rule = Rule("m", "table", fact="gpu_memory_mib", tolerance=0.03)

    assert not _found(rule, (81559, 80000, 83000), RuleContext(H100))
    assert [f.level.value for f in _found(rule, (81559, 79000, 85000), RuleContext(H100))] == ["FAIL", "WARN"]


def test_an_odd_element_within_the_node_is_named() -> None:
    """The usual value is the node's own majority."""
    [finding] = _found(Rule("m", "one image", uniform=True, each="gpus"), ("a", "b", "a"), RuleContext())

    assert finding.message == "m differs within the node: GPU 1 is b; the other 2 are a"
    assert not _found(Rule("m", "one image", uniform=True), ("a", "a", "a"), RuleContext())


def test_a_uniform_array_with_a_hole_is_not_uniform() -> None:
    """What was not read may differ."""
    [finding] = _found(Rule("m", "one image", uniform=True), (1, None, 1), RuleContext())

    assert (finding.level.value, finding.cause) == ("FAIL", Cause.EVIDENCE)


def test_equals_names_the_elements() -> None:
    """Which GPU, by its label."""
    [finding] = _found(Rule("m", "s", equals=0, each="gpus"), (0, 3, 1), RuleContext())

    assert finding.message == "m: GPU 1 is 3 and GPU 2 is 1, it must be 0"
    assert finding.elements == ("GPU 1", "GPU 2")


def test_a_fault_in_words_stands_behind_its_element() -> None:
    """ "GPU 1 is memory: error 44" is no sentence."""
    [finding] = _found(Rule("m", "s", equals="", each="gpus"), ("", "memory: error 44", ""), RuleContext())

    assert finding.message == "m: GPU 1: memory: error 44"
    assert finding.elements == ("GPU 1",)


def test_only_a_documented_absence_is_no_gap() -> None:
    """A metric that the model does not have may be null; what is there is judged all the same, and proves that the rest is missing."""
    rule, known = Rule("m", "s", equals=0, each="gpus"), RuleContext(H100, frozenset({"m"}))

    assert not _found(rule, (None, None, None), known)
    assert _found(rule, (None, 2, None), known)[-1].message == "m: GPU 1 is 2, it must be 0"
    for context in (known, RuleContext(H100)):
        assert [f.cause for f in _found(rule, (None, 0, 0), context)] == [Cause.EVIDENCE]


def test_every_fact_has_a_source() -> None:
    """A row without one is a rumour; a model that no type has would excuse nothing."""
    facts = builtin()
    models = {instance.gpu for instance in facts.instances.values()}

    assert all(instance.provenance.source.strip() for instance in facts.instances.values())
    assert all(row.provenance.source.strip() for row in facts.not_applicable)
    assert all(any(is_of_model(m, row.model) for m in models) for row in facts.not_applicable)
    assert len(set(facts.not_applicable)) == len(facts.not_applicable)


@pytest.mark.parametrize(
    ("name", "model", "same"),
    [
        ("A100-SXM4-40GB", "A100", True),
        ("H100 80GB HBM3", "H100", True),
        ("L4", "L4", True),
        ("L40S", "L4", False),
        ("T4G", "T4", False),
        ("GB200", "B200", False),
        ("", "T4", False),
    ],
)
def test_a_model_is_whole_words(name: str, model: str, same: bool) -> None:
    """A row for one model excuses no other whose name begins alike."""
    assert is_of_model(name, model) is same


def test_facts_list_only_declared_metrics_as_not_applicable() -> None:
    """A row for nothing is a spelling mistake that excuses nothing, or one day something else."""
    metrics = {(check.name, metric) for check in CATALOG for metric in check.metrics}

    assert not [row for row in builtin().not_applicable if (row.check, row.metric) not in metrics]


@pytest.mark.parametrize(
    ("value", "odd"), [((700.0, 700.0), 0), ((0.0, -0.0), 1), ((0.0, 0.0), 1), ((1.0, 1), 1), ((1.5, 2.5), 1)]
)
def test_arrays_of_equal_numbers_need_no_second_look(value: tuple[float, ...], odd: int) -> None:
    """A row is looked at again unless all its numbers certainly have the same text, as 0.0 and -0.0 have not."""
    rows = CheckTable.collect("x.y", [Observation("x.y", "node-1", Outcome.MEASURED, 1.0, {"m": value})])

    assert odd == len(suspects(Rule("m", "one image", uniform=True), rows, RuleContext()))
