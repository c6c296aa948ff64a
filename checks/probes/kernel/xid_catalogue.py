"""NVIDIA's Xid catalogue as data: what each code calls for, the action, and the source; and how serious each action is. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from pathlib import Path
from typing import Annotated

from checks.facts.provenance import Provenance, shipped_rows
from checks.model import Action, Level
from checks.value_types import Range

TABLE = Path(__file__).parents[2] / "facts" / "xid.json"
# The columns of the catalogue, and the models that each includes: the first words of the instance table's names.
GENERATIONS = {
    "a100": ("A100",),
    "h100": ("H100", "H200"),
    "b100": ("B100", "B200", "B300"),
    "gb200": ("GB200", "GB300"),
}


class Need(str, Enum):
    """What an Xid calls for. The value is the metric that counts it."""

    ACT = "act"
    SUPPORT = "support"
    APPLICATION = "application"
    HANDLED = "handled"
    ROUTINE = "routine"
    TEXT = "text"
    UNKNOWN = "unknown"
    UNREAD = "unread"

    @property
    def level(self) -> Level:
        """The level in the shipped policies."""
        if self in (Need.ACT, Need.UNREAD):
            return Level.FAIL
        return Level.PASS if self is Need.ROUTINE else Level.WARN


@dataclass(frozen=True)
class XidRow:
    """One code: what it calls for, NVIDIA's first and second answer, the generations to which it applies (None: not stated).

    TEXT: the text of the line decides.
    """

    code: int
    name: str
    need: Need
    action: Action
    provenance: Provenance
    immediate: str = ""
    investigatory: str = ""
    generations: tuple[str, ...] | None = None

    @property
    def source(self) -> str:
        """The row in words."""
        answer = "; then ".join(filter(None, (self.immediate, self.investigatory))) or "no action given"
        if self.provenance.source.startswith("NVIDIA"):
            return f"NVIDIA Xid catalogue, row {self.code}: {answer}"
        return f"{self.provenance.source} (row {self.code})"


@dataclass(frozen=True)
class Register:
    """Bits of one of the registers of Xid 74 (the first is 1) that have the same meaning."""

    register: Annotated[int, Range(1, 7)]
    bits: tuple[Annotated[int, Range(0, 31)], ...]
    means: str
    provenance: Provenance


@lru_cache(maxsize=1)
def table() -> dict[int, XidRow]:
    """The shipped table, by code."""
    return {entry.code: entry for entry in shipped_rows(TABLE, "xids", XidRow)}


@lru_cache(maxsize=1)
def registers() -> tuple[Register, ...]:
    """The meanings of the bits of Xid 74."""
    return shipped_rows(TABLE, "registers", Register)


def generation_of(gpu: str) -> str:
    """The catalogue's column for a GPU of the instance table ("H100-SXM5-80GB"); "" if it has no column."""
    for generation, models in GENERATIONS.items():
        if any(gpu.startswith(model) and not gpu[len(model) : len(model) + 1].isalnum() for model in models):
            return generation
    return ""


def is_odd(code: int, generation: str) -> bool:
    """Whether the catalogue says that GPUs of this generation do not report the code."""
    entry = table().get(code)
    return bool(
        generation and entry and entry.generations is not None and generation not in entry.generations
    )


# The more serious of two actions comes later.
NEEDS = (Need.ROUTINE, Need.APPLICATION, Need.HANDLED, Need.SUPPORT, Need.UNKNOWN, Need.UNREAD, Need.ACT)
ACTIONS = (
    Action.NONE,
    Action.RESTART_APP,
    Action.INSPECT,
    Action.CONTACT,
    Action.RESET_GPU,
    Action.REBOOT,
    Action.REPLACE,
)


class Since(str, Enum):
    """What happened after the last line of an incident; "" if the log shows nothing."""

    NOTHING = ""
    RESET = "reset"
    CLEARED = "cleared"
    REBOOTED = "rebooted"


# What each of these settles. An action that needs a technician, support or another machine is only settled by a restart (which stays
# a WARN).
MENDS = {
    Since.NOTHING: frozenset[Action](),
    Since.RESET: frozenset({Action.RESTART_APP, Action.RESET_GPU}),
    Since.CLEARED: frozenset({Action.RESTART_APP, Action.RESET_GPU, Action.REBOOT}),
    Since.REBOOTED: frozenset(Action),
}
IN_WORDS = {
    Since.RESET: "the GPU was reset afterwards",
    Since.CLEARED: "the driver no longer demands an action (Xid 154: None)",
    Since.REBOOTED: "the machine was restarted afterwards",
}


def mended(action: Action, since: Since) -> bool:
    """Whether what happened since settles what was called for."""
    return action in MENDS[since]
