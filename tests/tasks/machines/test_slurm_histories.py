"""Histories of the back end `slurm` over a fake: crashes, foreign drains, and nodes that Slurm gives back or that answer late.

And what it makes of what Slurm shows: nodes, ends of acts, and the commands that a person would type.
"""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.launchers.slurm.commands import SlurmReply
from tasks.machines.base import ActRefused, Holder, Machine, MachineError, Retest, Rung, ServiceState, Settled
from tasks.machines.slurm_commands import is_ours
from tests.tasks.machines.slurm_answers import MARK, NAME, RESUME, FakeNode, SlurmAnswers, fenced, machines
from tests.tasks.parameters import spread

CHANGES = ("update", "create", "delete", "reboot")
OURS = ("fence", "open", "open_with_partner", "close", "reboot", "free", "replace")
STEPS = st.tuples(st.sampled_from((*OURS, "boots", "foreign", "foreign_ends")), st.integers(0, 5))


class Crash(Exception):
    """The process ended here."""


@dataclass
class Watched(SlurmAnswers):
    """After each change the node is looked at, and the process ends after the change with the number `last`; 0 is never."""

    last: int = 0
    held: bool = False
    freeing: bool = False
    served: list[tuple[str, ...]] = field(default_factory=list)
    foreign: bool = False
    undone: list[tuple[str, ...]] = field(default_factory=list)

    def __call__(self, *argv: str, timeout_s: float = 60.0) -> SlurmReply:
        """Answer one command."""
        said = super().__call__(*argv, timeout_s=timeout_s)
        if argv[1] in CHANGES:
            self._watch(argv)
            self.last -= 1
            if self.last == 0:
                raise Crash
        return said

    def _watch(self, argv: tuple[str, ...]) -> None:
        if self.held and self.serves() and not self.freeing:
            self.served.append(argv)
        if self.foreign and not self.nodes["n1"].reason.startswith("jdoe"):
            self.undone.append(argv)

    def repairs(self) -> bool:
        """Whether a repair of n1 was requested."""
        return bool({"REBOOT_REQUESTED", "FAIL"} & {*self.nodes["n1"].flags})

    def serves(self) -> bool:
        """Whether a foreign job may start on n1."""
        kept = any(is_ours(name) and "n1" in line for name, line in self.reservations.items())
        return self.nodes["n1"].flags == ["IDLE"] and not kept


@settings(max_examples=120, deadline=None)
@given(steps=st.lists(STEPS, max_size=12), keeps_reason=st.booleans(), hyperpod=st.booleans())
def test_a_held_node_never_serves_and_a_foreign_drain_is_never_undone(
    steps: list[tuple[str, int]], keeps_reason: bool, hyperpod: bool
) -> None:
    """Whatever happens in whatever order, with HyperPod as without it; only `free` lets the node serve."""
    answers = Watched(keeps_reason=keeps_reason)
    made, node = machines(answers, hyperpod), answers.nodes
    acts: Mapping[str, Callable[[], object]] = {
        "fence": lambda: made.fence("n1", MARK),
        "open": lambda: made.open_retest("n1", (), MARK),
        "open_with_partner": lambda: made.open_retest("n1", ("n2",), MARK),
        "close": lambda: made.close_retest("n1", MARK),
        "reboot": lambda: made.act(Rung.REBOOT, "n1", MARK),
        "free": lambda: made.free("n1", MARK),
        "replace": lambda: made.act(Rung.REPLACE, "n1", MARK),
    }
    for name, last in steps:
        if name == "boots":
            if answers.repairs():  # as with ReturnToService=2, and as HyperPod does it
                node["n1"] = FakeNode(["IDLE"], node["n1"].reason if keeps_reason else "", "15:00:00")
                assert not answers.serves()
        elif name == "foreign":
            if not answers.repairs():
                node["n1"] = FakeNode(["IDLE", "DRAIN"], "jdoe: fan")
                answers.foreign, answers.held = True, False
        elif name == "foreign_ends":
            if answers.foreign:
                node["n1"], answers.foreign = FakeNode(), False
                answers.reservations.pop(NAME, None)
        else:
            answers.last, answers.freeing = last, name == "free"
            with contextlib.suppress(MachineError, Crash):
                acts[name]()
            answers.held = not answers.foreign and not answers.serves()
            assert name != "free" or last or answers.repairs() or answers.foreign or answers.serves()

    assert ([], []) == (answers.served, answers.undone)


@pytest.mark.parametrize("answers_after", [3, 1000])
def test_a_node_whose_slurmd_has_not_answered_yet_is_waited_for(answers_after: int) -> None:
    """sbatch refuses every job for a node right after its reboot; a node that stays silent is left to the re-test to report."""
    slurm, waited = fenced(), list[float]()
    silent = slurm.nodes["n1"]

    def pause(seconds: float) -> None:
        waited.append(seconds)
        if len(waited) == answers_after:
            silent.flags = ["IDLE"]

    resume = slurm._update

    def resumed(words: dict[str, str], argv: tuple[str, ...]) -> SlurmReply:
        said = resume(words, argv)
        silent.flags = ["IDLE", "NOT_RESPONDING"]
        return said

    slurm._update = resumed  # type: ignore[method-assign]

    assert ("n1",) == machines(slurm, pause=pause).open_retest("n1", (), MARK).nodes
    assert min(answers_after, 30) == len(waited)


def opened(after: Callable[[SlurmAnswers, int], None]) -> tuple[Retest | ActRefused, int]:
    """What comes of a re-test of a node that Slurm does not resume yet, and how often it was waited for. `after` is told of each."""
    slurm, waited = fenced(), list[float]()
    slurm.refuse[RESUME] = SlurmReply(1, "", "slurm_update error: Invalid node state specified")

    def pause(seconds: float) -> None:
        waited.append(seconds)
        assert len(slurm.reservations) == 1
        after(slurm, len(waited))

    try:
        found: Retest | ActRefused = machines(slurm, pause=pause).open_retest("n1", (), MARK)
    except ActRefused as refused:
        found = refused
    return found, len(waited)


def test_a_node_that_slurm_does_not_resume_yet_is_resumed_later() -> None:
    """For a while after a reboot Slurm 22.05 refuses it; the node stays reserved meanwhile, and a refusal that lasts is one."""
    found, waited = opened(lambda slurm, count: slurm.refuse.clear() if count == 3 else None)
    refused, most = opened(lambda slurm, count: None)

    assert isinstance(found, Retest) and (found.nodes, waited, most) == (("n1",), 3, 30)
    assert "Invalid node state specified. Slurm shows" in str(refused) and "DRAIN" in str(refused)


def test_each_try_looks_at_the_node_again() -> None:
    """22.05 refuses a node that its own work after a reboot has just made idle; and what somebody takes meanwhile is left to him."""

    def idle(slurm: SlurmAnswers, count: int) -> None:
        slurm.nodes["n1"].flags, slurm.nodes["n1"].reason = ["IDLE"], ""

    def taken(slurm: SlurmAnswers, count: int) -> None:
        slurm.nodes["n1"].reason = "broken fan, jdoe"
        slurm.refuse.clear()

    assert isinstance(opened(idle)[0], Retest)
    assert "belongs to" in str(opened(taken)[0])


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
