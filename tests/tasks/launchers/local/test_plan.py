"""What would run on this machine, as a person reads it."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from tasks.launchers.base import JobSpec, LaunchRejected, Plan, Work
from tasks.launchers.local.launcher import LocalLauncher
from tasks.launchers.local.plan import PACKAGES, LocalNetwork, LocalOptions
from tests.tasks.launchers.golden import GOLDEN, golden_text

CHECKS = ("{python}", "-m", "checks", "run")
JOB = JobSpec(
    name="local-20260101-000000-ab12-check-1",
    command=(*CHECKS, "--bundle", "{job}/bundle.json", "--out", "{out}", "{node_rank}"),
    nodes=2,
    ranks_per_node=2,
    max_runtime_s=600.0,
    files={"bundle.json": b"{}"},
    environment={"GLOO_LOG_LEVEL": "info", "PYTHONPATH": "/srv/site-checks"},
    work=Work.CHECK,
)
ROOT = Path("/srv/prelaunch")


def is_golden(plan: Plan, name: str) -> None:
    """Every argv, environment and folder is what the golden file of this name says."""
    requests = [asdict(request) for request in plan.processes]
    text = json.dumps(requests, indent=2, ensure_ascii=False).replace(str(PACKAGES), "{packages}") + "\n"
    assert text == golden_text(GOLDEN / f"plan_local_{name}.json", text)


@pytest.mark.parametrize("network", list(LocalNetwork))
def test_the_plan_is_what_the_golden_file_says(network: LocalNetwork) -> None:
    """Every argv, environment and folder."""
    is_golden(LocalLauncher(ROOT, LocalOptions(network, python="/opt/python")).plan(JOB), network.value)


def test_planning_touches_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither disk, nor processes, nor the network; the environment makes no difference."""
    launcher = LocalLauncher(tmp_path / "work")
    first = launcher.plan(JOB)
    monkeypatch.setenv("OMP_NUM_THREADS", "64")
    events: list[str] = []
    watched = ("open", "os.mkdir", "subprocess.Popen", "socket.connect", "os.listdir")
    watching = True
    sys.addaudithook(lambda event, _: events.append(event) if watching and event in watched else None)
    second = launcher.plan(JOB)
    watching = False

    assert (first == second, events, list(tmp_path.iterdir())) == (True, [], [])


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"name": "../escape"}, "job name '../escape'"),
        ({"name": "Upper"}, "lower case"),
        ({"name": "x" * 64}, "not of the form"),
        ({"command": ()}, "has no command"),
        ({"nodes": 0}, "asks for 0 nodes"),
        ({"nodes": 10**6}, "1 to 240"),
        ({"max_runtime_s": 0.0}, "may run for 0"),
        ({"max_runtime_s": float("inf")}, "may run for inf"),
        ({"max_runtime_s": float("nan")}, "may run for nan"),
        ({"files": {"../x": b""}}, "cannot be named '../x'"),
        ({"files": {"state.json": b""}}, "cannot be named 'state.json'"),
        ({"files": {"life": b""}}, "cannot be named 'life'"),
        ({"environment": {"A=B": ""}}, "cannot be an environment variable"),
        ({"environment": {"A": "\0"}}, "cannot be an environment variable"),
    ],
)
def test_a_job_that_cannot_be_is_rejected(change: dict[str, object], says: str) -> None:
    """Before anything is touched, in words."""
    with pytest.raises(LaunchRejected, match=says.replace(".", r"\.")):
        LocalLauncher(ROOT).plan(replace(JOB, **change))  # type: ignore[arg-type]


def test_only_the_launchers_own_words_are_replaced() -> None:
    """What a node fills in stays, and a value is not read again for words."""
    job = replace(JOB, command=("{node_rank}", "{{job}}", "{out}{python}"))
    launcher = LocalLauncher(Path("/srv/{out}"), LocalOptions(python="/opt/{job}"))
    folder = f"/srv/{{out}}/jobs/{job.name}"
    words = ("{node_rank}", f"{{{folder}}}", f"{folder}/out/opt/{{job}}")

    assert launcher.plan(job).processes[0].argv == words
