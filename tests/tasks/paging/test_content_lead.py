"""The finding that a page's title names, as a field: notifiers put it for people without taking the title apart."""

from __future__ import annotations

import pytest

from checks.facts.builtin import builtin
from checks.model import Report
from tasks.paging.content import items_of, lead_of
from tasks.render.context import verdict_context
from tasks.render.headline import headline
from tests.sample_reports import POLICY, healthy, verdict_of, without_node, wrong_sums


@pytest.mark.parametrize(
    ("report", "names"),
    [
        pytest.param(wrong_sums(healthy(4, 2), "node-1/rank-3"), "node-1/rank-3", id="one rank"),
        pytest.param(without_node(healthy(4, 2), "node-3"), "", id="missing evidence about a whole node"),
        pytest.param(healthy(4, 2), "", id="a go"),
    ],
)
def test_the_lead_is_what_the_headline_names(report: Report, names: str) -> None:
    """Opening, check, subject and message, in this order, begin the headline; a headline without a subject has no lead."""
    verdict = verdict_of(report)
    items = items_of(verdict, verdict_context(report, POLICY, verdict, "local", facts=builtin()))

    lead = lead_of(verdict, "p5", "observed only: ", items)

    assert names == (lead.item.where if lead else "")
    if lead is not None:
        said = f"{lead.opening}: {lead.item.check} on {lead.item.where}: {lead.item.message}"
        assert f"observed only: {headline(verdict, 'p5')}".startswith(said)
