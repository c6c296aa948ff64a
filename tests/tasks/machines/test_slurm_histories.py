"""Histories of the back end `slurm` over a fake: crashes, foreign drains, and nodes that Slurm gives back or that answer late."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.launchers.slurm.commands import SlurmReply
from tasks.machines.base import ActRefused, MachineError, Retest, Rung
from tasks.machines.slurm_commands import is_ours
from tests.tasks.machines.slurm_answers import MARK, NAME, RESUME, FakeNode, SlurmAnswers, fenced, machines

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
