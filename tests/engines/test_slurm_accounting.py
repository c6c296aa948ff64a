"""How a job ended that slurmctld has forgotten and whose script recorded no end is known from a real slurmdbd alone."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from tasks.launchers.base import JobState, Trouble
from tasks.launchers.slurm.launcher import SlurmLauncher
from tasks.launchers.slurm.options import SlurmOptions
from tests.engines.slurm_accounting import AccountedCluster, no_accounting
from tests.engines.slurm_cluster import running_cluster
from tests.tasks.launchers.contract import SAY, WAIT, Bench, until_final
from tests.waiting import until

pytestmark = [pytest.mark.root, pytest.mark.long, pytest.mark.timeout(600)]
FORGOTTEN_S = 240.0


@dataclass(frozen=True)
class Forgotten:
    """A cluster, and the names of jobs that have ended and that squeue does not list any more, by what happened to each."""

    cluster: AccountedCluster
    bench: Bench
    jobs: Mapping[str, str]

    def folder(self, what: str) -> Path:
        """The folder of a job."""
        return self.bench.folder / "shared" / "jobs" / self.jobs[what]


@pytest.fixture(scope="module")
def forgotten(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forgotten]:
    """One job of one node for each way to end. Nobody asks for their states before they are forgotten."""
    if why := no_accounting():
        pytest.skip(why)
    folder = tmp_path_factory.mktemp("accounted")
    options = SlurmOptions(grace_s=1.0, poll_seconds=0.1, requeue=False)
    bench = Bench(lambda: SlurmLauncher(folder / "shared", options), folder, 90.0, agent=True)
    with (
        pytest.MonkeyPatch.context() as patch,
        running_cluster(AccountedCluster, tmp_path_factory.mktemp("slurm"), 4) as slurm,
    ):
        patch.setenv("PATH", slurm.path)
        patch.setattr("tasks.launchers.slurm.launcher.SETTLE_S", 1.0)
        made = Forgotten(slurm, bench, {what: submitted(bench, code) for what, code in CODES.items()})
        nodes = {what: node_of(made, what) for what in CODES if what != "well"}
        # A script that is told of the limit first would record how its node ended.
        for pid in slurm.processes(nodes["late"]):
            if "slurm_script" in command_of(pid):
                os.kill(pid, signal.SIGSTOP)
        slurm.run("scontrol", "update", f"jobname={made.jobs['late']}", "timelimit=1")
        slurm.run("scancel", f"--name={made.jobs['cancelled']}")
        end(pid for pid in slurm.processes(nodes["killed"]) if "slurm_script" in command_of(pid))
        running = slurm.processes(nodes["lost"])
        slurm.kill(nodes["lost"])
        end(running)
        listed = partial(slurm.run, "squeue", "--noheader", "--states=all", "--format=%j %T")
        until(lambda: not listed(), listed, FORGOTTEN_S, 1.0)
        yield made


# "well" ends at once, and has its node for a moment only: four nodes are enough for all.
CODES = {"well": SAY, "cancelled": WAIT, "late": WAIT, "killed": WAIT, "lost": WAIT}


def submitted(bench: Bench, code: str) -> str:
    """The name of a job of one node that runs."""
    launcher, job = bench.again(), bench.job(code, nodes=1, max_runtime_s=3600.0)
    launcher.submit(launcher.plan(job))
    return job.name


def node_of(made: Forgotten, what: str) -> str:
    """The node on which the job runs, once its command does."""
    out = made.folder(what) / "out"
    return until(lambda: list(out.glob("n?")), lambda: made.cluster.run("squeue"), made.bench.seconds)[0].name


def command_of(pid: int) -> str:
    """The words with which a process was started; "" if it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""


def end(pids: Iterable[int]) -> None:
    """Kill processes of this cluster's jobs."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def test_an_accounting_that_does_not_answer_is_no_end_of_a_job(forgotten: Forgotten) -> None:
    """The state is unknown while slurmdbd is gone, and the accounting's once it is there again."""
    launcher, name = forgotten.bench.again(), forgotten.jobs["cancelled"]
    forgotten.cluster.end_accounting()
    try:
        before = launcher.state(name)
    finally:
        forgotten.cluster.start_accounting()
    after = until_final(launcher, name, 60.0)

    assert (before.state, before.absent) == (JobState.UNKNOWN, False)
    assert "accounting" in before.detail
    assert (after.state, after.trouble) == (JobState.CANCELLED, Trouble.STOPPED)


@pytest.mark.parametrize(
    ("what", "state", "trouble", "says"),
    [
        ("cancelled", JobState.CANCELLED, Trouble.STOPPED, "is CANCELLED"),
        ("late", JobState.FAILED, Trouble.MAX_RUNTIME, "it reached its max runtime"),
        ("killed", JobState.FAILED, Trouble.ENDED, "is FAILED"),
        ("lost", JobState.FAILED, Trouble.SERVICE, "Slurm lost a node of it"),
    ],
)
def test_how_a_forgotten_job_ended_is_known_from_the_accounting(
    forgotten: Forgotten, what: str, state: JobState, trouble: Trouble, says: str
) -> None:
    """Its script recorded no end, and without accounting the answer would be that the job failed for no known reason."""
    recorded = (forgotten.folder(what) / "ended.json").exists()
    if recorded and what == "late":
        pytest.skip("Slurm let the script record its end before it killed it")
    status = until_final(forgotten.bench.again(), forgotten.jobs[what], 30.0)

    assert (recorded, status.state, status.trouble) == (False, state, trouble), status
    assert says in status.detail


def test_a_forgotten_job_whose_record_is_lost_ended_well(forgotten: Forgotten) -> None:
    """The accounting says so where the file of the script is gone."""
    (forgotten.folder("well") / "ended.json").unlink()
    status = until_final(forgotten.bench.again(), forgotten.jobs["well"], 30.0)

    assert (status.state, status.trouble) == (JobState.SUCCEEDED, Trouble.NONE), status
    assert list(status.exit_codes.values()) == [0]
