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
from checks.judge.open_findings.update import OMITTED, close
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


def _closed(state: Path, name: str, by: str) -> int:
    if not by:
        say("checks findings: name with --by who closes the finding, and the reason.")
        return Exit.REJECTED
    try:
        machine_state.change(state, lambda findings: close(findings, name, by[:200], time.time()))
    except KeyError:
        names = sorted((finding.key.name for finding in machine_state.read(state).open), key=natural)
        say(f"checks findings: no open finding is called {name!r:.80}. Open: {', '.join(names) or 'none'}.")
        return Exit.REJECTED
    print(f"closed {name}")
    return Exit.GO


def _listed(findings: OpenFindings, form: str) -> int:
    if form == "json":
        print(json.dumps(plain(findings), sort_keys=True))
    elif not findings.open and not findings.omitted:
        print("No finding is open.")
    else:
        for finding in sorted(findings.open, key=lambda finding: (-finding.level.rank, finding.opened_at)):
            print(_line(finding))
        if findings.omitted:
            print(
                f"{findings.omitted:,} more were open and are not listed. Once they are answered: --close {OMITTED} --by NAME"
            )
    grave = any(finding.level is Level.FAIL for finding in findings.open)
    return Exit.NO_GO if grave or findings.omitted else Exit.GO


def _line(finding: OpenFinding) -> str:
    since = datetime.fromtimestamp(finding.opened_at, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    head = f"{finding.level.value} {finding.key.cause.value} {finding.key.name}"
    return f"{head}: {finding.message!a} (since {since}, found by {finding.by})"
