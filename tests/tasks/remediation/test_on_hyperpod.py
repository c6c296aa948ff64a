"""Remediation with HyperPod's API: boto3 against a stand-in that behaves, and a fake Slurm. Nothing here is AWS."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from checks.model import SCHEMA_VERSION, Action, Profile
from tasks.machines.base import Holder, Retest, Rung
from tasks.remediation.drive import Rechecked, Remediation
from tasks.remediation.model import (
    ActState,
    Blame,
    Case,
    Identity,
    Limits,
    Mode,
    Permission,
    Proof,
    Settings,
    Why,
)
from tasks.remediation.records import Records, with_cases
from tasks.store.folder import FolderStore
from tests.fakes.hyperpod import CHECK, REBOOT, REPLACE, Answer, Fate
from tests.tasks.machines import hyperpod_world
from tests.tasks.machines.hyperpod_world import NODE, QUICK
from tests.tasks.remediation.simulated import SimulatedPeople, World

BEGIN = 1_764_100_000.0


@dataclass
class Site:
    """The cluster, and what the machine under a name really is: sick until `cured_by`, with the GPUs of its instance."""

    world: hyperpod_world.World
    records: Records
    now: float = BEGIN
    cured_by: str = REPLACE
    deep: bool = False
    follow_s: float = 60.0
    keeps_gpus: bool = False
    sick: bool = True
    boots: int = 0
    pages: list[Why] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.world.api.happened = self._happened
        self.people = SimulatedPeople(World(1, hostile=False))
        self.people.page = lambda cases, why, acts: self.pages.append(why)  # type: ignore[method-assign]

    def _happened(self, operation: str, host: str) -> None:
        self.boots += 1
        self.sick = self.sick and operation != self.cured_by
        self.world.slurm.change(host, booted_at=self.now)

    def identity(self) -> Identity:
        """What our own check would read."""
        instance = self.world.api.node(NODE).id
        gpus = "GPU-of-the-first" if self.keeps_gpus else f"GPU-of-{instance}"
        return Identity(f"boot-{self.boots}", instance, (gpus,))

    def condemned(self, action: Action, hard: bool = True) -> Case:
        """Open the case of a gate that has just measured the node."""
        blame = Blame("kernel.xid", NODE, action, "it fell off the bus", hard=hard)
        case = Case(
            SCHEMA_VERSION,
            "ml",
            NODE,
            "g1",
            "gate.toml",
            "digest",
            Profile.QUICK,
            self.now,
            self.identity(),
            (blame,),
        )
        self.records.change(lambda journal: with_cases(journal, (case,)), self.now)
        return case

    def recheck(self, case: Case, place: Retest) -> Rechecked:
        """Our gate on the machine."""
        proof = Proof.FAILED if self.sick else Proof.PASSED
        return Rechecked(proof, self.identity(), "g2", "", self.now)

    def follow(self, rounds: int = 30, quick: bool = False) -> list[tuple[str, str]]:
        """Take steps, each a minute later; returns the acts with their states."""
        machines = (
            self.world.limited(QUICK) if quick else self.world.deep if self.deep else self.world.machines
        )
        settings = Settings(Mode.ACT, (Rung.REBOOT, Rung.REPLACE), Limits())
        drive = Remediation(
            self.records, machines, settings, self.recheck, self.people, "w", lambda: self.now
        )
        for _ in range(rounds):
            drive.round()
            self.now += self.follow_s
            self.world.api.advance()
        return [(act.rung.value, act.state.value) for act in self.records.journal().acts]


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Site]:
    """Three nodes."""
    with hyperpod_world.world(monkeypatch) as world:
        yield Site(world, Records(FolderStore(tmp_path), "ml"))


def in_service(site: Site) -> bool:
    """Whether Slurm starts jobs on the node."""
    return site.world.slurm.nodes[NODE].holder is Holder.NOBODY


def test_a_replaced_machine_is_proven_and_returned(site: Site) -> None:
    """Another instance id and other GPUs under the same name."""
    before = site.world.api.node(NODE).id
    site.condemned(Action.REPLACE)

    assert [("fence", "done"), ("replace", "done"), ("recheck", "done"), ("return", "done")] == site.follow()
    assert [(REPLACE, [before])] == site.world.api.repairs()
    assert in_service(site)
    assert [] == site.pages


def test_a_reboot_that_does_not_help_is_followed_by_a_replacement(site: Site) -> None:
    """Each is requested once."""
    site.condemned(Action.REBOOT)
    done = site.follow(40)

    assert ["fence", "reboot", "recheck", "replace", "recheck", "return"] == [rung for rung, _ in done]
    assert [REBOOT, REPLACE] == [operation for operation, _ in site.world.api.repairs()]
    assert in_service(site)


def test_a_replacement_that_keeps_the_gpus_is_not_returned(site: Site) -> None:
    """The checks pass, and the machine is the one that was condemned."""
    site.keeps_gpus = True
    site.condemned(Action.REPLACE)
    done = site.follow()

    assert ("recheck", "done") == done[-2]
    assert [Why.NOT_PROVEN] == site.pages
    assert not in_service(site)


@pytest.mark.parametrize("fate", [Fate.NEVER_DONE, Fate.FAILURE, Fate.SAME_INSTANCE])
def test_a_replacement_that_is_none_is_requested_once_and_left_to_a_person(site: Site, fate: Fate) -> None:
    """It was accepted, and nothing came of it."""
    site.world.api.fates[NODE] = fate
    site.condemned(Action.REPLACE)
    done = site.follow(90)

    assert [("fence", "done"), ("replace", "failed"), ("page", "done")] == done
    assert 1 == len(site.world.api.repairs())
    assert [Why.ACT_FAILED] == site.pages
    assert not in_service(site)


@pytest.mark.parametrize("answer", [Answer.NEVER, Answer.CLOSED, Answer.ERROR_500, Answer.CUT])
def test_a_request_whose_answer_was_lost_is_not_repeated(site: Site, answer: Answer) -> None:
    """The engine shows later that it was taken."""
    site.world.api.answers[NODE] = answer
    site.condemned(Action.REPLACE)
    site.follow(1, quick=True)
    second = site.follow(1, quick=True)
    assert [("fence", "done"), ("replace", ActState.AMBIGUOUS.value)] == second

    assert ("return", "done") == site.follow(30)[-1]
    assert 1 == len(site.world.api.repairs())
    assert in_service(site)


@pytest.mark.parametrize("code", ["InstanceIdInUse", "InvalidInstanceStatus"])
def test_what_hyperpod_refuses_is_left_to_a_person(site: Site, code: str) -> None:
    """Nothing happened, and nothing else is tried."""
    site.world.api.errors[NODE] = code
    site.condemned(Action.REPLACE)

    assert [("fence", "done"), ("replace", "refused"), ("page", "done")] == site.follow(10)
    assert [Why.ACT_REFUSED] == site.pages


def test_a_node_that_hyperpod_itself_repairs_is_left_alone(site: Site) -> None:
    """Two systems never act on one node."""
    site.world.api.recover(NODE)
    site.world.api.advance()
    site.condemned(Action.REPLACE)

    assert [] == site.follow(1)
    assert () == site.records.journal().cases
    assert [] == site.world.api.repairs()


def test_a_clock_that_jumps_stops_everything_or_nothing(site: Site) -> None:
    """Backwards the evidence is void; forwards it is too old; an act that is under way is not requested again."""
    for jump in (-3600.0, 7200.0):
        site.condemned(Action.REPLACE)
        site.now += jump
        site.follow(3)
        assert [] == site.world.api.repairs()
        site.now = BEGIN
        site.records.change(lambda journal: replace(journal, cases=(), acts=(), written_at=0.0), 0.0)
    site.condemned(Action.REPLACE)
    site.follow(2)
    site.now += 7200.0
    site.follow(5)
    assert 1 == len(site.world.api.repairs())


ALLOWED = (Permission.ALLOWED, "somebody (Slack)")


def deep(site: Site, fate: Fate, hard: bool) -> list[str]:
    """What was done for a finding that a person would have to look at, once a person allowed a deep check."""
    site.deep = True
    site.world.api.fates[NODE] = fate
    site.people.answered = lambda one: ALLOWED  # type: ignore[method-assign]
    site.condemned(Action.INSPECT, hard=hard)
    return [" ".join(act) for act in site.follow(40)]


def test_what_a_person_would_have_to_look_at_is_first_tested_by_hyperpod(site: Site) -> None:
    """It finds the node broken and replaces it: another machine was proven, and is returned."""
    site.cured_by = CHECK
    before = site.world.api.node(NODE).id

    assert ["fence done", "deep_check done", "recheck done", "return done"] == deep(site, Fate.REPLACED, True)
    assert [(CHECK, [before])] == site.world.api.repairs()
    assert in_service(site)


def test_a_deep_check_that_finds_nothing_returns_no_node_that_logged_a_fault(site: Site) -> None:
    """The machine is the same as before; that AWS found nothing, and our checks pass now, is no repair."""
    site.sick = False

    assert ["fence done", "deep_check done", "recheck done", "page done"] == deep(site, Fate.DONE, True)
    assert [Why.NOT_PROVEN] == site.pages
    assert not in_service(site)


def test_a_deep_check_that_nobody_sees_is_not_taken_for_one_that_was_made(site: Site) -> None:
    """The node goes on as if nothing had been asked; after three hours a person is called, and nothing is asked again."""
    site.follow_s = 600.0
    done = deep(site, Fate.NEVER_DONE, True)

    assert ["fence done", "deep_check failed", "page done"] == done
    assert 1 == len(site.world.api.repairs())


@pytest.mark.parametrize("answer", [Answer.CLOSED, Answer.ERROR_500, Answer.CUT])
def test_a_deep_check_that_was_not_answered_is_not_asked_for_again(site: Site, answer: Answer) -> None:
    """The node shows that it was taken."""
    site.cured_by = CHECK
    site.world.api.answers[NODE] = answer

    assert ["fence done", "deep_check done", "recheck done", "return done"] == deep(site, Fate.REPLACED, True)
    assert 1 == len(site.world.api.repairs())


def test_a_deep_check_is_never_made_without_a_question(site: Site) -> None:
    """It may end with a replacement. Mode act does not do it by itself, and without the option there is none."""
    site.deep = True
    site.condemned(Action.INSPECT)
    site.people.answered = lambda one: (Permission.DENIED, "somebody (Slack)")  # type: ignore[method-assign]

    assert [("fence", "done"), ("page", "done")] == site.follow(5)
    assert [Why.NOT_ALLOWED] == site.pages
    assert [] == site.world.api.repairs()
