"""What launching with a finding would lose: the formulas by hand, and what is never made up."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checks.catalog import CATALOG
from checks.facts.failures import Fault, ValueSpan, builtin_failures
from checks.facts.prices import Purchase
from checks.judge.cost.cost import NOTHING_SAID, Cost, CostTerms, cost
from checks.judge.cost.failure_model import family_of, fault_of, lost_per_failure, lost_to_straggler
from checks.model import CLUSTER, Cause, Declared, Finding, Level
from tests.sample_reports import healthy, verdict_of

DECLARED = Declared("p5.48xlarge", 32, 8, 8)
TERMS = CostTerms(hours=72, checkpoint_hours=1)
PASSED = verdict_of(healthy())


def _finding(
    check: str = "gpu.ecc",
    message: str = "dram_uncorrected_volatile: GPU 1 is 3, it must be 0",
    subject: str = "node-1",
    level: Level = Level.FAIL,
    cause: Cause = Cause.HARDWARE,
    metric: str = "",
) -> Finding:
    return Finding(level, cause, check, subject, message, metric=metric)


def _cost(*findings: Finding, terms: CostTerms = TERMS) -> Cost:
    return cost(replace(PASSED, findings=findings), DECLARED, terms, builtin_failures(), 0.25)


def test_lost_per_failure_matches_the_sum_for_32_p5_nodes() -> None:
    """10 min to see it, 15 min to start again, half an hour done twice: 234.7 GPU-hours, 2,884 USD at 98.32 a node."""
    lost = lost_per_failure(256, ValueSpan(1 / 6, 1 / 6), ValueSpan(0.25, 0.25), checkpoint_hours=1)

    assert (lost.low, lost.high) == pytest.approx((234.67, 234.67), abs=0.01)
    assert lost.low * 98.32 / 8 == pytest.approx(2884, abs=1)


@pytest.mark.parametrize(("nodes", "usd"), [(4, 63), (16, 253), (64, 1013)])
def test_cost_of_checking_matches_the_sagemaker_price(nodes: int, usd: float) -> None:
    """At SageMaker's price of a p5.48xlarge."""
    terms = replace(TERMS, purchase=Purchase.SAGEMAKER)
    made = cost(PASSED, replace(DECLARED, nodes=nodes), terms, builtin_failures(), 0.25)

    assert made.checking is not None
    assert made.usd(made.checking) == pytest.approx(usd, abs=0.5)


def test_a_straggler_is_waited_for_by_all() -> None:
    """A tenth of 256 GPUs for a day."""
    assert lost_to_straggler(256, 24, ValueSpan(0.1, 0.1)).low == pytest.approx(614.4)


def test_a_crash_by_hand() -> None:
    """256 x (0..10 min + 15..68 min + 30 min), 0.833 to 1 times within 72 h."""
    made = _cost(_finding()).launching

    assert made.low == pytest.approx(0.833 * 256 * 0.75)
    assert made.high == pytest.approx(256 * (1 / 6 + 68 / 60 + 0.5), rel=1e-3)


def test_slow_findings_do_not_add_up() -> None:
    """A synchronous job waits for the slowest alone: 72 h x 256 GPUs x 10 to 45 %."""
    slow = [
        _finding("compute.gemm", "gflops is 0.7 times the median", f"node-{n}/rank-{n}", metric="gflops")
        for n in range(3)
    ]

    assert _cost(*slow).launching == _cost(slow[0]).launching == ValueSpan(1843.2, 8294.4)


def test_a_node_breaks_once() -> None:
    """Three findings about one node are one fault, two nodes are two."""
    one = _cost(_finding(), _finding("kernel.xid", "act: GPU 1 is 1"), _finding(subject="node-1/rank-8"))

    assert one.launching == _cost(_finding()).launching
    assert _cost(_finding(), _finding(subject="node-2")).launching == one.launching.scaled(2)


def test_no_loss_is_larger_than_the_job() -> None:
    """Whatever is wrong with however many nodes."""
    everything = [_finding(subject=f"node-{n}") for n in range(1000)]

    assert _cost(*everything).launching.high == 256 * 72


