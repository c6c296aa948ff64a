"""The engine of the simulated cluster: it keeps the truth, and raises Forbidden for what must never happen. A simulation.

It takes requests late or never, loses answers, reboots without rebooting, and replaces with the same machine.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from checks.model import SCHEMA_VERSION
from tasks.machines.base import (
    REPAIRS,
    ActAmbiguous,
    ActRefused,
    EngineSilent,
    Holder,
    Machine,
    Mark,
    Retest,
    Rung,
    ServiceState,
    Settled,
)
from tasks.remediation.model import (
    DAY_S,
    Identity,
    Journal,
    Limits,
    Permission,
    Reason,
    RepairMode,
    RepairSettings,
)

BEGIN = 1_000_000.0
CLUSTER = "sim"


class Forbidden(AssertionError):
    """Something was done that must never be done."""


class Killed(BaseException):
    """The process dies here."""


@dataclass
class Truth:
    """One machine as it really is. `due` is when a repair that the engine took takes effect; None if none is under way."""

    sick: Rung | None = None
    boot: int = 0
    hardware: int = 0
    gpus: int = 0
    held: Holder = Holder.NOBODY
    mark: Mark | None = None
    serving: bool = True
    testing: bool = False
    booted_at: float = 0.0
    jobs: tuple[str, ...] = ()
    due: float | None = None
    repair: Rung | None = None
    requested_at: float = 0.0


@dataclass
class Ground:
    """The truth, the clock, and what was called."""

    seed: int
    size: int = 6
    rack: int = 3
    hostile: bool = True
    settings: RepairSettings = field(
        default_factory=lambda: RepairSettings(RepairMode.ACT, limits=Limits(max_out_fraction=0.34))
    )

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.now = BEGIN
        self.skew = 0.0
        self.truths = {f"n{index}": Truth() for index in range(self.size)}
        self.journal = Journal(SCHEMA_VERSION, CLUSTER)
        self.calls: list[tuple[Rung, str, str, float]] = []
        self.measured: dict[tuple[str, str], tuple[float, int]] = {}
        self.before: dict[tuple[str, str], tuple[Rung, int, int, int]] = {}
        self.booted_when_passed: dict[tuple[str, str], int] = {}
        self.passed: dict[tuple[str, str], float | None] = {}
        self.pages: list[tuple[str, Reason]] = []
        self.returned: list[str] = []
        self.gates = 0
        self.answers: dict[tuple[str, str, Rung, int], tuple[float, Permission]] = {}

    def chance(self, share: float) -> bool:
        """Whether something that happens so often happens now; never in a world that is not hostile."""
        return self.hostile and self.random.random() < share

    def clock(self) -> float:
        """What the process's clock shows."""
        return self.now + self.skew

    def identity(self, node: str) -> Identity:
        """What our own check reads on the machine."""
        truth = self.truths[node]
        gpus = (f"GPU-{node}-{truth.gpus}",)
        return Identity(f"boot-{node}-{truth.boot}", f"i-{node}-{truth.hardware}", gpus)

    def pass_time(self, seconds: float) -> None:
        """Let time pass, and repairs take effect."""
        self.now += seconds
        for truth in self.truths.values():
            if truth.due is not None and truth.due <= self.now:
                self._repaired(truth)

    def _repaired(self, truth: Truth) -> None:
        assert truth.repair is not None
        truth.due = None
        cured = truth.sick is not None and REPAIRS.index(truth.sick) <= REPAIRS.index(truth.repair)
        if truth.repair is Rung.REBOOT:
            # A RebootProgram that does nothing, and at times an engine that does not notice it.
            if self.chance(0.15):
                truth.booted_at = self.now if self.chance(0.5) else truth.booted_at
                return
            truth.boot += 1
            truth.booted_at = self.now
        if truth.repair is Rung.REPLACE:
            truth.boot += 1
            truth.booted_at = self.now
            if self.chance(0.15):  # "replaced" with the same machine
                return
            truth.hardware += 1
            if self.chance(0.15):  # another instance with the same GPUs
                return
            truth.gpus += 1
            if self.chance(0.3):  # the new machine serves at once
                truth.serving, truth.held, truth.mark = True, Holder.NOBODY, None
        if cured:
            truth.sick = None


