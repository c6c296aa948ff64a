"""The flow on a real Prefect server and the real local launcher; only the checks' measurements are made up."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tasks import lease as leases
from tasks import watch
from tasks.console import Live
from tasks.launchers.base import JobHandle, NoCapacity, Plan
from tasks.launchers.local import LocalLauncher
from tasks.outcome import Decision, Outcome
from tasks.prefect_server import EmbeddedServer
from tasks.progress import LISTENER
from tasks.request import Advanced, GateRequest
from tasks.session import end_run, open_session
from tasks.store.base import StoreFull
from tasks.store.folder import FolderStore
from tests.flows.gates import processes_below, runs, write_gate
from tests.prefect_backend import prefect_backend, template_dir

__all__ = ["prefect_backend", "template_dir"]
pytestmark = pytest.mark.usefixtures("prefect_backend")


@pytest.fixture(autouse=True)
def play(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """What the fake nodes play; nobody's deadlines are long."""
    monkeypatch.setattr(watch, "GRACE_S", 0.5)
    monkeypatch.setenv("FAKE_NODE", "healthy")
    return lambda part: monkeypatch.setenv("FAKE_NODE", part)


def request_of(path: Path, *overrides: str, wait: Any = "finished", ask_minutes: int = 0) -> GateRequest:
    """The request that the command line would make."""
    advanced = Advanced(overrides=list(overrides), ask_minutes=ask_minutes)
    return GateRequest(gate_file=str(path), wait=wait, advanced=advanced)


async def run(request: GateRequest) -> tuple[Any, Outcome]:
    """Run the flow: its final state and its outcome."""
    from flows.gate import gate

    shown = Live(None)
    LISTENER.set(shown)
    state = await gate(request, return_state=True)
    if shown.outcome is None:
        await state.aresult(raise_on_failure=True)
    assert shown.outcome is not None
    return state, shown.outcome


def gate_it(path: Path, *overrides: str, **more: Any) -> tuple[Any, Outcome]:
    """Run the flow to its end, and see that nothing of it is left."""
    state, outcome = asyncio.run(run(request_of(path, *overrides, **more)))
    store = path.parent / "store"
    assert not list((store / "leases").rglob("*.json"))
    assert not list((store / "work").glob("*"))
    if more.get("wait", "finished") == "finished":
        assert processes_below(path.parent) == []
    return state, outcome


def logs(folder: Path, stage: str) -> str:
    """What the nodes of a stage printed."""
    return "".join(
        p.read_text() for p in sorted(folder.glob(f"store/clusters/*/jobs/*-{stage}-*/nodes/*/log"))
    )


def test_healthy_nodes_launch_the_training(tmp_path: Path) -> None:
    """GO: the command ran on every node, and the report, verdict and page for people are kept."""
    state, outcome = gate_it(write_gate(tmp_path))

    assert (state.name, outcome.decision, outcome.code) == ("Launched", Decision.LAUNCHED, 0)
    assert logs(tmp_path, "train").count("trained") == 2
    kept = {path.name for path in (tmp_path / "store" / "gates" / outcome.gate_id).iterdir()}
    assert kept == {"health_check_metrics.json", "verdict.json", "report.html", "summary.md", "outcome.json"}
    assert outcome.training is not None and outcome.training.detail == "node-0: trained"


def test_the_run_can_be_read_in_prefect(tmp_path: Path, prefect_backend: EmbeddedServer) -> None:
    """Its name is a sentence; verdict, nodes and report are artifacts under stable keys."""

    async def read() -> tuple[Any, dict[str | None, Any]]:
        from prefect.client.orchestration import get_client
        from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterFlowRunId

        state, _ = await run(request_of(write_gate(tmp_path)))
        async with get_client() as client:
            flow_run = await client.read_flow_run(state.state_details.flow_run_id)
            chosen = ArtifactFilter(flow_run_id=ArtifactFilterFlowRunId(any_=[flow_run.id]))
            return flow_run, {a.key: a for a in await client.read_artifacts(artifact_filter=chosen)}

    flow_run, artifacts = asyncio.run(read())

    assert flow_run.name == "gate test: 2 nodes, quick"
    assert {"gate-verdict-test", "gate-nodes-test", "gate-report-test", "gate-progress-test"} <= set(
        artifacts
    )
    assert artifacts["gate-verdict-test"].description.startswith("GO test: 2 of 2 nodes")


