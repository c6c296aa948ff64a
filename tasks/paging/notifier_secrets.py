"""Whether the gate can notify anybody: every secret that its notifiers need is resolved when the gate starts.

Missing secrets are logged and recorded (gates/<gate id>/told/ways.json). They never stop a gate: the verdict
matters more.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from checks.documents.report import dump_plain
from tasks.gate.session import Session
from tasks.gate_file.people import Notify
from tasks.notifiers.base import Audience, NotifyError
from tasks.notifiers.registry import guarded, notifiers_for
from tasks.notifiers.secret_refs import secret
from tasks.store.base import StoreError
from tasks.store.layout import notifiers_key

LOG = logging.getLogger("prelaunch")
BLOCK = "block:"
LIMIT_S = 15.0


@dataclass(frozen=True)
class NeededSecret:
    """A secret that a notifier needs: `there` is None if only the running gate can tell (a block of the Prefect server)."""

    reference: str
    there: bool | None


@dataclass(frozen=True)
class NotifierReach:
    """One notifier, in the gate's order: `to` is whom it reaches as far as the file says."""

    notifier: str
    to: str
    needs: tuple[NeededSecret, ...]

    def __str__(self) -> str:
        states = {True: "is set", False: "is NOT set", None: "is read when the gate runs"}
        text = "; ".join(f"{need.reference} {states[need.there]}" for need in self.needs)
        name = "the log, which calls nobody" if self.notifier == "log" else self.notifier
        return f"{name}{f' {self.to}' if self.to else ''}{f' ({text})' if text else ''}"


def notifier_reach(
    notify: Notify, audience: Audience, environment: Mapping[str, str]
) -> tuple[NotifierReach, ...]:
    """Whom a gate would notify, in order, and whether each secret is in this environment. It makes no call."""
    reach = []
    for notifier in notifiers_for(notify, audience):
        references, to = _secrets_and_recipient(notify, notifier, audience)
        needs = tuple(NeededSecret(name, _is_set(name, environment)) for name in references)
        reach.append(NotifierReach(notifier, to, needs))
    return tuple(reach)


def check_secrets(session: Session) -> tuple[str, ...]:
    """At the start of a run: resolve every secret once, so that what is missing is known, and what is there is kept out of texts.

    Returns a line for each that is not to be had; the record has them too. Raises nothing.
    """
    notify, failures = session.context.gate.notify, dict[str, str]()
    for reference in references_of(notify):
        try:
            guarded(partial(secret, reference), LIMIT_S)
        except NotifyError as error:
            failures[reference] = str(error)
    order = {audience.value: notifiers_for(notify, audience) for audience in Audience}
    record = dump_plain({"order": order, "missing": failures})
    try:
        session.context.store.put(notifiers_key(session.gate_id), record)
    except StoreError as error:
        LOG.error("the result of the notifier check could not be stored: %s", error)
    return tuple(f"this gate may not be able to notify: {reason}" for reason in failures.values())


def references_of(notify: Notify) -> tuple[str, ...]:
    """Every secret that a notifier of the gate needs, each once."""
    pairs = ((notifier, audience) for audience in Audience for notifier in notifiers_for(notify, audience))
    secrets = (_secrets_and_recipient(notify, *pair)[0] for pair in pairs)
    return tuple(dict.fromkeys(name for names in secrets for name in names))


def _secrets_and_recipient(notify: Notify, notifier: str, audience: Audience) -> tuple[tuple[str, ...], str]:
    """Returns the secrets that a notifier needs for an audience, and whom it reaches."""
    owner = audience is Audience.OWNER
    if notifier == "slack" and notify.slack is not None:
        channel = notify.slack.owner_channel if owner else ""
        return (notify.slack.token,), channel or notify.slack.channel
    if notifier == "pagerduty" and notify.pagerduty is not None:
        key = notify.pagerduty.owner_routing_key if owner else notify.pagerduty.routing_key
        return ((key,) if key else ()), ""
    if notifier == "apprise" and notify.apprise is not None:
        return (notify.apprise.owner_urls if owner else notify.apprise.urls), ""
    return (), ""


def _is_set(reference: str, environment: Mapping[str, str]) -> bool | None:
    if reference.startswith(BLOCK):
        return None
    return bool(environment.get(reference.removeprefix("env:"), "").strip())