def test_cost_without_findings_is_zero() -> None:
    """No finding, no loss."""
    assert _cost().launching == ValueSpan(0, 0)


def test_cost_lists_unknown_terms_without_inventing_numbers() -> None:
    """No price, no money; no length, the first 24 h; no interval, one hour, by name."""
    toy = Declared("toy.4x", 2, 4, 4)
    made = cost(replace(PASSED, findings=(_finding(),)), toy, NOTHING_SAID, builtin_failures())

    assert (None, None) == (made.usd(100.0), made.checking)
    assert (False, 24.0) == (made.length_known, made.horizon_hours)
    assert len(made.unknown) == 3
    assert "price is known for toy.4x" in made.unknown[0]


def test_cost_of_missing_evidence_ranges_from_zero_to_an_unchecked_node() -> None:
    """A missing observation loses between nothing and what unchecked nodes lose; of the cluster, more than of a node."""
    evidence = {"cause": Cause.EVIDENCE, "message": "not measured"}
    node = _cost(_finding("report", subject="node-1", **evidence))  # type: ignore[arg-type]
    cluster = _cost(_finding("report", subject=CLUSTER, **evidence))  # type: ignore[arg-type]

    assert node.launching.low == cluster.launching.low == 0
    assert 0 < node.launching.high < cluster.launching.high


def test_a_warning_is_cheaper_than_a_failure() -> None:
    """Of the same check."""
    warned = _cost(_finding(level=Level.WARN)).launching

    assert 0 == warned.low < warned.high < _cost(_finding()).launching.low


@pytest.mark.parametrize(
    ("check", "metric", "fault"),
    [
        ("nccl.all_reduce", "wrong_elements", Fault.CORRUPTION),
        ("nccl.all_reduce", "busbw_peak_gbps", Fault.SLOW),
        ("compute.sdc", "digest", Fault.CORRUPTION),
        ("cpu.stress", "failures", Fault.CORRUPTION),
        ("disk.io", "write_gbps", Fault.SLOW),
        ("disk.io", "io_errors", Fault.CRASH),
        ("network.reachability", "failures", Fault.HANG),
        ("gpu.ecc", "dram_uncorrected_volatile", Fault.CRASH),
        ("our.own", "volts", Fault.UNKNOWN),
    ],
)
def test_cost_maps_a_finding_to_its_fault(check: str, metric: str, fault: Fault) -> None:
    """By the metric where it tells, else by the family of the check."""
    assert fault_of(_finding(check, metric=metric)) is fault


def test_shipped_failure_statistics_are_complete() -> None:
    """No span is upside down, and a check of any name has a share. The names of the spans are used by the tests above."""
    failures = builtin_failures()

    assert [] == [name for name, span in failures.ranges.items() if span.low > span.high]
    assert failures.share("") is failures.share("our.own")


def test_every_check_has_a_family() -> None:
    """A new one would be of no known fault, and counted as a crash."""
    assert not [check.name for check in CATALOG if family_of(check.name) is None]


_FINDINGS = st.builds(
    _finding,
    check=st.sampled_from(["gpu.ecc", "nccl.all_reduce", "report", "our.own", "network.pairs"]),
    metric=st.sampled_from(["wrong_elements", "busbw_gbps", "failures", ""]),
    subject=st.sampled_from(["node-1", "node-1/rank-8", "node-2", CLUSTER, "node-1<->node-2"]),
    level=st.sampled_from(list(Level)),
    cause=st.sampled_from(list(Cause)),
)


@given(findings=st.lists(_FINDINGS, max_size=8), more=_FINDINGS, hours=st.none() | st.floats(0.01, 8000))
def test_another_finding_never_lowers_the_loss(
    findings: list[Finding], more: Finding, hours: float | None
) -> None:
    """And no loss is below nothing, above the whole job, or greater at its least than at its most."""
    terms = replace(TERMS, hours=hours)
    less, all_ = _cost(*findings, terms=terms), _cost(*findings, more, terms=terms)

    assert less.launching.low <= all_.launching.low + 1e-9
    assert less.launching.high <= all_.launching.high + 1e-9
    assert 0 <= all_.launching.low <= all_.launching.high <= 256 * all_.horizon_hours
