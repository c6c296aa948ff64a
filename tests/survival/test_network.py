"""Hosts that are slow, cut off or not there, in network namespaces or on loopback."""

from __future__ import annotations

from pathlib import Path

import pytest

from checks.model import Outcome
from tests.survival.faulty_network import cut, needs_root, network, shape
from tests.survival.world import RUN, World, run

pytestmark = pytest.mark.usefixtures("least_checks")
STAYS_AWAY = "import os, sys; os.environ['PRELAUNCH_NODE'] == 'node-1' and sys.exit(9); os.execv(sys.argv[1], sys.argv[1:])"


def on(name: str) -> dict[str, object]:
    """The local launcher's options for a prepared network."""
    return {"network": "namespaces", "prepared": name}


@needs_root
@pytest.mark.root
def test_a_host_that_is_cut_off_and_a_slow_link_are_named(tmp_path: Path) -> None:
    """Nobody reaches the one; of the other two nobody can say which end is slow, so neither is condemned."""
    with network(3) as name:
        shape(name, 1)
        cut(name, 2)
        ended = run(World(3, 1, network_s=2.0, options=on(name), few=True), tmp_path)

    assert (1, ("node-2",)) == (ended.exit_code, ended.verdict.condemned)
    assert "node-2" == ended.verdict.findings[0].subject
    assert "node-0<->node-1" in ended.slow()


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
    ended = run(World(2, 1, network_s=2, few=True), tmp_path, command=("{python}", "-c", STAYS_AWAY, *RUN))
    first = ended.verdict.findings[0]

    assert (3, "node-1", ()) == (ended.exit_code, first.subject, ended.verdict.condemned)
    ranks = [row for row in ended.report.observations if "/" in row.subject]
    assert {Outcome.SKIPPED} == {row.outcome for row in ranks}  # none of them began, and each says for whom
    assert all("cannot reach node-1" in row.reason for row in ranks)
