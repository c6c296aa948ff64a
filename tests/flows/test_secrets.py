"""A secret of the gate's environment that an engine, a node or a training prints is in nothing that the gate keeps, sends or shows."""

from __future__ import annotations

import asyncio
import gzip
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from checks import bundle as bundles
from checks.documents.report import dump_plain, load_node
from checks.model import Value
from tasks.launchers.base import JobState, JobStatus, LaunchRejected, PreflightCheck, PreflightResult
from tests.flows import fake_engine, fake_python
from tests.flows.driving import request_of, run
from tests.flows.fake_engine import Engine
from tests.flows.pools import fake_gate

pytestmark = pytest.mark.usefixtures("prefect_backend", "play")
TOKEN = "tk-5f0c9e1d7b3a48c2"
SAID = f"RuntimeError: 401 for token {TOKEN}\n"
LOG = f"Traceback (most recent call last):\n  File 'train.py'\n{SAID}"


def leaky(part: str, node: str, bundle: bundles.Bundle, out: Path, attempt: str) -> None:
    """A node that writes the token into every text of its report, and into its raw output."""
    _write(part, node, bundle, out, attempt)
    path = out / attempt / "nodes" / f"{node}.json"
    if part == "truncated":
        path.write_bytes(path.read_bytes() + TOKEN.encode())
        return
    report = load_node(path.read_bytes())
    told: dict[str, Value] = {"said": SAID, "lines": (SAID, "ok")}
    rows = [replace(row, evidence=SAID, metrics={**row.metrics, **told}) for row in report.observations]
    rows[0] = replace(rows[0], outcome=rows[0].outcome.ERRORED, reason=SAID, metrics={})
    identity = {**report.node.identity, "driver": SAID}
    made = replace(report, node=replace(report.node, identity=identity), observations=tuple(rows))
    path.write_bytes(dump_plain(made))
    packed = out / attempt / "evidence" / f"{'0' * 64}.gz"
    packed.parent.mkdir(exist_ok=True)
    packed.write_bytes(gzip.compress(SAID.encode()))


_write = fake_python.write


def _reports(engine: Engine) -> None:
    engine.parts = ["healthy"]


def _unreadable(engine: Engine) -> None:
    engine.parts = ["truncated"]


def _no_report(engine: Engine) -> None:
    engine.endings = [JobStatus(JobState.FAILED, SAID, "t1", {"node-0": 1}, history=(SAID,))]


def _refused(engine: Engine) -> None:
    engine.refusals = [LaunchRejected(SAID)]


def _training(engine: Engine) -> None:
    codes = {"node-0": 1, "node-1": 1}
    engine.train_endings = [JobStatus(JobState.FAILED, SAID, "r1", codes, history=(SAID,))]


def _preflight(engine: Engine) -> None:
    engine.lines = (PreflightCheck("image", PreflightResult.WRONG, SAID, SAID),)


@pytest.mark.parametrize(
    "plant", [_reports, _unreadable, _no_report, _refused, _training, _preflight], ids=lambda f: f.__name__[1:]
)  # fmt: skip
def test_no_text_from_outside_shows_a_secret(
    plant: Callable[[Engine], None], tmp_path: Path, engine: Engine, monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setenv("SITE_API_TOKEN", TOKEN)
    monkeypatch.setattr(Engine, "logs", lambda *of, **more: LOG)
    if plant is not _training:
        monkeypatch.setattr(fake_engine, "write", leaky)
    plant(engine)

    state, texts = asyncio.run(_all_of_prefect(fake_gate(tmp_path)))

    assert "removed" in "".join(texts) + str(state), "nothing was planted where it is shown"
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    kept = {path: _text(path) for path in files if (tmp_path / "engine") not in path.parents}
    assert [str(path) for path, text in kept.items() if TOKEN in text] == []
    assert TOKEN not in "".join(texts) + str(state) + caplog.text + "".join(capfd.readouterr())
    logs = [path for path in kept if path.match("*/logs/*/*.log")]
    assert {stat.S_IMODE(path.stat().st_mode) for path in logs} <= {0o600}
    assert logs or plant in (_refused, _preflight)


async def _all_of_prefect(path: Path) -> tuple[Any, list[str]]:
    """The final state of a gate, and every text that Prefect keeps of it."""
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.filters import LogFilter, LogFilterFlowRunId

    state, outcome = await run(request_of(path))
    async with get_client() as client:
        run_id = state.state_details.flow_run_id
        flow_run = await client.read_flow_run(run_id)
        artifacts = [str(one.data) for one in await client.read_artifacts()]
        lines = await client.read_logs(log_filter=LogFilter(flow_run_id=LogFilterFlowRunId(any_=[run_id])))
    return state, [str(outcome), flow_run.model_dump_json(), *artifacts, *(line.message for line in lines)]


def _text(path: Path) -> str:
    data = path.read_bytes()
    return (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8", "replace")