def test_wrong_sums_refuse_and_name_the_rank(tmp_path: Path, play: Callable[[str], None]) -> None:
    """NO-GO: nothing was launched, the state says Refused, the page names the culprit."""
    play("wrong")

    state, outcome = gate_it(write_gate(tmp_path))

    assert (state.name, state.type.value, outcome.code) == ("Refused", "FAILED", 1)
    assert "node-1/rank-3" in state.message
    assert logs(tmp_path, "train") == ""
    page = (tmp_path / "store" / "pages" / f"{outcome.gate_id}.txt").read_text()
    assert page.startswith("NO-GO test: node-1/rank-3: collective.all_reduce")


@pytest.mark.parametrize(
    ("part", "said"),
    [
        ("silent", "its command ended with 7; its log ends: fake node node-0: silent"),
        ("lone", "node-1: its command ended with 7"),
        ("half", "its report ends before the checks did"),
        ("truncated", "its report cannot be read"),
    ],
)
def test_missing_evidence_is_cannot_tell(
    tmp_path: Path, play: Callable[[str], None], part: str, said: str
) -> None:
    """Nothing is launched, and what the job last said stands in the report as evidence."""
    play(part)

    state, outcome = gate_it(write_gate(tmp_path))

    assert (state.name, outcome.decision, outcome.code) == ("CannotTell", Decision.CANNOT_TELL, 3)
    assert outcome.judged is not None
    assert any(said in finding.message for finding in outcome.judged.verdict.findings)
    assert logs(tmp_path, "train") == ""


def test_checks_that_hang_are_ended(tmp_path: Path, play: Callable[[str], None]) -> None:
    """The job outlives its time: it is ended, and nobody can tell."""
    play("hang")

    begun = time.monotonic()
    _, outcome = gate_it(write_gate(tmp_path, checks_minutes=0.03))

    assert outcome.code == 3
    assert time.monotonic() - begun < 20


def test_observe_mode_launches_anyway(tmp_path: Path, play: Callable[[str], None]) -> None:
    """The verdict is recorded and paged, the training runs, and the exit code is 0."""
    play("wrong")

    state, outcome = gate_it(write_gate(tmp_path, policy='mode = "observe"'))

    assert (state.name, outcome.decision, outcome.code) == ("Observed", Decision.OBSERVED, 0)
    assert logs(tmp_path, "train").count("trained") == 2
    assert "observed only" in (tmp_path / "store" / "pages" / f"{outcome.gate_id}.txt").read_text()


@pytest.mark.parametrize(
    ("on_warn", "decision", "code"),
    [("go", Decision.LAUNCHED, 0), ("refuse", Decision.REFUSED, 1), ("ask", Decision.AWAITING, 1)],
)
def test_a_warning_does_what_the_policy_says(
    tmp_path: Path, play: Callable[[str], None], on_warn: str, decision: Decision, code: int
) -> None:
    """Go on, refuse, or leave it to a person, whom nobody can reach on an embedded server."""
    play("warn")

    _, outcome = gate_it(write_gate(tmp_path, on_warn=on_warn))

    assert (outcome.decision, outcome.code) == (decision, code)
    assert bool(logs(tmp_path, "train")) is (code == 0)


@pytest.mark.parametrize(
    ("action", "decision"), [("launch-anyway", Decision.LAUNCHED), ("block", Decision.REFUSED)]
)
def test_a_person_decides(
    tmp_path: Path, play: Callable[[str], None], action: str, decision: Decision
) -> None:
    """The paused run goes on as the answer says, and the answer's author is recorded."""
    play("warn")

    async def answer_it() -> Outcome:
        from prefect.client.orchestration import get_client
        from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterState
        from prefect.flow_runs import aresume_flow_run

        running = asyncio.create_task(run(request_of(write_gate(tmp_path, on_warn="ask"), ask_minutes=1)))
        async with get_client() as client:
            while not running.done():
                paused = FlowRunFilter(state=FlowRunFilterState(type={"any_": ["PAUSED"]}))
                for flow_run in await client.read_flow_runs(flow_run_filter=paused):
                    await aresume_flow_run(flow_run.id, run_input={"action": action, "approver": "Ada"})
                await asyncio.sleep(0.2)
        return (await running)[1]

    outcome = asyncio.run(answer_it())

    assert outcome.decision is decision
    assert "Ada" in outcome.reason