class SimulatedMachines:
    """The engine. Whatever it is asked for is held against the truth."""

    name = "simulated"
    rungs = frozenset(REPAIRS)
    fence_is = Rung.FENCE

    def __init__(self, world: Ground) -> None:
        self.world = world

    def by_name(self) -> Mapping[str, Machine]:
        """The truth, without the sickness."""
        if self.world.chance(0.03):
            raise EngineSilent("the simulated engine does not answer")
        return {name: self._seen(name, truth) for name, truth in self.world.truths.items()}

    def _seen(self, name: str, truth: Truth) -> Machine:
        service = ServiceState.SERVING if truth.serving else ServiceState.OUT
        if truth.testing:
            service = ServiceState.TESTING
        if truth.due is not None:
            service = ServiceState.CHANGING
        return Machine(
            name, service, truth.held, "words", mark=truth.mark, booted_at=truth.booted_at,
            instance_id=f"i-{name}-{truth.hardware}", jobs=truth.jobs,
        )  # fmt: skip

    def fence(self, node: str, mark: Mark) -> str:
        """Fence."""
        truth = self._ours_or_free(node, mark)
        self._refuse()
        self._count(Rung.FENCE, node, mark)
        return self._taken(lambda: self._hold(truth, mark))

    def _hold(self, truth: Truth, mark: Mark) -> None:
        truth.serving, truth.held, truth.mark = False, Holder.PRELAUNCH, mark

    def act(self, rung: Rung, node: str, mark: Mark, gpus: Sequence[int] = ()) -> str:
        """Take a request for a repair."""
        truth = self.world.truths[node]
        if truth.held is not Holder.PRELAUNCH or truth.mark != mark:
            raise Forbidden(f"{rung} of {node}, which is not fenced for {mark.gate_id}")
        if truth.jobs:
            raise Forbidden(f"{rung} of {node}, on which a job runs")
        if truth.due is not None:
            raise Forbidden(f"{rung} of {node} while its {truth.repair} is under way")
        self._count(rung, node, mark)

        self.world.before[mark.gate_id, node] = (rung, truth.boot, truth.hardware, truth.gpus)

        def begin() -> None:
            truth.repair, truth.requested_at = rung, self.world.now
            truth.due = self.world.now + self.world.random.choice((30.0, 300.0, 900.0))
            if self.world.chance(0.05):  # it was accepted, and is never done
                truth.due = self.world.now + 100 * DAY_S

        return self._taken(begin)

    def settled(self, rung: Rung, before: Machine, now: Machine) -> Settled:
        """What the engine shows of a repair."""
        if now.service is ServiceState.CHANGING:
            return Settled.PENDING
        truth = self.world.truths[now.node]
        if truth.repair is not rung or truth.due is not None:
            return Settled.PENDING
        if rung is Rung.REBOOT:
            return Settled.DONE if now.booted_at != before.booted_at else Settled.FAILED
        if rung is Rung.REPLACE:
            return Settled.DONE if now.instance_id != before.instance_id else Settled.FAILED
        return Settled.DONE

    def open_retest(self, node: str, partners: Sequence[str], mark: Mark) -> Retest:
        """Test it."""
        truth = self._ours_or_free(node, mark)
        if truth.held is not Holder.PRELAUNCH:
            raise ActRefused("it is not fenced")
        truth.testing = True
        return Retest((node, *partners))

    def close_retest(self, node: str, mark: Mark) -> None:
        """End the test."""
        self.world.truths[node].testing = False

    def free(self, node: str, mark: Mark) -> str:
        """Return it."""
        truth = self.world.truths[node]
        if truth.held is not Holder.PRELAUNCH or truth.mark != mark:
            raise ActRefused("it is not ours")
        key = (mark.gate_id, node)
        passed = self.world.passed.get(key)
        if passed is None:
            raise Forbidden(f"{node} is returned, and its last re-test did not pass")
        if self.world.booted_when_passed.get(key) != truth.boot:
            raise Forbidden(f"{node} is returned on a proof of another boot")
        rung, boot, hardware, gpus = self.world.before.get(key, (Rung.RESET, -1, -1, -1))
        if rung in (Rung.REBOOT, Rung.REPLACE) and truth.boot == boot:
            raise Forbidden(f"{node} is returned after a {rung} that did not happen")
        if rung is Rung.REPLACE and (truth.hardware == hardware or truth.gpus == gpus):
            raise Forbidden(f"{node} is returned after a replacement that kept the machine")
        cases = self.world.journal.cases
        if any(one.node == node and one.judged_at > passed for one in cases):
            raise Forbidden(f"{node} is returned although it was condemned again")

        def give() -> None:
            truth.serving, truth.held, truth.mark, truth.testing = True, Holder.NOBODY, None, False
            self.world.returned.append(node)

        self._refuse()
        return self._taken(give)

    def command(self, rung: Rung, node: str, mark: Mark, gpus: Sequence[int] = ()) -> str:
        """What a person would type."""
        return f"{rung.value} {node}"

    def shell(self, machine: Machine) -> str:
        """No shell."""
        return ""

    def _ours_or_free(self, node: str, mark: Mark) -> Truth:
        truth = self.world.truths[node]
        if truth.held is Holder.OTHER:
            raise Forbidden(f"{node} is another's")
        if truth.held is Holder.PRELAUNCH and truth.mark != mark:
            raise Forbidden(f"{node} is another case's")
        return truth

    def _refuse(self) -> None:
        """Now and then nothing is taken, and that is said."""
        if self.world.chance(0.03):
            raise EngineSilent("the simulated engine was not reached")
        if self.world.chance(0.05):
            raise ActRefused("the simulated engine refuses")

    def _taken(self, effect: Callable[[], None]) -> str:
        """Take a request, or lose its answer, or both."""
        world = self.world
        if world.chance(0.03):
            raise Killed  # before the request
        if world.chance(0.04):
            raise ActAmbiguous("no answer, and nothing happened")
        effect()
        if world.chance(0.03):
            raise Killed  # after it
        if world.chance(0.04):
            raise ActAmbiguous("no answer, and it happened")
        return "taken"

    def _count(self, rung: Rung, node: str, mark: Mark) -> None:
        """Hold a request that takes capacity against every limit, by the truth and by all requests so far."""
        world, now = self.world, self.world.clock()
        limits, journal = world.settings.limits, world.journal
        key = (rung, node, mark.gate_id)
        written = [act for act in journal.acts if (act.rung, act.node, act.gate_id) == key]
        requests = [call for call in world.calls if call[1:3] == (node, mark.gate_id)]
        if sum(call[0] is rung for call in requests) >= len(written):
            raise Forbidden(f"{rung} of {node} was requested more often than it was written down")
        refenced = rung is Rung.FENCE and any(call[0] in REPAIRS for call in requests)
        world.calls.append((rung, node, mark.gate_id, now))
        if refenced:
            return
        since = max(now - limits.breaker_s, journal.breaker.closed_at)
        if sum(call[3] > since for call in world.calls) > limits.breaker_acts:
            raise Forbidden(f"{rung} of {node} is one act too many for the breaker")
        at, boot = world.measured[mark.gate_id, node]
        if now - at > limits.max_verdict_s + 1:
            raise Forbidden(f"{rung} of {node} on evidence that is {now - at:.0f} s old")
        if boot != world.truths[node].boot:
            raise Forbidden(f"{rung} of {node} on evidence of another boot")
        if journal.breaker.is_open or at <= journal.breaker.closed_at:
            raise Forbidden(f"{rung} of {node} in spite of the breaker")
        others = [truth for name, truth in world.truths.items() if name != node]
        out = sum(not truth.serving or truth.due is not None for truth in others)
        if out + 1 > max(1, int(limits.max_out_fraction * world.size)):
            raise Forbidden(f"{rung} of {node} while {out} others are out of service")
        if rung in REPAIRS:
            self._count_repair(rung, node, mark, now)

    def _count_repair(self, rung: Rung, node: str, mark: Mark, now: float) -> None:
        world, limits = self.world, self.world.settings.limits
        same = [call for call in world.calls if call[0] is rung and call[1] == node and call[3] > now - DAY_S]
        if len(same) > limits.most[rung]:
            raise Forbidden(f"{rung} of {node} for the {len(same)}th time in a day")
        rack = int(node[1:]) // world.rack
        for name, truth in world.truths.items():
            if name != node and int(name[1:]) // world.rack == rack and truth.due is not None:
                acts = [act for act in world.journal.acts if act.node == name and act.rung in REPAIRS]
                if any(not act.state.final for act in acts):
                    raise Forbidden(f"{rung} of {node} beside that of {name} in one rack")
