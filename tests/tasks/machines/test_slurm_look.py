"""What the back end `slurm` makes of what Slurm shows: nodes, ends of acts, and the commands that a person would type."""

from __future__ import annotations

import shlex
from dataclasses import replace

import pytest

from tasks.machines.base import ActRefused, Holder, Machine, Rung, ServiceState, Settled
from tests.tasks.machines.slurm_answers import MARK, NAME, FakeNode, SlurmAnswers, fenced, machines
from tests.tasks.parameters import spread

BEFORE = Machine("n1", ServiceState.OUT, Holder.PRELAUNCH, booted_at=1000.0)


@pytest.mark.parametrize(
    ("rung", "booted_at", "words", "settled", "service"),
    spread(
        (Rung.REBOOT, 1000.0, "", Settled.PENDING, (ServiceState.CHANGING, ServiceState.UNKNOWN)),
        (Rung.REBOOT, 2000.0, "", Settled.PENDING, (ServiceState.CHANGING,)),
        (Rung.REBOOT, None, "", Settled.PENDING, (ServiceState.OUT,)),
        (
            Rung.REBOOT,
            None,
            "DOWN prelaunch: g c : reboot issued : reboot timed out",
            Settled.FAILED,
            (ServiceState.OUT,),
        ),
        (Rung.REBOOT, 1000.0, "", Settled.FAILED, (ServiceState.OUT, ServiceState.SERVING)),
        (Rung.REBOOT, 1001.0, "", Settled.FAILED, (ServiceState.TESTING,)),
        (Rung.REBOOT, 2000.0, "", Settled.DONE, (ServiceState.OUT, ServiceState.TESTING)),
        (Rung.RESET, 1000.0, "", Settled.DONE, (ServiceState.TESTING,)),
        (Rung.RESET, 1000.0, "", Settled.PENDING, (ServiceState.UNKNOWN,)),
        (Rung.REPLACE, 1000.0, "", Settled.FAILED, (ServiceState.OUT,)),
    ),
)
def test_slurm_act_settles_as_the_node_shows(
    rung: Rung, service: ServiceState, booted_at: float | None, words: str, settled: Settled
) -> None:
    """A reboot is done when the boot time moved by more than Slurm's own reckoning moves it. A request that was not answered may still
    be taken, so it is pending until it shows.
    """
    now = replace(BEFORE, service=service, booted_at=booted_at, status=words)

    assert machines(SlurmAnswers()).settled(rung, BEFORE, now) is settled


@pytest.mark.parametrize("rung", [Rung.REBOOT, Rung.REPLACE])
@pytest.mark.parametrize(
    ("service", "holder", "booted_at", "settled"),
    [
        (ServiceState.OUT, Holder.OTHER, 1000.0, Settled.PENDING),
        (ServiceState.OUT, Holder.OTHER, 2000.0, Settled.PENDING),
        (ServiceState.OUT, Holder.PRELAUNCH, 1000.0, Settled.PENDING),
        (ServiceState.TESTING, Holder.PRELAUNCH, None, Settled.PENDING),
        (ServiceState.TESTING, Holder.PRELAUNCH, 1001.0, Settled.PENDING),
        (ServiceState.CHANGING, Holder.PRELAUNCH, 2000.0, Settled.PENDING),
        (ServiceState.UNKNOWN, Holder.NOBODY, 2000.0, Settled.PENDING),
        (ServiceState.TESTING, Holder.PRELAUNCH, 2000.0, Settled.DONE),
    ],
)
def test_hyperpod_repair_is_done_after_return_with_another_boot_time(
    rung: Rung, service: ServiceState, holder: Holder, booted_at: float | None, settled: Settled
) -> None:
    """Nobody says that it ignores the reason, so that what does not show is pending until its time is up."""
    made = machines(SlurmAnswers(), hyperpod=True)
    now = replace(BEFORE, service=service, holder=holder, booted_at=booted_at)

    assert made.settled(rung, BEFORE, now) is settled


