"""What the engine of a cluster shows of its machines, and how that contradicts our records. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from tasks.machines.base import REPAIRS, Holder, Machine, Machines, Rung, ServiceState
from tasks.remediation.model import Act, ActState

# Acts that say where a node is; a page leaves it where it is.
PLACING = (Rung.FENCE, Rung.RECHECK, *REPAIRS, Rung.RETURN)


class OurState(StrEnum):
    """Where our own acts left a machine.

    UNTOUCHED: there is no act. UNSETTLED: an act was requested whose effect is not known. UNREAD: the records could not be read.
    """

    UNTOUCHED = "untouched"
    FENCED = "fenced"
    TESTING = "in re-test"
    REPAIRING = "in repair"
    RETURNED = "returned"
    UNSETTLED = "not settled"
    UNREAD = "not known"


class Disagreement(StrEnum):
    """How the engine's picture contradicts our records.

    SERVES: jobs may start on a node that we took out and did not return. TAKEN: somebody else holds a node that we hold.
    UNMARKED: such a node is out of service without our mark. OTHER_GATE: our mark is of another gate than our last act.
    HELD: our mark is there, and no act of ours explains it. MISSING: the engine does not know a node that we hold.
    CONDEMNED: jobs may start on a node whose gates condemn it. PROVEN: a node that they prove is out of service.
    """

    SERVES = "serves, but Prelaunch fenced it"
    OTHER_HOLDER = "Prelaunch fenced it, but another holds it"
    UNMARKED = "Prelaunch fenced it, but its mark is gone"
    OTHER_GATE = "is marked for another gate than the last act"
    HELD = "has Prelaunch's mark, but no act explains it"
    MISSING = "Prelaunch fenced it, but the engine does not know it"
    CONDEMNED = "serves jobs, but is condemned"
    PROVEN = "is out of service, but is proven"


@dataclass(frozen=True)
class MachineRow:
    """One machine. `machine` is None if the engine does not know the node; `acts` are oldest first.

    `shell` is the command that opens a shell there, "" if none is known.
    """

    node: str
    machine: Machine | None
    ours: OurState
    disagreement: Disagreement | None
    acts: tuple[Act, ...] = ()
    shell: str = ""


def machine_rows(
    machines_seen: Mapping[str, Machine], acts: Sequence[Act] | None, machines: Machines
) -> tuple[MachineRow, ...]:
    """A row for each machine that the engine shows or that has an act, by name. `acts` is None if they could not be read."""
    by_node: dict[str, list[Act]] = {}
    for act in acts or ():
        by_node.setdefault(act.node, []).append(act)
    views = []
    for node in sorted({*machines_seen, *by_node}):
        own = tuple(by_node.get(node, ()))
        machine = machines_seen.get(node)
        ours = OurState.UNREAD if acts is None else our_state(own)
        differs = disagreement(machine, ours, last_placing(own))
        shell = machines.shell(machine) if machine else ""
        views.append(MachineRow(node, machine, ours, differs, own, shell))
    return tuple(views)


def last_placing(acts: Sequence[Act]) -> Act | None:
    """The last act that says where a node is; one that was refused changed nothing."""
    placing = (act for act in reversed(acts) if act.rung in PLACING and act.state is not ActState.REFUSED)
    return next(placing, None)


def our_state(acts: Sequence[Act]) -> OurState:
    """Where our acts left a node."""
    last = last_placing(acts)
    if last is None:
        return OurState.UNTOUCHED
    if last.rung is Rung.FENCE:
        return OurState.FENCED if last.state is ActState.DONE else OurState.UNSETTLED
    if last.rung is Rung.RETURN:
        return OurState.RETURNED if last.state is ActState.DONE else OurState.UNSETTLED
    if last.state.final:
        return OurState.FENCED
    return OurState.TESTING if last.rung is Rung.RECHECK else OurState.REPAIRING


def disagreement(machine: Machine | None, ours: OurState, last: Act | None) -> Disagreement | None:
    """How the engine's picture of a node contradicts where our acts left it; None if it does not, or one of them is not known."""
    if ours in (OurState.UNSETTLED, OurState.UNREAD):
        return None
    holds = ours in (OurState.FENCED, OurState.TESTING, OurState.REPAIRING)
    if machine is None or machine.service is ServiceState.GONE:
        return Disagreement.MISSING if holds and ours is not OurState.REPAIRING else None
    if machine.service is ServiceState.UNKNOWN:
        return None
    if not holds:
        return Disagreement.HELD if machine.holder is Holder.PRELAUNCH else None
    if machine.service is ServiceState.SERVING:
        return Disagreement.SERVES
    if machine.holder is Holder.OTHER:
        return Disagreement.OTHER_HOLDER
    if machine.holder is Holder.NOBODY and machine.service is ServiceState.OUT:
        return Disagreement.UNMARKED
    other = machine.mark is not None and last is not None and machine.mark.gate_id != last.gate_id
    return Disagreement.OTHER_GATE if other else None
