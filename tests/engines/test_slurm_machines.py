"""The back end `slurm` of the machines on a real cluster: a node that was not proven never starts a job that is not ours."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from tasks.launchers.slurm import commands
from tasks.launchers.slurm.commands import Said
from tasks.machines.base import (
    ActAmbiguous,
    ActRefused,
    EngineSilent,
    Holder,
    Machine,
    MachineError,
    Mark,
    Rung,
    Service,
    Settled,
)
from tasks.machines.slurm import SlurmMachines
from tests.engines.slurm_cluster import unavailable
from tests.engines.slurm_reboots import BOOT_ID, RebootingCluster, rebooting_cluster

pytestmark = [pytest.mark.root, pytest.mark.timeout(180)]
MARK = Mark("gate-7f3a", "gpu.ecc")
CHANGES = ("update", "create", "delete", "reboot")
JDOE = ("scontrol", "update", "nodename=n1", "state=drain", "reason=jdoe: broken fan")


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RebootingCluster]:
    """Three nodes that can be rebooted."""
    if why := unavailable():
        pytest.skip(why)
    with rebooting_cluster(tmp_path_factory.mktemp("reboots"), 3) as cluster:
        yield cluster


@pytest.fixture
def slurm(running: RebootingCluster) -> Iterator[RebootingCluster]:
    """The cluster; afterwards all nodes wait for work, and nothing is reserved."""
    yield running
    running.run("scancel", "--user=root", check=False)
    running.reboots()
    until(lambda: not running.run("squeue", "-h"))
    for line in running.run("scontrol", "show", "reservation", "--oneliner").splitlines():
        if line.startswith("ReservationName="):
            running.run("scontrol", "delete", line.split()[0])
    for node in running.nodes:
        running.run("scontrol", "update", f"nodename={node}", "state=resume", check=False)
    running.until_idle()


class Crash(Exception):
    """The process ended here."""


class Steps:
    """A runner that calls `then` before or after the change with a number, counted from 1."""

    def __init__(self, number: int, then: Callable[[], None], after: bool = False) -> None:
        self.number, self.then, self.after, self.count = number, then, after, 0

    def __call__(self, *argv: str, timeout_s: float = 60.0) -> Said:
        """Run a command of Slurm."""
        change = argv[0] == "scontrol" and argv[1] in CHANGES
        self.count += change
        if change and self.count == self.number and not self.after:
            self.then()
        said = commands.run(*argv, timeout_s=timeout_s)
        if change and self.count == self.number and self.after:
            self.then()
        return said


def until(so: Callable[[], object], seconds: float = 60.0) -> None:
    """Wait until it is so."""
    deadline = time.monotonic() + seconds
    while not so():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def seen(node: str = "n1") -> Machine:
    """How the back end sees a node."""
    return SlurmMachines().look()[node]


def state_of(node: str = "n1") -> tuple[Service, Holder, str]:
    """Whether a node serves, who holds it, and for which gate."""
    one = seen(node)
    return one.service, one.holder, one.mark.gate_id if one.mark else ""


FENCED = (Service.OUT, Holder.PRELAUNCH, MARK.gate_id)
TESTED = (Service.TESTING, Holder.PRELAUNCH, MARK.gate_id)
SERVES = (Service.SERVING, Holder.NOBODY, "")


def job(slurm: RebootingCluster, node: str = "n1", *words: str) -> str:
    """The number of a job that wants a node."""
    return slurm.run(
        "sbatch", "--parsable", "-w", node, "-o", "/dev/null", "--chdir=/", *words, "--wrap", "sleep 300"
    ).strip()


def job_state(slurm: RebootingCluster, number: str) -> str:
    """The state of a job."""
    return slurm.run("squeue", "-h", "-t", "all", "-j", number, "-o", "%T").strip()


def scheduled(slurm: RebootingCluster) -> None:
    """Let the scheduler go over the queue: a job that may start on a free node has started then."""
    number = slurm.run(
        "sbatch", "--parsable", "-w", "n0", "-o", "/dev/null", "--chdir=/", "--wrap", "true"
    ).strip()
    until(lambda: job_state(slurm, number) == "COMPLETED")
    slurm.run("scontrol", "show", "job", number)


@pytest.mark.long
def test_nothing_starts_on_a_fenced_node_until_it_is_freed(slurm: RebootingCluster) -> None:
    """It shows whose it is, why, and since when."""
    machines = SlurmMachines()
    machines.fence("n1", MARK)
    foreign = job(slurm)
    scheduled(slurm)

    assert (state_of(), seen().mark, job_state(slurm, foreign)) == (FENCED, MARK, "PENDING")
    since = seen().since
    assert since is not None and abs(time.time() - since) < 60

    machines.free("n1", MARK)
    until(lambda: job_state(slurm, foreign) == "RUNNING")
    assert (seen().service, seen().holder, seen().jobs) == (Service.SERVING, Holder.NOBODY, (foreign,))


def test_only_our_job_runs_during_a_re_test(slurm: RebootingCluster) -> None:
    """On the node and on its partner; whoever waits for them starts when they are given back, and not before."""
    machines = SlurmMachines()
    assert (
        machines.fence("n1", MARK)
        == machines.fence("n1", MARK)
        == "IDLE+DRAIN prelaunch: gate-7f3a gpu.ecc [root]"
    )
    retest = machines.open_retest("n1", ("n2",), MARK)
    foreign = [job(slurm, node) for node in ("n1", "n2")]
    own = job(slurm, "n1,n2", "-N2", f"--reservation={retest.options['reservation']}")
    until(lambda: job_state(slurm, own) == "RUNNING")
    scheduled(slurm)

    assert retest.nodes == ("n1", "n2") and retest == machines.open_retest("n1", ("n2",), MARK)
    assert (state_of(), state_of("n2")) == (TESTED, (Service.TESTING, Holder.NOBODY, ""))
    assert seen().jobs == (own,)
    assert [job_state(slurm, one) for one in foreign] == ["PENDING", "PENDING"]
    with pytest.raises(ActRefused, match="in use"):
        machines.free("n1", MARK)

    slurm.run("scancel", own)
    until(lambda: not seen().jobs)
    machines.close_retest("n1", MARK)
    machines.close_retest("n1", MARK)
    until(lambda: job_state(slurm, foreign[1]) == "RUNNING")
    assert (state_of(), job_state(slurm, foreign[0])) == (FENCED, "PENDING")
    machines.free("n1", MARK)
    until(lambda: job_state(slurm, foreign[0]) == "RUNNING")


def test_a_node_that_another_holds_is_left_as_it_is(slurm: RebootingCluster) -> None:
    """Not fenced, not rebooted, not tested, not freed, not even resumed."""
    slurm.run(*JDOE)
    before, machines = seen(), SlurmMachines()

    for change in (
        lambda: machines.fence("n1", MARK),
        lambda: machines.act(Rung.REBOOT, "n1", MARK),
        lambda: machines.open_retest("n1", (), MARK),
        lambda: machines.free("n1", MARK),
        lambda: machines.fail_with("n1", "Action:Reboot", MARK),
    ):
        with pytest.raises(ActRefused, match="belongs to user root"):
            change()
    machines.close_retest("n1", MARK)

    assert (before.holder, before.who, before.service) == (Holder.OTHER, "user root", Service.OUT)
    assert before.words == "IDLE+DRAIN jdoe: broken fan [root]" and before == seen()


def drains(slurm: RebootingCluster) -> Callable[[], None]:
    """Another person drains the node."""

    def drain() -> None:
        slurm.run(*JDOE)

    return drain


def test_a_drain_by_another_after_ours_is_not_undone(slurm: RebootingCluster) -> None:
    """The fence says who has the node now."""
    with pytest.raises(ActRefused, match="jdoe: broken fan"):
        SlurmMachines(run=Steps(1, drains(slurm), after=True)).fence("n1", MARK)

    assert seen().words == "IDLE+DRAIN jdoe: broken fan [root]"


@pytest.mark.parametrize("number", [1, 2])
def test_a_drain_by_another_during_a_re_test_ends_it(slurm: RebootingCluster, number: int) -> None:
    """It comes after the reservation, or after the resume; the node is not freed, and partners serve again."""
    SlurmMachines().fence("n1", MARK)
    with pytest.raises(ActRefused):
        SlurmMachines(run=Steps(number, drains(slurm), after=True)).open_retest("n1", ("n2",), MARK)
    with pytest.raises(ActRefused):
        SlurmMachines().free("n1", MARK)
    SlurmMachines().close_retest("n1", MARK)

    assert seen().words.endswith(" jdoe: broken fan [root]")
    assert (seen().service, state_of("n2")) == (Service.OUT, SERVES)


def crashes(slurm: RebootingCluster, act: Callable[[SlurmMachines], object]) -> Iterator[None]:
    """Processes that end right after their first change, until one has nothing left to change; yields after each of them."""

    def crash() -> None:
        raise Crash

    for _ in range(8):
        try:
            act(SlurmMachines(run=Steps(1, crash, after=True)))
        except Crash:
            scheduled(slurm)
            yield
        else:
            return
    raise AssertionError("it never came to its end")


@pytest.mark.long
def test_no_crash_during_a_re_test_lets_a_foreign_job_start(slurm: RebootingCluster) -> None:
    """Between any two changes of its beginning or its end; the next process goes on from there."""
    SlurmMachines().fence("n1", MARK)
    foreign, points = job(slurm), []
    steps: tuple[Callable[[SlurmMachines], object], ...] = (
        lambda machines: machines.open_retest("n1", ("n2",), MARK),
        lambda machines: machines.close_retest("n1", MARK),
        lambda machines: machines.open_retest("n1", (), MARK),
        lambda machines: machines.open_retest("n1", ("n2",), MARK),
    )
    for step in steps:
        for _ in crashes(slurm, step):
            points.append((state_of(), job_state(slurm, foreign)))

    assert [state for state, _ in points] == [
        FENCED,
        TESTED,
        FENCED,
        FENCED,
        FENCED,
        TESTED,
        FENCED,
        FENCED,
        FENCED,
        TESTED,
    ]
    assert {foreign for _, foreign in points} == {"PENDING"}


@pytest.mark.long
@pytest.mark.parametrize("tested", [False, True], ids=["fenced", "tested"])
def test_a_crash_of_the_return_frees_the_node_at_its_last_change_alone(
    slurm: RebootingCluster, tested: bool
) -> None:
    """Before that the node is kept, and after it the node serves."""
    machines = SlurmMachines()
    machines.fence("n1", MARK)
    if tested:
        machines.open_retest("n1", ("n2",), MARK)
    foreign, points = job(slurm), []
    with pytest.raises(ActRefused, match="not held by Prelaunch"):  # the last process finds the node freed
        for _ in crashes(slurm, lambda machines: machines.free("n1", MARK)):
            points.append((state_of()[:2], job_state(slurm, foreign)))

    assert {(FENCED[:2], "PENDING"), (TESTED[:2], "PENDING")}.issuperset(points[:-1])
    assert points[-1][0] == SERVES[:2]
    until(lambda: job_state(slurm, foreign) == "RUNNING")
    assert state_of("n2") == SERVES


def test_a_reservation_that_somebody_changed_is_not_ours_any_more(slurm: RebootingCluster) -> None:
    """The node is then another's, who may want it."""
    machines = SlurmMachines()
    machines.fence("n1", MARK)
    name = machines.open_retest("n1", (), MARK).options["reservation"]
    slurm.run("scontrol", "update", f"ReservationName={name}", "Users+=daemon")

    with pytest.raises(ActRefused, match="belongs to reservation"):
        machines.free("n1", MARK)
    assert (seen().service, seen().holder) == (Service.OUT, Holder.OTHER)


