"""Runs short commands on a node: here, through ssh, or behind a prefix that the operator gives.

A command is started in a session of its own, so that Ctrl-C in the terminal does not end what undoes a fault, and gets only the
variables that ssh, srun and ip need.
"""

from __future__ import annotations

import os
import shlex
import signal
import socket
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from tasks.drills.model import Argv, NodeUnreachable
from tasks.text.inert import one_line

SSH = "ssh"
# BatchMode: nobody is there to type a password. The rest ends a connection to a node that is gone.
SSH_OPTIONS = ("-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-o", "ServerAliveInterval=5", "-T")
END_S = 2.0
PASSED = (
    "PATH", "LD_LIBRARY_PATH", "HOME", "USER", "LOGNAME", "SSH_AUTH_SOCK", "KRB5CCNAME", "XDG_RUNTIME_DIR", "SLURM_CONF",
    "SLURM_CONF_SERVER", "TZ", "LANG",
)  # fmt: skip
SBIN = ("/usr/local/sbin", "/usr/sbin", "/sbin")


@dataclass(frozen=True)
class Ran:
    """How a command on the node ended, and the first 64 KiB that it printed."""

    code: int
    out: str
    err: str

    @property
    def said(self) -> str:
        """The end of what it said, in one line."""
        return one_line((self.err.strip() or self.out.strip() or f"exit code {self.code}")[-600:], 300)


@dataclass(frozen=True)
class NodeCommands:
    """`prefix` stands before every command. With `through_shell` the node's shell reads the command as one quoted line (ssh)."""

    prefix: Argv = ()
    through_shell: bool = False

    def argv(self, words: Argv) -> Argv:
        """What is started here for a command on the node. Pure."""
        return (*self.prefix, shlex.join(words)) if self.through_shell else (*self.prefix, *words)

    def typed(self, words: Argv) -> str:
        """The same as a person would type it. Pure."""
        return shlex.join(self.argv(words))

    def run(self, words: Argv, timeout_s: float) -> Ran:
        """Run a command on the node to its end. Raises NodeUnreachable."""
        argv = self.argv(words)
        try:
            child = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                start_new_session=True, env=environment_of(os.environ),
            )  # fmt: skip
        except OSError as error:
            raise NodeUnreachable(f"{argv[0]} cannot be started: {error.strerror or error}.") from error
        try:
            out, err = child.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired as error:
            raise NodeUnreachable(f"{argv[0]} did not end within {timeout_s:g} s.") from error
        finally:
            _end(child)
        return Ran(child.returncode, _text(out), _text(err))


def commands_for(node: str, through: str, here: bool) -> NodeCommands:
    """How to reach a node: behind `through`, else as a process of this machine if it is the node, else by ssh. Pure.

    Raises ValueError for a prefix whose quotes do not match.
    """
    prefix = tuple(shlex.split(through))
    if prefix:
        return NodeCommands(prefix, through_shell=os.path.basename(prefix[0]) == SSH)
    return NodeCommands() if here else NodeCommands((SSH, *SSH_OPTIONS, "--", node), through_shell=True)


def is_this_machine(node: str) -> bool:
    """Whether a node has this machine's name, with its domain or without."""
    own = socket.gethostname()
    return node in (own, own.partition(".")[0])


def environment_of(own: Mapping[str, str]) -> dict[str, str]:
    """The variables for commands on a node."""
    kept = {name: own[name] for name in PASSED if name in own}
    return {**kept, "PATH": os.pathsep.join((kept.get("PATH", os.defpath), *SBIN))}


def _end(child: subprocess.Popen[bytes]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):  # srun takes its job along if it is asked
        if child.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, number)
            with suppress(subprocess.TimeoutExpired):
                child.wait(END_S)
    for stream in (child.stdout, child.stderr):
        if stream:
            stream.close()


def _text(data: bytes) -> str:
    return data[:65536].decode(errors="replace")
