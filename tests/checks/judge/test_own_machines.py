"""What a verdict makes of machines that a gate file describes: a description never replaces what is known, nor what is planned."""

from __future__ import annotations

from dataclasses import replace

from checks import catalog
from checks.documents.report import dump, load
from checks.facts.builtin import builtin
from checks.judge.verdict import decide
from checks.model import CLUSTER, Cause, Declared, Level, Node, Profile, Report
from checks.model_details import DeclaredMachine
from tasks.gate_file.references import default_policy
from tests.corpus.case import NDR, declared

FACTS = builtin()


def planned(said: Declared) -> Report:
    """A report of two nodes that has the whole plan and no observation."""
    facts = FACTS.merged(said)
    plan = catalog.plan(catalog.CATALOG, said, Profile.QUICK, facts.instances.get(said.instance_type))
    nodes = tuple(Node(f"node-{rank}", rank, "one", "", True, {}) for rank in range(2))
    return Report("g", "one", "2026-11-01T00:00:00Z", Profile.QUICK, said, "", plan, nodes, ())


def test_a_known_type_is_what_the_table_says_whatever_a_report_says_of_it() -> None:
    """A description without NVLinks would take the checks of NVLinks out of the plan."""
    said = Declared("p5.48xlarge", 2, 8, 8, machine=DeclaredMachine("H100 80GB HBM3", nvlinks=0))
    policy = default_policy("p5.48xlarge")[1]
    verdict = decide(planned(said), policy, FACTS)
    found = {(one.check, one.level, one.cause) for one in verdict.findings}

    assert FACTS.merged(said).instances["p5.48xlarge"] == FACTS.instances["p5.48xlarge"]
    assert ("facts", Level.FAIL, Cause.EVIDENCE) in found
    assert not FACTS.are_for(("g5.12xlarge",), replace(said, machine=DeclaredMachine("A10G")))


def test_a_plan_without_the_ports_that_are_declared_is_missing_evidence() -> None:
    """Also where no port is declared: the plan then has them as skipped."""
    own = planned(declared(NDR, 2))
    shorter = replace(own, plan=tuple(line for line in own.plan if line.check != "ib.ports"))
    policy = default_policy(NDR, own.declared)[1]

    def lacking(report: Report) -> bool:
        found = decide(report, policy, FACTS).findings
        return any((one.check, one.subject) == ("ib.ports", CLUSTER) for one in found)

    assert lacking(shorter)
    assert not lacking(own)
    known = planned(Declared("p5.48xlarge", 2, 8, 8))
    assert lacking(replace(known, plan=tuple(line for line in known.plan if line.check != "ib.ports")))


def test_a_report_keeps_the_description() -> None:
    own = planned(declared(NDR, 2))

    assert own.declared == load(dump(own)).declared
