"""The notifiers that exist, each imported on first use, and the order in which they are tried.

A notifier cannot harm the gate: one that hangs, or raises an exception that it may not raise, becomes a NotifyError.
"""

from __future__ import annotations

from collections.abc import Callable
from pkgutil import resolve_name
from typing import TypeVar, cast

from checks.runner.deadline import NotInTime, limited
from tasks.gate_file.people import Notify
from tasks.notifiers.base import Audience, Notifier, NotifierAccess, NotifyError
from tasks.store.base import StoreError
from tasks.text.redact import redacted

R = TypeVar("R")
LOG = "log"
# the table of [notify] -> a class that is made with that table and the NotifierAccess
NOTIFIERS = {
    "slack": "tasks.notifiers.slack.notifier:SlackNotifier",
    "pagerduty": "tasks.notifiers.pagerduty:PagerDutyNotifier",
    "apprise": "tasks.notifiers.apprise:AppriseNotifier",
}


def guarded(function: Callable[[], R], limit_s: float) -> R:
    """Call the function and return its result. Raises only NotifyError, without secrets, after `limit_s` at the latest.

    A call that hangs is left in a daemon thread: it ends with the process.
    """
    try:
        return limited(limit_s, function)
    except NotInTime:
        raise NotifyError(f"no answer within {limit_s:g} s. It may still arrive.") from None
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever it is, the next notifier is tried and this is logged
        text = " ".join(str(error).split())[:500]
        # Any other exception is a defect, and is named by its type.
        is_own = isinstance(error, (NotifyError, StoreError))
        raise NotifyError(redacted(text if is_own else f"{type(error).__name__}: {text}")) from None


def notifier_for(name: str, notify: Notify, means: NotifierAccess) -> Notifier:
    """The notifier for a gate file's tables. It makes no call yet. Raises NotifyError."""
    table = getattr(notify, name) if name in NOTIFIERS else None
    if table is None:
        raise NotifyError(f"there is no notifier {name!r} in this gate file. Add [notify.{name}].")
    return cast(Notifier, resolve_name(NOTIFIERS[name])(table, means))


def notifiers_for(notify: Notify, audience: Audience) -> tuple[str, ...]:
    """The notifiers to try for an audience, in order; the log is always the last."""
    return (*(name for name in named_for(notify, audience) if name != LOG), LOG)


def named_for(notify: Notify, audience: Audience) -> tuple[str, ...]:
    """The notifiers that the gate file itself names for an audience."""
    return tuple(dict.fromkeys(notify.owner if audience is Audience.OWNER and notify.owner else notify.order))
