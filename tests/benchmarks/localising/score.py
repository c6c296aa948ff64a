"""The nodes and links that the decoder names in a simulated cluster."""

from __future__ import annotations

from dataclasses import dataclass

from checks.culprit.matrix import Decoded, Entity, MatrixAnswer
from checks.judge.culprits.readings import SURE

JOB_ROUND_S = 0.073  # 16 gloo ranks on two cores: all 120 pairs, 15 rounds, in about 1.1 s


@dataclass(frozen=True)
class Blame:
    """Who is named."""

    nodes: frozenset[int] = frozenset()
    links: frozenset[frozenset[int]] = frozenset()


def blame_of(decoded: Decoded) -> Blame:
    """The nodes and links that a decoded matrix names; a rank counts as its node. Rails and switches are neither."""
    suspects = decoded.suspects if decoded.answer is MatrixAnswer.BLAMED else ()
    suspects = tuple(one for one in suspects if one.probability >= SURE)  # the others are candidates
    kinds = (Entity.NODE, Entity.RANK)
    nodes = [node for one in (*suspects, *decoded.slow) if one.kind in kinds for node in one.nodes]
    links = [one.nodes for one in suspects if one.kind is Entity.LINK]
    return Blame(frozenset(map(_number, nodes)), frozenset(frozenset(map(_number, link)) for link in links))


def _number(name: str) -> int:
    return int(name[1:])
