"""Runs a drill: requires a free node, makes the fault, keeps it for a while, and undoes it whatever happens."""

from __future__ import annotations

import os
import shlex
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import FrameType
from typing import Any

from checks.process import tool
from tasks.drills.faults import Argv, Drill, DrillRefused, FaultOptions
from tasks.machines.base import Holder, Machine, MachineError, Machines, ServiceState
from tasks.text.inert import one_line

COMMAND_S, CLEAN_PAUSE_S, CLEAN_TRIES = 60.0, 2.0, 100
SSH = ("ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-o", "ServerAliveInterval=5", "-T", "--")
# What commands on a node get of this process's variables; a prefix such as srun hands on what it has.
PASSED = ("PATH", "LD_LIBRARY_PATH", "HOME", "USER", "SSH_AUTH_SOCK", "KRB5CCNAME", "SLURM_CONF")


class Interruption:
    """Within the block Ctrl-C, SIGTERM and a closed terminal only set `number`, and end `wait`: a drill is never broken off between a
    fault and what undoes it. The handler takes no lock: that of an Event may be held by the very `wait` that it interrupts.
    """

    def __init__(self) -> None:
        self.number = 0
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Interruption:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *raised: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)

    def wait(self, seconds: float) -> None:
        """Return after this time, or a tenth of a second after a signal came."""
        until = time.monotonic() + seconds
        while not self.number and (left := until - time.monotonic()) > 0:
            time.sleep(min(left, 0.1))

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.number = self.number or number


@dataclass(frozen=True)
class NodeCommands:
    """`prefix` stands before every command. With `through_shell` the node's shell reads the command as one quoted line (ssh)."""

    prefix: Argv = ()
    through_shell: bool = False

    def argv(self, command: Argv) -> Argv:
        """What is started here for a command on the node. Pure."""
        return (*self.prefix, shlex.join(command)) if self.through_shell else (*self.prefix, *command)

    def run(self, command: Argv) -> tuple[bool, str]:
        """Whether a command on the node ended well, and its output, or else the end of what it complained about."""
        result = tool.run(("env", "-i", *passed(os.environ), *self.argv(command)), COMMAND_S)
        if result.code == 0:
            return True, result.stdout
        complaint = (result.stderr.strip() or result.stdout.strip())[-600:]
        return False, one_line(complaint or f"the command did not end within {COMMAND_S:g} s, or was silent")


def commands_for(node: str, through: str, here: bool) -> NodeCommands:
    """How to reach a node: behind `through`, else as a process of this machine if it is the node, else by ssh. Pure.

    Raises ValueError for a prefix whose quotes do not match.
    """
    prefix = tuple(shlex.split(through))
    if prefix:
        return NodeCommands(prefix, through_shell=os.path.basename(prefix[0]) == "ssh")
    return NodeCommands() if here else NodeCommands((*SSH, node), through_shell=True)


def passed(own: Mapping[str, str]) -> Argv:
    """The variables for commands on a node, as env(1) takes them."""
    path = f"{own.get('PATH', os.defpath)}:/usr/local/sbin:/usr/sbin:/sbin"
    return tuple(f"{name}={value}" for name, value in {**own, "PATH": path}.items() if name in PASSED)


@dataclass
class DrillRun:
    """One drill on one node. After `run`, `is_made` says whether the fault was made, and `is_undone` whether nothing of it is left."""

    drill: Drill
    options: FaultOptions
    commands: NodeCommands
    machines: Machines
    keep_s: float
    stop: Interruption
    notify: Callable[[str], None]
    is_made: bool = False
    is_undone: bool = False

    def run(self) -> None:
        """Run it to its end. Raises DrillRefused before anything was changed."""
        node = self.options.node
        require_free(self.machines, node)
        well, output = self.commands.run(self.drill.probe(self.options))
        if not well:
            raise DrillRefused(f"{node} cannot be prepared for this drill: {output}")
        fault = self.drill.make(self.options, output)
        require_free(self.machines, node)  # the probe took a while, and a job may have started
        typed = shlex.join(self.commands.argv(fault.undo))
        self.notify(f"If this process is killed, this undoes the fault: {typed}")
        try:
            if not self.stop.number:
                self._keep(fault.inject)
        finally:
            self.is_undone = self._undone(fault.undo)
        self.notify(
            "The fault is undone."
            if self.is_undone
            else f"IT IS NOT KNOWN THAT THE FAULT IS UNDONE. Run this: {typed}"
        )
        for text in (fault.stays if self.is_made else "", condition_after(self.machines, node)):
            if text:
                self.notify(text)

    def _keep(self, inject: Argv) -> None:
        """Make the fault, and wait until the time is over or a signal comes."""
        self.is_made, output = self.commands.run(inject)
        if not self.is_made:
            self.notify(f"The fault could not be made: {output}")
            return
        self.notify(
            f"The fault was made on {self.options.node}, and is undone after {self.keep_s:g} s, or at Ctrl-C or SIGTERM."
        )
        self.stop.wait(self.keep_s)

    def _undone(self, undo: Argv) -> bool:
        """Undo the fault; a node that does not answer is tried again for a while. Whether nothing of the fault is left."""
        for _ in range(CLEAN_TRIES):
            well, output = self.commands.run(undo)
            if well:
                return True
            self.notify(f"The fault on {self.options.node} is not undone yet: {output}")
            time.sleep(CLEAN_PAUSE_S)
        return False


def require_free(machines: Machines, node: str) -> None:
    """Require that the machine serves and runs no job. Raises DrillRefused."""
    try:
        machine = machines.by_name().get(node)
    except MachineError as error:
        message = f"the engine does not say whether {node} runs a job: {one_line(str(error), 300)}"
        raise DrillRefused(message) from error
    if machine is None:
        message = f"the engine knows no node {node!r:.80}. `prelaunch fleet list GATE_FILE` lists those that it knows."
        raise DrillRefused(message)
    if machine.jobs:
        jobs = one_line(", ".join(machine.jobs), 200)
        raise DrillRefused(
            f"{node} runs {jobs}. A drill would disturb it. Wait until it has ended, or choose another node."
        )
    if machine.service is not ServiceState.SERVING or machine.holder is not Holder.NOBODY:
        message = f"{node} is {machine.service.value} ({one_line(machine.status, 200)}). A drill runs only on a node that serves."
        raise DrillRefused(message)


def condition_after(machines: Machines, node: str) -> str:
    """What a person has to know of the node after a drill; "" if it serves as before."""
    try:
        machine = machines.by_name().get(node, Machine(node, ServiceState.GONE))
    except MachineError as error:
        return f"The engine does not say what state {node} is in now: {one_line(str(error), 200)}"
    if machine.service is ServiceState.SERVING and machine.holder is Holder.NOBODY:
        return ""
    return f"{node} is {machine.service.value} now ({one_line(machine.status, 200)})."
