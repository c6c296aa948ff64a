"""Delivers notifications through the notifiers of a gate, in their order. A failed delivery is logged and recorded.

Nothing is raised here: no verdict, exit code or end of a flow depends on whether a message arrived. Secrets are removed here from
whatever is sent.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from enum import Enum
from functools import partial
from typing import Any

from checks.documents.report import dump_plain
from tasks.gate_file.model import Gate
from tasks.gate_file.people import Notify
from tasks.notifiers.base import PAID, Audience, Notification, NotifierAccess, NotifyError, PageKind, Severity
from tasks.notifiers.log import keep_text
from tasks.notifiers.registry import LOG as LOG_NAME
from tasks.notifiers.registry import guarded, named_for, notifier_for, notifiers_for
from tasks.notifiers.secret_refs import secret
from tasks.store.base import Store, StoreError
from tasks.store.layout import notification_key
from tasks.text.redact import redacted

LOG = logging.getLogger("prelaunch")
# A notifier has 20 s; what is slower than that and half as much again is left behind.
LIMIT_S = 30.0
# The fields of a notification that have words of others.
TEXTS = ("title", "text", "items", "facts", "costs", "failed", "answer")


@dataclass(frozen=True)
class DeliveryResult:
    """The result of a delivery: `where` the notification went ("" for nowhere), and what was delivered and what
    failed, as lines for people.
    """

    where: str = ""
    told: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()


def deliver(notify: Notify, store: Store, page: Notification, *also: Audience) -> DeliveryResult:
    """Notify each audience through the first notifier that works, and update what the other notifiers show."""
    return _safely(store.put, page, partial(_deliver, notify, store, (page.audience, *also)))


def settle(notify: Notify, store: Store, page: Notification) -> DeliveryResult:
    """The gate ended well: nobody is notified, messages are updated, and incidents are resolved."""
    return _safely(store.put_if_absent, page, partial(_settled, notify, means_of(store), ()))


def means_of(store: Store) -> NotifierAccess:
    """What the notifiers of a gate may use: its store, and the secrets that its file refers to, each resolved once."""
    return NotifierAccess(store, functools.cache(secret))


def still_paid(gate: Gate, file: str, store: Store, gate_id: str, failures: tuple[str, ...]) -> str:
    """Notify the owner that machines may still run, or be kept, and be billed. This is separate from the gate's own notification.

    `file` is where the gate was read from.
    """
    remedy = "Check in the engine's console whether they still run, and end them there."
    lines = (*(f"- {line}" for line in failures), "", remedy)
    return page_owner(gate, file, store, gate_id, f"{PAID} {gate.name}: {failures[0]}", lines)


def page_owner(gate: Gate, file: str, store: Store, gate_id: str, title: str, lines: tuple[str, ...]) -> str:
    """Notify the owner of a job or of machines while the gate, or nobody, looks after them; the gate's own notification is another."""
    text = "\n".join((*lines, f"Gate: {gate_id} ({file})"))
    page = Notification(
        f"{gate_id}-machines", gate.cluster.name, title, text, "",
        gate=gate.name, topic=PageKind.MACHINES, audience=Audience.OWNER, severity=Severity.ERROR,
    )  # fmt: skip
    return deliver(gate.notify, store, page).where


def _deliver(
    notify: Notify, store: Store, audiences: tuple[Audience, ...], page: Notification
) -> DeliveryResult:
    means, delivered, failed, tried = means_of(store), list[str](), list[str](), list[str]()
    where, is_missed = "", False
    for audience in dict.fromkeys(audiences):
        for name in notifiers_for(notify, audience)[:-1]:
            tried.append(name)
            message = replace(page, audience=audience, failed=tuple(failed))
            try:
                address = guarded(partial(_send, name, notify, means, message), LIMIT_S)
            except NotifyError as error:
                failed.append(f"{f'{name} ({audience})' if len(audiences) > 1 else name}: {error}")
                continue
            delivered.append(f"{name}: {address}")
            where = where or address
            break
        else:
            is_missed = True
    is_named = any(LOG_NAME in named_for(notify, audience) for audience in audiences)
    try:
        location = keep_text(replace(page, failed=tuple(failed)), store, is_missed or is_named)
        delivered += [f"{LOG_NAME}: {location}"] if is_missed else []
        where = where or location
    except StoreError as error:
        failed.append(f"{LOG_NAME}: the notification could not be stored: {error}")
    others = _settled(notify, means, tried, page)
    return DeliveryResult(where, (*delivered, *others.told), (*failed, *others.failed))


def _send(name: str, notify: Notify, means: NotifierAccess, page: Notification) -> str:
    return notifier_for(name, notify, means).send(page)


def _settled(
    notify: Notify, means: NotifierAccess, tried: Sequence[str], page: Notification
) -> DeliveryResult:
    """What the notifiers did that did not deliver the notification itself."""
    done, failed = [], []
    for name in (name for name in notify.notifiers if name not in (*tried, LOG_NAME)):
        try:
            effect = guarded(partial(_settle, name, notify, means, page), LIMIT_S)
        except NotifyError as error:
            failed.append(f"{name}: the message could not be updated: {error}")
        else:
            done += [f"{name}: {effect}"] if effect else []
    return DeliveryResult("", tuple(done), tuple(failed))


def _settle(name: str, notify: Notify, means: NotifierAccess, page: Notification) -> str:
    return notifier_for(name, notify, means).settle(page)


def _safely(
    put: Callable[[str, bytes], object], page: Notification, act: Callable[[Notification], DeliveryResult]
) -> DeliveryResult:
    """What `act` does with the notification without secrets, recorded in the store; an update replaces no record of a delivery."""
    try:
        page = replace(page, **{name: _without_secrets(getattr(page, name)) for name in TEXTS})
        result: DeliveryResult = _without_secrets(act(page))
    except Exception as error:  # noqa: BLE001 - whatever it is, the gate ends as it would have; this is said and kept
        result = DeliveryResult(failed=(redacted(f"{type(error).__name__}: {error}"),))
    for failure in result.failed:
        LOG.error("a notification of %s was not delivered: %s", page.gate_id, failure)
    record = {"kind": page.topic, "title": redacted(page.title), "told": result.told, "failed": result.failed}
    try:
        put(notification_key(page.gate_id, page.topic), dump_plain(record))
    except Exception as error:  # noqa: BLE001 - the record of a page is no reason to lose a verdict
        LOG.error(
            "the record of the notification of %s could not be stored: %s", page.gate_id, redacted(str(error))
        )
    return result


def _without_secrets(value: Any) -> Any:
    """The returned value equals `value`, except that secrets are removed from every text in it."""
    if isinstance(value, str) and not isinstance(value, Enum):
        return redacted(value)
    if is_dataclass(value) and not isinstance(value, type):
        values = {field.name: _without_secrets(getattr(value, field.name)) for field in fields(value)}
        return replace(value, **values)
    return tuple(map(_without_secrets, value)) if isinstance(value, tuple) else value
