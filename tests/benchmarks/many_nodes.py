"""How long nodes wait for each other where there are many: `python tests/benchmarks/many_nodes.py`. Two tables, three minutes.

The barrier is real: threads stand for the nodes, each with its responder on loopback, so that all share this machine's CPUs; of a real
cluster only the first node's are loaded. The pair tests are made up, and read and decoded by one rank as in a real job.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from checks.culprit import retest  # noqa: E402 - as a script, this file's own folder is known
from checks.culprit.rounds import planned  # noqa: E402
from checks.culprit.test_rows import FINE, Trial  # noqa: E402
from checks.facts import profile_options  # noqa: E402
from checks.model import Profile  # noqa: E402
from tests.checks.runner.test_barrier import board, node_contexts  # noqa: E402

MEETING = (32, 64, 128, 200)
TESTED = ((64, Profile.STANDARD), (256, Profile.STANDARD), (512, Profile.DEEP), (1000, Profile.DEEP))
PER_NODE = 8


def barrier_s(nodes: int) -> float:
    """Seconds until every node knows that all reached the barrier."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack, ThreadPoolExecutor(nodes) as pool:
        boards = [stack.enter_context(board(one)) for one in node_contexts(Path(folder), 60, nodes)]
        begun = time.monotonic()
        said = set(pool.map(lambda one: one.agree("here", ""), boards))
        took_s = time.monotonic() - begun
    if said != {""}:
        raise SystemExit(f"{nodes} nodes did not meet: {sorted(said)[:2]}")
    return took_s


def _notes(nodes: int, profile: Profile) -> Iterator[str]:
    """What each rank writes for the others: rates that differ by 2 %."""
    options = profile_options.options("nccl.pairs", profile, {})
    rounds = planned(nodes, PER_NODE, int(options["all_pairs_nodes"]), int(options["matchings"]))
    for rank in range(nodes * PER_NODE):
        met = [(at, peer) for at, one in enumerate(rounds) if (peer := one.partner(rank)) is not None]
        yield retest.write(
            [
                Trial(peer, FINE, 40 * random.gauss(1, 0.02), 60.0, 700 * random.random(), 0, 0, at, at / 100)
                for at, peer in met
            ],
            True,
        )


def reader_s(nodes: int, profile: Profile) -> tuple[int, float, float]:
    """The number of tests, seconds until one rank has read them, and until it knows which pairs to measure again."""
    texts = list(_notes(nodes, profile))
    begun = time.monotonic()
    tests = [test for rank, text in enumerate(texts) for test in retest.read(rank, text).tests]
    read_s = time.monotonic() - begun
    if retest.doubtful(tests, PER_NODE):
        raise SystemExit(f"{nodes} healthy nodes: pairs are doubtful")
    return len(tests), read_s, time.monotonic() - begun - read_s


def main() -> None:
    """Print both tables."""
    print("nodes at one barrier | seconds")
    for nodes in MEETING:
        print(f"{nodes:>20} | {barrier_s(nodes):.2f}")
    print(f"nodes x {PER_NODE} GPUs, profile | pair tests | seconds to read | to decode")
    for nodes, profile in TESTED:
        count, read_s, decoded_s = reader_s(nodes, profile)
        print(f"{nodes:>13}, {profile.value:<9} | {count:>10,} | {read_s:>15.1f} | {decoded_s:.1f}")


if __name__ == "__main__":
    random.seed(1)
    main()
