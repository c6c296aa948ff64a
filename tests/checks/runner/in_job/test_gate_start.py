"""How the gate becomes the command."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from checks.model import Declared
from checks.roster import Member, Roster
from checks.runner.in_job import gate
from checks.runner.node_context import NodeContext


def test_the_command_works_where_the_container_did(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent runs the checks elsewhere, and no word of it reaches the command."""
    seen: list[tuple[str, bool]] = []
    here, working = tmp_path / "here", tmp_path / "working"
    here.mkdir()
    working.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setenv("PRELAUNCH_WORKING_FOLDER", str(working))
    monkeypatch.setattr(
        os,
        "execvpe",
        lambda *words: seen.append((os.getcwd(), "PRELAUNCH_WORKING_FOLDER" in words[2])),
    )
    node_context = SimpleNamespace(
        bundle=SimpleNamespace(declared=Declared("cpu", 1, 0, 1)),
        roster=Roster((Member("a", "127.0.0.1", 1),), 2, "lo"),
        node="a",
        node_rank=0,
        key_path=tmp_path / "exchange.key",
    )
    gate.start(cast(NodeContext, node_context), "x", Path("out"), ("true",), None)

    assert ([(str(working), False)], True) == (seen, (here / "out/x/started/a").is_file())
