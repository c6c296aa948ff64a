"""What tests of the back end `slurm` of the machines see of a cluster, and how they interrupt it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from tasks.launchers.slurm import commands
from tasks.launchers.slurm.commands import SlurmReply
from tasks.machines.base import Holder, Machine, Mark, Rung, ServiceState, Settled
from tasks.machines.slurm import SlurmMachines
from tests.engines.slurm_reboots import RebootingCluster
from tests.waiting import until

MARK = Mark("gate-7f3a", "gpu.ecc")
CHANGES = ("update", "create", "delete", "reboot")
SBATCH = ("sbatch", "--parsable", "-o", "/dev/null", "--chdir=/")


class Crash(Exception):
    """The process ended here."""


def crashing(*argv: str, timeout_s: float = 60.0) -> SlurmReply:
    """Run a command of Slurm, and end after a change."""
    said = commands.run(*argv, timeout_s=timeout_s)
    if argv[0] == "scontrol" and argv[1] in CHANGES:
        raise Crash
    return said


def seen(node: str = "n1") -> Machine:
    """How the back end sees a node."""
    return SlurmMachines().by_name()[node]


def state_of(node: str = "n1") -> tuple[ServiceState, Holder, str]:
    """Whether a node serves, who holds it, and for which gate."""
    one = seen(node)
    return one.service, one.holder, one.mark.gate_id if one.mark else ""


FENCED = (ServiceState.OUT, Holder.PRELAUNCH, MARK.gate_id)
TESTED = (ServiceState.TESTING, Holder.PRELAUNCH, MARK.gate_id)
SERVES = (ServiceState.SERVING, Holder.NOBODY, "")


def job(reboots: RebootingCluster, node: str = "n1", *words: str) -> str:
    """The number of a job that wants a node."""
    return reboots.run(*SBATCH, "-w", node, *words, "--wrap", "sleep 300").strip()


def job_state(reboots: RebootingCluster, number: str) -> str:
    """The state of a job."""
    return reboots.run("squeue", "-h", "-t", "all", "-j", number, "-o", "%T").strip()


def scheduled(reboots: RebootingCluster) -> None:
    """Let the scheduler go over the queue: a job that may start on a free node has started then."""
    number = reboots.run(*SBATCH, "-w", "n0", "--wrap", "true").strip()
    until(lambda: job_state(reboots, number) == "COMPLETED")
    reboots.run("scontrol", "show", "job", number)


def crashes(reboots: RebootingCluster, act: Callable[[SlurmMachines], object]) -> Iterator[None]:
    """Processes that end right after their first change, until one has nothing left to change; yields after each of them."""
    for _ in range(8):
        try:
            act(SlurmMachines(run=crashing))
        except Crash:
            scheduled(reboots)
            yield
        else:
            return
    raise AssertionError("it never came to its end")


def rebooted(before: Machine, seconds: float = 90.0) -> Settled:
    """How a reboot ended."""
    settled = Settled.PENDING
    deadline = time.monotonic() + seconds
    while settled is Settled.PENDING:
        assert time.monotonic() < deadline, seen()
        time.sleep(0.2)
        settled = SlurmMachines().settled(Rung.REBOOT, before, seen())
    return settled
