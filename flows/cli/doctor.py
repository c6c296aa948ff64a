"""`prelaunch doctor [GATE_FILE]`: looks at all that a gate needs on this machine and account, one line each, with the remedy."""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import os
import secrets
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from checks.exit_codes import Exit
from checks.model import ANSWER_WORDS, Answer
from checks.process.collection import without_collection
from flows.cli.output import json_text, stdout_colour, write_stderr, write_stdout
from flows.cli.plan import plans_of
from flows.cli.plan_text import relative_note
from flows.cli.prefect_server import QUIET
from flows.cli.shared_arguments import add_format, add_set
from tasks.gate.context import GateContext, open_gate_context
from tasks.gate_file.folder import typed_path
from tasks.gate_file.people import Notify
from tasks.gate_file.placeholders import examples_of
from tasks.gate_file.read import GateFileError
from tasks.gate_file.request import Advanced, GateRequest
from tasks.launchers.base import PreflightCheck, PreflightResult
from tasks.launchers.preflight import for_people, ok, preflight, unseen, wrong
from tasks.notifiers.base import Audience, Notification, NotifierAccess, NotifyError, PageKind, Severity
from tasks.notifiers.registry import LOG, guarded, notifier_for
from tasks.notifiers.secret_refs import secret
from tasks.orchestration.server.http_client import client_fault
from tasks.orchestration.server.server import ServerError, embedded_server
from tasks.orchestration.server.settings import configured_api_url
from tasks.paging.notifier_secrets import BLOCK, notifier_reach
from tasks.reports.read import DEFAULT
from tasks.store.base import Store, StoreError, StoreUnreachable
from tasks.store.folder import FolderStore
from tasks.store.open import is_remote, open_store
from tasks.text.inert import one_line

