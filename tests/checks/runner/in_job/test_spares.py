"""Which nodes of a job with spares train."""

from __future__ import annotations

import itertools
import random
import time
from dataclasses import replace

import pytest

from checks.model import CLUSTER, Answer, Cause, Finding, Level, Report, node_of
from checks.runner.in_job.spares import choose
from tests.sample_reports import answered, healthy


def report(nodes: int, spares: int, leaves: str = "") -> Report:
    """Healthy nodes; the n-th letter of `leaves` is the leaf switch of the n-th node."""
    made = healthy(nodes, network=False)
    switches = iter(leaves or " " * nodes)
    named = tuple(
        replace(node, identity={**node.identity, "switches": next(switches).strip()}) for node in made.nodes
    )
    return replace(made, nodes=named, declared=replace(made.declared, spares=spares))


def fail(subject: str, cause: Cause = Cause.HARDWARE, follows: str = "") -> Finding:
    return Finding(Level.FAIL, cause, "check", subject, "is broken", follows=follows)


def warn(subject: str) -> Finding:
    return Finding(Level.WARN, Cause.HARDWARE, "check", subject, "is slow")


def chosen(made: Report, *findings: Finding) -> str:
    """The numbers of the chosen nodes."""
    return "".join(name[5:] for name in choose(made, answered(Answer.NO_GO, *findings)))


@pytest.mark.parametrize(
    ("findings", "numbers"),
    [
        ((), "012"),
        ((fail("node-1/rank-2"),), "023"),
        ((fail("node-1"), fail("node-0")), "234"),
        ((fail("node-1"), fail("node-0"), fail("node-4")), ""),
        ((warn("node-0"), warn("node-2"), warn("node-2")), "134"),
        ((fail("node-1"), warn("node-0")), "234"),
        ((fail("node-1<->node-2"), fail("node-2<->node-3")), "013"),
        ((fail("node-0/rank-0<->node-1/rank-2"), fail("node-2<->node-3")), "024"),
        ((fail("node-0<->node-1"), fail("node-1<->node-2"), fail("node-2<->node-0")), "034"),
        ((fail("node-1"), fail(CLUSTER), fail("node-3", Cause.EVIDENCE, "node-1")), "023"),
        ((fail("node-1"), fail("node-3", Cause.EVIDENCE)), "024"),
        ((fail("node-1", Cause.EVIDENCE),), "023"),
        ((fail(CLUSTER),), ""),
        ((fail("node-1"), fail("rail 3")), ""),
        ((fail("node-1"), fail("leaf-7")), ""),
        (tuple(fail(f"node-{number}", Cause.EVIDENCE) for number in range(5)), ""),
    ],
)
def test_two_of_five_nodes_are_left_out(findings: tuple[Finding, ...], numbers: str) -> None:
    """Who failed, else whom something is missing of, then who has most warnings, then the last. A rail is no node's fault."""
    assert numbers == chosen(report(5, 2), *findings)


def test_nobody_is_chosen_without_spares_or_with_as_many_and_where_the_policy_is_suspect() -> None:
    """Of two nodes and two spares that lost sight of each other both halves could start."""
    verdict = replace(answered(Answer.NO_GO, fail("node-1")), suspect_policy=True)

    assert () == choose(report(5, 2), verdict) == choose(report(5, 0), answered(Answer.GO))
    assert () == choose(report(4, 2), answered(Answer.GO))


def test_a_node_without_a_whole_report_is_left_out() -> None:
    """With more of them than spares nobody is chosen."""
    made = report(4, 1)
    unfinished = replace(made.nodes[1], complete=False)
    lacking = replace(made, nodes=(made.nodes[0], unfinished, *made.nodes[2:]))
    absent, silent = fail("node-1", Cause.EVIDENCE), fail("node-2", Cause.EVIDENCE)

    assert "023" == chosen(lacking, absent, silent)
    assert "023" == chosen(replace(lacking, nodes=(made.nodes[0], *made.nodes[2:])), absent, silent)
    assert "" == chosen(replace(lacking, nodes=made.nodes[2:]), absent, fail("node-0", Cause.EVIDENCE))


@pytest.mark.parametrize(
    ("leaves", "spares", "numbers"),
    [("aabbb", 2, "234"), ("aaabb", 2, "012"), ("aaabbbb", 2, "012345"[:3] + "34"), ("abab", 1, "012")],
)
def test_a_leaf_switch_is_left_out_as_a_whole(leaves: str, spares: int, numbers: str) -> None:
    """The smallest that has as many nodes as may go; where none is so small, the largest gives one."""
    assert numbers == chosen(report(len(leaves), spares, leaves))


def test_whoever_can_be_chosen_is() -> None:
    """Compared with all choices: nobody who failed trains, nor both ends of a link that did."""
    source, made = random.Random(53), 0
    for _ in range(300):
        nodes, spares = source.randint(2, 8), source.randint(1, 3)
        if nodes <= 2 * spares:
            continue
        pairs = list(itertools.combinations([f"node-{number}" for number in range(nodes)], 2))
        links = source.sample(pairs, min(len(pairs), source.randint(0, 5)))
        bad = source.sample(range(nodes), source.randint(0, 1))
        findings = [fail("<->".join(link)) for link in links] + [fail(f"node-{number}") for number in bad]
        names = choose(report(nodes, spares), answered(Answer.NO_GO, *findings))
        wrong = [{node_of(end) for end in finding.subject.split("<->")} for finding in findings]
        fits = [
            group
            for group in itertools.combinations([f"node-{number}" for number in range(nodes)], nodes - spares)
            if not any(ends.issubset(group) for ends in wrong)
        ]

        assert (names in fits) if fits else names == (), (nodes, spares, findings)
        made += bool(names)
    assert made > 50


def test_a_choice_of_a_thousand_nodes_takes_less_than_a_second() -> None:
    made = report(1024, 16, "abcdefgh" * 128)
    links = [fail(f"node-{2 * number}<->node-{2 * number + 1}") for number in range(16)]
    begun = time.process_time()

    assert 1008 == len(choose(made, answered(Answer.NO_GO, *links)))
    assert time.process_time() - begun < 1
