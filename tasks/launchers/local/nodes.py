"""A local job's nodes: their environment variables, the roster they share, their processes and their logs."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import IO

from checks.process import machine_state
from checks.process.environment import CODE, for_checks
from checks.process.free_ports import free_ports
from checks.process.tree import die_with_parent
from checks.process.whole_file import write_whole
from checks.roster import Member, Roster
from tasks.launchers.base import Request
from tasks.launchers.local.job_folder import LOG, JobFolder, Submission

# All nodes are on one machine: the checks' ranks must not each take all of its cores.
CHECK_DEFAULTS = {"OMP_NUM_THREADS": "1"}
WITHHELD = "PRELAUNCH_WITHHELD"  # JSON: the values that job.json must not hold
FOREIGN = ("PRELAUNCH_", "PREFECT_", "MASTER_", "TORCHELASTIC_", "ROLE_")
FOREIGN_NAMES = (
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "GROUP_RANK",
    "GROUP_WORLD_SIZE",
    "NODE_RANK",
)
TAIL_BYTES = 64 << 10
NOT_STARTED = 127


def cleaned(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment without variables that belong to another job, another gate or the flow's server.

    Where the machine keeps its state belongs to none of these: a gate that looked elsewhere would miss what is open there.
    """
    return {
        name: value
        for name, value in environment.items()
        if name == machine_state.VARIABLE or not (name.startswith(FOREIGN) or name in FOREIGN_NAMES)
    }


def node_environment(
    own: Mapping[str, str], node: Request, withheld: Mapping[str, str], attempt: str
) -> dict[str, str]:
    """The submitter's environment, then the job's, then what names the node and this attempt, and what its checks need."""
    job = {**node.environment, **withheld, "PRELAUNCH_ATTEMPT": attempt}
    code = job.pop(CODE, "")
    engine = {**cleaned(own), **job}
    paths = [path for path in (job.get("PYTHONPATH"), own.get("PYTHONPATH")) if path]
    if paths:
        engine["PYTHONPATH"] = ":".join(dict.fromkeys(paths))
    return for_checks(engine, code, CHECK_DEFAULTS) if code else engine


def write_roster(folder: JobFolder, submission: Submission, addresses: Sequence[str]) -> None:
    """roster.json, and the hosts file of the namespaces. Raises OSError."""
    names = [node.node for node in submission.nodes]
    ports = free_ports(len(names) + 1, "" if submission.network else addresses[0])
    members = tuple(map(Member, names, addresses, ports))
    roster = Roster(members, ports[-1], "eth0" if submission.network else "lo")
    write_whole(folder.roster, json.dumps(asdict(roster), indent=1).encode())
    if submission.network:
        write_whole(folder.hosts, hosts_text(addresses, names).encode())


def hosts_text(addresses: Sequence[str], names: Sequence[str]) -> str:
    """The /etc/hosts of nodes without a name server.

    torch looks up whoever connects as ::ffff:ADDRESS (c10d, socket.cpp) and warns each time that nothing answers. The name in that
    form is another one, because a node's own name must lead to its IPv4 address alone.
    """
    hosts = list(zip(addresses, names, strict=True))
    lines = [f"{address} {name}" for address, name in hosts]
    mapped = [f"::ffff:{address} {name}.mapped" for address, name in hosts]
    return "\n".join(["127.0.0.1 localhost", *lines, *mapped, ""])


class RunningNode:
    """One node's command, started now, in a session of its own; it ends with the thread that made it.

    Where it cannot be started, `pid` is None and the log says why.
    """

    def __init__(self, node: Request, environment: Mapping[str, str], log_bytes: int) -> None:
        self.name = node.node
        self.pid: int | None = None
        self.exit_code: int | None = None
        self.log = CappedLog(Path(node.working_directory) / LOG, log_bytes)
        try:
            self._process = subprocess.Popen(
                node.argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                cwd=node.working_directory,
                env=dict(environment),
                start_new_session=True,
                # Safe here: the shepherd has one thread until every node is started.
                preexec_fn=partial(die_with_parent, os.getpid()),
            )
        except (OSError, subprocess.SubprocessError) as error:
            self.exit_code = NOT_STARTED
            self.log.add(f"{node.argv[0]} could not be started: {error}\n".encode())
        else:
            self.pid = self._process.pid

    def pump(self) -> None:
        """Begin to copy its output to its log, in a thread."""
        if self.pid is not None and self._process.stdout is not None:
            self.log.follow(self._process.stdout)

    def ended(self, code: int) -> None:
        """Record the exit code that was collected."""
        self.exit_code = self._process.returncode = code


class CappedLog:
    """A file that keeps the first `cap` bytes and the last 64 KiB, and says what it dropped.

    It never blocks the node: on a full disk, output is dropped as well and the pipe is read on.
    """

    def __init__(self, path: Path, cap: int) -> None:
        self._file = open(path, "ab", buffering=0)  # noqa: SIM115  # close() ends it
        self._room, self._cap = cap, cap
        self._dropped = 0
        self._tail = bytearray()
        self._thread: threading.Thread | None = None

    def follow(self, pipe: IO[bytes]) -> None:
        """Copy the pipe to the end, in a thread."""
        self._thread = threading.Thread(target=self._drain, args=(pipe,), daemon=True)
        self._thread.start()

    def add(self, data: bytes) -> None:
        """Keep as much of the data as there is room for."""
        stored = data[: self._room]
        try:
            stored = stored[: self._file.write(stored) or 0] if stored else b""
        except OSError:
            stored = b""
        self._room -= len(stored)
        if rest := data[len(stored) :]:
            if not self._dropped:
                self._say(f"\n[prelaunch: the log is cut here, at {self._cap - self._room} bytes]\n")
            self._dropped += len(rest)
            self._tail = (self._tail + rest)[-TAIL_BYTES:]

    def close(self, wait_s: float) -> None:
        """Wait for the end of the output, then say what was dropped."""
        if self._thread is not None:
            self._thread.join(wait_s)
        if self._dropped:
            tail = bytes(self._tail)
            self._say(
                f"[prelaunch: {self._dropped} bytes were dropped; the last {len(tail)} of them follow]\n",
                tail,
            )
        if self._thread is None or not self._thread.is_alive():
            self._file.close()

    def _drain(self, pipe: IO[bytes]) -> None:
        with pipe:
            while data := os.read(pipe.fileno(), 1 << 16):
                self.add(data)

    def _say(self, text: str, data: bytes = b"") -> None:
        try:
            self._file.write(text.encode() + data)
        except OSError:
            return  # a full disk: the cut is then seen by the log's sudden end
