"""`prelaunch monitoring page`: looks at the watch of every declared node, and notifies people of what is new."""

from __future__ import annotations

import argparse
import contextlib
import time
from collections.abc import Callable
from pathlib import Path

from checks.documents.report import plain
from checks.exit_codes import Exit
from checks.model import Cause
from flows.cli.options import add_format
from flows.cli.output import json_text, write_stderr, write_stdout
from tasks.gate.context import GateContext, open_gate_context
from tasks.gate_file.folder import typed_path
from tasks.gate_file.model import Gate
from tasks.gate_file.request import GateRequest
from tasks.monitoring.exporters import Job
from tasks.monitoring.news import News, NodeLook
from tasks.monitoring.targets import TargetsError, read_targets
from tasks.notifiers.deliver import DeliveryResult
from tasks.paging.nodes import look, tell
from tasks.store.base import StoreError


def add_page(
    parser: argparse.ArgumentParser, port: Callable[[str], tuple[Job, int]], seconds: Callable[[str], float]
) -> None:
    """The arguments; `port` and `seconds` are the types of the other actions' arguments."""
    parser.description = (
        "Asks the watch of every declared node for its open findings, and notifies people through the notifiers of the gate file of "
        "each FAIL that is new, and of each node whose watch has fallen silent; once each. Exit codes: 0 nothing is open, 1 a FAIL is "
        "open, 2 rejected, 3 a node could not be asked, or the store does not answer."
    )
    parser.add_argument(
        "file", metavar="GATE_FILE", help="the gate file of the cluster, for its notifiers and its store"
    )
    parser.add_argument("targets", type=Path, metavar="TARGETS_FILE", help="what `targets` has written")
    parser.add_argument(
        "--every",
        type=seconds,
        default=0.0,
        metavar="SECONDS",
        help="go on, and look so often (default: look once)",
    )
    parser.add_argument(
        "--port",
        action="append",
        default=[],
        type=port,
        metavar="JOB=PORT",
        help="another port than the usual one",
    )
    add_format(parser)
    parser.set_defaults(run_action=run)


def run(arguments: argparse.Namespace) -> Exit:
    """Look once, or until Ctrl-C."""
    setting = open_gate_context(GateRequest(gate_file=typed_path(arguments.file)))
    targets = [one for one in read_targets(arguments.targets) if one.cluster == setting.gate.cluster.name]
    if not targets:
        raise TargetsError(f"{arguments.targets} has no node of cluster {setting.gate.cluster.name}.")
    ports = dict(arguments.port)
    with contextlib.suppress(KeyboardInterrupt):
        while True:
            begun = time.monotonic()
            code = _once(setting, look(targets, ports.get(Job.WATCH)), arguments.format)
            if not arguments.every:
                return code
            time.sleep(max(0.0, begun + arguments.every - time.monotonic()))
    return Exit.GO


def _once(setting: GateContext, looks: tuple[NodeLook, ...], form: str) -> Exit:
    try:
        found, done = tell(setting.gate, setting.store, looks, time.time())
    except StoreError as error:
        write_stderr(f"prelaunch: {error}")
        return Exit.CANNOT_TELL
    _emit_events(setting.gate, found)
    if form == "json":
        write_stdout(
            json_text({"looks": plain(looks), "news": plain(found), "told": plain(done), "error": None})
        )
    else:
        write_stdout(_text(looks, found, done))
    open_fails = [
        one for seen in looks if seen.page for one in seen.page.findings.open if one.level.value == "FAIL"
    ]
    if any(one.key.cause is not Cause.EVIDENCE for one in open_fails):
        return Exit.NO_GO
    return Exit.CANNOT_TELL if open_fails or any(seen.page is None for seen in looks) else Exit.GO


def _emit_events(gate: Gate, found: News) -> None:
    """An event for each piece of news."""
    from tasks.orchestration.events import NodeEvent, emit_node_event

    rows = [(NodeEvent.OPENED, node, one.key.name, one.message) for node, one in found.opened]
    rows += [(NodeEvent.CLOSED, node, name, "") for node, name in found.closed]
    rows += [(NodeEvent.SILENT, node, "", why) for node, why in found.silent]
    rows += [(NodeEvent.BACK, node, "", "") for node in found.back]
    for event, node, name, said in rows:
        payload = {"node": node, "finding": name, "said": said}
        emit_node_event(event, gate.cluster.name, gate.name, payload)


def _text(looks: tuple[NodeLook, ...], found: News, done: DeliveryResult) -> str:
    lines = [f"{node}: opened {one.key.name}: {one.message}" for node, one in found.opened]
    lines += [f"{node}: closed {name}" for node, name in found.closed]
    lines += [f"{node}: silent: {why}" for node, why in found.silent]
    lines += [f"{node}: answers again" for node in found.back]
    lines += [f"told: {line}" for line in done.told] + [f"not told: {line}" for line in done.failed]
    answers = sum(seen.page is not None for seen in looks)
    count = sum(len(seen.page.findings.open) for seen in looks if seen.page)
    lines.append(f"{answers} of {len(looks)} nodes answer; {count} findings are open")
    return "".join(f"{line}\n" for line in lines)
