"""Details of the model: how a pair test ended, what a finding is based on (a number that crossed a threshold, or a value that was not
measured), the images of a gate, and a machine of one's own as an operator describes it. Pure data.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum
from typing import Annotated

from checks.value_types import SPARSE, Range, Text


class PairOutcome(str, Enum):
    """How a test between two ranks ended. `failures` says the same in words, and no code reads them.

    NOT_RUN and PEER_LEFT say nothing about the pair: the test did not begin; with PEER_LEFT, because the peer had stopped its pair
    tests. NO_ANSWER and CLOSED: the peer itself did not answer. FAILED: everything else, including wrong data.
    """

    OK = "ok"
    NOT_RUN = "not_run"
    PEER_LEFT = "peer_left"
    NO_ANSWER = "no_answer"
    CLOSED = "closed"
    FAILED = "failed"

    @property
    def never_ran(self) -> bool:
        """Whether the test says nothing of the pair."""
        return self in (PairOutcome.NOT_RUN, PairOutcome.PEER_LEFT)

    @property
    def is_silence(self) -> bool:
        """Whether the peer itself did not answer."""
        return self in (PairOutcome.NO_ANSWER, PairOutcome.CLOSED)


class Relation(str, Enum):
    """On which side of its threshold a value is; UNEQUAL: the threshold is the value that it must have."""

    BELOW = "below"
    ABOVE = "above"
    UNEQUAL = "unequal"


class Reference(str, Enum):
    """What a value was compared with: a number of the policy, a median, what the facts expect, or the most that is possible."""

    THRESHOLD = "threshold"
    PEERS = "peers"
    NODE = "node"
    FLEET = "fleet"
    EXPECTED = "expected"
    LOW_END = "low_end"
    MINIMUM = "minimum"
    LIMIT = "limit"
    POSSIBLE = "possible"


@dataclass(frozen=True)
class Comparison:
    """A value that crossed a threshold, in its unit ("" for counts, shares and ratios).

    `of` is the reference value of which the threshold is a ratio; None if the threshold is in the value's own unit.
    """

    value: float
    unit: str
    relation: Relation
    threshold: float
    reference: Reference = Reference.THRESHOLD
    of: float | None = None


@dataclass(frozen=True)
class Sensitivity:
    """From which slowness on a check would have named a component (node, rank, link) in nine gates of ten, as a share of
    what the others reach. None: it cannot be told, so that nothing is known of parts that are a little slower.
    """

    check: str
    component: str
    seen_from: float | None


class Hindrance(str, Enum):
    """What kept a check from measuring. LIMIT: the time limit that the gate file sets for it. EARLIER: something that had happened to
    its rank before. ITSELF: everything else.
    """

    ITSELF = "itself"
    LIMIT = "limit"
    EARLIER = "earlier"


@dataclass(frozen=True)
class Unmeasured:
    """Why something was not measured. `value` is the label of the value ("GPU 1: dram"), "" if the check has no values at all;
    `reason` continues the sentence that the label begins ("is missing").
    """

    value: str
    reason: str
    hindrance: Hindrance = field(default=Hindrance.ITSELF, metadata=SPARSE)


@dataclass(frozen=True)
class Contents:
    """What one metric of a check holds at the least. A list has the `labels` and `count` other elements, each once; a number is at
    least `count`. `along` are the lists with an element for each of its elements; those of the first contents of a check are all lists
    that no other one names. The row's own metric `less` says how many, times `each`, are missing: the policy judges that one.
    """

    metric: str
    count: Annotated[int, Range(0, 1_000_000)] = 0
    labels: tuple[str, ...] = ()
    along: tuple[str, ...] = field(default=(), metadata=SPARSE)
    less: str = field(default="", metadata=SPARSE)
    each: Annotated[int, Range(0, 1_000_000)] = field(default=1, metadata=SPARSE)


@dataclass(frozen=True)
class Images:
    """The container images of a gate as its launcher is asked for them; "" where the checks, or the training, run in none, or nobody
    says in which one.
    """

    checks: Annotated[str, Text(r"\S*", 1000)] = ""
    training: Annotated[str, Text(r"\S*", 1000)] = ""


def image_digest(image: str) -> str:
    """The digest in a reference to an image, "" for one that names a tag, which may be another image tomorrow."""
    match = re.search(r"@(sha256:[0-9a-f]{64})$", image)
    return match[1] if match else ""


@dataclass(frozen=True)
class DeclaredMachine:
    """What the operator says of a machine whose type is in no table; None and "" if the operator does not say.

    Counts are of one node, `nvlinks` and `pcie_*` of one GPU. `gpu` is the model ("H100 80GB HBM3"); a node without GPUs has none.
    `ib_ports` are the ports of InfiniBand or RoCE that the training uses, each with `ib_rate_gbit_s`, as the kernel names it.
    `network_gbit_s` is what a node sends to the others in all.
    """

    gpu: Annotated[str, Text(r"([A-Za-z0-9][A-Za-z0-9 ._-]*)?", 64)] = ""
    vcpus: Annotated[int, Range(1, 100_000)] | None = None
    memory_gib: Annotated[int, Range(1, 1_000_000)] | None = None
    gpu_memory_mib: Annotated[int, Range(1, 10_000_000)] | None = None
    nvlinks: Annotated[int, Range(0, 1000)] | None = None
    pcie_generation: Annotated[int, Range(1, 20)] | None = None
    pcie_width: Annotated[int, Range(1, 64)] | None = None
    network_gbit_s: Annotated[int, Range(1, 1_000_000)] | None = None
    efa_devices: Annotated[int, Range(0, 1000)] = 0
    ib_ports: Annotated[int, Range(0, 1000)] = 0
    ib_rate_gbit_s: Annotated[int, Range(1, 100_000)] | None = None
