"""What `prelaunch doctor` looks at of notifiers: whether each has its secrets, and whether a test notification arrives."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

from checks.process.collection import without_collection
from flows.cli.prefect_server import QUIET
from tasks.gate.context import GateContext
from tasks.gate_file.people import Notify
from tasks.launchers.base import PreflightCheck, PreflightResult
from tasks.notifiers.base import Audience, Kind, Notification, NotifierAccess, NotifyError, Severity
from tasks.notifiers.registry import guarded, notifier_for
from tasks.notifiers.secret_refs import secret
from tasks.orchestration.server.settings import configured_api_url
from tasks.paging.preflight import BLOCK, notifier_reach

ANSWER_S = 20.0
SIDES = {Audience.ONCALL: "hardware on-call", Audience.OWNER: "owner"}
NO_RETRIES = {"PREFECT_CLIENT_MAX_RETRIES": "0"}


def look_at_notifiers(setting: GateContext | None, send_test: bool) -> Iterator[PreflightCheck]:
    """Whether each notifier has its secrets; with `send_test`, whether a message arrives."""
    if setting is None:
        return
    notify, needed = setting.gate.notify, dict[tuple[str, str], list[str]]()
    reach = [(side, one) for side in SIDES for one in notifier_reach(notify, side, os.environ)]
    for side, one in reach:
        for need in one.needs:
            needed.setdefault((one.notifier, need.reference), []).append(SIDES[side])
    lacks = set[tuple[str, str]]()
    for key, who in needed.items():  # a secret that both sides need has one line
        if line := _secret(f"notifier {key[0]} ({', '.join(who)})", key[1]):
            lacks.add(key)
            yield line
    for side, one in reach:
        if lacks.isdisjoint((one.notifier, need.reference) for need in one.needs):
            to = f", to {one.to}" if one.to else ""
            name = f"notifier {one.notifier} ({SIDES[side]})"
            yield (
                _sent(notify, one.notifier, side, name, setting) if send_test else ok(name, f"configured{to}")
            )
    kinds = [{one.notifier for of, one in reach if of is side} for side in (Audience.ONCALL, Audience.OWNER)]
    if kinds[1] == {"log"} != kinds[0]:
        said = "missing evidence and a failed training are only written to the log"
        remedy = "Name a notifier in owner of [notify] (docs/notify.md)."
        yield PreflightCheck("notifiers (owner)", PreflightResult.WARNING, said, remedy)


def _secret(name: str, reference: str) -> PreflightCheck | None:
    """What is wrong with a secret; None if it is there."""
    if reference.startswith(BLOCK) and configured_api_url(os.environ, Path.cwd()) is None:
        said = f"{reference} is a block of a Prefect server, and none is configured"
        return missing(name, said, "Set PREFECT_API_URL, or name an environment variable (env:NAME).")
    quiet_prefect()
    try:
        with without_collection():
            guarded(partial(secret, reference), ANSWER_S)
    except NotifyError as error:
        return missing(name, str(error))
    return None


def _sent(notify: Notify, name: str, side: Audience, subject: str, setting: GateContext) -> PreflightCheck:
    gate = setting.gate
    text = f"This is a test of the notifications of gate {gate.name}, sent by prelaunch doctor. Nothing has to be done."
    page = Notification(
        f"doctor-{secrets.token_hex(4)}", gate.cluster.name, f"TEST {gate.name}: no action is needed", text, "",
        gate=gate.name, kind=Kind.TEST, audience=side, severity=Severity.INFO,
    )  # fmt: skip
    access = NotifierAccess(
        _shown, lambda key: None, lambda key, data: None, secret, lambda key, old, new: True
    )
    try:
        where = guarded(lambda: notifier_for(name, notify, access).send(page), ANSWER_S + 10)
    except NotifyError as error:
        return missing(subject, f"the test notification was not delivered: {error}")
    return ok(
        subject, f"a test notification was delivered to {where or ('stderr' if name == 'log' else name)}"
    )


def _shown(key: str, text: str) -> str:
    """Where the log's text goes in a test: it is kept nowhere."""
    return ""


def quiet_prefect(environment: Mapping[str, str] = os.environ) -> None:
    """Keep Prefect's own lines and repetitions out of a look, unless somebody asked for them."""
    os.environ.update(
        {key: value for key, value in {**QUIET, **NO_RETRIES}.items() if key not in environment}
    )


def ok(subject: str, message: str) -> PreflightCheck:
    """What is there."""
    return PreflightCheck(subject, PreflightResult.OK, message)


def missing(subject: str, message: str, remedy: str = "") -> PreflightCheck:
    """What is not there, or not as it has to be."""
    return PreflightCheck(subject, PreflightResult.WRONG, message, remedy)
