"""What an operator says of length and price, and the cost that stands beside a verdict."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from checks.facts.prices import Purchase
from checks.judge.cost.cost import NOTHING_SAID, Cost, CostTerms
from checks.model import Cause, Declared, Finding, Level, Report
from tasks.gate_file.cost_terms import cost_json, cost_of
from tasks.render.views.cost import cost_line
from tests.flows.gates import write_gate
from tests.sample_reports import healthy, verdict_of
from tests.tasks.gate_file.gate_files import opened

BROKEN = Finding(Level.FAIL, Cause.HARDWARE, "gpu.ecc", "node-1", "dram_uncorrected_volatile: GPU 1 is 3")
P5: Report = replace(healthy(), declared=Declared("p5.48xlarge", 32, 8, 8))
VERDICT = replace(verdict_of(healthy()), findings=(BROKEN,))


def _cost(terms: CostTerms = NOTHING_SAID) -> Cost:
    return cost_of(P5, VERDICT, terms)


def test_the_line_says_what_is_lost_and_what_a_wait_costs() -> None:
    """In dollars where the price is known, else in GPU-hours; of the declared job."""
    terms = CostTerms(hours=72, checkpoint_hours=1, replacement_hours=0.0625)
    unknown = replace(P5, declared=Declared("p6e-gb200.36xlarge", 32, 8, 8))

    assert cost_line(_cost(terms)) == (
        "Starting the training anyway may lose 1,100 to 3,170 USD of a 72 h job (price of the US regions); "
        "a replacement of a node takes 0.0625 h."
    )
    assert cost_line(cost_of(unknown, VERDICT, terms)) == (
        "Starting the training anyway may lose 160 to 461 GPU-hours of a 72 h job; a replacement of a node takes 0.0625 h."
    )


def test_the_line_says_of_which_region_the_price_is() -> None:
    """The table's own, in words where it is that of several; a price that was declared for the job is that of its nodes."""
    west = cost_of(P5, VERDICT, CostTerms(hours=72, purchase=Purchase.SAGEMAKER))
    declared = _cost(CostTerms(hours=72, usd_per_node_hour=10.0))

    assert " USD of a 72 h job (price of the US regions); " in cost_line(_cost(CostTerms(hours=72)))
    assert " USD of a 72 h job (price of us-west-2); " in cost_line(west)
    assert "price of" not in cost_line(declared)


def test_without_price_or_length_there_is_no_line() -> None:
    """Nothing that anybody asked about is known."""
    report = replace(P5, declared=Declared("p6e-gb200.36xlarge", 32, 4, 4))
    said = cost_line(cost_of(report, VERDICT, CostTerms(hours=1)))

    assert "" == cost_line(cost_of(report, VERDICT)) and said and "USD" not in said and "price of" not in said
    assert "" == cost_line(cost_of(P5, verdict_of(healthy()), CostTerms(hours=72)))


def test_declared_price_precedes_the_price_list() -> None:
    """Which has a price for each way to buy."""
    terms = CostTerms(usd_per_node_hour=98.0), CostTerms(), CostTerms(purchase=Purchase.SAGEMAKER)
    made = [_cost(each).price for each in terms]

    assert [price and price.usd_per_node_hour for price in made] == [98.0, 55.04, 63.296]


def test_a_gate_file_says_length_interval_and_price(tmp_path: Path) -> None:
    """In hours and US dollars."""
    training = "expected_hours = 72\ncheckpoint_minutes = 30"
    cost = "[cost]\nusd_per_node_hour = 40\nreplacement_hours = 2"

    assert CostTerms(72, 0.5, 2, 40) == opened(write_gate(tmp_path, more=f"{training}\n{cost}")).terms


def test_the_document_has_every_key_whatever_is_known() -> None:
    """Money is null where no price is known."""
    known, unknown = cost_json(_cost(CostTerms(hours=72))), cost_json(cost_of(healthy(), VERDICT))

    assert known is not None and unknown is not None and cost_json(None) is None
    assert set(known) == set(unknown)
    assert (unknown["usd_per_unit_hour"], known["usd_per_unit_hour"]) == (None, 6.88)
    json.dumps(known, allow_nan=False)
