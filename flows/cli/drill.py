"""`prelaunch drill NAME GATE_FILE --node N`: makes a fault on a node, and measures when it is detected, paged and mended."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import time
import uuid
from functools import partial
from pathlib import Path

from checks.documents.decode import nearest
from checks.exit_codes import Exit
from checks.facts.withheld_kernel_log import FILE_VARIABLE
from checks.value_types import DecodeError
from flows.cli.machines import opened, require_node_name
from flows.cli.output import json_text, rejection, write_stderr, write_stdout
from flows.cli.rejection import report_rejection
from flows.cli.replay import failed
from tasks.drills.catalog import DRILLS, list_text
from tasks.drills.drive import DrillRun
from tasks.drills.gate_process import start_gate
from tasks.drills.interruption import Interruption
from tasks.drills.model import (
    Drill,
    DrillEnd,
    DrillLimits,
    DrillRefused,
    DrillResult,
    FaultOptions,
    Milestone,
    NodeUnreachable,
    expected,
)
from tasks.drills.node_commands import commands_for, is_this_machine
from tasks.drills.report import report_table, report_text
from tasks.drills.watch import Watch
from tasks.gate_file.folder import typed_path
from tasks.gate_file.model import Gate
from tasks.gate_file.references import PolicyError, read_policy
from tasks.remediation.model import Mode
from tasks.remediation.records import JournalError
from tasks.remediation.settings import settings_of
from tasks.reports.read import InputError
from tasks.store.base import StoreError

CODES = {
    DrillEnd.IN_TIME: Exit.GO,
    DrillEnd.FAILED: Exit.NO_GO,
    DrillEnd.CANNOT_TELL: Exit.CANNOT_TELL,
    DrillEnd.INTERRUPTED: Exit.INTERRUPTED,
}
MOST_S = 7 * 86_400.0
LIMIT_OPTIONS = {
    Milestone.DETECTED: "--detect-within",
    Milestone.PAGED: "--page-within",
    Milestone.ACTED: "--act-within",
    Milestone.RETURNED: "--return-within",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """NAME FILE --node N, how to reach the node, what is expected and when, and the options of the faults."""
    parser.description = (
        "Makes a fault on a node, watches that it is detected (a gate refuses because of it), paged, acted upon (the records "
        "of remediation) and that the node is returned, each within its limit, and then undoes the fault, also after Ctrl-C, "
        "SIGTERM or a closed terminal. It is refused on a node that runs a job, does not serve, or whose state the engine does "
        "not tell. Exit codes: 0 everything happened in time, 1 it did not, or the fault could not be undone, 2 rejected, and "
        "nothing was changed, 3 it is not known whether it happened, 130 and 143 interrupted, after the fault was undone."
    )
    parser.add_argument("name", metavar="NAME", nargs="?", default="", help=", ".join(DRILLS))
    parser.add_argument(
        "file", metavar="FILE", nargs="?", default="", help="the gate file of the cluster, or its name in the folder of gate files"
    )  # fmt: skip
    parser.add_argument("--list", action="store_true", help="list the drills, and what has to follow each")
    parser.add_argument("--node", default="", metavar="N", help="the node, as the engine names it")
    parser.add_argument(
        "--watch-only", action="store_true",
        help="start no gate: wait for one that somebody else starts (default: prelaunch gate FILE --check-only is started)",
    )  # fmt: skip
    parser.add_argument(
        "--through", default="", metavar="COMMAND",
        help='what runs a command on the node, such as "ip netns exec n1" (default: nothing if the node is this machine, else ssh N); '
        "srun cannot reach a node any more once that is fenced",
    )  # fmt: skip
    parser.add_argument(
        "--format", choices=("text", "json"), default="text", help="format of stdout (default text)"
    )
    _add_limits(parser)
    _add_faults(parser)


def _add_limits(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("what has to happen, in seconds from the injection")
    group.add_argument(
        "--expect", type=_milestones, default=(), metavar="A,B",
        help=f"some of {','.join(Milestone)} (default: what the drill promises, without acts if [remediation] mode is off or plan)",
    )  # fmt: skip
    group.add_argument(
        "--undo-after", choices=("detected", "paged", "acted", "end"), default=None,
        help="when the fault is undone, so that the node can be returned (default: the drill's own)",
    )  # fmt: skip
    defaults = DrillLimits()
    for milestone, option in LIMIT_OPTIONS.items():
        group.add_argument(
            option, type=_seconds, default=defaults.within_s[milestone], metavar="S",
            help=f"limit for {milestone.value} (default {defaults.within_s[milestone]:g})",
        )  # fmt: skip
    group.add_argument(
        "--clean-within", type=_seconds, default=defaults.clean_s, metavar="S",
        help=f"how long a node that does not answer is tried to be cleaned up (default {defaults.clean_s:g})",
    )  # fmt: skip
    group.add_argument(
        "--poll", type=_seconds, default=defaults.poll_s, metavar="S",
        help=f"how often store and engine are read; times are as exact as this (default {defaults.poll_s:g})",
    )  # fmt: skip


def _add_faults(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("faults")
    group.add_argument(
        "--kernel-log", default="", metavar="PATH",
        help="xid-*: a file on the node instead of /dev/kmsg, such as /var/log/messages (default: PRELAUNCH_KERNEL_LOG, if it is "
        "set here); the line in it is overwritten afterwards, while one in /dev/kmsg stays until the node restarts",
    )  # fmt: skip
    group.add_argument("--pci", default="0000:b9:00", help="xid-*: the GPU's address (default 0000:b9:00)")
    group.add_argument("--gpu", type=int, default=0, help="dcgm-xid: DCGM's number of the GPU (default 0)")
    group.add_argument(
        "--process", default="",
        help='killed-daemon, frozen-process: its name (default slurmd); "checks" freezes the checks\' own process',
    )  # fmt: skip
    group.add_argument("--pid-file", default="", help="the file with its number, where several have the name")
    group.add_argument(
        "--start", default="", metavar="COMMAND",
        help="killed-daemon: what starts it again (default: systemctl start NAME)",
    )  # fmt: skip
    group.add_argument("--interface", default="", help="shaped-link: default is that of the default route")
    group.add_argument("--rate", default="10mbit", help="shaped-link: tc's rate (default 10mbit)")
    group.add_argument("--folder", default="", help="full-disk: the folder whose file system is filled")
    group.add_argument(
        "--leave", type=int, default=4, metavar="MIB", help="full-disk: what stays free (default 4)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the drill, and print its report."""
    if arguments.list:
        write_stdout(list_text())
        return int(Exit.GO)
    with Interruption() as stop:
        try:
            drill_run = _prepared(arguments, stop)
            result = drill_run.run()
        except InputError as error:
            return report_rejection(arguments.format, error)
        except DrillRefused as error:
            return report_rejection(arguments.format, InputError("drill", str(error)))
        except StoreError as error:
            return failed(arguments.format, error)
        except (NodeUnreachable, JournalError, DecodeError) as error:
            if arguments.format == "json":
                write_stdout(json_text(rejection(None, None, str(error))))
            write_stderr(f"prelaunch: nothing was injected: {error}")
            return int(Exit.CANNOT_TELL)
        _show(arguments.format, result)
        return _code(result)


