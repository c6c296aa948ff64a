"""Which maps of the matrices a page has room for: those with bad tests, and what everybody wants to see (pure)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from checks.culprit.matrix import Better, Span
from tasks.render.heatmap import HeatMap
from tasks.render.nodemap import inside_map, node_map, nodes_of, suspected
from tasks.render.railstrip import Strip, rail_strip
from tasks.render.shown import Shown

MAPS, INSIDES = 6, 4


@dataclass(frozen=True)
class Views:
    """`hidden` matrices had no room; none of them is worse than those shown."""

    maps: tuple[HeatMap, ...]
    strips: tuple[Strip, ...]
    hidden: int


def views(shown: Sequence[Shown]) -> Views:
    """The matrices with suspects first, then those with bad tests, then rates without any."""
    wanted = sorted(
        (one for one in shown if _is_worth(one)), key=lambda one: (not suspected(one), not one.decoded.bad)
    )
    maps = [made for one in wanted for made in _maps(one)]
    strips = []
    for check in dict.fromkeys(one.check for one in shown):
        rates = [one for one in shown if one.check == check and _is_rate(one)]
        between = next((one for one in rates if one.matrix.span is Span.BETWEEN), None)
        inside = next((one for one in rates if one.matrix.span is Span.INSIDE), None)
        made = rail_strip(between, inside)
        strips += [made] if made else []
    return Views(tuple(maps[:MAPS]), tuple(strips), max(0, len(maps) - MAPS))


def first_map(shown: Sequence[Shown]) -> HeatMap | None:
    """The one to draw where there is room for one."""
    return next(iter(views(shown).maps), None)


def _maps(one: Shown) -> list[HeatMap]:
    if one.matrix.span is Span.BETWEEN:
        made = node_map(one)
        return [made] if made else []
    nodes = nodes_of(one)
    chosen = nodes if len(nodes) == 1 else suspected(one)[:INSIDES]
    return [made for node in chosen if (made := inside_map(one, node))]


def _is_worth(one: Shown) -> bool:
    return bool(one.decoded.bad) or _is_rate(one)


def _is_rate(one: Shown) -> bool:
    """Values of which more is better, in a unit: what is right or wrong has none."""
    return one.matrix.better is Better.HIGHER and bool(one.matrix.unit)
