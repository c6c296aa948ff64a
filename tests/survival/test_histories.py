"""Whatever happens to nodes, links, disks, mounts, the store or the engine: an answer in time, no wrong GO, and nothing is left.

`python -m tests.survival.histories SEED` plays one history again.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.survival.faults import Fault, History, Kind, history
from tests.survival.faulty_network import needs_root
from tests.survival.histories import NETWORKS, Played, play

pytestmark = [
    needs_root,
    pytest.mark.root,
    pytest.mark.skipif(not os.path.exists("/dev/fuse"), reason="no /dev/fuse: no mount can be made to hang"),
    pytest.mark.needs("unshare", "nsenter", "ip", "tc", "mount"),
]
MANY = range(1000, 1200)


@pytest.fixture
def no_namespace_is_left() -> Iterator[None]:
    """Of those that a test's histories make."""
    before = _namespaces()
    yield
    assert _namespaces() <= before


def played(seeds: Iterable[int]) -> list[Played]:
    """Each with its seed and what came of it in the output."""
    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(lambda seed: play(history(seed), of_prefect()), seeds))
    for one in found:
        print(one, *one.faults(), sep="\n    ")
    return found


def _namespaces() -> set[str]:
    """Those of histories: other tests may make and remove their own meanwhile."""
    return {path.name for path in Path("/run/netns").glob(f"{NETWORKS}*")}


def of_prefect() -> dict[str, str]:
    """The variables that name the server."""
    return {name: value for name, value in os.environ.items() if name.startswith("PREFECT_")}


def wrong(found: Iterable[Played]) -> dict[str, list[str]]:
    """What is wrong with each, and what the command said of it."""
    return {str(one): [*faults, *one.lines[-12:]] for one in found if (faults := list(one.faults()))}


@pytest.mark.usefixtures("no_namespace_is_left", "prefect_backend")
@pytest.mark.long  # test_outsider.py, test_network.py and test_disk_full.py have a healthy gate and single faults
def test_a_gate_to_which_nothing_happens_goes_and_a_history_ends() -> None:
    """Else no GO would ever be wrong. Its deadline is one that a busy machine can keep; of the kinds, each day has another."""
    nothing = History(-1, 2, (Fault(Kind.NOTHING, 0, 0.0),))
    with ThreadPoolExecutor(1) as pool:
        beside = pool.submit(play, nothing, of_prefect(), 60.0)
        # A kind comes again after as many days as there are kinds.
        found = played([datetime.now(UTC).toordinal() % len(Kind)])
    one = beside.result()
    print(one)

    assert (0, []) == (one.code, list(one.faults())), one.lines
    assert {} == wrong(found)


@pytest.mark.usefixtures("no_namespace_is_left", "prefect_backend")
@pytest.mark.long
@pytest.mark.timeout(7200)
def test_two_hundred_histories() -> None:
    """Every kind at least fourteen times, alone and beside another one."""
    assert {} == wrong(played(MANY))


def test_a_history_follows_from_its_seed() -> None:
    """What was printed can be played again."""
    assert [history(seed) for seed in MANY] == [history(seed) for seed in MANY]
    assert set(Kind) == {fault.kind for seed in MANY for fault in history(seed).faults}
