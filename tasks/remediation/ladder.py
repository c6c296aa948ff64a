"""Which repair a case needs next, and whether a machine shows that it was done. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from checks.model import Action
from tasks.machines.base import REPAIRS, Rung
from tasks.remediation.limits import times
from tasks.remediation.model import Act, ActState, Case, Identity, Journal, Settings

# What the verdict's actions ask for. The others are for a person, once the node is fenced and the finding has repeated.
WANTED: Mapping[Action, Rung] = {
    Action.RESET_GPU: Rung.RESET,
    Action.REBOOT: Rung.REBOOT,
    Action.REPLACE: Rung.REPLACE,
    Action.INSPECT: Rung.PAGE,
    Action.CONTACT: Rung.PAGE,
}
AFTER: Mapping[Rung, Rung] = {Rung.RESET: Rung.REBOOT, Rung.REBOOT: Rung.REPLACE, Rung.REPLACE: Rung.PAGE}


def required(case: Case) -> Rung | None:
    """The strongest repair that the findings ask for; PAGE where a person has to look; None if no machine is meant."""
    wanted = {WANTED[blame.action] for blame in case.blames if blame.action in WANTED}
    return next((rung for rung in (Rung.REPLACE, Rung.REBOOT, Rung.RESET, Rung.PAGE) if rung in wanted), None)


def tried(acts: Sequence[Act]) -> tuple[Act, ...]:
    """The repairs that the engine has done."""
    return tuple(act for act in acts if act.rung in REPAIRS and act.state is ActState.DONE)


def shows_repair(case: Case, acts: Sequence[Act], found: Identity) -> bool:
    """Whether the machine that was measured is one that shows what the findings asked for.

    Where a repair was done it must show: a reboot by another boot id, a replacement by another instance id and other GPUs. Without
    one, findings that pass by themselves are over; hard ones are not, unless somebody else's reboot shows.
    """
    done = tried(acts)
    if done:
        return shows(done[-1].rung, _known_before(case, acts, done[-1]), found)
    if not any(blame.hard for blame in case.blames):
        return True
    wanted = required(case)
    return wanted in (Rung.REBOOT, Rung.REPLACE) and shows(wanted, case.identity, found)


def _known_before(case: Case, acts: Sequence[Act], repair: Act) -> Identity:
    """What the last measurement before the repair knew of the machine."""
    earlier = [
        act.found for act in acts[: acts.index(repair)] if act.rung is Rung.RECHECK and act.found.boot_id
    ]
    return earlier[-1] if earlier else case.identity


def shows(rung: Rung, before: Identity, found: Identity) -> bool:
    """Whether a repair shows in the identity of a machine. What is not known shows nothing."""
    if rung is Rung.RESET:
        return True  # what it mends is measured: the failed check passed
    if rung is Rung.REBOOT:
        return bool(before.boot_id and found.boot_id) and before.boot_id != found.boot_id
    other = bool(before.instance_id and found.instance_id) and before.instance_id != found.instance_id
    fresh = not before.gpus or bool(found.gpus and not set(before.gpus) & set(found.gpus))
    return other and fresh


def next_repair(
    case: Case,
    acts: Sequence[Act],
    journal: Journal,
    rungs: frozenset[Rung],
    settings: Settings,
    now: float,
) -> Rung:
    """Which repair is the next: what the findings ask for, or the one after the last that was tried; PAGE if none is left."""
    rung = required(case) or Rung.PAGE
    done = tried(acts)
    if done:
        rung = AFTER[done[-1].rung]
    elif rung is Rung.REBOOT and _came_back(case, journal):
        rung = Rung.REPLACE
    while rung is not Rung.PAGE:
        allowed = settings.limits.most[rung]
        if rung in rungs and times(journal, case.node, rung, now) < allowed:
            return rung
        rung = AFTER[rung]
    return Rung.PAGE


def _came_back(case: Case, journal: Journal) -> bool:
    """Whether an earlier case of the node was rebooted for one of the same checks."""
    checks = {blame.check for blame in case.blames}
    return any(
        act.node == case.node
        and act.gate_id != case.gate_id
        and act.rung is Rung.REBOOT
        and act.state is ActState.DONE
        and checks & set(act.checks)
        for act in journal.acts
    )
