"""Delivers notifications through the notifiers of a gate, in their order. A failed delivery is logged and recorded.

Nothing is raised here: no verdict, exit code or end of a flow depends on whether a message arrived.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from checks.documents.report import dump_plain
from tasks.gate_file.model import Gate
from tasks.gate_file.people import Notify
from tasks.notifiers.base import (
    PAID,
    Audience,
    Kind,
    Notification,
    Notifier,
    NotifierAccess,
    NotifyError,
    Severity,
)
from tasks.notifiers.log import keep_and_say, notification_text
from tasks.notifiers.registry import guarded, named_for, notifier_for, notifiers_for, send_first
from tasks.notifiers.secret_refs import secret
from tasks.store.base import Store, StoreError
from tasks.store.layout import notification_key, page_key
from tasks.text.redact import redact

LOG = logging.getLogger("prelaunch")
# A notifier has 20 s; what is slower than that and half as much again is left behind.
LIMIT_S = 30.0


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
    return _safely(store, page, partial(_deliver, notify, store, page, (page.audience, *also)))


def settle(notify: Notify, store: Store, page: Notification) -> DeliveryResult:
    """The gate ended well: nobody is notified, messages are updated, and incidents are resolved."""
    return _safely(store, page, lambda: _settled(notify, means_of(store), page, {"log"}))


def means_of(store: Store) -> NotifierAccess:
    """What the notifiers of a gate may use: its store, and the secrets that its file refers to, each resolved once."""
    return means_on(store, secret)


def means_on(store: Store, secret: Callable[[str], str]) -> NotifierAccess:
    """The same for a store alone; `secret` resolves references (NotifyError)."""
    found = dict[str, str]()

    def keep(key: str, text: str) -> str:
        write(key, text.encode("utf-8", "backslashreplace"))
        return store.place(key)

    def read(key: str) -> bytes | None:
        try:
            return store.get(key)
        except StoreError as error:
            raise NotifyError(f"the store does not answer: {error}") from error

    def write(key: str, data: bytes) -> None:
        try:
            store.put(key, data)
        except StoreError as error:
            raise NotifyError(f"the notification could not be stored: {error}") from error

    def change(key: str, old: bytes | None, new: bytes) -> bool:
        try:
            return store.put_if_absent(key, new) if old is None else store.replace_if(key, old, new)
        except StoreError as error:
            raise NotifyError(f"{key} could not be stored: {error}") from error

    def resolved(reference: str) -> str:
        if reference not in found:
            found[reference] = secret(reference)
        return found[reference]

    return NotifierAccess(keep, read, write, resolved, change)


def still_paid(gate: Gate, file: str, store: Store, gate_id: str, said: tuple[str, ...]) -> str:
    """Notify the owner that machines may still run, or be kept, and be billed. This is separate from the gate's own notification.

    `file` is where the gate was read from.
    """
    first = said[0] if said else "it is not known which"
    remedy = "Check in the engine's console whether they still run, and end them there."
    lines = (*(f"- {line}" for line in said), "", remedy)
    return page_owner(gate, file, store, gate_id, f"{PAID} {gate.name}: {first}", lines)


def page_owner(gate: Gate, file: str, store: Store, gate_id: str, title: str, lines: tuple[str, ...]) -> str:
    """Notify the owner of a job or of machines while the gate, or nobody, looks after them; the gate's own notification is another."""
    text = redact("\n".join((*lines, f"Gate: {gate_id} ({file})")), os.environ)
    page = Notification(
        f"{gate_id}-machines", gate.cluster.name, redact(title, os.environ), text, "",
        gate=gate.name, kind=Kind.MACHINES, audience=Audience.OWNER, severity=Severity.ERROR,
    )  # fmt: skip
    return deliver(gate.notify, store, page).where


def _deliver(
    notify: Notify, store: Store, page: Notification, audiences: tuple[Audience, ...]
) -> DeliveryResult:
    means = means_of(store)
    where, told, failed, done = "", list[str](), dict[str, str](), set[str]()
    for audience in dict.fromkeys(audiences):
        # Two audiences behind one log are one reader.
        names = [name for name in notifiers_for(notify, audience) if not (name == "log" and "log" in done)]
        asked = replace(page, audience=audience, said=_lines(failed))
        used, place, why = send_first(names, lambda name: notifier_for(name, notify, means), asked, LIMIT_S)
        failed |= {f"{name} ({audience})" if len(audiences) > 1 else name: said for name, said in why.items()}
        told += [f"{used}: {place}"] if used else []
        done |= {used, *why}
        where = where or place
    if "log" not in done:
        failed |= _logged(means, replace(page, said=_lines(failed)), shown=_is_named(notify, audiences))
    others = _settled(notify, means, page, {*done, "log"})
    return DeliveryResult(where, (*told, *others.told), (*_lines(failed), *others.failed))


def _logged(means: NotifierAccess, page: Notification, shown: bool) -> dict[str, str]:
    """Keep the notification in any case, and write it to stderr if the gate file names the log. Returns why it was not kept."""
    try:
        if shown:
            keep_and_say(page, means.keep)
        else:
            means.keep(page_key(page.gate_id), notification_text(page))
    except NotifyError as error:
        return {"log": str(error)}
    return {}


def _is_named(notify: Notify, audiences: tuple[Audience, ...]) -> bool:
    return any("log" in named_for(notify, audience) for audience in audiences)


def _settled(notify: Notify, means: NotifierAccess, page: Notification, done: set[str]) -> DeliveryResult:
    """What the notifiers did that did not deliver the notification itself."""
    said, failed = [], []
    for name in (name for name in notify.notifiers if name not in done):
        try:
            made = guarded(partial(notifier_for, name, notify, means), LIMIT_S)
            what = guarded(partial(_settle, made, page), LIMIT_S)
        except NotifyError as error:
            failed.append(f"{name}: the message could not be updated: {error}")
        else:
            said += [f"{name}: {what}"] if what else []
    return DeliveryResult("", tuple(said), tuple(failed))


def _settle(notifier: Notifier, page: Notification) -> str:
    return notifier.settle(page)


def _safely(store: Store, page: Notification, act: Callable[[], DeliveryResult]) -> DeliveryResult:
    try:
        made = act()
    except Exception as error:  # noqa: BLE001 - whatever it is, the gate ends as it would have; this is said and kept
        made = DeliveryResult(failed=(f"{type(error).__name__}: {error}",))
    told = DeliveryResult(made.where, _clear(made.told), _clear(made.failed))
    for failure in told.failed:
        LOG.error("a notification of %s was not delivered: %s", page.gate_id, failure)
    _keep(store, page, told)
    return told


def _keep(store: Store, page: Notification, told: DeliveryResult) -> None:
    record = {"kind": page.kind, "title": page.title, "told": told.told, "failed": told.failed}
    try:
        store.put(notification_key(page.gate_id, page.kind), dump_plain(record))
    except Exception as error:  # noqa: BLE001 - the record of a page is no reason to lose a verdict
        LOG.error(
            "the record of the notification of %s could not be stored: %s",
            page.gate_id,
            redact(str(error), os.environ),
        )


def _lines(failed: dict[str, str]) -> tuple[str, ...]:
    return tuple(f"{name}: {why}" for name, why in failed.items())


def _clear(lines: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(redact(line, os.environ) for line in lines)