MISSING, CANNOT_TELL = "MISSING", ANSWER_WORDS[Answer.CANNOT_TELL]
LABELS = {
    PreflightResult.OK: "OK",
    PreflightResult.WARNING: "WARNING",
    PreflightResult.WRONG: MISSING,
    PreflightResult.NO_CAPACITY: CANNOT_TELL,  # nothing is wrong, and the engine has no machines now
    PreflightResult.UNSEEN: CANNOT_TELL,
}
ENDS = {
    Exit.GO: "a gate can start.",
    Exit.REJECTED: f"do what stands beside {MISSING}, then run this again.",
    Exit.CANNOT_TELL: f"whether a gate can start is not known; see {CANNOT_TELL} above.",
}
WITHOUT_FILE = (
    "what every gate needs is there. Name a gate file to look at its engine, account, policy and notifiers."
)
STYLES = {"OK": "32", "WARNING": "33", MISSING: "31", CANNOT_TELL: "35"}
TORCH = "PyTorch"
ANSWER_S = 20.0
SIDES = {Audience.ONCALL: "hardware on-call", Audience.OWNER: "owner"}
NO_RETRIES = {"PREFECT_CLIENT_MAX_RETRIES": "0"}
NOT_THIS_SHELL = "Those runs have the worker's environment, and this looked at the secrets and PRELAUNCH_GATES of this shell"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """GATE_FILE --set a.b=value --send-test --format text|json."""
    parser.description = (
        "Looks at what a gate needs: the store, the engine and the account, PyTorch, the notifiers, Prefect, and a worker for "
        "its deployments. "
        f"One line each: OK, WARNING, {MISSING} with the remedy, or {CANNOT_TELL}. "
        "Exit codes: 0 everything is there, 2 something is missing, "
        "3 something could not be looked at. Nothing is started or billed, and nobody is notified without --send-test."
    )
    text = "look at what this gate file needs (default: this machine alone)"
    parser.add_argument("file", nargs="?", metavar="GATE_FILE", help=text)
    add_set(parser)
    text = "send a test notification through every notifier of the gate file"
    parser.add_argument("--send-test", action="store_true", help=text)
    add_format(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print a line as each look ends; the exit code is 2 for something missing, else 3 for what could not be looked at."""
    lines: list[PreflightCheck] = []
    for line in _looks(arguments):
        lines.append(line)
        if arguments.format == "text" and not line.hidden_by:
            write_stdout(_text(line))
    if arguments.format == "json":
        names = ("subject", "message", "remedy")
        entries = [
            {**{name: getattr(item, name) for name in names}, "result": LABELS[item.result]} for item in lines
        ]
        write_stdout(json_text({"looks": entries, "error": None}))
    printed = for_people(lines)
    labels = Counter(LABELS[line.result] for line in printed)
    exits = {MISSING: Exit.REJECTED, CANNOT_TELL: Exit.CANNOT_TELL}
    code = next((exits[label] for label in exits if label in labels), Exit.GO)
    if arguments.format == "text":
        for line in printed[sum(not line.hidden_by for line in lines) :]:
            write_stdout(_text(line))
        counts = ", ".join(f"{count} {label}" for label, count in labels.items())
        end = WITHOUT_FILE if code is Exit.GO and arguments.file is None else ENDS[code]
        write_stdout(f"{counts}: {end}\n")
    return int(code)


def _looks(arguments: argparse.Namespace) -> Iterator[PreflightCheck]:
    context = None
    if arguments.file is not None:
        try:
            advanced = Advanced(overrides=arguments.overrides)
            context = open_gate_context(GateRequest(gate_file=typed_path(arguments.file), advanced=advanced))
        except GateFileError as error:
            yield wrong("gate file", str(error))
            return
        yield ok("gate file", f"{context.file}, policy {context.policy.name}")
        yield from (
            wrong(item.location, item.message, item.remedy) for item in examples_of(context.gate, os.environ)
        )
    elif arguments.send_test or arguments.overrides:
        yield wrong(
            "gate file", "--send-test and --set need a gate file, and none is named", "Name a gate file."
        )
    store, address = (open_store(DEFAULT), DEFAULT) if context is None else (context.store, context.address)
    note = "" if context is None else relative_note(context)
    looks: tuple[tuple[str, Callable[[], Iterable[PreflightCheck]]], ...] = (
        ("the store", lambda: _store(store, address, note)),
        ("the engine", lambda: _engine(context)),
        ("the notifiers", lambda: look_at_notifiers(context, arguments.send_test)),
        ("Prefect", lambda: _prefect(context)),
    )
    for name, check in looks:
        if sys.stderr.isatty():
            write_stderr(f"prelaunch: looking at {name}")
        try:
            yield from check()
        except Exception as error:  # noqa: BLE001 - a look that fails in an unforeseen way is no reason to call something healthy
            yield unseen(name, f"the check itself failed: {type(error).__name__}: {error}")


def _text(line: PreflightCheck) -> str:
    label = LABELS[line.result]
    cell = f"\x1b[{STYLES[label]}m{label:<11}\x1b[0m" if stdout_colour() else f"{label:<11}"
    return f"{cell}  {one_line(line.text, 2000)}\n"


def _store(store: Store, address: str, note: str = "") -> Iterator[PreflightCheck]:
    """What a gate does first: write, and remove what was written. No folder is made."""
    root = Path(address).expanduser().absolute()
    if not is_remote(address) and not root.exists():
        above = next(folder for folder in root.parents if folder.exists())
        if above.is_dir() and os.access(above, os.W_OK):
            yield ok("store", f"{root}{note} does not exist yet, and the first gate makes it")
        else:
            yield wrong("store", f"{root} does not exist, and nothing can be made in {above}")
        return
    try:
        store.probe()
        yield ok("store", f"{address}{note}: a probe was written and removed")
    except StoreUnreachable as error:
        yield unseen("store", str(error))
    except StoreError as error:
        yield wrong("store", str(error))


def look_at_notifiers(context: GateContext | None, send_test: bool) -> Iterator[PreflightCheck]:
    """Whether each notifier has its secrets; with `send_test`, whether a message arrives."""
    if context is None:
        return
    notify = context.gate.notify
    reach = [(side, item) for side in SIDES for item in notifier_reach(notify, side, os.environ)]
    for side, item in reach:
        name = f"notifier {item.notifier} ({SIDES[side]})"
        faults = [line for need in item.needs if (line := _secret_fault(name, need.reference))]
        if faults:
            yield from faults
        elif send_test and item.notifier != LOG:
            yield _sent(notify, item.notifier, side, name, context)
        else:
            yield ok(name, f"configured{f', to {item.to}' if item.to else ''}")
    oncall, owner = (
        {item.notifier for role, item in reach if role is side} for side in (Audience.ONCALL, Audience.OWNER)
    )
    if owner == {"log"} != oncall:
        message = "missing evidence and a failed training are only written to the log"
        remedy = "Name a notifier in owner of [notify] (docs/people.md)."
        yield PreflightCheck("notifiers (owner)", PreflightResult.WARNING, message, remedy)


def _secret_fault(name: str, reference: str) -> PreflightCheck | None:
    """What is wrong with a secret; None if it is there."""
    if reference.startswith(BLOCK) and configured_api_url(os.environ, Path.cwd()) is None:
        message = f"{reference} is a block of a Prefect server, and none is configured"
        return wrong(name, message, "Set PREFECT_API_URL, or name an environment variable (env:NAME).")
    quiet_prefect()
    try:
        with without_collection():
            guarded(partial(secret, reference), ANSWER_S)
    except NotifyError as error:
        return wrong(name, str(error))
    return None


def _sent(notify: Notify, name: str, side: Audience, subject: str, context: GateContext) -> PreflightCheck:
    gate = context.gate
    text = f"This is a test of the notifications of gate {gate.name}, sent by prelaunch doctor. Nothing has to be done."
    page = Notification(
        f"doctor-{secrets.token_hex(4)}", gate.cluster.name, f"TEST {gate.name}: no action is needed", text, "",
        gate=gate.name, topic=PageKind.TEST, audience=side, severity=Severity.INFO,
    )  # fmt: skip
    try:
        # What a notifier keeps of a test belongs to no gate.
        with tempfile.TemporaryDirectory() as folder:
            access = NotifierAccess(FolderStore(Path(folder)), secret)
            where = guarded(lambda: notifier_for(name, notify, access).send(page), ANSWER_S + 10)
    except NotifyError as error:
        return wrong(subject, f"the test notification was not delivered: {error}")
    return ok(subject, f"a test notification was delivered to {where}")


def quiet_prefect() -> None:
    """Keep Prefect's own lines and repetitions out of a look, unless somebody asked for them."""
    for key, value in {**QUIET, **NO_RETRIES}.items():
        os.environ.setdefault(key, value)


def _engine(context: GateContext | None) -> Iterator[PreflightCheck]:
    """The launcher's own preflight, with the plans of this gate; PyTorch is a part of it where this machine is the cluster."""
    if context is None:
        yield _torch()
        return
    launcher = context.gate.cluster.launcher
    try:
        lines = preflight(context.launcher, plans_of(context, 0))
    except GateFileError as error:
        yield wrong(f"engine {launcher}", str(error))
        return
    yield from lines
    if any(line.result is not PreflightResult.WARNING for line in lines):
        return
    if launcher == "local":
        image = context.gate.cluster.options.get("container_image")
        nodes = f"containers of {image}" if image else "processes of this machine"
        yield ok("engine local", f"its nodes are {nodes}, and their Python has what the checks need")
    else:
        yield unseen(f"engine {launcher}", "its preflight said nothing")


def _torch() -> PreflightCheck:
    if importlib.util.find_spec("torch") is not None:
        return ok(TORCH, "it is installed")
    text = "it is not installed here: this machine cannot run rank checks, a gate of launcher local, or prelaunch check"
    return wrong(
        TORCH, text, "Install it: pip install 'prelaunch[torch]'. A machine that only starts jobs needs none."
    )


def _prefect(context: GateContext | None = None) -> Iterator[PreflightCheck]:
    """The configured server answers and somebody takes the runs of its deployments of this gate, or the embedded one can start."""
    try:
        release = version("prefect")
    except PackageNotFoundError:
        yield wrong("Prefect", "it is not installed", "Install Prelaunch again: pip install prelaunch.")
        return
    url = configured_api_url(os.environ, Path.cwd())
    if message := client_fault(proxied=url is not None):
        yield wrong("Prefect", message)
        return
    if url is None:
        try:
            with (
                tempfile.TemporaryDirectory(prefix="prelaunch-doctor-") as folder,
                embedded_server(Path(folder)),
            ):
                yield ok("Prefect", f"{release}; no server is configured, and the embedded one starts")
        except ServerError as error:
            yield wrong("Prefect", str(error))
        return
    try:
        quiet_prefect()
        with without_collection():
            guarded(_read_a_run, ANSWER_S)
        yield ok("Prefect", f"{release}; the server at {url} answers")
    except NotifyError as error:
        remedy = "Start it, or correct PREFECT_API_URL and PREFECT_API_AUTH_STRING; without a URL a gate uses an embedded server."
        yield wrong("Prefect", f"the server at {url} does not answer as it should: {error}", remedy)
        return
    yield from _work_pools(context)


def _work_pools(context: GateContext | None) -> Iterator[PreflightCheck]:
    """Whether a worker is online for each work pool that deployments of this gate (without one: of all gates) use."""
    with without_collection():
        from tasks.orchestration.work_pools import gate_pools, without_reaper

    file = None if context is None else Path(context.file)
    try:
        pools = guarded(lambda: asyncio.run(gate_pools(file)), ANSWER_S)
        unreaped = guarded(lambda: asyncio.run(without_reaper()), ANSWER_S)
    except NotifyError as error:
        yield unseen("work pools", f"the server did not list them: {error}")
        return
    own = "" if context is None else f". {NOT_THIS_SHELL}"
    for pool in pools:
        subject, used = f"work pool {pool.name}", ", ".join(pool.deployments)
        state = pool.state
        if state.lack:
            text = f"{state.lack}, so nobody takes the runs of {used} (prelaunch gate here needs no worker)"
            yield wrong(subject, text, f"Run: {state.remedy}")
        else:
            yield ok(subject, f"a worker is online; used by {used}{own}")
    if unreaped:
        message = f"the server has no deployment of it, so nothing ends a dead run of {', '.join(unreaped)}"
        yield PreflightCheck("reap", PreflightResult.WARNING, message, "Deploy it: docs/server.md, Set up.")


def _read_a_run() -> None:
    """Ask for something that needs the permission that a gate needs. Raises whatever the client does."""
    from prefect.client.orchestration import get_client

    with get_client(sync_client=True) as client:
        client.read_flow_runs(limit=1)
