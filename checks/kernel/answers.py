"""How grave what an Xid calls for is among others, and what answers it (pure)."""

from __future__ import annotations

from enum import Enum

from checks.kernel.catalogue import Need
from checks.model import Action

# The graver of two answers comes later.
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
    """What happened after the last line of an incident; "" for nothing that the log tells of."""

    NOTHING = ""
    RESET = "reset"
    CLEARED = "cleared"
    REBOOTED = "rebooted"


# What each mends. What calls for hands, for support or for another machine is mended by none but a start (kept a WARN).
MENDS = {
    Since.NOTHING: frozenset[Action](),
    Since.RESET: frozenset({Action.RESTART_APP, Action.RESET_GPU}),
    Since.CLEARED: frozenset({Action.RESTART_APP, Action.RESET_GPU, Action.REBOOT}),
    Since.REBOOTED: frozenset(Action),
}
IN_WORDS = {
    Since.RESET: "the GPU was reset since",
    Since.CLEARED: "the driver withdrew its demand since (154: None)",
    Since.REBOOTED: "the machine was restarted since",
}


def mended(action: Action, since: Since) -> bool:
    """Whether what happened since answers what was called for."""
    return action in MENDS[since]
