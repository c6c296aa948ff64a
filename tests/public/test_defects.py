"""What public tools of this kind answer wrongly, and what Prelaunch answers on the same input: docs/evidence/public-defects.md."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from checks.explain.registry import claimed_by
from checks.model import Answer
from tests.corpus import dcgm_cases
from tests.corpus.case import Case, Sort
from tests.corpus.judging import verdict_of
from tests.public.defects import GATES, OUTPUTS, P5, TWO, Defect, answered, explained
from tests.public.inputs import all_reduce, recording

PAGE = Path(__file__).parents[2] / "docs" / "evidence" / "public-defects.md"
DEFECTS = (*OUTPUTS, *GATES)


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: f"{defect.tool}: {defect.input}")
def test_the_input_is_answered_rightly(defect: Defect, tmp_path: Path) -> None:
    """The answer, and a finding that says why."""
    verdict = defect.judged(tmp_path)
    said = [f"{f.check}: {f.message}" for f in verdict.findings]

    assert defect.ours is verdict.answer, said
    assert not defect.says or any(defect.says in line for line in said), said


def test_the_page_shows_what_is_tested() -> None:
    """Line for line, each with a link to where it was read; UPDATE_GOLDEN=1 writes the table."""
    text = PAGE.read_text(encoding="utf-8")
    head, _, rest = text.partition("| --- | --- | --- |\n")
    foot = rest[rest.find("\n\n") :] if "\n\n" in rest else "\n"
    made = head + "| --- | --- | --- |\n" + "\n".join(defect.row for defect in DEFECTS) + foot
    if os.environ.get("UPDATE_GOLDEN"):
        PAGE.write_text(made, encoding="utf-8")

    assert made == PAGE.read_text(encoding="utf-8")
    assert 60 <= len({defect.row for defect in DEFECTS}) == len(DEFECTS)


def test_healthy_node_does_not_hide_a_sick_one_in_the_cluster(tmp_path: Path) -> None:
    """train.py takes any node's success for the cluster's."""
    (well,) = dcgm_cases.diagnosed("diag_4_r2.json")(tmp_path)
    (ill,) = dcgm_cases.diagnosed("diag_4_r2_memory_fail.json", code=226)(tmp_path)
    rows = (well, replace(ill, subject="node-1"))
    verdict = answered(verdict_of(Case("dcgm.diag", Sort.FAULTY, "", lambda _: rows, P5, nodes=2), rows))

    assert (Answer.NO_GO, ("node-1",)) == (verdict.answer, verdict.condemned)


def test_healthy_outputs_of_public_tools_are_a_go(tmp_path: Path) -> None:
    """Thresholds that no machine reaches (the AWS suite's 800 GB/s at 128 MB) are no safety either."""
    for text in (all_reduce(), all_reduce(prefix="[1,0]<stdout>:"), recording("dcgm/diag_4_r2.json")):
        assert Answer.GO is explained(text, P5)(tmp_path).answer
    assert Answer.GO is explained(all_reduce(hosts=TWO), P5, 2)(tmp_path).answer
    assert claimed_by(all_reduce()) == "checks.probes.collectives.nccl_reading"
