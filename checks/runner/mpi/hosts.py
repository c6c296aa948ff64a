"""What each host of an mpirun knows: which host it is, and whether it was told to stop.

An error is an MpiError: a tool or a host is missing, and nothing was started. Its message has the remedy.
"""

from __future__ import annotations

import secrets
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from checks.documents.decode import decode, parse_json
from checks.exchange import secret_key
from checks.exchange.secret_key import Access
from checks.roster import Member, Roster
from checks.value_types import DecodeError

RETRY_S = 0.3


class MpiError(Exception):
    """The ranks cannot be started."""


@dataclass(frozen=True)
class Place:
    """This host among all hosts of the mpirun, and the key that keeps other machines out."""

    roster: Roster
    rank: int
    ranks_per_node: int
    access: Access

    @property
    def me(self) -> Member:
        """This host. Its probe port is free again, because the gate has ended."""
        return self.roster.members[self.rank]

    @property
    def first(self) -> Member:
        """The host on which mpirun runs."""
        return self.roster.members[0]

    @property
    def workers(self) -> tuple[Member, ...]:
        """All other hosts."""
        return self.roster.members[1:]


class Stop:
    """Notes SIGTERM and SIGINT, and forwards them to the child, which ends the ranks."""

    def __init__(self) -> None:
        self.at = 0.0
        self.child: subprocess.Popen[bytes] | None = None
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._note)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.at = self.at or time.monotonic()
        if self.child is not None and self.child.poll() is None:
            self.child.send_signal(number)


def place_of(
    environment: Mapping[str, str], nodes: int, node_rank: int, ranks_per_node: int, key_fd: int | None
) -> Place:
    """This host, from the roster in its environment. The key is read from `key_fd`, which is then closed. Raises MpiError."""
    path = environment.get("PRELAUNCH_ROSTER", "")
    try:
        roster = decode(Roster, parse_json(Path(path).read_bytes(), 1 << 24))
    except (OSError, DecodeError) as error:
        raise MpiError(f"PRELAUNCH_ROSTER {path!r} cannot be read: {error}. The launcher sets it.") from error
    if len(roster.members) != nodes or not 0 <= node_rank < nodes:
        raise MpiError(
            f"node rank {node_rank} of {nodes} nodes does not match the roster, which has {len(roster.members)} nodes."
        )
    attempt = environment.get("PRELAUNCH_ATTEMPT", "")
    key = secret_key.derived(_key(key_fd, nodes), attempt)  # the key of another start of the job is of no use
    return Place(roster, node_rank, ranks_per_node, Access(key, roster.members[node_rank].name))


def _key(descriptor: int | None, nodes: int) -> bytes:
    if descriptor is None and nodes == 1:
        return secrets.token_bytes(secret_key.SECRET_BYTES)
    try:
        with open(-1 if descriptor is None else descriptor, "rb") as file:
            key = file.read(secret_key.SECRET_BYTES)
    except (OSError, ValueError):
        key = b""
    if len(key) != secret_key.SECRET_BYTES:
        raise MpiError(
            "--key-fd is not a descriptor with the key of these hosts. Start this command through `python -m checks gate`, "
            "which opens it for {key_fd}."
        )
    return key


def find_program(name: str) -> None:
    """Raises MpiError for a program of Open MPI that is not in the image."""
    if shutil.which(name) is None:
        raise MpiError(f'this image has no {name}. Add Open MPI, or use distributed = "torchrun".')
