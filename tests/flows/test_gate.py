"""The flow on a real Prefect server and the real local launcher, or an engine in this process; the measurements are made up."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
import subprocess
import sys
import time
from html import unescape
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import pytest
from prefect.settings import PREFECT_CLIENT_MAX_RETRIES, temporary_settings
from prefect.utilities import collections

from flows.cli.main import main
from tasks.gate.outcome import Decision, GateOutcome
from tasks.launchers.base import JobState, JobStatus
from tasks.reports.gate_folder.decision import kept_beside
from tasks.reports.read import read_input
from tests.flows.answering import answer_all, form
from tests.flows.cli.conftest import Captured
from tests.flows.driving import Play, gate_it, logs, page, request_of, run
from tests.flows.fake_engine import Engine
from tests.flows.gates import KEYS, write_gate
from tests.flows.pools import fake_gate

pytestmark = pytest.mark.usefixtures("prefect_backend", "play")
ROOT = Path(__file__).parents[2]


@pytest.fixture
def walked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The types of all values through which Prefect walks in search of futures."""
    seen: list[str] = []
    visit = collections.visit_collection

    def noting(expr: Any, *args: Any, **more: Any) -> Any:
        seen.append(type(expr).__name__)
        return visit(expr, *args, **more)

    monkeypatch.setattr(collections, "visit_collection", noting)
    return seen


def test_healthy_nodes_launch_the_training(tmp_path: Path, walked: list[str]) -> None:
    """GO: the command ran on every node, and the report, verdict and page for people are kept. In Prefect the run's name is a
    sentence; the verdict, the progress and the status are its artifacts, and nothing else.
    """
    flow_run, state, outcome, artifacts = asyncio.run(_read(write_gate(tmp_path)))
    verdict = artifacts["gate-verdict-test"]

    assert (state.name, outcome.decision, outcome.code) == ("Launched", Decision.LAUNCHED, 0)
    assert logs(tmp_path, "train").count("trained") == 2
    kept = {path.name for path in (tmp_path / "store" / "gates" / outcome.gate_id).iterdir()}
    files = {"policy.json", "verdict.json", "report.html", "summary.md", "outcome.json", "request.json"}
    assert kept >= {*files, "health_check_metrics.json", "logs"}
    of_gate = kept_beside(*read_input(str(tmp_path / "store" / "gates" / outcome.gate_id)))
    assert of_gate is not None and of_gate.file.endswith("policy.json")
    assert outcome.training is not None and outcome.training.detail == "node-0: trained"
    assert "GateRequest" in walked and set() == {"Observation", "Planned", "Coverage"} & set(walked)

    assert flow_run.name == "gate test: 2 nodes, quick"
    assert {"gate-verdict-test", "gate-progress-test", "gate-run-test"} == set(artifacts)
    said = unescape(verdict.data)
    assert "report.html (a file of " in said and "Gate file: /" in said and "file://" not in said
    assert verdict.description.startswith("GO test: 2 of 2 nodes")


async def _read(path: Path) -> tuple[Any, Any, GateOutcome, dict[str | None, Any]]:
    """The flow run, its final state, the outcome, and the artifacts by key."""
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterFlowRunId

    state, outcome = await run(request_of(path))
    async with get_client() as client:
        flow_run = await client.read_flow_run(state.state_details.flow_run_id)
        chosen = ArtifactFilter(flow_run_id=ArtifactFilterFlowRunId(any_=[flow_run.id]))
        found = await client.read_artifacts(artifact_filter=chosen)
        return flow_run, state, outcome, {a.key: a for a in found}


