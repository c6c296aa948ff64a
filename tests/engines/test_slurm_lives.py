"""A gate on a real Slurm cluster loses a node, or is killed itself: each start of a job is gated, and there is one job."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tasks.gate.outcome import Decision
from tests.engines.slurm_cluster import SlurmCluster
from tests.engines.slurm_gates import jobs_below, slurm_gate
from tests.flows.driving import gate_of_few_checks, kept
from tests.survival import few_checks
from tests.waiting import until

pytestmark = [pytest.mark.root, pytest.mark.long, pytest.mark.timeout(400)]
# The first start waits until it is ended; the second one ends at once.
TWICE = """
import os, sys, time
mark = sys.argv[1] + "/" + os.environ["PRELAUNCH_NODE"]
first = not any(name.startswith("life-") for name in os.listdir(sys.argv[1]))
time.sleep(2)
open(sys.argv[1] + "/life-" + os.environ["PRELAUNCH_ATTEMPT"] + "-" + os.environ["PRELAUNCH_NODE"], "w").close()
time.sleep(300 if first else 0)
print("trained")
"""


@contextmanager
def n1_dies_when(slurm: SlurmCluster, so: Callable[[], object]) -> Iterator[None]:
    """Kill all that runs on n1 once it is so, and let Slurm start the job again at once. Afterwards n1 is there again."""

    def lose() -> None:
        until(so, seconds=120.0)
        running = slurm.processes("n1")
        slurm.kill("n1")
        for pid in running:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        # Slurm waits two minutes before it starts a job again.
        until(lambda: "BeginTime" in slurm.run("squeue", "-h", "-o", "%r"), seconds=120.0)
        (number,) = slurm.run("squeue", "-h", "-o", "%A").split()
        slurm.run("scontrol", "update", f"jobid={number}", "starttime=now")

    breaker = threading.Thread(target=lose)
    breaker.start()
    try:
        yield
        breaker.join()
    finally:
        slurm.start_node("n1")
        slurm.run("scontrol", "update", "nodename=n1", "state=resume", check=False)


@pytest.mark.usefixtures("prefect_backend")
def test_a_node_that_dies_is_replaced_and_the_second_start_is_gated_anew(
    slurm: SlurmCluster, tmp_path: Path
) -> None:
    """A node is lost while the job trains: Slurm starts it again on other nodes, which check themselves under another token."""
    marks = tmp_path / "shared" / "marks"
    marks.mkdir(parents=True)
    path = slurm_gate(tmp_path / "shared", training=("{python}", "-c", TWICE, str(marks)))

    with n1_dies_when(slurm, lambda: len(list(marks.iterdir())) == 2):
        outcome = gate_of_few_checks(path)
    (job,) = jobs_below(path).values()
    lives: dict[str, set[str]] = {}
    for mark in marks.iterdir():
        _, token, node = mark.name.split("-")
        lives.setdefault(token, set()).add(node)
    ending = json.loads((job / "ended.json").read_bytes())
    report = kept(path.parent, outcome, "health_check_metrics.json")

    assert (Decision.LAUNCHED, 0) == (outcome.decision, outcome.code), outcome.reason
    first, second = sorted(lives.values(), key=lambda nodes: "n1" not in nodes)
    assert (first, len(second), "n1" in second) == ({"n0", "n1"}, 2, False)
    assert (ending["restarts"], ending["exit_code"]) == (1, 0)
    assert {token: {p.stem for p in (job / "out" / token / "nodes").iterdir()} for token in lives} == lives
    assert lives[report["attempt"]] == second
    records = (job / "out" / report["attempt"] / "agent").iterdir()
    assert ["1", "1"] == [json.loads(record.read_bytes())["restarts"] for record in records]
    until(lambda: slurm.processes("n1") == [] and slurm.run("squeue", "-h") == "", seconds=60.0)


def test_a_gate_that_is_killed_is_taken_over_by_the_next(slurm: SlurmCluster, tmp_path: Path) -> None:
    """The second command adopts the job of the first: one job checks and trains, once."""
    wait = "import time; time.sleep(8); print('trained')"
    path = slurm_gate(tmp_path / "shared", training=("{python}", "-c", wait))
    argv = (sys.executable, few_checks.__file__, "gate", str(path), "--wait", "finished", "--format", "json")
    environment = {**os.environ, "PYTHONPATH": str(Path(few_checks.__file__).parents[2])}
    environment.pop("PREFECT_API_URL", None)
    with subprocess.Popen(
        argv, env=environment, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    ) as first:  # fmt: skip
        until(
            lambda: any([*(job / "out").glob("*/agent/*.json")] for job in jobs_below(path).values()),
            seconds=120.0,
        )
        os.killpg(first.pid, signal.SIGKILL)
        first.wait()
    done = subprocess.run(
        argv, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
    )
    (job,) = jobs_below(path).values()

    assert (done.returncode, json.loads(done.stdout)["decision"]) == (0, "launched"), done.stderr
    line = f"adopt: this gate continues job {job.name} of an earlier run, whose process is gone"
    assert line in done.stderr
    assert len(list((job / "out").glob("*/started"))) == 1
    assert "".join(log.read_text() for log in (job / "logs").iterdir()).count("\ntrained\n") == 2
    assert slurm.run("squeue", "-h", "-t", "all", "-n", job.name, "-o", "%T") == "COMPLETED\n"
