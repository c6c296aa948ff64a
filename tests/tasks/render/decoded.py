"""Matrices of clusters as the decoder is given them, with parts that are bad. Constructed; decoded by the decoder itself."""

from __future__ import annotations

import random
from collections.abc import Collection
from dataclasses import replace

from checks.culprit.decode import decode
from checks.culprit.matrix import Better, Endpoint, Matrix, Span, Tolerance
from checks.model import Verdict
from tasks.render.context import VerdictContext
from tasks.render.views.suspects import DecodedMatrix
from tests.tasks.render.fleets import fleet, judged

HELD = Tolerance(0.6)


def part_of(node: int, rail: int, rails: int) -> Endpoint:
    """As a report names it: a node where it has one rank, else a rank of it."""
    name = f"ip-10-0-{node // 200}-{node % 200 + 11}"
    return Endpoint(name if rails == 1 else f"{name}/rank-{node * rails + rail}", name, rail)


def between(
    nodes: int,
    rails: int = 1,
    bad: Collection[int] = (),
    bad_rails: Collection[tuple[int, int]] = (),
    partners: int = 0,
    seed: int = 1,
) -> DecodedMatrix:
    """GB/s between nodes on each rail, all pairs or so many partners a node; the bad reach a fifth, a bad rail 0.4."""
    source, parts = random.Random(seed), [part_of(n, r, rails) for n in range(nodes) for r in range(rails)]
    sources, targets, values = [], [], []
    for a in range(nodes):
        others = [b for b in range(nodes) if b != a]
        for b in source.sample(others, partners) if partners else others:
            for rail in range(rails):
                share = 0.2 if a in bad or b in bad else 1.0
                share *= 0.4 if {(a, rail), (b, rail)} & set(bad_rails) else 1.0
                sources.append(a * rails + rail)
                targets.append(b * rails + rail)
                values.append(40 * source.uniform(0.97, 1.02) * share)
    matrix = ("bandwidth", "GB/s", Better.HIGHER, Span.BETWEEN, tuple(parts))
    return shown(Matrix(*matrix, sources, targets, values))


def inside(nodes: int, gpus: int, bad: Collection[tuple[int, int]] = (), seed: int = 2) -> DecodedMatrix:
    """GB/s between the GPUs of each node; a bad one reaches 0.4."""
    source, parts = random.Random(seed), [part_of(n, g, gpus) for n in range(nodes) for g in range(gpus)]
    tests = [(n, i, j) for n in range(nodes) for i in range(gpus) for j in range(gpus) if i != j]
    shares = [0.4 if {(n, i), (n, j)} & set(bad) else 1 for n, i, j in tests]
    values = [370 * source.uniform(0.98, 1.02) * share for share in shares]
    return shown(
        Matrix(
            "bandwidth", "GB/s", Better.HIGHER, Span.INSIDE, tuple(parts), [n * gpus + i for n, i, _ in tests],
            [n * gpus + j for n, _, j in tests], values,
        )
    )  # fmt: skip


def shown(matrix: Matrix, check: str = "nccl.pairs") -> DecodedMatrix:
    """Decoded under one tolerance."""
    return DecodedMatrix(check, f"{matrix.metric} {matrix.span.value}", matrix, decode(matrix, HELD))


def with_shown(nodes: int, *matrices: DecodedMatrix) -> tuple[Verdict, VerdictContext]:
    """A fleet's verdict, and these matrices beside it."""
    verdict, context = judged(fleet(nodes, peers=False))
    return verdict, replace(context, matrices=matrices)
