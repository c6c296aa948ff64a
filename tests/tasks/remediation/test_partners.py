"""The healthy partner of a re-test that was cut off: it serves again, and the re-test is made again."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import pytest

from tasks.machines.base import (
    ActAmbiguous,
    ActRefused,
    EngineSilent,
    Holder,
    Mark,
    Retest,
    Rung,
    ServiceState,
)
from tasks.remediation.drive import Rechecked, Remediation
from tasks.remediation.model import Case, Identity, Proof, Reason
from tasks.remediation.steps import Step, StepKind
from tests.fakes.machines import PlayedMachines, serving
from tests.tasks.remediation.simulated import World
from tests.tasks.remediation.simulated_engine import Killed
from tests.tasks.remediation.test_steps import FENCED, NOW, a_case, an_act, machines, paged, step

SILENT, REFUSED, AMBIGUOUS = EngineSilent("no answer"), ActRefused("a conflict"), ActAmbiguous("no answer")


@dataclass
class Paired(PlayedMachines):
    """An engine whose re-test fences a partner; each step of a re-test fails as often as `errors` says."""

    errors: dict[str, list[BaseException]] = field(default_factory=dict)
    tested: list[tuple[str, ...]] = field(default_factory=list)

    def fail(self, step: str) -> None:
        """Raise the next error of the step."""
        if left := self.errors.get(step):
            raise left.pop(0)

    def open_retest(self, node: str, partners: Sequence[str], mark: Mark) -> Retest:
        """Fence the partners."""
        self.tested.append((node, *partners))
        for partner in partners:
            self.fence(partner, Mark("partner", ""))
        self.fail("open")
        return Retest((node, *partners))

    def close_retest(self, node: str, mark: Mark) -> None:
        """Free them."""
        self.fail("close")
        fenced = [name for name, machine in self.shown.items() if machine.mark == Mark("partner", "")]
        self.shown |= serving(*fenced).shown


@pytest.mark.parametrize(
    "errors",
    [
        {},
        {"test": [Killed()], "close": [Killed()]},
        {"test": [Killed()], "close": [Killed(), SILENT]},
        {"close": [REFUSED]},
        {"close": [SILENT]},
        {"open": [AMBIGUOUS]},
        {"open": [REFUSED], "close": [REFUSED]},
    ],
)
@pytest.mark.parametrize("taken", [False, True])
@pytest.mark.parametrize("partners", [("n1",), ("n1", "n2")])
def test_the_partners_of_a_re_test_serve_again(
    errors: dict[str, list[BaseException]], taken: bool, partners: tuple[str, ...]
) -> None:
    """There is no other partner. The node is proven and returned, or a person has `taken` it, and nobody is paged."""
    world, engine = World(1, hostile=False), Paired(serving("n0", *partners).shown)
    engine.errors = {step: list(left) for step, left in errors.items()}
    for number in follow(world, engine, [Proof.PASSED]):
        if taken and number == 1:
            engine.shown["n0"] = replace(engine.shown["n0"], holder=Holder.OTHER, mark=None)

    assert ((), []) == (world.journal.cases, world.pages)
    assert {ServiceState.SERVING} == {engine.shown[name].service for name in partners}
    assert [("n0", *partners)] == list(dict.fromkeys(engine.tested))
    assert (engine.shown["n0"].service is ServiceState.SERVING) is not taken


@pytest.mark.parametrize("turns", [["n1", "n2", "n3"], ["n1 n2", "n3 n4", "n1 n2"]])
def test_each_re_test_of_a_node_has_other_partners(turns: list[str]) -> None:
    """One of them may be bad itself, and then no re-test with it proves anything."""
    partners = dict.fromkeys(" ".join(turns).split())
    world, engine = World(1, hostile=False), Paired(serving("n0", *partners).shown)
    list(follow(world, engine, [Proof.CANNOT_TELL]))

    assert turns == [" ".join(partners) for _, *partners in engine.tested]


@pytest.mark.parametrize("error", [SILENT, REFUSED, AMBIGUOUS, Killed()])
def test_a_re_test_that_failed_counts_whatever_the_engine_answers_at_its_end(error: BaseException) -> None:
    """A second one would have passed without a repair."""
    world, engine = World(1, hostile=False), Paired(serving("n0", "n1").shown)
    engine.errors = {"close": [error]}
    list(follow(world, engine, [Proof.FAILED, Proof.PASSED]))

    acts = [(act.rung, act.proof) for act in world.journal.acts][:3]
    assert acts == [(Rung.FENCE, None), (Rung.RECHECK, Proof.FAILED), (Rung.REBOOT, None)]
    assert engine.shown["n1"].service is ServiceState.SERVING


@pytest.mark.parametrize(
    ("partners", "hours", "expected"),
    [
        ((), 0, paged(Reason.JOBS_RUN)),
        (("n2", "n3"), 23, Step(StepKind.WAIT, Rung.RECHECK, Reason.JOBS_RUN)),
        (("n2", "n3"), 25, paged(Reason.JOBS_RUN)),
        (("n2", "n3", "n4"), 25, Step(StepKind.DO, Rung.RECHECK)),
    ],
)
def test_a_re_test_waits_a_day_for_a_partner_and_then_a_person_is_called(
    partners: tuple[str, ...], hours: int, expected: Step
) -> None:
    """A training of weeks may have them all. Only n4 is free; without any partner there is nothing to wait for."""
    case = a_case(hard=False, partners=partners)
    case = replace(case, blames=(replace(case.blames[0], check="nccl.all_reduce"),))
    seen = machines(**FENCED)
    for name in ("n2", "n3"):
        seen[name] = replace(seen[name], jobs=("7",))

    assert step(case, an_act(Rung.FENCE), seen=seen, now=NOW + hours * 3600) == expected


def follow(world: World, engine: Paired, proofs: list[Proof]) -> Iterator[int]:
    """Twenty rounds, each by a process of its own, for a node that needs one partner, or two where their number is even; the last of
    the proofs is repeated.
    """
    (case,), partners = world.condemn("n0", hard=False), tuple(engine.shown)[1:]
    check = ("nccl.pairs", "nccl.all_reduce")[len(partners) % 2]
    world.open([replace(case, blames=(replace(case.blames[0], check=check),), partners=partners)])

    def recheck(case: Case, place: Retest) -> Rechecked:
        engine.fail("test")
        proof = proofs.pop(0) if len(proofs) > 1 else proofs[0]
        return Rechecked(proof, Identity("boot"), measured_at=world.now)

    for number in range(20):
        people = world.process("").people
        drive = Remediation(world.records, engine, world.settings, recheck, people, f"w{number}", world.clock)
        with contextlib.suppress(Killed):
            drive.round()
        yield number
        world.pass_time(60.0)