def test_wrong_sums_refuse_and_name_the_rank(tmp_path: Path, engine: Engine, capsys: Captured) -> None:
    """NO-GO: nothing was launched, the state says Refused, the page names the culprit."""
    engine.parts = ["wrong"]

    state, outcome = gate_it(fake_gate(tmp_path))

    assert (state.name, state.type.value, outcome.code) == ("Refused", "FAILED", 1)
    assert "node-1, rank 3 computes wrong sums" in state.message
    assert [f"{outcome.gate_id}-check-1"] == list(engine.jobs) and engine.idle
    assert outcome.placement is not None and ("released",) == outcome.placement.proof
    sent, stored = page(tmp_path, outcome), tmp_path / "store" / "gates" / outcome.gate_id
    assert sent.startswith("NO-GO test: node-1, rank 3 computes wrong sums")
    pages = [sent, (stored / "report.html").read_text(), (stored / "summary.md").read_text()]
    assert all("Training was not started." in text for text in pages)
    _require_the_same_again(tmp_path, outcome.gate_id, capsys)


def _require_the_same_again(folder: Path, gate_id: str, capsys: Captured) -> None:
    """What the gate kept says which report it is of, and judging that again says the same."""
    kept = folder / "store" / "gates" / gate_id
    data = (kept / "health_check_metrics.json").read_bytes()
    said = json.loads((kept / "verdict.json").read_bytes())
    assert 1 == main(["judge", str(kept), "--policy", str(folder / "policy.toml"), "--format", "json"])
    again = json.loads(capsys.readouterr().out)

    assert hashlib.sha256(data).hexdigest() == said["digests"]["report"]
    for key in KEYS:
        assert said[key] == again[key], key


def test_missing_evidence_is_cannot_tell(tmp_path: Path, play: Play) -> None:
    """Nothing is launched, what the job last said stands in the report as evidence, and the progress ends with what was seen: of two
    nodes one never reports.
    """
    play("lone")

    _, state, outcome, artifacts = asyncio.run(_read(write_gate(tmp_path)))

    assert (state.name, outcome.decision, outcome.code) == ("CannotTell", Decision.CANNOT_TELL, 3)
    assert outcome.judged is not None
    found = [finding.message for finding in outcome.judged.verdict.findings]
    assert any("sent no report (its process exited 7)" in message for message in found)
    assert logs(tmp_path, "train") == ""
    assert artifacts["gate-progress-test"].description.startswith("1 of 2 nodes report")
    assert float(artifacts["gate-progress-test"].data) < 100.0


