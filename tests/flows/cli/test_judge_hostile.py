"""`prelaunch judge` on reports that are hostile in their size, their depth, or in who reports."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from checks.documents.report import dump, dump_plain
from tests.flows.cli.conftest import Run
from tests.sample_reports import POLICY, healthy


def _swollen(part: str) -> bytes:
    """A report of two nodes of which this part is hostile."""
    document = json.loads(dump(healthy()))
    gemm, node = document["checks"]["compute.gemm"], document["nodes"][0]
    if part == "two reports for one node":
        document["nodes"].append({**node, "rank": 1})
    elif part == "two names for one rank":
        document["nodes"][1]["rank"] = 0
    elif part == "a list of a million":
        gemm["metrics"]["gflops"][0] = [1.5] * 1_000_000
    elif part == "a name of a megabyte":
        node["name"] = "n" * 1_000_000
    elif part == "an identity of 20,000 names":
        node["identity"] = {f"key-{index}": "x" for index in range(20_000)}
    elif part == "evidence of two megabytes":
        gemm["evidence"][0] = "e" * 2_000_000
    elif part == "50,000 problems":
        document["collection"] = [f"problem {index}" for index in range(50_000)]
    elif part == "2,000 checks":
        document["checks"] |= {f"made.c{index}": gemm for index in range(2_000)}
    text = json.dumps(document)
    if part == "digits without end":
        text = text.replace('"rank": 1', f'"rank": {"9" * 100_000}')
    elif part == "lists within lists":
        text = text.replace('"gflops": [', '"gflops": [' + "[" * 3000 + "]" * 3000 + ", ")
    return text.encode()


SWOLLEN = (
    "two reports for one node", "two names for one rank", "a list of a million", "a name of a megabyte",
    "an identity of 20,000 names", "evidence of two megabytes", "50,000 problems", "2,000 checks", "digits without end",
    "lists within lists",
)  # fmt: skip


# Large, and whole: nothing is wrong with what they say.
HARMLESS = ("a list of a million", "an identity of 20,000 names", "evidence of two megabytes")


@pytest.mark.parametrize("part", SWOLLEN)
def test_a_hostile_report_is_answered_soon_and_in_few_words(run: Run, tmp_path: Path, part: str) -> None:
    """Nobody can tell, or it is as healthy as it says; without a traceback, and on a page that people can open."""
    file, policy = tmp_path / "report.json", tmp_path / "policy.json"
    file.write_bytes(_swollen(part))
    policy.write_bytes(dump_plain(POLICY))
    begun = time.process_time()
    page = run("judge", file, "--policy", policy, "--format", "text")

    code, answer = (0, "GO ") if part in HARMLESS else (3, "CANNOT TELL ")
    assert (code, True, "") == (page.code, page.out.startswith(answer), page.err)
    assert len(page.out) < 100_000
    assert time.process_time() - begun < 20
