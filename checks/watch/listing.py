"""`findings`: what is open on this machine, and how a person closes it."""

from __future__ import annotations

import argparse
import json
import time
from datetime import datetime, timezone
from pathlib import Path

from checks.documents.open_findings import OpenFinding, OpenFindings
from checks.documents.report import plain
from checks.exit_codes import Exit
from checks.judge.open_findings.update import close
from checks.model import Level
from checks.process import machine_state
from checks.process.stderr import say
from checks.value_types import DecodeError, natural


def run(arguments: argparse.Namespace) -> int:
    """Exit 0 with nothing open that refuses a gate, 1 with an open FAIL, 3 if the file cannot be read."""
    state = machine_state.folder()
    try:
        if arguments.close is None:
            return _listed(machine_state.read(state), arguments.format)
        return _closed(state, arguments.close, (arguments.by or "").strip())
    except DecodeError as error:
        say(f"checks findings: {state / machine_state.FINDINGS} cannot be read: {error}")
        return Exit.CANNOT_TELL


def _closed(state: Path, name: str, who: str) -> int:
    if not who:
        say("checks findings: name with --by who closes the finding, and the reason.")
        return Exit.REJECTED
    try:
        machine_state.change(state, lambda known: close(known, name, who[:200], time.time()))
    except KeyError:
        names = sorted((one.key.name for one in machine_state.read(state).open), key=natural)
        say(f"checks findings: no open finding is called {name!r:.80}. Open: {', '.join(names) or 'none'}.")
        return Exit.REJECTED
    print(f"closed {name}")
    return Exit.GO


def _listed(known: OpenFindings, form: str) -> int:
    if form == "json":
        print(json.dumps(plain(known), sort_keys=True))
    elif not known.open and not known.omitted:
        print("No finding is open.")
    else:
        for one in sorted(known.open, key=lambda one: (-one.level.rank, one.opened_at)):
            print(_line(one))
        if known.omitted:
            print(f"{known.omitted:,} more are open and not listed")
    grave = any(one.level is Level.FAIL for one in known.open) or known.omitted
    return Exit.NO_GO if grave else Exit.GO


def _line(one: OpenFinding) -> str:
    since = datetime.fromtimestamp(one.opened_at, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    return f"{one.level.value} {one.key.cause.value} {one.key.name}: {one.message!a} (since {since}, found by {one.by})"
