"""A file that was taken for another kind is named for what it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from checks.command_line import InputError
from checks.documents.report import dump as dump_report
from checks.documents.report import dump_plain
from checks.judge.baseline.bands import Baseline, dump
from checks.judge.verdict import decide
from checks.value_types import DecodeError
from tasks.gate_file.references import MOST_FILE_BYTES, document_kind, read_baseline, read_policy
from tasks.reports.read import not_a_report
from tests.sample_reports import FACTS, POLICY, healthy

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (dump_report(healthy(2, 2)), "a report"),
        (dump(Baseline(1, "0.1.0", "", (), (), ())), "a baseline"),
        (dump_plain(POLICY), "a policy"),
        (dump_plain(decide(healthy(2, 2), POLICY, FACTS)), "a verdict"),
        ((ROOT / "deployments/gates/local.toml").read_bytes(), "a gate file"),
        ((ROOT / "deployments/policies/local.toml").read_bytes(), "a policy"),
        (
            (ROOT / "tests/recordings/second_opinion/p5_two_nodes.json").read_bytes(),
            "a report of another tool, which prelaunch explain reads",
        ),
    ],
)
def test_each_kind_is_known_by_its_keys(data: bytes, kind: str) -> None:
    """As the program itself writes it, or ships it."""
    assert kind == document_kind(data)


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[]", b"hello", b"\xff", b"{" * 100_000, b" " * (MOST_FILE_BYTES + 1)]
)
def test_document_kind_is_empty_for_unknown_data(data: bytes) -> None:
    """No guess, and no exception."""
    assert "" == document_kind(data)


def test_a_report_that_is_cut_is_told_by_its_fault() -> None:
    """It is a report still: what is wrong with it counts."""
    data = dump_report(healthy(2, 2))

    assert "document: not valid JSON" == not_a_report(data[:-9], DecodeError("not valid JSON"))
    assert "nodes: odd" == not_a_report(data, DecodeError("odd", "nodes"))


def test_a_report_is_no_baseline_and_the_remedy_is_said(tmp_path: Path) -> None:
    """Both are JSON that this program writes: they are mixed up."""
    (tmp_path / "r.json").write_bytes(dump_report(healthy(2, 2)))
    with pytest.raises(
        InputError, match=r"it is a report, not a baseline. Learn one: prelaunch fleet baseline learn"
    ):
        read_baseline(tmp_path / "r.json")


def test_a_gate_file_is_no_policy() -> None:
    """Both are TOML that an operator writes."""
    with pytest.raises(InputError, match="it is a gate file, not a policy"):
        read_policy(ROOT / "deployments/gates/local.toml")
