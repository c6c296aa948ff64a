"""Which hosts explain the bad cells of a matrix of hosts, and which links remain. Pure.

A cell (a, b) is what a measured towards b. A host is to blame if nearly all of its cells are bad, or of those in one direction, and
those of the others are not.
"""

from __future__ import annotations

from collections.abc import Sequence

# A host is to blame if at least this share of its cells is bad: a single good cell must not clear it.
HOST_SHARE = 0.8
# Judgement: this many links, if they are also more than there are hosts, are neither readable as a list nor a matter of broken
# cables.
MOST_LINKS = 64

Cell = tuple[str, str]


def blame(bad: set[Cell], cells: set[Cell]) -> tuple[list[str], set[Cell]]:
    """The hosts that explain the bad cells, chosen greedily, then the links that remain. If there are only two hosts, a link is
    blamed.
    """
    bad, blamed = bad & cells, list[str]()
    if not bad:
        return [], set()
    of_host: dict[str, set[Cell]] = {}
    # Of each host: how many cells lead away from it and to it, and how many of them are bad.
    every: dict[str, list[int]] = {}
    broken: dict[str, list[int]] = {}
    for cell in cells:
        for direction, end in enumerate(cell):
            of_host.setdefault(end, set()).add(cell)
            every.setdefault(end, [0, 0])[direction] += 1
            broken.setdefault(end, [0, 0])[direction] += cell in bad
    good = len(cells - bad)
    # Of a host with one peer the link may be to blame; a peer has at most two cells.
    while candidates := [
        host for host, mine in of_host.items() if len(mine) > 2 or len({frozenset(cell) for cell in mine}) > 1
    ]:
        shares = {host: _share(every[host], broken[host]) for host in candidates}
        host = min(shares, key=lambda name: (-shares[name], -sum(broken[name]), name))
        good_here = sum(every[host]) - sum(broken[host])
        if shares[host] < HOST_SHARE or good == good_here:
            break
        blamed.append(host)
        good -= good_here
        for cell in of_host.pop(host):
            direction = int(cell[0] == host)
            other = cell[direction]
            if other in of_host:
                of_host[other].discard(cell)
                every[other][direction] -= 1
                broken[other][direction] -= cell in bad
            bad.discard(cell)
        of_host = {name: mine for name, mine in of_host.items() if mine}
    return blamed, {(min(cell), max(cell)) for cell in bad}


def _share(every: Sequence[int], broken: Sequence[int]) -> float:
    """The greatest share of a host's cells that are bad: in both directions, or in one that has at least half of them."""
    whole = sum(every)
    one_way = (
        count / number for number, count in zip(every, broken, strict=True) if number >= max(2, whole / 2)
    )
    return max((sum(broken) / whole, *one_way))


def by_end_and_link(bad: set[Cell]) -> tuple[dict[str, set[Cell]], dict[Cell, set[Cell]]]:
    """The bad cells of each host and of each link, prepared once because there may be thousands of findings."""
    of_host: dict[str, set[Cell]] = {}
    of_link: dict[Cell, set[Cell]] = {}
    for cell in bad:
        of_link.setdefault((min(cell), max(cell)), set()).add(cell)
        for end in cell:
            of_host.setdefault(end, set()).add(cell)
    return of_host, of_link
