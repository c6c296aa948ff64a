"""What may be done now: every limit, from the engine's own picture of the cluster and from the journal. Pure.

An act that may have happened counts as one that did. An act with a time in the future (another clock, or one that was set back) counts
as well, so that no clock can free a limit.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from tasks.machines.base import REPAIRS, Machine, Rung, Service
from tasks.remediation.model import DAY_S, Act, ActState, Case, Journal, Limits, Why

# Acts that take capacity from the cluster, or may.
COUNTED = (Rung.FENCE, *REPAIRS)


def out_of_service(machines: Mapping[str, Machine]) -> frozenset[str]:
    """The nodes that serve nobody, for whatever reason; one whose state is unknown is among them."""
    return frozenset(name for name, one in machines.items() if one.service is not Service.SERVING)


def too_many_out(case: Case, machines: Mapping[str, Machine], limits: Limits) -> bool:
    """Whether too few nodes would serve, if all that the case's verdict condemned were fenced with it."""
    others = out_of_service(machines) - {case.node}
    most = max(1, math.floor(limits.max_out_fraction * len(machines)))
    return len(others) + 1 > most or case.condemned > most


def counted(acts: Iterable[Act], now: float, window_s: float) -> tuple[Act, ...]:
    """The acts of the last `window_s` that happened, or may have."""
    return tuple(
        act for act in acts if act.state is not ActState.REFUSED and act.intended_at > now - window_s
    )


def times(journal: Journal, node: str, rung: Rung, now: float) -> int:
    """How often this was done to the node within a day."""
    return sum(act.node == node and act.rung is rung for act in counted(journal.acts, now, DAY_S))


def domain_busy(journal: Journal, node: str, domain: str) -> bool:
    """Whether a repair of another node of the same failure domain has not ended. Nodes of unknown domains share one."""
    return any(
        act.rung in REPAIRS and not act.state.final and act.node != node and act.domain == domain
        for act in journal.acts
    )


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
) -> Why | None:
    """Why this act, which takes capacity, may not happen now; None if it may. The breaker is not asked here."""
    if rung is Rung.FENCE:
        return Why.TOO_MANY_OUT if too_many_out(case, machines, limits) else None
    if len(out_of_service(machines) - {case.node}) + 1 > max(
        1, math.floor(limits.max_out_fraction * len(machines))
    ):
        return Why.TOO_MANY_OUT
    return Why.DOMAIN_BUSY if domain_busy(journal, case.node, case.domain) else None
