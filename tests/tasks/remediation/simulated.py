"""A simulated cluster's people, processes and gates, for random histories of remediation. Everything here is a simulation.

Persons and other systems drain, resume and reboot beside us; the store fails; processes die; clocks jump.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from checks.model import SCHEMA_VERSION, Action, Profile
from tasks.machines.base import Holder, Machine, Retest, Rung
from tasks.remediation.drive import Rechecked, Remediation
from tasks.remediation.model import Act, Blame, Case, Journal, Permission, Proof, Reason, RepairQuestion
from tasks.remediation.records import Records, with_cases
from tasks.store.base import StoreError
from tests.tasks.remediation.simulated_engine import CLUSTER, Forbidden, Ground, Killed, SimulatedMachines


class World(Ground):
    """A history: gates that condemn, others who disturb, processes that carry on, and people who answer."""

    def __init__(self, seed: int, size: int = 6, hostile: bool = True) -> None:
        super().__init__(seed, size, hostile=hostile)
        self.records = MemoryRecords(self)
        self.machines = SimulatedMachines(self)

    def process(self, writer: str) -> Remediation:
        """A process that carries on with whatever is in the journal."""
        people, machines = SimulatedPeople(self), self.machines
        return Remediation(self.records, machines, self.settings, self.recheck, people, writer, self.clock)

    def condemn(self, *nodes: str, action: Action = Action.REBOOT, hard: bool = True) -> tuple[Case, ...]:
        """A gate that measures these nodes now, and condemns them."""
        self.gates += 1
        gate_id = f"g{self.gates}"
        cases = []
        for node in nodes:
            truth = self.truths[node]
            self.measured[gate_id, node] = (self.now, truth.boot)
            cases.append(
                Case(
                    SCHEMA_VERSION, CLUSTER, node, gate_id, "gate.toml", "digest", Profile.QUICK, self.now,
                    self.identity(node), (Blame("kernel.xid", node, action, "it fell off the bus", hard=hard),),
                    domain=f"rack{int(node[1:]) // self.rack}", condemned=len(nodes),
                )
            )  # fmt: skip
        return tuple(cases)

    def open(self, cases: Sequence[Case]) -> None:
        """Write the cases to the journal."""
        self.records.change(lambda journal: with_cases(journal, cases), self.clock())

    def recheck(self, case: Case, place: Retest) -> Rechecked:
        """Our gate on the machine: it measures the truth, or cannot tell."""
        self.pass_time(120.0)
        if self.chance(0.02):
            raise Killed
        truth = self.truths[case.node]
        if not truth.testing:
            raise Forbidden(f"{case.node} was tested where other jobs may start")
        if self.chance(0.1):
            return Rechecked(Proof.CANNOT_TELL, self.identity(case.node), "re-test", measured_at=self.now)
        well = truth.sick is None
        key = (case.gate_id, case.node)
        self.passed[key] = self.now if well else None
        self.booted_when_passed[key] = truth.boot
        if not well:
            self.measured[key] = (self.now, truth.boot)
        proof = Proof.PASSED if well else Proof.FAILED
        return Rechecked(proof, self.identity(case.node), "re-test", measured_at=self.now)

    def disturb(self) -> None:
        """What others do, between two of our rounds."""
        name = self.random.choice(list(self.truths))
        truth = self.truths[name]
        if self.chance(0.05) and truth.held is Holder.NOBODY:
            truth.serving, truth.held = False, Holder.OTHER
        elif self.chance(0.05) and truth.held is Holder.OTHER:
            truth.serving, truth.held = True, Holder.NOBODY
        elif self.chance(0.02) and truth.held is Holder.PRELAUNCH:
            truth.held, truth.mark, truth.testing = Holder.OTHER, None, False
        elif self.chance(0.02) and truth.held is Holder.PRELAUNCH and truth.due is None:
            truth.serving, truth.held, truth.mark, truth.testing = True, Holder.NOBODY, None, False
        elif self.chance(0.02) and truth.due is None:
            truth.boot += 1
            truth.booted_at = self.now
        if self.chance(0.1):
            truth.jobs = () if truth.jobs else ("7",)
        if self.chance(0.02):
            self.skew += self.random.choice((-7200.0, -300.0, 300.0, 7200.0, 172_800.0))
        if self.chance(0.03):
            self.close_breaker()

    def close_breaker(self) -> None:
        """A person closes the breaker, if it is open."""

        def close(journal: Journal) -> Journal:
            if not journal.breaker.is_open:
                return journal
            closed = replace(journal.breaker, closed_at=self.clock(), closed_by="a person")
            return replace(journal, breaker=closed)

        self.records.change(close, self.clock())


class MemoryRecords(Records):
    """The same, in memory: nothing is encoded, and the store fails now and then."""

    def __init__(self, world: World) -> None:
        self.world, self.cluster = world, CLUSTER
        self.files: dict[str, Act] = {}

    def _fail(self) -> None:
        if self.world.chance(0.005):
            raise StoreError("the simulated store does not answer")
        if self.world.chance(0.005):
            raise Killed

    def journal(self) -> Journal:
        """The journal."""
        return self.world.journal

    def change(self, change: Callable[[Journal], Journal], now: float) -> Journal:
        """Change it at once."""
        self._fail()
        made = change(self.world.journal)
        if made != self.world.journal:
            self.world.journal = replace(made, written_at=max(made.written_at, now))
            self._fail()
        return self.world.journal

    def create(self, act: Act) -> bool:
        """Create a record."""
        self._fail()
        return self.files.setdefault(act.id, act) is act

    def keep(self, act: Act) -> None:
        """Change a record."""
        self._fail()
        self.files[act.id] = act

    def acts(self, node: str = "") -> tuple[Act, ...]:
        """All records."""
        return tuple(act for act in self.files.values() if node in ("", act.node))


class SimulatedPeople:
    """Persons who answer, or do not."""

    def __init__(self, world: World) -> None:
        self.world = world

    def ask(self, case: Case, rung: Rung, number: int, command: str) -> float:
        """Ask; the answer comes after a while."""
        now = self.world.clock()
        choice = self.world.random.choice((Permission.ALLOWED, Permission.ALLOWED, Permission.DENIED))
        after = self.world.random.choice((60.0, 600.0, 2400.0, 7200.0)) if self.world.hostile else 60.0
        if not self.world.hostile:
            choice = Permission.ALLOWED
        self.world.answers.setdefault((case.gate_id, case.node, rung, number), (now + after, choice))
        return now + 3600.0

    def answer(self, one: RepairQuestion) -> tuple[Permission, str]:
        """What was answered by now, and in time."""
        at, choice = self.world.answers[one.gate_id, one.node, one.rung, one.number]
        if at > self.world.clock() or at > one.deadline:
            return Permission.PENDING, ""
        return choice, "U0123"

    def page(
        self, cases: Sequence[Case], reason: Reason, acts: Sequence[Act], machines: Mapping[str, Machine]
    ) -> None:
        """Page."""
        self.world.pages.append((cases[0].gate_id, reason))

    def tell(self, act: Act) -> None:
        """Tell."""
