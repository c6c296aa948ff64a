"""The data types of the fleet: which machines are proven, which are not, and why. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from checks.judge.trend.time_series import Course, Trend, TrendMachine
from checks.model import Cause, Finding, Profile
from tasks.machines.base import Machine
from tasks.remediation.model import Act
from tasks.reports.fleet.engine_view import Disagreement, OurState
from tasks.store.node_rows import Standing

# Longer than most machines are out for a repair.
SEEN_S = 90 * 24 * 3600.0


class NodeState(StrEnum):
    """What is known of a machine now, the worst first.

    CONDEMNED: a FAIL of its hardware that nothing has answered. CANNOT_TELL: its last gate lacks evidence about it. DOUBTFUL: another
    finding is open, which is more than evidence that the policy does without. UNPROVEN: no proof is fresh enough, or there is none.
    PROVEN: the newest gate that measured it found nothing, and that was not long ago.
    """

    CONDEMNED = "condemned"
    CANNOT_TELL = "cannot tell"
    DOUBTFUL = "doubtful"
    UNPROVEN = "unproven"
    PROVEN = "proven"

    @property
    def rank(self) -> int:
        """0 for the worst."""
        return list(NodeState).index(self)


@dataclass(frozen=True)
class GateMark:
    """One gate of a machine, under the name that it had then. `measured_at` is a Unix time. `profile` is None if it is not known any
    more. `failure` says that the gate's training failed on this node, and why; `finding` why the gate condemned it, "" where it did
    not.
    """

    gate_id: str
    node: str
    judged_at: str
    measured_at: float
    standing: Standing
    profile: Profile | None
    policy: str
    failure: str = ""
    finding: str = ""


@dataclass(frozen=True)
class StillOpen:
    """A finding that no later gate has measured away. `gate_id` and `last_seen` are of the newest gate that found it, `since_gate_id`
    and `since` of the first one in the unbroken row of gates that found it: no gate in between measured its check without it. Times
    are UTC, ISO 8601. `at_least`: the row may begin earlier, among gates that are not looked at any more.
    """

    finding: Finding
    gate_id: str
    last_seen: str
    since_gate_id: str
    since: str
    at_least: bool = False


NO_TREND = TrendMachine("", "its name alone", 0, "", "", (), ())


@dataclass(frozen=True)
class FleetNode:
    """One machine. `gates` are its newest gates, oldest first; `count` is how many there are in all.

    `last_proof` is None if there is none. `looked_at` is when it last measured anything (Unix time), 0.0 if never. `trend` is what its
    numbers do. `engine_node` is the engine's name of it where that is another one, "" otherwise. `engine` is None if the engine was
    not asked or does not know it, `shell_command` opens a shell there, "" if none is known. `acts` are the newest last. `doubts` are
    the causes of what makes it DOUBTFUL, () in every other state.
    """

    name: str
    cluster: str
    state: NodeState
    gates: tuple[GateMark, ...]
    count: int
    last_proof: GateMark | None
    proof_age_s: float | None
    looked_at: float
    open: tuple[StillOpen, ...] = ()
    doubts: tuple[Cause, ...] = ()
    trend: TrendMachine = NO_TREND
    acts: tuple[Act, ...] = ()
    ours: OurState | None = None
    engine: Machine | None = None
    differs: Disagreement | None = None
    shell_command: str = ""
    engine_node: str = ""


@dataclass(frozen=True)
class Fleet:
    """All machines, the worst first; `replaced` are those whose name another machine has taken, `unseen` those that no gate has named
    for SEEN_S, and `untested` those that the engine has and no gate has ever named. None of these three counts.

    `trend` has what they do together. `gates` is how many gates there are, `now` a Unix time. `problems` say what could not be read: a
    short list must not look like a short fleet. `asked` is whether the engine answered; None: it was not asked.
    """

    nodes: tuple[FleetNode, ...]
    replaced: tuple[FleetNode, ...]
    trend: Trend
    gates: int
    now: float
    fresh_s: float
    problems: tuple[str, ...] = ()
    has_reply: bool | None = None
    unseen: tuple[FleetNode, ...] = ()
    untested: tuple[FleetNode, ...] = ()

    @property
    def groups(self) -> Mapping[str, tuple[Course, ...]]:
        """The numbers that nodes reach together and that get worse, by the group."""
        groups = {machine.name: machine.degrading for machine in self.trend.machines if not machine.places}
        return {name: courses for name, courses in groups.items() if courses}

    def count(self, state: NodeState) -> int:
        """How many machines are in this state."""
        return sum(node.state is state for node in self.nodes)