def test_somebody_elses_maintenance_is_left_alone(slurm: RebootingCluster) -> None:
    """A node in it does not serve, though its state is idle."""
    slurm.run(
        "scontrol", "create", "reservation", "ReservationName=fans", "StartTime=now", "Duration=10", "Users=daemon", "Nodes=n1",
        "Flags=MAINT",
    )  # fmt: skip

    with pytest.raises(ActRefused, match="belongs to reservation fans of daemon"):
        SlurmMachines().fence("n1", MARK)
    assert (seen().service, seen().holder, seen().who) == (
        Service.OUT,
        Holder.OTHER,
        "reservation fans of daemon",
    )


def rebooted(before: Machine, seconds: float = 90.0) -> Settled:
    """How a reboot ended."""
    settled = Settled.PENDING
    deadline = time.monotonic() + seconds
    while settled is Settled.PENDING:
        assert time.monotonic() < deadline, seen()
        time.sleep(0.2)
        settled = SlurmMachines().settled(Rung.REBOOT, before, seen())
    return settled


@pytest.mark.long
def test_a_rebooted_node_is_kept_until_it_is_freed(slurm: RebootingCluster) -> None:
    """Its boot time moved, and our job there sees another boot id; with ReturnToService=2 Slurm itself would let it serve."""
    machines, boot_id = SlurmMachines(), slurm.boot_id("n1")
    machines.fence("n1", MARK)
    foreign = job(slurm)
    before = seen()
    machines.act(Rung.REBOOT, "n1", MARK)
    with pytest.raises(ActRefused, match="under way"):
        machines.act(Rung.REBOOT, "n1", MARK)
    requested = seen()

    assert (requested.service, requested.holder, requested.mark) == (Service.CHANGING, Holder.PRELAUNCH, MARK)
    assert rebooted(before) is Settled.DONE
    until(lambda: state_of() == TESTED)  # the engine has given the node back by itself
    reservation = machines.open_retest("n1", ("n2",), MARK).options["reservation"]
    said = slurm.run("srun", f"--reservation={reservation}", "-w", "n1", "cat", BOOT_ID).strip()
    assert said == slurm.boot_id("n1") != boot_id
    scheduled(slurm)
    assert job_state(slurm, foreign) == "PENDING"
    machines.free("n1", MARK)
    until(lambda: job_state(slurm, foreign) == "RUNNING")


