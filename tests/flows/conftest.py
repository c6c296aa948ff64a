"""Fixtures of gates whose nodes, or whose engine too, are made up. They import Prefect when they are asked for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.prefect_backend import _settings

if TYPE_CHECKING:
    from tests.flows.driving import Play
    from tests.flows.fake_engine import Engine


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Engine:
    """The engine that the gate files of a test use; nobody waits long."""
    from tests.flows.pools import engine_of

    return engine_of(tmp_path, monkeypatch)


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch) -> Play:
    """What the fake nodes play; nobody's deadlines are long."""
    from tasks import collect

    monkeypatch.setattr(collect, "GRACE_S", 0.5)
    monkeypatch.setenv("FAKE_NODE", "healthy")
    return lambda part: monkeypatch.setenv("FAKE_NODE", part)


@pytest.fixture
def without_prefect(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Flows and tasks are called as functions, without Prefect's engine and server; what is meant for its pages goes nowhere.

    A gate takes a fifth of the time. What Prefect makes of its runs is tested in test_gate.py.
    """
    from prefect import Flow, Task
    from prefect.utilities.annotations import quote

    from tasks.orchestration import artifacts, events, status

    async def unseen(*_: object, **__: object) -> None:
        """An artifact."""

    def call(self: Any, *given: Any, return_state: bool = False, **more: Any) -> Any:
        return self.fn(*(one.unquote() if isinstance(one, quote) else one for one in given), **more)

    for function in (Flow, Task):
        monkeypatch.setattr(function, "__call__", call)
    for name in ("acreate_markdown_artifact", "acreate_progress_artifact", "aupdate_progress_artifact"):
        monkeypatch.setattr(artifacts, name, unseen)
    monkeypatch.setattr(status, "acreate_markdown_artifact", unseen)
    monkeypatch.setattr(events, "emit_event", lambda *_, **__: True)
    with _settings({"PREFECT_API_URL": "", "PREFECT_SERVER_EPHEMERAL_ENABLED": "false"}):
        yield
