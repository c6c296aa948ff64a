"""What Slurm's commands answer, as Slurm 22.05 gave it, in the place of commands.run: no Slurm is asked."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from tasks.launchers.base import JobSpec, PreflightCheck
from tasks.launchers.slurm import commands, preflight
from tasks.launchers.slurm.commands import SlurmReply
from tasks.launchers.slurm.launcher import SlurmLauncher
from tasks.launchers.slurm.options import SlurmOptions
from tests.tasks.launchers.slurm.test_batch_script import JOB, plan

Look = Callable[..., Mapping[str, PreflightCheck]]
NAME = JOB.name
REFUSED = SlurmReply(1, "", "sbatch: error: Batch job submission failed: Invalid account")
TAKEN = SlurmReply(0, "5\n", "")
DONE = SlurmReply(0, "", "")
NO_ACCOUNTS = SlurmReply(1, "", "Slurm accounting storage is disabled")
SILENT = SlurmReply(1, "", "slurm_load_jobs error: Unable to contact slurm controller (connect failure)")

WILL_START = "sbatch: Job 4 to start at 2026-11-23T20:30:19 using 1 processors on nodes n0 in partition"
PARTITION = (
    "PartitionName={} AllowGroups=ALL Default={} MaxTime={} MinNodes=0 Nodes=n[0-3] State={} TotalNodes=4\n"
)
PARTITIONS = (
    PARTITION.format("gpu", "YES", "02:00:00", "UP")
    + PARTITION.format("closed", "NO", "UNLIMITED", "DOWN")
    + PARTITION.format("long", "NO", "7-00:00:00", "UP")
)
SEEN = "node n0\nseen True\nwrites True\npython python3\nversion 3 11\ntorch True\n"
HOUR = replace(JOB, max_runtime_s=3600.0)


@dataclass
class Answers:
    """What each command answers; `asked` is what was called. The first `silent` calls of squeue are not answered. The partition is
    hidden: squeue and sinfo leave out what is in it unless they are asked for all of them.
    """

    squeue: str = ""
    silent: int = 0
    sbatch: SlurmReply = TAKEN
    scancel: SlurmReply = DONE
    sinfo: SlurmReply = DONE
    sacct: SlurmReply = NO_ACCOUNTS
    asked: list[tuple[str, ...]] = field(default_factory=list)

    def __call__(self, *argv: str, timeout_s: float = 0.0) -> SlurmReply:
        """In the place of commands.run."""
        self.asked.append(argv)
        if argv[0] == "squeue" and self.silent:
            self.silent -= 1
            return SILENT
        if argv[0] in ("squeue", "sinfo") and "--all" not in argv:
            return DONE
        listed = SlurmReply(0, self.squeue, "")
        told = {"squeue": listed, "sbatch": self.sbatch, "scancel": self.scancel, "sinfo": self.sinfo}
        return told.get(argv[0], self.sacct)


def folder(slurm: SlurmLauncher) -> Path:
    """The job's folder."""
    return slurm.root / "jobs" / NAME


def looked_at(
    monkeypatch: pytest.MonkeyPatch,
    job: JobSpec = HOUR,
    options: SlurmOptions | None = None,
    refused: str = "",
    chosen: str = "gpu",
    seen: str = SEEN,
    nodes: str = "n0 idle\nn1 idle\n",
    busy: str = "",
    refusals: int = sys.maxsize,
    *,
    root: Path,
) -> Mapping[str, PreflightCheck]:
    """The lines of the preflight by subject; sbatch refuses so many times."""
    left, taken = [refusals], SlurmReply(0, "", f"{WILL_START} {chosen}")
    answers = {
        "scontrol": SlurmReply(0, PARTITIONS, ""),
        "sbatch": SlurmReply(1, "", refused) if refused else taken,
        "sinfo": SlurmReply(0, "n0\nn1\n", ""),
        "srun": SlurmReply(1, "", busy) if busy else SlurmReply(0, seen, ""),
    }

    def run(*argv: str, timeout_s: float = 0.0) -> SlurmReply:
        if (argv[0] == "scontrol" or "--partition" in argv) and "--all" not in argv:
            return DONE
        if argv[0] == "sbatch":
            left[0] -= 1
            return answers["sbatch"] if left[0] >= 0 else taken
        return SlurmReply(0, nodes, "") if "--Node" in argv else answers[argv[0]]

    monkeypatch.setattr(commands, "run", run)
    monkeypatch.setattr(preflight, "sleep", lambda seconds: None)
    made = options or SlurmOptions()
    checks = preflight.check((plan(job, made),), made, root)
    assert len({check.subject for check in checks}) == len(checks)
    return {check.subject: check for check in checks}
