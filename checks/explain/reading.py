"""What an explainer makes of a tool's raw output: measurements, named as the checks that make them on a node.

NotRecognised       the text is not of this kind
Broken              it is of this kind, and cut, garbled or contradictory: nobody can tell
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from checks.culprit.matrix import Better, Matrix
from checks.facts.driver_fields import Field
from checks.model import Declared, Value
from checks.policy import Overlay


class Kind(str, Enum):
    """What a file can be; the value is the name on the command line."""

    NCCL_TESTS = "nccl-tests"
    NCCL_LOG = "nccl-log"
    DCGMI = "dcgmi"
    KERNEL_LOG = "kernel-log"
    NVIDIA_SMI = "nvidia-smi"
    FI_INFO = "fi-info"
    FI_PINGPONG = "fi-pingpong"
    NEURON_LS = "neuron-ls"
    NCCOM_TEST = "nccom-test"
    FIO = "fio"
    STRESS_NG = "stress-ng"
    MATRIX = "matrix"
    REPORT = "report"


class ExplainError(Exception):
    """The text gives no answer."""


class NotRecognised(ExplainError):
    """It is not of this kind."""


class Broken(ExplainError):
    """It is of this kind, but cannot be trusted to be whole. The message says where it breaks."""


@dataclass(frozen=True)
class Part:
    """What one check would have measured. The rules of the policy's line for `check` that look at a metric in
    `metrics` are applied; a metric that only a declaration gives sense to (gpus_missing) is left out unless there
    is one. `lines` holds, for a metric, the lines of the text that it rests on, each as "17: text".
    """

    check: str
    metrics: Mapping[str, Value]
    lines: Mapping[str, str] = field(default_factory=dict)
    evidence: str = ""


@dataclass(frozen=True)
class Table:
    """A matrix that another tool measured; the decoder judges it, no rule does. `lines` holds the line of each test."""

    name: str
    matrix: Matrix
    lines: Sequence[int] = ()


@dataclass(frozen=True)
class Reading:
    """`title` says what the text is ("dcgmi diag -r 2 of DCGM 4.2.3, 8 GPUs, JSON"). A part that could not be
    measured is no part: it is said in `unread`, which makes the answer "cannot tell". `left_out` ("name: why") is what
    nobody asked about. `unreported` are metrics, each with its check, that `driver` is too old to print.
    """

    kind: Kind
    title: str
    parts: tuple[Part, ...]
    unread: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    left_out: tuple[str, ...] = ()
    driver: str = ""
    unreported: tuple[tuple[str, Field], ...] = ()


@dataclass(frozen=True)
class Asked:
    """What the reader may know: what is declared, or None; whose answers to Xids hold, or None for the policy's choice.

    Of a matrix: which values are the good ones, the value beyond which a test is bad (in the matrix's own unit), and
    the share of what is usual beyond which it is; None where nobody said.
    """

    declared: Declared | None = None
    overlay: Overlay | None = None
    better: Better | None = None
    floor: float | None = None
    ratio: float | None = None
