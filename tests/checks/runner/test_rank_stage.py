"""What a rank's file says of the rank."""

from __future__ import annotations

import importlib.util
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import Mock

import pytest

from checks.check import RankPlace
from checks.model import ErrorKind, Observation, Outcome, Scope
from checks.roster import Roster
from checks.runner import node_run, rank_stage
from checks.runner.node_context import NodeContext
from checks.runner.rank_process import RankFile, init_group
from tests.checks.runner.test_watchers import run
from tests.sample_reports import toy_check

ROW = Observation("a.b", "node-0/rank-0", Outcome.MEASURED, 0.1, {"x": 1.0})


def state(folder: Path, opened: float = 0.0) -> rank_stage.RankState:
    """Rank 0 as it is read from above."""
    return rank_stage.read(folder, range(2), opened)[0]


def test_a_rank_that_wrote_nothing_is_not_there(tmp_path: Path) -> None:
    """Absence is absence."""
    assert {} == rank_stage.read(tmp_path, range(2))


def test_a_rank_in_time_is_not_overdue(tmp_path: Path) -> None:
    """Its own deadline and a margin have to pass first."""
    RankFile(tmp_path / "rank-0.jsonl").start("a.b", 10)

    assert not state(tmp_path).overdue(time.time())
    assert state(tmp_path).overdue(time.time() + 10 + rank_stage.OVERDUE_S + 1)


def test_a_rank_that_ended_is_never_overdue(tmp_path: Path) -> None:
    """Its rows are kept in order."""
    file, begun = RankFile(tmp_path / "rank-0.jsonl"), time.time()
    file.start("a.b", 0)
    file.add(ROW)
    file.end()

    [row] = state(tmp_path, begun - 100.0).observations
    assert (replace(row, started_s=0.0), state(tmp_path).ended) == (ROW, True)
    assert 99.99 <= row.started_s <= time.time() - begun + 100.01  # rounded to hundredths
    assert not state(tmp_path).overdue(time.time() + 1e6)


def test_a_line_cut_in_the_middle_is_no_observation(tmp_path: Path) -> None:
    """A rank killed while it writes has not observed."""
    path = tmp_path / "rank-0.jsonl"
    RankFile(path).add(ROW)
    path.write_bytes(path.read_bytes()[:-20])

    assert () == state(tmp_path).observations


def test_a_missing_torch_is_said_with_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """torchrun would end with code 1, and none of the findings would say why."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    nowhere: Any = SimpleNamespace(scratch=tmp_path)
    with pytest.raises(rank_stage.RanksNotReached) as caught:
        rank_stage.run_stage(nowhere, nowhere, nowhere)

    install = f"Install it there: {sys.executable} -m pip install torch"
    message = f"the rank checks did not start: {sys.executable} has no module torch. {install}"
    assert message == str(caught.value)


def test_an_interface_that_the_node_lacks_is_said_with_those_that_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """gloo's error names no setting, and on a busy machine the finding would say that the gate should be run again."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    here: Any = SimpleNamespace(scratch=tmp_path, roster=Roster((), 1, "eth77"))
    message = r"did not start: this node has no network interface eth77, but .*\blo\b.*`interface`"

    with pytest.raises(rank_stage.RanksNotReached, match=f"the rank checks {message}"):
        rank_stage.run_stage(here, here, here)


@pytest.mark.parametrize("interface", ["", "lo", "l", "^docker0,lo", "=eth77", "eth77,eth78"])
def test_an_interface_that_the_node_has_or_that_nccl_reads_otherwise_refuses_nothing(interface: str) -> None:
    """NCCL takes the beginning of a name, lists, and what "^" leaves out (its documentation, NCCL_SOCKET_IFNAME)."""
    assert rank_stage.interface_problem(interface) == ""


def test_no_rank_connects_to_the_store_after_the_ranks_have_met(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch's store looks up the name of whoever connects, and answers nobody meanwhile: seconds, without a name server."""
    distributed = pytest.importorskip("torch.distributed")
    calls: list[str] = []

    class Store(dict[str, bytes]):
        def clone(self) -> str:
            calls.append("connects")
            return "the other connection"

        def set(self, key: str, text: str) -> None:
            calls.append("says that it is there")
            self[key] = text.encode()

        def wait(self, keys: list[str], timeout: object) -> None:
            calls.append("waits")

    monkeypatch.setattr(distributed, "init_process_group", lambda *given, **named: None)
    monkeypatch.setattr(distributed.distributed_c10d, "_get_default_store", Store)
    made = init_group(cast(NodeContext, SimpleNamespace(checks=())), RankPlace(0, 0, 1, "cpu"), 1.0)

    assert (made, calls) == ("the other connection", ["connects", "says that it is there", "waits"])


@pytest.mark.parametrize(
    "end", [OSError(12, "No memory"), rank_stage.RanksNotReached("no rank began"), "a rank hangs"]
)
def test_closing_checks_run_after_a_rank_stage_that_could_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: Exception | str
) -> None:
    """What the closing checks see is worth the more. Where a rank is to blame, the ranks' silence has to show which."""
    closing = replace(toy_check("toy.closing"), closing=True)
    ranks = replace(toy_check("toy.rank"), scope=Scope.RANK)
    measured = Observation(closing.name, "node-0", Outcome.MEASURED, 0.0, {"value": 1})
    monkeypatch.setattr(node_run, "_isolated", lambda *given, **named: measured)
    monkeypatch.setattr(rank_stage, "run_stage", Mock(side_effect=[end]))
    kept = run(tmp_path, lambda: None, closing, ranks, ranks=2)

    assert Outcome.MEASURED is kept["toy.closing"].outcome
    if isinstance(end, str):
        assert "toy.rank" not in kept
    else:
        last = kept["toy.rank"]
        assert ("node-0/rank-1", ErrorKind.NOT_REACHED) == (last.subject, last.error_kind)
        assert str(end) in last.reason
