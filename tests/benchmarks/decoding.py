"""What decoding a matrix of all pairs costs: constructed clusters, medians in milliseconds of the processor's time.

`python tests/benchmarks/decoding.py` prints Markdown: N nodes, both ways; healthy, and with five bad nodes, a bad link
and hiccups. "sparse" is 16 matchings only. The processor's time, because other work on the machine is not the decoder's.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from checks.culprit.decode import decode  # noqa: E402 - as a script, this file's own folder is what Python knows
from checks.culprit.matrix import Better, Kind, Matrix, Part, Span, Tolerance  # noqa: E402

SEED = 20261122
RUNS = 5
NODES = (64, 256, 1024)
MATCHINGS = 16
BAD_NODES, SENSITIVITY, HICCUP = 5, 0.9, 0.005
TOLERANCE = Tolerance(0.5)


def cells(nodes: int, sparse: bool) -> list[tuple[int, int]]:
    """All ordered pairs, or those of the first matchings: each node with those at the distances 1, 2, 4 ..."""
    if not sparse:
        return [(a, b) for a in range(nodes) for b in range(nodes) if a != b]
    steps = sorted({1 + at * (nodes - 1) // MATCHINGS for at in range(MATCHINGS // 2)})
    return [
        cell
        for a in range(nodes)
        for step in steps
        for cell in ((a, (a + step) % nodes), ((a + step) % nodes, a))
    ]


def cluster(nodes: int, sparse: bool, faulty: bool) -> tuple[Matrix, set[str]]:
    """A matrix in GB/s, and the names of its bad nodes."""
    rng = random.Random(SEED + nodes)
    bad = set(rng.sample(range(nodes), BAD_NODES)) if faulty else set()
    link = set(rng.sample(sorted(set(range(nodes)) - bad), 2)) if faulty else set()
    tests = cells(nodes, sparse)
    values: list[float | None] = []
    for a, b in tests:
        rate = SENSITIVITY if a in bad or b in bad or {a, b} == link else HICCUP if faulty else 0.0
        values.append((3.0 if rng.random() < rate else 10.0) * rng.lognormvariate(0, 0.05))
    parts = tuple(Part(f"node-{n}", f"node-{n}") for n in range(nodes))
    columns = [a for a, _ in tests], [b for _, b in tests]
    matrix = Matrix("bandwidth", "GB/s", Better.HIGHER, Span.BETWEEN, parts, *columns, values)
    return matrix, {f"node-{n}" for n in bad}


def measure(matrix: Matrix, bad: set[str], runs: int) -> list[float]:
    """Seconds of the processor for each run; a wrong answer ends the benchmark."""
    spent = []
    for _ in range(runs):
        start = time.process_time()
        decoded = decode(matrix, TOLERANCE)
        spent.append(time.process_time() - start)
        named = {one.subject for one in decoded.suspects if one.kind is Kind.NODE}
        if named != bad:
            raise SystemExit(f"{sorted(bad)} are bad, and {sorted(named)} are named")
    return spent


def main(argv: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, nargs="+", default=NODES)
    parser.add_argument("--runs", type=int, default=RUNS)
    chosen = parser.parse_args(argv)
    print("| nodes | pairs | cluster | tests | ms |")
    print("| ---: | --- | --- | ---: | ---: |")
    for nodes in chosen.nodes:
        for sparse in (True, False):
            for faulty in (False, True):
                matrix, bad = cluster(nodes, sparse, faulty)
                ms = 1e3 * statistics.median(measure(matrix, bad, chosen.runs))
                words = f"{'sparse' if sparse else 'all'} | {'faulty' if faulty else 'healthy'}"
                print(f"| {nodes} | {words} | {len(matrix.values)} | {ms:.1f} |")


if __name__ == "__main__":
    main()
