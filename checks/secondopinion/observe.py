"""The observations of a node's table: measured, or not and why (pure)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from checks.decode import DecodeError
from checks.model import Observation, Outcome, rank_subject
from checks.report import clip
from checks.secondopinion import collective
from checks.secondopinion.node import Asked, NodeTable, Shown, Unread
from checks.secondopinion.plan import RANKS, SECTIONS


def observed(node: NodeTable, asked: Asked, wanted: frozenset[str]) -> Iterator[Observation]:
    """One of every wanted check; the ranks of the node share what its first rank wrote."""
    for section in SECTIONS:
        names = [name for name in section.checks if name in wanted]
        if names:
            found = attempted(names, lambda read=section.read: read(node, asked))  # type: ignore[misc]
            yield from (row(name, node.name, found[name]) for name in names)
    if RANKS in wanted:
        found = attempted((RANKS,), lambda: {RANKS: collective.processes(node, asked)})
        first = node.rank * asked.declared.ranks_per_node
        for rank in range(first, first + asked.declared.ranks_per_node):
            yield row(RANKS, rank_subject(node.name, rank), found[RANKS])


def attempted(
    names: Sequence[str], read: Callable[[], Mapping[str, Shown | Unread]]
) -> Mapping[str, Shown | Unread]:
    """What the reader makes of its section; whatever it raises costs this section of this node alone."""
    try:
        return read()
    except (DecodeError, Unread) as error:
        return dict.fromkeys(names, Unread(str(error), getattr(error, "evidence", "")))
    except Exception as error:  # noqa: BLE001 - a hostile section costs its own observations, said as not measured
        return dict.fromkeys(names, Unread(f"the reader stumbled over it: {type(error).__name__}: {error}"))


def row(check: str, subject: str, found: Shown | Unread) -> Observation:
    """What was found, as an observation."""
    evidence, cut = clip(found.evidence)
    if isinstance(found, Shown):
        return Observation(
            check, subject, Outcome.MEASURED, 0.0, found.metrics, evidence=evidence, evidence_truncated=cut
        )
    outcome = Outcome.SKIPPED if found.skip else Outcome.ERRORED
    return Observation(
        check, subject, outcome, 0.0, skip=found.skip, reason=clip(str(found))[0], evidence=evidence
    )