def _show(form: str, result: DrillResult) -> None:
    write_stdout(json_text(report_table(result)) if form == "json" else report_text(result))


def _code(result: DrillResult) -> int:
    if result.end is DrillEnd.INTERRUPTED and result.signal != 2:
        return int(Exit.TERMINATED)
    return int(CODES[result.end])


def _prepared(arguments: argparse.Namespace, stop: Interruption) -> DrillRun:
    """The drill that the command line names. Raises InputError."""
    if arguments.name not in DRILLS:
        near = nearest(arguments.name, list(DRILLS))
        said = f"{arguments.name!r:.40} is no drill. The drills are: {', '.join(DRILLS)}."
        raise InputError("command line", said, "NAME", near)
    if not arguments.file or not arguments.node:
        raise InputError("command line", "name the gate file of the cluster, and the node with --node.")
    require_node_name(arguments.node)
    drill = DRILLS[arguments.name]
    gate, machines, records = opened(arguments.file)
    require_refusal(drill, gate, Path(typed_path(arguments.file)))
    here = is_this_machine(arguments.node) or gate.cluster.launcher == "local"
    try:
        commands = commands_for(arguments.node, arguments.through, here)
        start = tuple(shlex.split(arguments.start))
    except ValueError as error:
        raise InputError(
            "command line", f"--through or --start has quotes that do not match: {error}."
        ) from error
    kernel_log = arguments.kernel_log or os.environ.get(FILE_VARIABLE, "")
    options = FaultOptions(
        uuid.uuid4().hex[:8], arguments.node, kernel_log, arguments.pci, arguments.interface, arguments.rate,
        arguments.folder, arguments.leave, arguments.process, arguments.pid_file, start, arguments.gpu,
    )  # fmt: skip
    own = drill.undo_after.value if drill.undo_after else "end"
    undo_after = arguments.undo_after or own
    argv = (
        sys.executable,
        "-m",
        "flows.cli.main",
        "gate",
        str(Path(typed_path(arguments.file))),
        "--check-only",
    )
    mode = settings_of(gate).mode
    watch = Watch(
        records.store, records, machines, drill, arguments.node, acted_on=mode not in (Mode.OFF, Mode.PLAN)
    )
    return DrillRun(
        drill, options, commands, machines, watch, expected(drill, mode, arguments.expect), _limits(arguments), stop, time.monotonic,
        None if arguments.watch_only else partial(start_gate, argv),
        None if undo_after == "end" else Milestone(undo_after), lambda text: write_stderr(f"prelaunch: {text}"),
    )  # fmt: skip


def require_refusal(drill: Drill, gate: Gate, file: Path) -> None:
    """Require that somebody acts on the fault: HyperPod, or a gate with its answers to Xids. Raises InputError, DrillRefused."""
    if drill.overlay is None or gate.remediation.machines == "hyperpod":
        return
    try:
        line = read_policy(file.resolve().parent / gate.policy.file).checks.get("kernel.xid")
    except PolicyError as error:
        raise InputError(str(error.file), error.message, error.path, error.nearest) from error
    used = line.overlay.value if line else "none"
    if line is None or line.overlay is not drill.overlay:
        raise DrillRefused(
            f"{drill.name} is for clusters on which the answers of {drill.overlay.value} to Xids are used, and the policy "
            f"{gate.policy.file} uses those of {used}: there this Xid is only a warning, for which no gate refuses a node. Run the "
            f'drill xid-79, or set overlay = "{drill.overlay.value}" for kernel.xid in the policy.'
        )


def _limits(arguments: argparse.Namespace) -> DrillLimits:
    within = {one: getattr(arguments, option[2:].replace("-", "_")) for one, option in LIMIT_OPTIONS.items()}
    return DrillLimits(within, arguments.clean_within, arguments.poll)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= MOST_S:
        raise argparse.ArgumentTypeError(
            f"{text!r:.40} is not a number of seconds above 0, at most {MOST_S:g}"
        )
    return seconds


def _milestones(text: str) -> tuple[Milestone, ...]:
    words = text.split(",")
    if not set(words) <= {one.value for one in Milestone}:
        raise argparse.ArgumentTypeError(f"{text!r:.80} is not a list of {', '.join(Milestone)}")
    return tuple(Milestone(word) for word in words)
