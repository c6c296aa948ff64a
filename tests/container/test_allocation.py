"""Which nodes the next srun should do without, and what the first look at an allocation needs of Slurm."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pytest

from checks.exchange import secret_key
from checks.facts.builtin import builtin
from checks.judge.verdict import unreadable
from checks.model import Cause, Finding, Level, Verdict
from container.agent import allocation
from container.agent.allocation import excluded
from container.agent.supervisor import Signals
from tests.checks.local_policy import local_policy
from tests.container.agents import make_bundle

NAMES = ("n0", "n1", "n2", "n3")
NOTHING = unreadable("", local_policy(), builtin(), b"")


def verdict(*found: tuple[Level, Cause, str], suspect: bool = False) -> Verdict:
    """A verdict with these findings."""
    findings = tuple(Finding(level, cause, "a.b", subject, "said") for level, cause, subject in found)
    return replace(NOTHING, findings=findings, suspect_policy=suspect)


HARD = (Level.FAIL, Cause.HARDWARE)
UNKNOWN = (Level.FAIL, Cause.EVIDENCE)


@pytest.mark.parametrize(
    ("made", "reported", "without"),
    [
        (verdict(), NAMES, ()),
        (verdict((*HARD, "n1/rank-3"), (Level.WARN, Cause.HARDWARE, "n2")), NAMES, ("n1",)),
        (verdict((Level.FAIL, Cause.CONFIGURATION, "n2")), NAMES, ("n2",)),
        (verdict((*HARD, "n3<->n1")), NAMES, ("n1", "n3")),
        (verdict((*HARD, "cluster")), NAMES, ()),
        # What cannot be told of one node is a reason to do without it, what cannot be told of any is none.
        (verdict((*UNKNOWN, "n1")), NAMES, ("n1",)),
        (verdict(*((*UNKNOWN, name) for name in NAMES)), NAMES, ()),
        (verdict((*HARD, "n1"), *((*UNKNOWN, name) for name in NAMES)), NAMES, ("n1",)),
        (verdict((*UNKNOWN, "n0")), ("n0", "n1", "n2"), ("n0", "n3")),
        (verdict(*((*HARD, name) for name in NAMES)), NAMES, ()),
        (verdict((*HARD, "n1"), suspect=True), NAMES, ()),
    ],
)
def test_the_nodes_to_do_without(made: Verdict, reported: tuple[str, ...], without: tuple[str, ...]) -> None:
    """Those that failed, those that cannot be told of, and those that are silent; never all of them."""
    assert excluded(made, NAMES, reported) == without


def check(*words: str) -> int:
    """The exit code of a look at an allocation of hosts without GPUs."""
    return allocation.main(("check", "--instance-type", "cpu", *words))


def test_allocation_check_runs_in_one_process_of_each_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """srun -n8 -N4 starts two on each."""
    monkeypatch.setenv("SLURM_LOCALID", "1")

    assert check() == 0


def test_a_policy_that_is_none_is_refused_by_every_node_at_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The second node does not wait for a folder that the first one will not make."""
    (tmp_path / "few.json").write_text("{}")
    monkeypatch.setenv("SLURM_STEP_NODELIST", "n[0-1]")
    monkeypatch.setenv("SLURMD_NODENAME", "n1")
    monkeypatch.setattr(allocation, "JOIN_S", 600.0)

    assert check("--policy", str(tmp_path / "few.json"), "--out", str(tmp_path)) == 2
    assert f"prelaunch: {tmp_path}/few.json: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--hosts", "a,b", "--host", "c", "--run", "1"), "this host is c, which --hosts does not have"),
        (("--hosts", "a,b", "--host", "a"), "give all of them the same --run NAME"),
        (("--hosts", "a,b", "--host", "a", "--run", "../up"), "give all of them the same --run NAME"),
        (("--hosts", "a[1", "--host", "a", "--run", "1"), "a[1"),
    ],
)
def test_a_list_of_hosts_that_cannot_be_used_is_refused(
    words: tuple[str, ...], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before anything is made."""
    assert check("--out", str(tmp_path), *words) == 2
    assert (True, []) == (says in capsys.readouterr().err, list(tmp_path.iterdir()))


def test_the_first_of_the_listed_hosts_refuses_a_run_that_was_made_before(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its reports would be taken for those of this run."""
    (tmp_path / "prelaunch-check-1" / "in").mkdir(parents=True)

    assert check("--out", str(tmp_path), "--hosts", "a,b", "--host", "a", "--run", "1") == 2
    assert "a run of that name was made before. Give another --run" in capsys.readouterr().err


def test_another_host_does_not_join_a_run_that_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its key is gone with its end: the host says so at once, and neither waits, nor makes another key, nor reads the old reports."""
    (folder := tmp_path / "prelaunch-check-1" / "in").mkdir(parents=True)
    (folder / "bundle.json").write_bytes(make_bundle(nodes=2))
    monkeypatch.setattr(Signals, "install", lambda signals: None)
    monkeypatch.setattr("container.agent.agent_run.become_subreaper", lambda: None)
    with patch.dict(os.environ):
        assert check("--out", str(tmp_path), "--hosts", "a,b", "--host", "b", "--run", "1") == 2

    assert f"{folder / secret_key.FILE} cannot be read" in capsys.readouterr().err
    assert [folder / "bundle.json"] == [*folder.iterdir()]