def test_the_commands_that_a_person_would_type() -> None:
    """Quoted for a shell."""
    made = machines(SlurmAnswers(), parallelcluster="none")

    assert {rung: made.command(rung, "n1", MARK, (3,)) for rung in Rung} == {
        Rung.FENCE: "scontrol update nodename=n1 state=drain 'reason=prelaunch: gate-7f3a gpu.ecc'",
        Rung.RECHECK: "",
        Rung.RESET: f"srun --reservation={NAME} --nodelist=n1 --nodes=1 --ntasks=1 --exclusive --immediate=60 --time=5 --export=PATH "
        "nvidia-smi --gpu-reset -i 3",
        Rung.REBOOT: "scontrol reboot ASAP nextstate=DOWN 'reason=prelaunch: gate-7f3a gpu.ecc' n1",
        Rung.REPLACE: "",
        Rung.RETURN: "scontrol update nodename=n1 state=resume",
        Rung.PAGE: "",
    }
    assert made.shell(replace(BEFORE, node="n1; reboot")) == "ssh 'n1; reboot'"


def test_every_node_is_looked_at() -> None:
    """With its jobs, its boot time, and whose it is."""
    answers = fenced(jobs={"41": "n[0,2]", "42": "n2"})
    answers.nodes["n2"] = FakeNode(["MIXED", "PLANNED"], "left over")
    found = machines(answers).by_name()

    assert {name: (one.service, one.holder, one.jobs) for name, one in found.items()} == {
        "n0": (ServiceState.SERVING, Holder.NOBODY, ("41",)),
        "n1": (ServiceState.OUT, Holder.PRELAUNCH, ()),
        "n2": (ServiceState.SERVING, Holder.NOBODY, ("41", "42")),
    }
    assert found["n1"].booted_at == found["n0"].booted_at is not None
    assert found["n1"].since is not None and found["n2"].since is None
    assert found["n2"].status == "MIXED+PLANNED left over [root]"


@pytest.mark.parametrize(
    ("rung", "reason"), [(Rung.REBOOT, "Action:Reboot"), (Rung.REPLACE, "Action:Replace")]
)
def test_hyperpod_repairs_for_an_exact_reason_in_a_reservation(rung: Rung, reason: str) -> None:
    """It ignores all others without a word, and gives the node back by itself. A person would type the same command."""
    answers = fenced(program="(null)")
    made = machines(answers, hyperpod=True)
    words = made.act(rung, "n1", MARK)
    handed = ("scontrol", "update", "nodename=n1", "state=fail", f"reason={reason}")
    during = made.by_name()["n1"]

    assert ([argv[1] for argv in answers.argvs], answers.argvs[-1]) == (["create", "update"], handed)
    assert (NAME in answers.reservations, words) == (True, f"IDLE+FAIL {reason} [root]")
    assert shlex.split(made.command(rung, "n1", MARK)) == list(handed)
    assert (during.service, during.holder, during.owner) == (ServiceState.OUT, Holder.OTHER, "HyperPod")
    with pytest.raises(ActRefused, match="belongs to HyperPod"):
        made.act(rung, "n1", MARK)
    with pytest.raises(ActRefused, match="belongs to HyperPod"):
        made.open_retest("n1", (), MARK)


def test_a_node_that_hyperpod_gives_back_is_still_ours() -> None:
    """Whenever that is: also after a person was called, because nothing had come of the repair in time."""
    answers = fenced()
    made = machines(answers, hyperpod=True)
    made.act(Rung.REPLACE, "n1", MARK)
    made.close_retest("n1", MARK)
    answers.nodes["n1"] = FakeNode(["IDLE"], "", "14:00:00")
    seen = made.by_name()["n1"]
    made.open_retest("n1", (), MARK)
    made.free("n1", MARK)

    assert (seen.service, seen.holder) == (ServiceState.TESTING, Holder.PRELAUNCH)
    assert [argv[1] for argv in answers.argvs] == ["create", "update", "delete"]
