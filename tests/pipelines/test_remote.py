"""`prelaunch run start` and `prelaunch run follow` as commands, against a real server and worker."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from tasks.orchestration import follow
from tests.flows.cli.conftest import Ended, Run
from tests.flows.cli.conftest import run as run
from tests.flows.gates import write_gate
from tests.pipelines.pipeline import ROOT
from tests.world import World


@pytest.fixture
def command(
    at_world: World,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    run: Run,
    capfdbinary: pytest.CaptureFixture[bytes],
) -> Run:
    """The command in this process, on the world's server, which prints what it deploys."""
    monkeypatch.chdir(tmp_path)

    def command(*words: object) -> Ended:
        capfdbinary.readouterr()
        return run(*words)

    return command


def _deployed(world: World, folder: Path, node: str, pool: str = "prelaunch") -> str:
    """A gate of this folder as a deployment; its name."""
    name = f"remote-{uuid4().hex[:8]}"
    request = {"request": {"gate_file": str(write_gate(folder))}}
    world.deploy(
        "flows/gate.py:gate", name, folder=ROOT, pool=pool, parameters=request,
        job_variables={"env": {"FAKE_NODE": node}}, enforce_parameter_schema=False,
    )  # fmt: skip
    return f"gate/{name}"


@pytest.mark.parametrize(
    ("node", "code", "word"),
    [("wrong", 1, "NO-GO test"), pytest.param("healthy", 0, "GO test", marks=pytest.mark.long)],
)
def test_a_deployment_is_run_and_waited_for(
    world_worker: World, command: Run, tmp_path: Path, node: str, code: int, word: str
) -> None:
    """The exit code and the table are the gate's own; watching the run afterwards says the same again."""
    name = _deployed(world_worker, tmp_path, node)

    pages = ("--junit", "out.xml", "--summary", "out.md", "--html", "out.html")
    done = command("run", "start", name, "--check-only", *pages)
    run = done.err.split("run ", 1)[1].split()[0]
    again = command("run", "follow", run)
    document = json.loads(
        command("run", "follow", f"http://127.0.0.1/runs/flow-run/{run}", "--format", "json").out
    )

    assert (done.code, again.code) == (code, code), done.err + done.out
    assert word in done.out and ("node-1" in done.out) is (code == 1)  # a go names no node
    assert again.out == done.out
    assert document["decision"] == ("refused" if code else "passed")
    kept = tmp_path / "store" / "gates" / document["gate_id"]
    assert (tmp_path / "out.md").read_text() == (kept / "summary.md").read_text()
    assert (tmp_path / "out.html").read_text() == (kept / "report.html").read_text()
    assert ("<failure" in (tmp_path / "out.xml").read_text()) is (code == 1)


def test_an_interrupted_trigger_ends_the_run(
    at_world: World, command: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a pipeline started does not outlive it. What a worker then does to its nodes: tests/survival/test_dead_runs.py."""
    started: list[UUID] = []

    async def interrupted(run: UUID, *_: object) -> None:
        started.append(run)
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.sleep(60)

    monkeypatch.setattr(follow, "follow", interrupted)
    name = _deployed(at_world, tmp_path, "healthy", at_world.pool("nobody-serves-it"))
    done = command("run", "start", name, "--summary", "out.md")

    assert done.code == 143, done.err
    assert "has been cancelled" in done.out and "SIGTERM received: cancelling the run" in done.err
    assert "CANCELLED" == at_world.run(str(started[0]))["state_type"]
    assert (tmp_path / "out.md").read_text().startswith("# CANCELLED gate\n\ncancelled by SIGTERM: run ")


def test_start_and_follow_reject_an_unknown_deployment_or_run(command: Run) -> None:
    """A deployment and a run that the server does not know, and a word that is no run."""
    known = [
        command("run", "start", "gate/nobody"),
        command("run", "follow", str(uuid4())),
        command("run", "follow", "yesterday"),
    ]

    assert [2, 2, 2] == [done.code for done in known]
    assert "has no deployment 'gate/nobody'" in known[0].err
    assert "has no flow run" in known[1].err
    assert "is not a flow run" in known[2].err


@pytest.mark.long
def test_a_run_that_goes_on_is_no_go(world: World, command: Run, tmp_path: Path) -> None:
    """Nobody takes the run: after the time that was given the code is 3, and the state is named."""
    name = f"remote-{uuid4().hex[:8]}"
    pool = world.pool(name)
    world.deploy("flows/gate.py:gate", name, folder=ROOT, pool=pool, enforce_parameter_schema=False)

    done = command(
        "run", "start", f"gate/{name}", "--gate", "local", "--timeout-minutes", "0.05", "--format", "json"
    )

    assert done.code == 3
    assert json.loads(done.out)["decision"] is None
    assert "has been cancelled" in done.err
