"""Which repair a case needs next, whether a machine shows that it was done, and every limit of what may be done now. Pure.

The limits follow from the engine's own picture of the cluster and from the journal. An act that may have happened counts as one that
did. An act with a time in the future (another clock, or one that was set back) counts as well, so that no clock can free a limit.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from checks.model import Action
from tasks.machines.base import REPAIRS, Machine, Rung, ServiceState
from tasks.remediation.model import DAY_S, Act, ActState, Case, Identity, Journal, Limits, Reason

# What the verdict's actions ask for. The others are for a person, once the node is fenced and the finding has repeated.
WANTED: Mapping[Action, Rung] = {
    Action.RESET_GPU: Rung.RESET,
    Action.REBOOT: Rung.REBOOT,
    Action.REPLACE: Rung.REPLACE,
    Action.INSPECT: Rung.PAGE,
    Action.CONTACT: Rung.PAGE,
}
# Acts that take capacity from the cluster, or may.
COUNTED = (Rung.FENCE, *REPAIRS)
AFTER: Mapping[Rung, Rung] = {Rung.RESET: Rung.REBOOT, Rung.REBOOT: Rung.REPLACE, Rung.REPLACE: Rung.PAGE}


def required(case: Case) -> Rung | None:
    """The strongest repair that the findings ask for; PAGE where a person has to look; None if no machine is meant."""
    wanted = {WANTED[blame.action] for blame in case.blames if blame.action in WANTED}
    return next((rung for rung in (Rung.REPLACE, Rung.REBOOT, Rung.RESET, Rung.PAGE) if rung in wanted), None)


def tried(acts: Sequence[Act]) -> tuple[Act, ...]:
    """The repairs that the engine has done."""
    return tuple(act for act in acts if act.rung in REPAIRS and act.state is ActState.DONE)


def shows_repair(case: Case, acts: Sequence[Act], identity: Identity) -> bool:
    """Whether the machine that was measured is one that shows what the findings asked for.

    Where a repair was done it must show: a reboot by another boot id, a replacement by another instance id and other GPUs. Without
    one, findings that pass by themselves are over; hard ones are not, unless somebody else's reboot shows.
    """
    done = tried(acts)
    if done:
        return shows(done[-1].rung, _known_before(case, acts, done[-1]), identity)
    if not any(blame.hard for blame in case.blames):
        return True
    wanted = required(case)
    return wanted in (Rung.REBOOT, Rung.REPLACE) and shows(wanted, case.identity, identity)


def _known_before(case: Case, acts: Sequence[Act], repair: Act) -> Identity:
    """What the last measurement before the repair knew of the machine."""
    earlier = [
        act.found for act in acts[: acts.index(repair)] if act.rung is Rung.RECHECK and act.found.boot_id
    ]
    return earlier[-1] if earlier else case.identity


def shows(rung: Rung, before: Identity, now: Identity) -> bool:
    """Whether a repair shows in the identity of a machine. What is not known shows nothing."""
    if rung is Rung.RESET:
        return True  # what it mends is measured: the failed check passed
    if rung is Rung.REBOOT:
        return bool(before.boot_id and now.boot_id) and before.boot_id != now.boot_id
    other = bool(before.instance_id and now.instance_id) and before.instance_id != now.instance_id
    fresh = not before.gpus or bool(now.gpus and not set(before.gpus) & set(now.gpus))
    return other and fresh


def next_repair(
    case: Case, acts: Sequence[Act], journal: Journal, rungs: frozenset[Rung], limits: Limits, now: float
) -> Rung:
    """Which repair is the next: what the findings ask for, or the one after the last that was tried; PAGE if none is left."""
    rung = required(case) or Rung.PAGE
    done = tried(acts)
    if done:
        rung = AFTER[done[-1].rung]
    elif rung is Rung.REBOOT and _came_back(case, journal):
        rung = Rung.REPLACE
    while rung is not Rung.PAGE:
        if rung in rungs and times(journal, case.node, rung, now) < limits.most[rung]:
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


def counted(acts: Iterable[Act], now: float, window_s: float) -> tuple[Act, ...]:
    """The acts of the last `window_s` that happened, or may have."""
    return tuple(
        act for act in acts if act.state is not ActState.REFUSED and act.intended_at > now - window_s
    )


def times(journal: Journal, node: str, rung: Rung, now: float) -> int:
    """How often this was done to the node within a day."""
    return sum(act.node == node and act.rung is rung for act in counted(journal.acts, now, DAY_S))


def trips(journal: Journal, now: float, limits: Limits) -> bool:
    """Whether one more act would be too many for the breaker. Acts before it was closed count no more."""
    since = max(now - limits.breaker_s, journal.breaker.closed_at)
    recent = [
        act
        for act in journal.acts
        if act.rung in COUNTED and act.state is not ActState.REFUSED and act.intended_at > since
    ]
    return len(recent) >= limits.breaker_acts


def obstacle(
    case: Case, rung: Rung, journal: Journal, machines: Mapping[str, Machine], limits: Limits
) -> Reason | None:
    """Why this act, which takes capacity, may not happen now; None if it may. The breaker is not asked here."""
    most = max(1, math.floor(limits.max_out_fraction * len(machines)))
    # All that the case's verdict condemned would be fenced with it.
    condemned = case.condemned if rung is Rung.FENCE else 0
    # A node whose state is unknown serves nobody either.
    out = {name for name, machine in machines.items() if machine.service is not ServiceState.SERVING}
    if max(len(out - {case.node}) + 1, condemned) > most:
        return Reason.TOO_MANY_OUT
    # Nodes of unknown domains share one.
    busy = rung is not Rung.FENCE and any(
        act.rung in REPAIRS and not act.state.final and act.node != case.node and act.domain == case.domain
        for act in journal.acts
    )
    return Reason.DOMAIN_BUSY if busy else None
