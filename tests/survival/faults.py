"""What may happen in a random history, and to whom: it follows from a seed alone."""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import Enum

DEADLINE_S = 10.0


class Kind(Enum):
    """What happens to whom."""

    NOTHING = "nothing happens"
    KILL = "a node's runner is killed"
    STOP = "a node's runner is stopped"
    STOP_ALL = "every process of a node is stopped"
    CUT = "a host's cable is pulled"
    SLOW = "a host's link is held to 1 Mbit/s"
    FULL_DISK = "the disk that the jobs write to is full"
    RESOLVER = "a host's resolver is silent"
    HUNG_STORE = "the gate's store does not answer"
    HUNG_MOUNT = "a mount of a node does not answer"
    HUNG_SCRATCH = (
        "the folder that a node's checks write to does not answer, and SIGKILL does not end who asks"
    )
    STUBBORN = "a check of every node hangs and ignores SIGTERM"
    STOP_ENGINE = "the engine's own process is stopped"
    KILL_ENGINE = "the engine's own processes are killed"


@dataclass(frozen=True)
class Fault:
    """`after_s` counts from the first report that a node has begun."""

    kind: Kind
    node: int
    after_s: float


@dataclass(frozen=True)
class History:
    """What is played: it follows from the seed alone."""

    seed: int
    nodes: int
    faults: tuple[Fault, ...]

    def __str__(self) -> str:
        said = "; ".join(f"node-{f.node} after {f.after_s:.1f} s: {f.kind.value}" for f in self.faults)
        return f"seed {self.seed}, {self.nodes} nodes: {said}"


def history(seed: int) -> History:
    """One or two faults; each kind comes once in every run of seeds that is as long as there are kinds."""
    chance = random.Random(seed)
    kinds, nodes = list(Kind), chance.choice((2, 2, 3, 4))
    chosen = [kinds[seed % len(kinds)]]
    if chance.random() < 0.3:
        chosen.append(chance.choice(kinds))
    faults = tuple(
        Fault(kind, chance.randrange(nodes), chance.choice((0.0, chance.uniform(0, 0.6 * DEADLINE_S))))
        for kind in chosen
    )
    return History(seed, nodes, faults)
