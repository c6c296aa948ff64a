"""`prelaunch repair drill NAME GATE_FILE --node N`: makes a fault on a free node, keeps it while gates run, and undoes it."""

from __future__ import annotations

import argparse
import os
import shlex
import socket

from checks.command_line import InputError, number
from checks.exit_codes import Exit
from checks.facts.withheld_kernel_log import FILE_VARIABLE
from flows.cli.output import write_stderr
from flows.cli.shared_arguments import add_gate_file, gate_file, require_node_name
from tasks.drills.drive import DrillRun, Interruption, commands_for
from tasks.drills.faults import DRILLS, DrillRefused, FaultOptions
from tasks.machines.registry import UnknownMachines
from tasks.remediation.settings import machines_of
from tasks.reports.store_argument import named_gate


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """NAME FILE --node N, how to reach the node, and the options of the faults."""
    parser.description = (
        "Makes a fault on a node, so that you can run a gate and see whether it, the engine and remediation notice it, and undoes "
        "it after --keep, Ctrl-C, SIGTERM or a closed terminal. It is refused on a node that runs a job or is out of service, and "
        "if the engine does not report its state. Exit codes: 0 the fault was made and undone, 1 the fault may still be there, "
        "2 rejected, and nothing was changed, 3 the fault could not be made, 130 and 143 interrupted before it was made."
    )
    add = parser.add_argument
    drills = "; ".join(f"{name}: {drill.summary}" for name, drill in DRILLS.items())
    add("name", metavar="NAME", choices=tuple(DRILLS), help=drills)
    add_gate_file(parser)
    add("--node", required=True, metavar="N", help="the node, as the engine names it")
    text = "how long the fault stays (default 900)"
    add("--keep", type=number(0, 86_400, "seconds"), default=900.0, metavar="S", help=text)
    add(
        "--through", default="", metavar="COMMAND",
        help='what runs a command on the node, such as "ip netns exec n1" (default: nothing if the node is this machine, else ssh N); '
        "srun cannot reach a fenced node",
    )  # fmt: skip
    add(
        "--kernel-log", default=os.environ.get(FILE_VARIABLE, ""), metavar="PATH",
        help="xid-*: a file on the node instead of /dev/kmsg, such as /var/log/messages (default: PRELAUNCH_KERNEL_LOG, if it is "
        "set here); the line in it is overwritten afterwards, while one in /dev/kmsg stays until the node restarts",
    )  # fmt: skip
    add("--process", default="slurmd", help="killed-daemon, frozen-process: its name (default slurmd)")
    add("--pid-file", default="", help="the file with its process id, if several processes have this name")
    add("--start", default="", metavar="COMMAND", help="how to restart it (default: systemctl start NAME)")
    add("--interface", default="", help="shaped-link: the interface (default: that of the default route)")
    add("--rate", default="10mbit", help="shaped-link: the rate for tc (default 10mbit)")


def run(arguments: argparse.Namespace) -> int:
    """Run the drill; returns the exit code. A fault that is not known to be undone is never a success."""
    with Interruption() as stop:
        try:
            drill_run = _prepared(arguments, stop)
            drill_run.run()
        except DrillRefused as error:
            raise InputError("repair drill", str(error)) from error
    if not drill_run.is_undone:
        return int(Exit.NO_GO)
    if drill_run.is_made:
        return int(Exit.GO)
    if not stop.number:
        return int(Exit.CANNOT_TELL)
    return int(Exit.INTERRUPTED if stop.number == 2 else Exit.TERMINATED)


def _prepared(arguments: argparse.Namespace, stop: Interruption) -> DrillRun:
    """The drill that the command line names. Raises InputError."""
    node = arguments.node
    require_node_name(node)
    file = str(gate_file(arguments))
    gate = named_gate(file)
    try:
        machines = machines_of(gate)
    except UnknownMachines as error:
        raise InputError(file, str(error), "remediation") from error
    here = node in (socket.gethostname(), socket.gethostname().partition(".")[0])
    try:
        commands = commands_for(node, arguments.through, here or gate.cluster.launcher == "local")
        start = tuple(shlex.split(arguments.start))
    except ValueError as error:
        message = f"--through or --start has quotes that do not match: {error}."
        raise InputError("command line", message) from error
    options = FaultOptions(
        node, arguments.kernel_log, arguments.interface, arguments.rate, arguments.process, arguments.pid_file, start
    )  # fmt: skip
    return DrillRun(
        DRILLS[arguments.name], options, commands, machines, arguments.keep, stop,
        lambda text: write_stderr(f"prelaunch: {text}"),
    )  # fmt: skip
