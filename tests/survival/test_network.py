"""Hosts that are slow, cut off or not there, in network namespaces or on loopback."""

from __future__ import annotations

from pathlib import Path

import pytest

from checks.model import Outcome
from tests.survival.faulty_network import cut, needs_root, network, shape
from tests.survival.world import RUN, World, run

ABSENT = (
    "{python}",
    "-c",
    "import os, sys; os.environ['PRELAUNCH_NODE'] == 'node-1' and sys.exit(9); os.execv(sys.argv[1], sys.argv[1:])",
    *RUN,
)


def on(name: str) -> dict[str, object]:
    """The local launcher's options for a prepared network."""
    return {"network": "namespaces", "prepared": name}


# Without ranks a job costs seconds; with them, whatever else they measure over a slow network costs a minute.
RANKS = pytest.mark.parametrize(
    "few", [pytest.param(True, id="nodes"), pytest.param(False, id="nodes and ranks", marks=pytest.mark.long)]
)


@needs_root
@pytest.mark.root
@RANKS
def test_of_two_hosts_the_slow_link_is_named(tmp_path: Path, few: bool) -> None:
    """Nobody can say which end is slow, so neither host is condemned."""
    with network(2) as name:
        shape(name, 1)
        ended = run(World(2, 1, options=on(name), few=few), tmp_path)

    assert ({"node-0<->node-1"}, ()) == (ended.slow(), ended.verdict.condemned)
    assert ended.exit_code == 1 or (ended.busy and ended.exit_code == 3)


@needs_root
@pytest.mark.root
@RANKS
def test_of_several_hosts_the_one_cut_off_is_named(tmp_path: Path, few: bool) -> None:
    """It runs and says so; nobody reaches it and it reaches nobody, while the others reach each other."""
    hosts = 3 if few else 4
    with network(hosts) as name:
        cut(name, hosts - 1)
        ended = run(World(hosts, 1, network_s=2.0 if few else 6.0, options=on(name), few=few), tmp_path)
    first, last = ended.verdict.findings[0], f"node-{hosts - 1}"

    assert (1, last, (last,)) == (ended.exit_code, first.subject, ended.verdict.condemned)


@needs_root
@pytest.mark.root
@pytest.mark.long
def test_the_first_host_can_be_the_one_cut_off(tmp_path: Path) -> None:
    """The one that holds the board is no special case."""
    with network(3) as name:
        cut(name, 0)
        ended = run(World(3, 1, options=on(name)), tmp_path)

    assert (1, ("node-0",)) == (ended.exit_code, ended.verdict.condemned)


def test_a_node_that_never_starts_is_named_and_no_rank_waits_for_it(tmp_path: Path) -> None:
    """No collective waits for it; nobody calls it broken."""
    ended = run(World(3, 1, network_s=2, few=True), tmp_path, command=ABSENT)
    first = ended.verdict.findings[0]

    assert (3, "node-1", ()) == (ended.exit_code, first.subject, ended.verdict.condemned)
    ranks = [row for row in ended.report.observations if "/" in row.subject]
    assert {Outcome.SKIPPED} == {row.outcome for row in ranks}  # none of them began, and each says for whom
    assert all("cannot reach node-1" in row.reason for row in ranks)
