"""Checks one node as Slurm's Prolog or HealthCheckProgram: the quick node checks, within a deadline, and an exit code.

Rank checks are no part of it, because they need the job's PyTorch. Only a health check that the site allows to drain calls scontrol:
a prolog must not call Slurm (https://slurm.schedmd.com/prolog_epilog.html).
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from checks.catalog import CATALOG
from checks.documents.report import load
from checks.exit_codes import Exit
from checks.facts.builtin import builtin
from checks.judge.open_findings.prior_findings import without_remedied
from checks.judge.verdict import decide
from checks.model import Cause, Finding, Level, Scope
from checks.process.stderr import say
from checks.process.tree import end_children
from checks.runner.single_node import checked, own_bundle

# The deadline counts from the start of the checks; then their processes are ended, and the report is judged.
MARGIN_S = 15.0
# slurmd kills a health check after 60 s (slurm.conf(5), HealthCheckProgram): the default deadline, the margin and this are less.
DRAIN_S = 10.0
REASON_CHARACTERS = 200
NO_REASON = ("", "none")
# The states of sinfo(1) in which a node gets no job; @ or ^ ends one before and during a reboot, * while slurmd does not answer.
OUT_OF_SERVICE = re.compile(r"drain|down|fail|maint|inval|reboot|[@^*]")
# slurmd starts a prolog without one (slurm.conf(5)).
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
RANKS = frozenset(check.name for check in CATALOG if check.scope is Scope.RANK)


def run(arguments: argparse.Namespace) -> int:
    """Check this node; print one line about it if it is not well, and drain it if that was asked for. Returns the exit code."""
    os.environ.setdefault("PATH", PATH)
    passes = arguments.cannot_tell == "pass"
    # slurmd logs all that a failing prolog printed, stderr included, in one message: the cause has to be its first line.
    bundle = own_bundle(
        "node", arguments, announced=False, deadline_s=arguments.deadline_s,
        skip=tuple(sorted(RANKS)),
    )  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="prelaunch-") as folder:
        signal.signal(signal.SIGALRM, partial(_late, arguments, folder))
        signal.setitimer(signal.ITIMER_REAL, arguments.deadline_s + MARGIN_S)
        try:
            # Once a node was restarted, a job is let in for what only a gate in the job can measure.
            report = without_remedied(load(checked(bundle, Path(folder))), RANKS)
            code, reason = answer_of(decide(report, bundle.policy, builtin()).findings, passes)
        except Exception as error:  # noqa: BLE001 - whatever it is, nothing was measured
            code, reason = _untold(f"the checks left no report: {type(error).__name__}: {error}", passes)
        signal.setitimer(signal.ITIMER_REAL, 0)
    return _end(arguments, code, reason)


def answer_of(findings: Sequence[Finding], passes: bool) -> tuple[Exit, str]:
    """The exit code, and why in one line that begins with the cause; what cannot be told is no failure if it `passes`. Pure."""
    # That the rank checks are left out shows as missing evidence; what was open about one before is a fault like any other.
    failed = [
        finding for finding in findings
        if finding.level is Level.FAIL and not (finding.check in RANKS and finding.cause is Cause.EVIDENCE)
    ]  # fmt: skip
    broken = next((finding for finding in failed if finding.cause is not Cause.EVIDENCE), None)
    worst = broken or next(iter(failed), None)
    if worst is None:
        return Exit.GO, ""
    reason = f"{worst.check}: {worst.message}"
    return (Exit.NO_GO, f"{broken.cause.value}: {reason}") if broken else _untold(reason, passes)


def _untold(reason: str, passes: bool) -> tuple[Exit, str]:
    whole = f"{Cause.EVIDENCE.value}: {reason}"
    return (Exit.GO, f"{whole} (the site lets this pass)") if passes else (Exit.CANNOT_TELL, whole)


def _end(arguments: argparse.Namespace, code: Exit, reason: str) -> Exit:
    """Print the line, and drain the node where that was asked for, in a time of its own."""
    if reason:
        print(f"prelaunch: {reason}", flush=True)
    if code and arguments.drain:
        signal.signal(signal.SIGALRM, lambda number, frame: _leave(code))
        signal.setitimer(signal.ITIMER_REAL, DRAIN_S)
        host = socket.gethostname().partition(".")[0]
        _drain(arguments.node or os.environ.get("SLURMD_NODENAME") or host, reason)
        signal.setitimer(signal.ITIMER_REAL, 0)
    return code


def _late(arguments: argparse.Namespace, folder: str, number: int, frame: object) -> None:
    """The checks hang: end them, and give the answer that follows."""
    end_children(0.0, kill_s=1.0)
    shutil.rmtree(folder, ignore_errors=True)
    _leave(_end(arguments, *_untold("the checks did not end in time", arguments.cannot_tell == "pass")))


def _leave(code: Exit) -> None:
    end_children(0.0, kill_s=1.0)
    os._exit(code)


def _drain(node: str, reason: str) -> None:
    """Drain the node, unless a reason keeps it out of service. Slurm 24.11 goes on to show the reason of a resumed node."""
    output = _slurm("sinfo", "--all", "--noheader", f"--nodes={node}", "--format=%T|%E")
    lines = [line.strip().partition("|") for line in output.splitlines()]
    reasons = {reason for state, _, reason in lines if OUT_OF_SERVICE.search(state)} - {*NO_REASON}
    if reasons:
        say(f"prelaunch: {node} is left alone, because it is out of service already: {min(reasons)}")
        return
    printable = "".join(letter if letter.isprintable() else " " for letter in f"prelaunch: {reason}")
    _slurm("scontrol", "update", f"nodename={node}", "state=drain", f"reason={printable[:REASON_CHARACTERS]}")


def _slurm(*argv: str) -> str:
    """What the command prints; what goes wrong is said, and nothing more can be done about it here."""
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    except OSError as error:
        say(f"prelaunch: {argv[0]}: {error}")
        return ""
    if done.returncode:
        say(f"prelaunch: {argv[0]}: {done.stderr.strip()[:500]}")
    return done.stdout
