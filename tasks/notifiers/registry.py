"""The notifiers that exist, each imported on first use, and the order in which they are tried.

A notifier cannot harm the gate: one that hangs, or raises an exception that it may not raise, becomes a NotifyError.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TypeVar

from checks.runner.deadline import NotInTime, limited
from tasks.gate_file.people import Notify
from tasks.notifiers.base import Audience, Notifier, NotifierAccess, NotifyError
from tasks.store.base import StoreError
from tasks.text.redact import redact

R = TypeVar("R")
LOG = "log"


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
        known = isinstance(error, (NotifyError, StoreError))
        raise NotifyError(redact(text if known else f"{type(error).__name__}: {text}", os.environ)) from None


def notifier_for(name: str, notify: Notify, means: NotifierAccess) -> Notifier:
    """The notifier for a gate file's tables. It makes no call yet. Raises NotifyError."""
    if name == "slack" and notify.slack is not None:
        from tasks.notifiers.slack.notifier import SlackNotifier

        return SlackNotifier(notify.slack, means)
    if name == "pagerduty" and notify.pagerduty is not None:
        from tasks.notifiers.pagerduty import PagerDutyNotifier

        return PagerDutyNotifier(notify.pagerduty, means)
    if name == "apprise" and notify.apprise is not None:
        from tasks.notifiers.apprise import AppriseNotifier

        return AppriseNotifier(notify.apprise, means)
    raise NotifyError(f"there is no notifier {name!r} in this gate file. Add [notify.{name}].")


def notifiers_for(notify: Notify, audience: Audience) -> tuple[str, ...]:
    """The notifiers to try for an audience, in order; the log is always the last."""
    return (*(name for name in named_for(notify, audience) if name != LOG), LOG)


def named_for(notify: Notify, audience: Audience) -> tuple[str, ...]:
    """The notifiers that the gate file itself names for an audience."""
    return tuple(dict.fromkeys(notify.owner if audience is Audience.OWNER and notify.owner else notify.order))