def test_a_node_that_runs_a_job_is_not_rebooted(slurm: RebootingCluster) -> None:
    """Not even if the user may not see the job."""
    running = job(slurm)
    until(lambda: job_state(slurm, running) == "RUNNING")
    machines = SlurmMachines()
    machines.fence("n1", MARK)

    with pytest.raises(ActRefused, match=f"n1 still runs {running}"):
        machines.act(Rung.REBOOT, "n1", MARK)
    with pytest.raises(ActRefused, match=f"n1 still runs {running}"):
        machines.fail_with("n1", "Action:Reboot", MARK)
    assert (state_of(), job_state(slurm, running)) == (FENCED, "RUNNING")


def test_a_node_is_handed_to_hyperpod_with_its_exact_words(slurm: RebootingCluster) -> None:
    """Then it belongs to HyperPod, which alone gives it back; the reason that 24.11 leaves on a node that serves holds nothing."""
    machines = SlurmMachines()
    machines.fence("n1", MARK)

    assert machines.fail_with("n1", "Action:Replace", MARK) == "IDLE+FAIL Action:Replace [root]"
    assert (seen().service, seen().holder, seen().who) == (Service.OUT, Holder.OTHER, "HyperPod")
    slurm.run("scontrol", "update", "nodename=n1", "state=resume")
    until(lambda: state_of() == SERVES)


