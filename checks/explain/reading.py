"""The result of reading a tool's raw output: measurements with the names of the checks that make them on a node.

NotRecognised       the text is not of this kind
Garbled              it is of this kind, but truncated, garbled or contradictory: the answer is CANNOT TELL
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from checks.culprit.matrix import Better, Matrix
from checks.facts.builtin import builtin
from checks.facts.driver_fields import Field
from checks.facts.instances import Instance
from checks.model import Declared, Value


class OutputKind(str, Enum):
    """The kinds of output that can be read. The value is the name on the command line."""

    NCCL_TESTS = "nccl-tests"
    NCCL_LOG = "nccl-log"
    DCGMI = "dcgmi"
    KERNEL_LOG = "kernel-log"
    NVIDIA_SMI = "nvidia-smi"
    NVLINK = "nvlink"
    IBSTAT = "ibstat"
    FI_INFO = "fi-info"
    FI_PINGPONG = "fi-pingpong"
    NEURON_LS = "neuron-ls"
    MATRIX = "matrix"
    REPORT = "report"


WHOLE = "Give the whole output of the tool."


class Complete(str):
    """A sentence that itself says what to do, so that no remedy is printed below it."""


class ExplainError(Exception):
    """The text could not be read. `remedy` says what to do about it; "" where the message itself does."""

    remedy = WHOLE

    def __init__(self, message: str, remedy: str | None = None) -> None:
        super().__init__(message)
        if remedy is not None:
            self.remedy = remedy


class NotRecognised(ExplainError):
    """The text is not of this kind."""

    remedy = "Give the output as the tool prints it. Without --kind, Prelaunch recognises its kind."


class Garbled(ExplainError):
    """The text is of this kind, but not complete and consistent. The message says where the problem is."""


@dataclass(frozen=True)
class CheckData:
    """What one check would have measured. The rules of the policy's entry for `check` that use a metric in `metrics` are applied; a
    metric that needs a declaration (gpus_missing) is left out unless there is one. `lines` holds, for a metric, the lines of the
    text that it comes from, each as "17: text".
    """

    check: str
    metrics: Mapping[str, Value]
    lines: Mapping[str, str] = field(default_factory=dict)
    evidence: str = ""


@dataclass(frozen=True)
class TextMatrix:
    """A matrix that another tool measured. The decoder judges it, and no rule does. `lines` holds the line of each test."""

    name: str
    matrix: Matrix
    lines: Sequence[int] = ()


@dataclass(frozen=True)
class Reading:
    """`title` says what the text is ("dcgmi diag -r 2 of DCGM 4.2.3, 8 GPUs, JSON"). A part that could not be measured is described
    in `unread` instead, which makes the answer CANNOT TELL. `left_out` ("name: why") is what is not judged. `unreported` are
    metrics, each with its check, that `driver` is too old to print. `remedy` is what to do about what is in `unread`, unless the
    sentence there is `Complete`. `understood` are the numbers of the lines that the reader knows; whatever else the text holds is
    unread, too. `hosts` are the nodes that the text names as its own. The first line of an explanation says `brief`, what was found,
    and, if nobody can tell, `doubt`, why.
    """

    output_kind: OutputKind
    title: str
    checks: tuple[CheckData, ...]
    unread: tuple[str, ...] = ()
    tables: tuple[TextMatrix, ...] = ()
    left_out: tuple[str, ...] = ()
    driver: str = ""
    unreported: tuple[tuple[str, Field], ...] = ()
    remedy: str = WHOLE
    understood: frozenset[int] = frozenset()
    hosts: tuple[str, ...] = ()
    brief: str = ""
    doubt: str = "evidence is missing"


@dataclass(frozen=True)
class ReadOptions:
    """What a reader may use: the declaration, or None.

    For a matrix: which values are good, the value beyond which a test is bad (in the matrix's own unit), and the share of the usual
    value beyond which it is bad; None if not given.
    """

    declared: Declared | None = None
    better: Better | None = None
    floor: float | None = None
    ratio: float | None = None

    @property
    def instance(self) -> Instance | None:
        """The row of the declared type, or what a gate file declares of a type that no table has."""
        if self.declared is None:
            return None
        return builtin().merged(self.declared).instances.get(self.declared.instance_type)
