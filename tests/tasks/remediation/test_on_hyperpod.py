"""Remediation on HyperPod with Slurm: a fake Slurm, and a HyperPod that is played by the test. Nothing here is AWS."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from checks.model import SCHEMA_VERSION, Action, Profile
from tasks.machines.base import Retest, Rung, ServiceState
from tasks.remediation.drive import Rechecked, Remediation
from tasks.remediation.model import Blame, Case, Identity, Limits, Proof, Reason, RepairMode, RepairSettings
from tasks.remediation.records import Records, with_cases
from tasks.store.folder import FolderStore
from tests.tasks.machines.slurm_answers import DAY, FakeNode, SlurmAnswers, machines
from tests.tasks.remediation.simulated import SimulatedPeople, World

BEGIN = datetime.fromisoformat(f"{DAY}T20:00:00").astimezone().timestamp()
NODE = "n1"
REPLACE, REBOOT = "Action:Replace", "Action:Reboot"


@dataclass
class Site:
    """The cluster, and what the machine under a name really is: sick until `cured_by`, with the GPUs of its instance.

    HyperPod obeys a reason after `obeys_after` looks, and never if that is 0.
    """

    records: Records
    slurm: SlurmAnswers = field(default_factory=SlurmAnswers)
    now: float = BEGIN
    cured_by: str = REPLACE
    obeys_after: int = 3
    keeps_gpus: bool = False
    sick: bool = True
    boots: int = 0
    instances: int = 0
    waited: int = 0
    served: list[float] = field(default_factory=list)
    pages: list[Reason] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.machines = machines(self.slurm, hyperpod=True)
        self.people = SimulatedPeople(World(1, hostile=False))
        self.people.page = lambda cases, reason, *more: self.pages.append(reason)  # type: ignore[method-assign]

    @property
    def asked(self) -> list[str]:
        """The reasons that were given to HyperPod."""
        return [argv[-1].partition("=")[2] for argv in self.slurm.argvs if "state=fail" in argv]

    @property
    def service(self) -> ServiceState:
        """Whether Slurm starts jobs on the node."""
        return self.machines.by_name()[NODE].service

    def advance(self) -> None:
        """Let HyperPod look at the node once; it gives a node back by itself."""
        reason = self.slurm.nodes[NODE].reason
        self.waited = self.waited + 1 if reason in (REPLACE, REBOOT) else 0
        if self.waited and self.waited == self.obeys_after:
            self.boots, self.instances = self.boots + 1, self.instances + (reason == REPLACE)
            self.sick = self.sick and reason != self.cured_by
            booted = datetime.fromisoformat(f"{DAY}T20:00:00") + timedelta(seconds=self.now - BEGIN)
            self.slurm.nodes[NODE] = FakeNode(booted=f"{booted:%H:%M:%S}")

    def identity(self) -> Identity:
        """What our own check would read."""
        gpus = "GPU-of-the-first" if self.keeps_gpus else f"GPU-of-{self.instances}"
        return Identity(f"boot-{self.boots}", f"i-{self.instances}", (gpus,))

    def condemned(self, action: Action) -> None:
        """Open the case of a gate that has just measured the node."""
        blame = Blame("kernel.xid", NODE, action, "it fell off the bus", hard=True)
        case = Case(
            SCHEMA_VERSION, "ml", NODE, "g1", "gate.toml", "digest", Profile.QUICK, self.now, self.identity(), (blame,)
        )  # fmt: skip
        self.records.change(lambda journal: with_cases(journal, (case,)), self.now)

    def recheck(self, case: Case, place: Retest) -> Rechecked:
        """Our gate on the machine."""
        proof = Proof.FAILED if self.sick else Proof.PASSED
        return Rechecked(proof, self.identity(), "g2", "", self.now)

    def follow(self, rounds: int = 30) -> list[str]:
        """Take steps, each a minute later; returns the acts with their states."""
        settings = RepairSettings(RepairMode.ACT, (Rung.REBOOT, Rung.REPLACE), Limits())
        drive = Remediation(
            self.records, self.machines, settings, self.recheck, self.people, "w", lambda: self.now
        )
        for _ in range(rounds):
            drive.round()
            if self.service is ServiceState.SERVING and self.sick:
                self.served.append(self.now)
            self.now += 60.0
            self.advance()
        return [f"{act.rung} {act.state}" for act in self.records.journal().acts]


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """Three nodes."""
    return Site(Records(FolderStore(tmp_path), "ml"))


def test_a_replaced_machine_is_proven_and_returned(site: Site) -> None:
    """Another instance id and other GPUs under the same name; HyperPod is asked once, in its exact words."""
    site.condemned(Action.REPLACE)

    assert ["fence done", "replace done", "recheck done", "return done"] == site.follow()
    assert [REPLACE] == site.asked
    assert ServiceState.SERVING is site.service
    assert [] == site.pages


def test_a_reboot_that_does_not_help_is_followed_by_a_replacement(site: Site) -> None:
    """The node that HyperPod gave back while it was still broken served nobody meanwhile."""
    site.condemned(Action.REBOOT)
    done = site.follow(40)

    assert ["fence", "reboot", "recheck", "replace", "recheck", "return"] == [act.split()[0] for act in done]
    assert ([REBOOT, REPLACE], []) == (site.asked, site.served)
    assert ServiceState.SERVING is site.service


def test_a_replacement_that_keeps_the_gpus_is_not_returned(site: Site) -> None:
    """The checks pass, and the machine is the one that was condemned."""
    site.keeps_gpus = True
    site.condemned(Action.REPLACE)

    assert "recheck done" == site.follow()[-2]
    assert [Reason.NOT_PROVEN] == site.pages
    assert ServiceState.OUT is site.service


@pytest.mark.parametrize("obeys_after", [0, 80])
def test_a_reason_that_hyperpod_ignores_is_left_to_a_person(site: Site, obeys_after: int) -> None:
    """As with NodeRecovery=None. One that it obeys after a person was called gives nobody a node that was not proven."""
    site.obeys_after = obeys_after
    site.condemned(Action.REPLACE)

    assert ["fence done", "replace failed", "page done"] == site.follow(100)
    assert ([REPLACE], [Reason.ACT_FAILED]) == (site.asked, site.pages)
    assert site.service is (ServiceState.TESTING if obeys_after else ServiceState.OUT)