@pytest.mark.long
def test_a_reboot_that_is_none_fails_and_the_node_is_kept(slurm: RebootingCluster) -> None:
    """The RebootProgram does nothing; 22.05 would let the node serve again."""
    slurm.hook("reboot")
    machines = SlurmMachines()
    machines.fence("n1", MARK)
    foreign, before = job(slurm), seen()
    machines.act(Rung.REBOOT, "n1", MARK)

    assert rebooted(before, 120.0) is Settled.FAILED
    scheduled(slurm)
    assert (state_of() in (FENCED, TESTED), job_state(slurm, foreign)) == (True, "PENDING")
    machines.close_retest("n1", MARK)
    scheduled(slurm)
    assert (state_of(), job_state(slurm, foreign)) == (FENCED, "PENDING")


@contextmanager
def stopped(slurm: RebootingCluster) -> Iterator[None]:
    """During the block slurmctld does not run."""
    slurm.kill("slurmctld", signal.SIGSTOP)
    try:
        yield
    finally:
        slurm.kill("slurmctld", signal.SIGCONT)


@pytest.mark.long
def test_a_silent_slurmctld_is_not_asked_to_change_anything(slurm: RebootingCluster) -> None:
    """Afterwards everything is as before."""
    with stopped(slurm):
        for ask in (lambda: SlurmMachines().look(), lambda: SlurmMachines().fence("n1", MARK)):
            with pytest.raises(EngineSilent):
                ask()

    until(lambda: state_of() == SERVES)


@pytest.mark.long
def test_a_request_without_an_answer_is_ambiguous(slurm: RebootingCluster) -> None:
    """It is not repeated. Slurm takes this one once it runs again."""
    steps = Steps(1, lambda: slurm.kill("slurmctld", signal.SIGSTOP))
    try:
        with pytest.raises(ActAmbiguous):
            SlurmMachines(run=steps).fence("n1", MARK)
    finally:
        slurm.kill("slurmctld", signal.SIGCONT)

    assert steps.count == 1
    until(lambda: state_of() == FENCED)
    assert (
        SlurmMachines().settled(Rung.FENCE, replace(seen(), service=Service.SERVING), seen()) is Settled.DONE
    )


@pytest.mark.long
def test_a_dead_node_that_is_ours_stays_ours(slurm: RebootingCluster) -> None:
    """Slurm keeps our reason when it sets the node down, and our re-test's reservation when it says "Not responding"."""
    machines = SlurmMachines()
    machines.fence("n1", MARK)
    machines.open_retest("n1", (), MARK)
    slurm.kill("n1")
    try:
        until(lambda: seen().words.startswith("DOWN"), 90.0)
        assert state_of() == FENCED
        machines.close_retest("n1", MARK)
        assert (state_of(), seen().mark) == (FENCED, MARK)
        with pytest.raises(MachineError):
            machines.free("n2", MARK)
    finally:
        slurm.start_node("n1")
