"""A remedy is written for one node. Where it is said of several nodes it is right in number, on every page."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from checks.model import Cause, Finding, Level, Verdict
from checks.policy import Policy
from tasks.gate_file.references import SHIPPED, read_policy
from tasks.render.findings import gathered, in_number, remedy_of
from tasks.render.html import html
from tasks.render.markdown import markdown
from tasks.render.missing_text import missing_lines
from tasks.render.terminal import terminal
from tests.sample_reports import healthy, verdict_of

LOG = "Run the gate again. If the finding returns, read this node's log."
LOGS = "Run the gate again. If the finding returns, read each node's log."
SINGULAR = re.compile(
    r"\b[Tt]his (node|instance|machine|GPU|rank)\b|\b[Rr]e(start|place|boot) the (node|instance)\b"
)


def silent(*nodes: str, remedy: str = LOG) -> Verdict:
    found = tuple(
        Finding(Level.FAIL, Cause.EVIDENCE, "report", node, "the report ends early", "", remedy)
        for node in nodes
    )
    return replace(verdict_of(healthy()), findings=found)


@pytest.mark.parametrize(
    ("remedy", "of_several"),
    [
        (LOG, LOGS),
        ("Restart the node; if it returns, replace it.", "Restart each node; if it returns, replace it."),
        ("Do not train on this node. Check its NIC.", "Leave each of these nodes out of the training. Check its NIC."),
        ("If it returns, do not train on this node.", "If it returns, leave each of these nodes out of the training."),
        ("Do not train on this rank's GPU. Check it.", "Leave each rank's GPU out of the training. Check it."),
        ("do not use this GPU.", "use none of these GPUs."),
        ("Watch this GPU; see this GPU's clocks.", "Watch each of these GPUs; see each GPU's clocks."),
        ("Find out who else sets the watches of this host engine.", "Find out who else sets the watches of this host engine."),
        ("Do not train on the node of the rank that differs.", "Do not train on the node of the rank that differs."),
        ("Use one image on every node.", "Use one image on every node."),
        ("The driver may be newer than this program.", "The driver may be newer than this program."),
    ],
)  # fmt: skip
def test_a_remedy_for_several_nodes_says_each(remedy: str, of_several: str) -> None:
    """Of one node, its ranks, or one link it stays as it is written."""
    assert of_several == in_number(remedy, ("node-1", "node-2/rank-3"))
    for subjects in (
        ("node-1",),
        ("node-1/rank-0", "node-1/rank-1"),
        ("node-1/rank-0 <-> node-2/rank-9",),
        ("cluster",),
    ):
        assert remedy == in_number(remedy, subjects)


@pytest.mark.parametrize("policy", sorted(SHIPPED.glob("*.toml")), ids=lambda path: path.stem)
def test_no_shipped_remedy_is_in_the_singular_for_several_nodes(policy: object) -> None:
    """And none forbids what it means to forbid of all of them for each at once."""
    found = remedies(read_policy(policy))  # type: ignore[arg-type]
    said = [in_number(remedy, ("node-1", "node-2")) for remedy in found]

    assert found and [] == [
        one for one in said if SINGULAR.search(one) or re.search(r"not \w+( on)? each", one)
    ]


def remedies(policy: Policy) -> list[str]:
    return [rule.remedy for line in policy.checks.values() for rule in line.rules if rule.remedy]


@pytest.mark.parametrize("page", [html, terminal, markdown])
def test_a_page_says_it_of_a_group(page: Callable[..., str]) -> None:
    """Of 37 nodes at once, of one as it is written."""
    many = page(None, silent(*(f"node-{number}" for number in range(37))), "c")
    one = page(None, silent("node-1"), "c")

    for text, said, other in ((many, LOGS, LOG), (one, LOG, LOGS)):
        plain = " ".join(re.sub(r"&#39;|&#x27;", "'", text).split())
        assert said in plain and other not in plain


def test_one_line_of_remedies_for_many_reasons_is_right_too() -> None:
    """The reasons are groups of one node each, and the remedy is said once for all of them."""
    groups = gathered(
        [replace(one, message=f"why {at}") for at, one in enumerate(silent("node-1", "node-2").findings)]
    )

    assert (
        2 == len(groups)
        and f"  do: {LOGS}" in missing_lines(groups)
        and f"  do: {LOG}" in missing_lines(groups[:1])
    )


def test_where_all_nodes_fail_the_rest_of_the_remedy_is_right_as_well() -> None:
    """It follows what is said about the threshold and the image."""
    slow = tuple(
        Finding(Level.FAIL, Cause.HARDWARE, "gpu.ecc", node, "has errors", "", "Replace the node.")
        for node in ("node-0", "node-1")
    )
    verdict = replace(verdict_of(healthy()), findings=slow)
    (item,) = gathered(slow)

    assert remedy_of(item, verdict).endswith("If both are right: Replace each node.")
    assert remedy_of(slow[0], verdict).endswith("If both are right: Replace the node.")
