"""The back end `slurm` of the machines on a real cluster: a node that was not proven starts no job that is not ours."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tasks.machines.base import ActRefused, Holder, Rung, ServiceState
from tasks.machines.slurm import SlurmMachines
from tests.engines.slurm_machine_states import (
    FENCED,
    MARK,
    TESTED,
    crashes,
    job,
    job_state,
    scheduled,
    seen,
    state_of,
)
from tests.engines.slurm_reboots import RebootingCluster
from tests.waiting import until

pytestmark = [pytest.mark.root, pytest.mark.timeout(180)]


def test_only_our_job_runs_during_a_re_test(reboots: RebootingCluster) -> None:
    """On the node and on its partner; whoever waits for them starts when they are given back, and not before."""
    machines = SlurmMachines()
    fences = {machines.fence("n1", MARK) for _ in range(2)}
    assert {"IDLE+DRAIN prelaunch: gate-7f3a gpu.ecc [root]"} == fences
    retest = machines.open_retest("n1", ("n2",), MARK)
    foreign = [job(reboots, node) for node in ("n1", "n2")]
    own = job(reboots, "n1,n2", "-N2", f"--reservation={retest.options['reservation']}")
    until(lambda: job_state(reboots, own) == "RUNNING")
    scheduled(reboots)

    assert retest.nodes == ("n1", "n2") and retest == machines.open_retest("n1", ("n2",), MARK)
    assert (state_of(), state_of("n2")) == (TESTED, (ServiceState.TESTING, Holder.NOBODY, ""))
    assert seen().jobs == (own,)
    assert [job_state(reboots, one) for one in foreign] == ["PENDING", "PENDING"]
    with pytest.raises(ActRefused, match="in use"):
        SlurmMachines(pause=lambda _: None).free("n1", MARK)

    reboots.run("scancel", own)  # it completes for a while
    machines.close_retest("n1", MARK)
    machines.close_retest("n1", MARK)
    until(lambda: job_state(reboots, foreign[1]) == "RUNNING")
    assert (state_of(), job_state(reboots, foreign[0])) == (FENCED, "PENDING")
    machines.free("n1", MARK)
    until(lambda: job_state(reboots, foreign[0]) == "RUNNING")


@pytest.mark.long
def test_no_crash_during_a_re_test_lets_a_foreign_job_start(reboots: RebootingCluster) -> None:
    """Between any two changes of its beginning or its end; the next process goes on from there."""
    SlurmMachines().fence("n1", MARK)
    foreign, points = job(reboots), []
    steps: tuple[Callable[[SlurmMachines], object], ...] = (
        lambda machines: machines.open_retest("n1", ("n2",), MARK),
        lambda machines: machines.close_retest("n1", MARK),
        lambda machines: machines.open_retest("n1", (), MARK),
        lambda machines: machines.open_retest("n1", ("n2",), MARK),
    )
    for step in steps:
        for _ in crashes(reboots, step):
            points.append((state_of(), job_state(reboots, foreign)))

    assert [state for state, _ in points] == [FENCED, TESTED] + 2 * [FENCED, FENCED, FENCED, TESTED]
    assert {foreign for _, foreign in points} == {"PENDING"}


def test_a_node_is_handed_to_hyperpod_with_its_exact_words(reboots: RebootingCluster) -> None:
    """Then it belongs to HyperPod, which alone gives it back; its reservation keeps jobs off it until it is proven."""
    machines = SlurmMachines(hyperpod=True)
    machines.fence("n1", MARK)
    foreign = job(reboots)

    assert machines.act(Rung.REPLACE, "n1", MARK).startswith("IDLE+FAIL")
    assert (seen().service, seen().holder, seen().owner) == (ServiceState.OUT, Holder.OTHER, "HyperPod")
    reboots.run("scontrol", "update", "nodename=n1", "state=resume")
    until(lambda: state_of()[:2] == TESTED[:2])
    scheduled(reboots)
    assert job_state(reboots, foreign) == "PENDING"
    machines.free("n1", MARK)
    until(lambda: job_state(reboots, foreign) == "RUNNING")