def test_a_run_cancelled_in_prefect_ends(
    tmp_path: Path, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No worker watches a run in one's own process: it looks for itself."""
    from tasks.gate import cancellation

    engine.parts = ["hang"]
    monkeypatch.setattr(cancellation, "EVERY_S", 0.2)
    path = fake_gate(tmp_path)

    async def cancel() -> Any:
        from prefect.client.orchestration import get_client
        from prefect.states import Cancelling

        from flows.gate import gate

        running = asyncio.ensure_future(gate(request_of(path), return_state=True))
        while not engine.count("state"):
            await asyncio.sleep(0.05)
        async with get_client() as client:
            lease = json.loads((tmp_path / "store" / "leases" / "test.json").read_bytes())
            await client.set_flow_run_state(UUID(lease["owner"]["flow_run_id"]), Cancelling(), force=True)
        return await running

    state = asyncio.run(cancel())

    assert state.is_cancelled() and engine.idle
    (kept,) = [json.loads(path.read_bytes()) for path in tmp_path.glob("store/gates/*/outcome.json")]
    reason = "cancelled in Prefect; the jobs that it had started were ended"
    assert ("cancelled", reason) == (kept["ending"], kept["reason"])


def test_no_setting_makes_prefect_retry_a_flow() -> None:
    """A run that waits in its process for a retry and loses its worker is offered for ever: "Cannot transition to PENDING"."""
    flows = ["commission", "gate", "reap", "remedy"]
    code = "".join(f"from flows.{name} import {name}; print({name}.retries);" for name in flows)
    environment = {**os.environ, "PREFECT_FLOWS_DEFAULT_RETRIES": "2"}
    done = subprocess.run(
        (sys.executable, "-c", code), env=environment, cwd=ROOT, capture_output=True, text=True
    )

    assert ["0"] * len(flows) == done.stdout.split(), done.stderr


@pytest.mark.long
@pytest.mark.parametrize("phase", [r"POST \S+/flow_runs/ ", "/artifacts/ ", "/input ", '"COMPLETED"'])
def test_a_minute_of_503_in_any_phase_changes_no_end(
    tmp_path: Path, engine: Engine, monkeypatch: pytest.MonkeyPatch, phase: str
) -> None:
    """With the patience that a client of a configured server has. From the first such request on a fake answers in its place."""
    engine.parts, ends = ["warn"], list[float]()
    real, real_sync = httpx.AsyncClient.send, httpx.Client.send

    def away(request: httpx.Request) -> httpx.Response | None:
        if not ends and re.search(phase, f"{request.method} {request.url.path} {request.content.decode()}"):
            ends.append(time.monotonic() + 60)
        return httpx.Response(503, request=request) if ends and time.monotonic() < ends[0] else None

    async def send(self: httpx.AsyncClient, request: httpx.Request, **more: Any) -> httpx.Response:
        return away(request) or await real(self, request, **more)

    def send_sync(self: httpx.Client, request: httpx.Request, **more: Any) -> httpx.Response:
        return away(request) or real_sync(self, request, **more)

    monkeypatch.setattr(httpx.AsyncClient, "send", send)
    monkeypatch.setattr(httpx.Client, "send", send_sync)
    request = request_of(fake_gate(tmp_path, on_warn="ask"), ask_minutes=10)
    with temporary_settings({PREFECT_CLIENT_MAX_RETRIES: 5}):
        state, outcome = asyncio.run(answer_all(request, form("launch-anyway")))

    assert ends and time.monotonic() > ends[0], "the server was away for a minute"
    assert ("Launched", Decision.LAUNCHED, 0) == (state.name, outcome.decision, outcome.code)
    assert engine.idle and not list((tmp_path / "store" / "leases").rglob("*.json"))


@pytest.mark.usefixtures("without_prefect")
def test_a_warning_that_nobody_can_approve_launches_nothing(tmp_path: Path, engine: Engine) -> None:
    """The policy leaves it to a person, whom nobody can reach on an embedded server."""
    engine.parts = ["warn"]

    _, outcome = gate_it(fake_gate(tmp_path, on_warn="ask"))

    assert (Decision.AWAITING, 1) == (outcome.decision, outcome.code)
    assert [f"{outcome.gate_id}-check-1"] == list(engine.jobs) and engine.idle


@pytest.mark.usefixtures("without_prefect")
def test_a_failed_training_is_neither_go_nor_no_go(tmp_path: Path, engine: Engine) -> None:
    """Exit code 4, with the failed node's last words; the PASS no longer stands."""
    engine.train_endings = [JobStatus(JobState.FAILED, "exit code 9", "r1", {"node-1": 9})]

    state, outcome = gate_it(fake_gate(tmp_path, policy="reuse_pass_minutes = 60"))

    assert (state.name, outcome.decision, outcome.code) == ("TrainingFailed", Decision.LAUNCHED, 4)
    assert "the last words of node-1" in outcome.reason
    assert not (tmp_path / "store" / "passes" / "test.json").exists()


def test_local_job_that_passes_checks_and_trains_in_one_start(tmp_path: Path) -> None:
    """GO: the command ran on every node of the job that was checked, and nowhere else."""
    _, outcome = gate_it(write_gate(tmp_path, options="in_job = true"))

    assert (Decision.LAUNCHED, 0) == (outcome.decision, outcome.code)
    assert outcome.placement is not None
    assert ("all 2 nodes checked themselves and trained, in one start of one job",) == outcome.placement.proof
    assert 1 == len(list(tmp_path.glob("store/clusters/*/jobs/*")))
    assert 2 == logs(tmp_path, "train").count("trained")