def test_a_failed_training_is_neither_go_nor_no_go(tmp_path: Path) -> None:
    """Exit code 4, with the failed node's last words; the PASS no longer stands."""
    command = ("{python}", "-c", "import sys; print('boom'); sys.exit(9)")

    state, outcome = gate_it(write_gate(tmp_path, training=command, policy="reuse_pass_minutes = 60"))

    assert (state.name, outcome.decision, outcome.code) == ("TrainingFailed", Decision.LAUNCHED, 4)
    assert "boom" in outcome.reason
    assert not (tmp_path / "store" / "passes" / "test.json").exists()


def test_a_training_that_outlives_its_time_is_ended(tmp_path: Path) -> None:
    """The job has a hard limit."""
    command = ("{python}", "-c", "import time; time.sleep(600)")

    _, outcome = gate_it(write_gate(tmp_path, training=command, training_minutes=0.1))

    assert outcome.code == 4


@pytest.mark.parametrize("wait", ["verdict", "started"])
def test_a_training_that_is_handed_over_runs_on(tmp_path: Path, wait: str) -> None:
    """Not waiting for the end does not end it."""
    done = tmp_path / "done"
    command = ("{python}", "-c", f"import time; time.sleep(2); open({str(done)!r}, 'a').close()")

    _, outcome = gate_it(write_gate(tmp_path, training=command), wait=wait)
    early = done.exists()
    deadline = time.monotonic() + 20
    while not done.exists() and time.monotonic() < deadline:
        time.sleep(0.05)

    assert (outcome.code, early, done.exists()) == (0, False, True)


def test_a_fresh_pass_is_reused(tmp_path: Path) -> None:
    """The second gate checks nothing, says whose PASS it stands on, and trains."""
    path = write_gate(tmp_path, policy="reuse_pass_minutes = 60")
    _, first = gate_it(path)

    _, second = gate_it(path)

    assert runs(tmp_path / "store") == 2
    assert second.judged is not None and second.judged.reused == first.gate_id
    assert logs(tmp_path, "train").count("trained") == 4


def test_a_pass_of_other_machines_is_checked_again_in_place(tmp_path: Path) -> None:
    """Where identities differ the nodes run the real checks before they train."""
    path = write_gate(tmp_path, policy="reuse_pass_minutes = 60")
    _, first = gate_it(path)
    report = tmp_path / "store" / "gates" / first.gate_id / "health_check_metrics.json"
    kept = tmp_path / "store" / "passes" / "test.json"
    other = report.read_bytes().replace(b'"boot_id":"', b'"boot_id":"other-')
    report.write_bytes(other)
    entry = json.loads(kept.read_text())
    kept.write_text(json.dumps({**entry, "report": hashlib.sha256(other).hexdigest()}))

    _, second = gate_it(path)

    assert "boot_id was other-" in logs(tmp_path, "train")
    assert list(tmp_path.glob("store/clusters/*/jobs/*-train-*/out/*/verdicts/node-0.json"))
    assert second.judged is not None and second.judged.reused == first.gate_id


@pytest.mark.parametrize(
    ("edit", "override"),
    [
        (None, "checks.profile=standard"),
        (b"corrupt", None),
    ],
)
def test_a_pass_that_does_not_fit_is_not_reused(
    tmp_path: Path, edit: bytes | None, override: str | None
) -> None:
    """Other checks, or a report that was changed since: the nodes are checked."""
    path = write_gate(tmp_path, policy="reuse_pass_minutes = 60")
    _, first = gate_it(path)
    if edit is not None:
        report = tmp_path / "store" / "gates" / first.gate_id / "health_check_metrics.json"
        report.write_bytes(report.read_bytes() + edit)

    gate_it(path, *([override] if override else []))

    assert runs(tmp_path / "store") == 4


def test_a_refusal_voids_an_older_pass(tmp_path: Path, play: Callable[[str], None]) -> None:
    """After a FAIL the cluster has no PASS to stand on."""
    path = write_gate(tmp_path, policy="reuse_pass_minutes = 60")
    gate_it(path)
    play("wrong")
    gate_it(path, "policy.reuse_pass_minutes=0")
    play("healthy")

    gate_it(path)

    assert runs(tmp_path / "store") == 6


def test_a_cancelled_flow_leaves_nothing(tmp_path: Path, play: Callable[[str], None]) -> None:
    """No job, no lease, no copy."""
    play("hang")
    path = write_gate(tmp_path)

    async def cancel() -> None:
        running = asyncio.create_task(run(request_of(path)))
        while len(processes_below(tmp_path)) < 3:
            await asyncio.sleep(0.05)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(cancel())

    assert processes_below(tmp_path) == []
    assert not list((tmp_path / "store" / "leases").rglob("*.json"))


