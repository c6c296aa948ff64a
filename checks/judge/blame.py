"""Which hosts explain the bad cells of a matrix of hosts, and which links remain. Pure.

A cell (a, b) is what a measured towards b. A host is to blame if nearly all of its cells are bad and those of the others are not.
"""

from __future__ import annotations

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
    blamed: list[str] = []
    of_host: dict[str, set[Cell]] = {}
    for cell in cells:
        for end in cell:
            of_host.setdefault(end, set()).add(cell)
    bad, good = bad & cells, len(cells - bad)
    bad_here = {host: len(mine & bad) for host, mine in of_host.items()}
    while len(of_host) > 2:
        shares = {host: bad_here[host] / len(mine) for host, mine in of_host.items()}
        host = min(shares, key=lambda name: (-shares[name], name))
        good_here = len(of_host[host]) - bad_here[host]
        if shares[host] < HOST_SHARE or good == good_here:
            break
        blamed.append(host)
        good -= good_here
        for cell in of_host.pop(host):
            other = cell[1] if cell[0] == host else cell[0]
            if other in of_host:
                of_host[other].discard(cell)
                bad_here[other] -= cell in bad
            bad.discard(cell)
        of_host = {name: mine for name, mine in of_host.items() if mine}
    return blamed, {(min(cell), max(cell)) for cell in bad}


def by_end_and_link(bad: set[Cell]) -> tuple[dict[str, set[Cell]], dict[Cell, set[Cell]]]:
    """The bad cells of each host and of each link, prepared once because there may be thousands of findings."""
    of_host: dict[str, set[Cell]] = {}
    of_link: dict[Cell, set[Cell]] = {}
    for cell in bad:
        of_link.setdefault((min(cell), max(cell)), set()).add(cell)
        for end in cell:
            of_host.setdefault(end, set()).add(cell)
    return of_host, of_link
