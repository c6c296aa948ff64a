"""The notifiers that exist, each imported on first use, and the order in which they are tried.

A notifier cannot harm the gate: one that hangs, or raises an exception that it may not raise, becomes a NotifyError.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

from checks.runner.deadline import NotInTime, limited
from tasks.gate_file.people import Notify
from tasks.notifiers.base import Audience, Notification, Notifier, NotifierAccess, NotifyError
from tasks.text.redact import redact

R = TypeVar("R")


def guarded(function: Callable[[], R], limit_s: float) -> R:
    """Call the function and return its result. Raises only NotifyError, without secrets, after `limit_s` at the latest.

    A call that hangs is left in a daemon thread: it ends with the process.
    """
    try:
        return limited(limit_s, function)
    except NotInTime:
        raise NotifyError(f"no answer within {limit_s:g} s. It may still arrive.") from None
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever it is, the next notifier is tried and this is logged
        raise NotifyError(_said(error)) from None


def _said(error: BaseException) -> str:
    """The error as a sentence. An exception that no notifier may raise is a defect, and is named by its type."""
    text = " ".join(str(error).split())[:500]
    return redact(text if isinstance(error, NotifyError) else f"{type(error).__name__}: {text}", os.environ)


Make = Callable[[str], Notifier]


def notifier_for(name: str, notify: Notify, means: NotifierAccess) -> Notifier:
    """The notifier for a gate file's tables. It makes no call yet. Raises NotifyError."""
    if name == "log":
        from tasks.notifiers.log import LogNotifier

        return LogNotifier(means.keep)
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
    return tuple(dict.fromkeys((*named_for(notify, audience), "log")))


def named_for(notify: Notify, audience: Audience) -> tuple[str, ...]:
    """The notifiers that the gate file itself names for an audience."""
    return notify.owner if audience is Audience.OWNER and notify.owner else notify.order


def send_first(
    names: Sequence[str], make: Make, page: Notification, limit_s: float
) -> tuple[str, str, dict[str, str]]:
    """Try one after the other. Returns which notifier delivered and where ("", "" for none), and why others failed.

    A later notifier gets the failures of the earlier ones. Nothing is raised.
    """
    failures: dict[str, str] = {}
    for name in names:
        told = replace(page, said=(*page.said, *(f"{name}: {why}" for name, why in failures.items())))
        try:
            return name, guarded(partial(_send, make, name, told), limit_s), failures
        except NotifyError as error:
            failures[name] = str(error)
    return "", "", failures


def _send(make: Make, name: str, page: Notification) -> str:
    return make(name).send(page)