def test_a_run_cancelled_in_prefect_ends(
    tmp_path: Path, play: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No worker watches a run in one's own process: it looks for itself."""
    from tasks import stop

    play("hang")
    monkeypatch.setattr(stop, "EVERY_S", 0.2)
    path = write_gate(tmp_path)

    async def cancel() -> Any:
        from prefect.client.orchestration import get_client
        from prefect.states import Cancelling

        from flows.gate import gate

        running = asyncio.ensure_future(gate(request_of(path), return_state=True))
        while len(processes_below(tmp_path)) < 3:
            await asyncio.sleep(0.05)
        async with get_client() as client:
            (flow_run,) = await client.read_flow_runs(limit=1, sort="START_TIME_DESC")  # type: ignore[arg-type]
            await client.set_flow_run_state(flow_run.id, Cancelling(), force=True)
        return await running

    state = asyncio.run(cancel())

    assert state.is_cancelled()
    assert processes_below(tmp_path) == []


def test_a_hook_in_another_process_ends_the_jobs(tmp_path: Path, play: Callable[[str], None]) -> None:
    """It knows the run's id and parameters only."""
    play("hang")
    request = request_of(write_gate(tmp_path))
    session = open_session(request, "run-1")
    from tasks.jobs import check_job
    from tasks.provision import submit

    submit(session, check_job(session.setting, session.gate_id, session.keeper.lease.job("check")))

    end_run(request, "run-1")
    end_run(request, "run-1")

    assert processes_below(tmp_path) == []
    assert not list((tmp_path / "store" / "leases").rglob("*.json"))


def test_a_report_that_cannot_be_kept_launches_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A verdict that nobody can read again is none: cannot tell, and it says why."""
    real = FolderStore.put

    def full(self: FolderStore, key: str, data: bytes) -> None:
        if key.startswith("gates/"):
            raise StoreFull("the store is full. Free space there.")
        real(self, key, data)

    monkeypatch.setattr(FolderStore, "put", full)

    state, outcome = gate_it(write_gate(tmp_path))

    assert (state.name, outcome.code) == ("CannotTell", 3)
    assert outcome.judged is not None and "full" in outcome.judged.verdict.findings[0].message
    assert logs(tmp_path, "train") == ""


def test_a_launcher_that_fails_before_the_verdict_is_no_capacity(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing was judged: exit code 5, and somebody is told."""

    def refuse(self: LocalLauncher, plan: Plan) -> JobHandle:
        raise NoCapacity("no machines now. Try later.")

    monkeypatch.setattr(LocalLauncher, "submit", refuse)

    state, outcome = gate_it(write_gate(tmp_path))

    assert (state.name, outcome.decision, outcome.code) == ("NoCapacity", None, 5)
    assert "no machines now" in (tmp_path / "store" / "pages" / f"{outcome.gate_id}.txt").read_text()


def test_a_lease_that_is_taken_away_ends_the_gate_and_not_the_jobs(
    tmp_path: Path, play: Callable[[str], None]
) -> None:
    """Its jobs are the adopter's now: this gate leaves them alone."""
    play("hang")
    path = write_gate(tmp_path)

    async def lose() -> Outcome:
        running = asyncio.create_task(run(request_of(path)))
        while len(processes_below(tmp_path)) < 3:
            await asyncio.sleep(0.05)
        (tmp_path / "store" / "leases" / "test.json").write_text("{}")
        return (await running)[1]

    before, leases.RENEW_S = leases.RENEW_S, 0.2
    try:
        outcome = asyncio.run(lose())
    finally:
        leases.RENEW_S = before
    left = processes_below(tmp_path)
    LocalLauncher(tmp_path / "store" / "clusters" / "test").cancel(f"{outcome.gate_id}-check-1")

    assert outcome.code == 3
    assert left
    assert processes_below(tmp_path) == []


def test_a_request_that_is_wrong_is_rejected(tmp_path: Path) -> None:
    """The run fails without a traceback, and says which key."""
    state, outcome = asyncio.run(run(request_of(write_gate(tmp_path), "cluster.declared.nodez=1")))

    assert (state.name, outcome.code) == ("Rejected", 2)
    assert "cluster.declared.nodez" in state.message


def test_a_second_gate_is_refused(tmp_path: Path) -> None:
    """One gate a cluster; the holder is named."""
    request = request_of(write_gate(tmp_path))
    holder = open_session(request, "somebody-else")

    state, outcome = asyncio.run(run(request))

    assert (state.name, outcome.code) == ("Rejected", 2)
    assert holder.gate_id in state.message
