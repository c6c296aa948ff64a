"""Asks NCCL's RAS, the service that the processes of a job offer on the nodes where they run. Bounded in time and bytes.

RAS listens on localhost, port 28028, unless NCCL_RAS_ADDR names another address. Its protocol is lines of text (NVIDIA, NCCL user
guide, "RAS"): a greeting with a version on both sides, commands that are answered by "OK" or "ERROR: ...", and STATUS, whose answer
ends when the connection does. Only STATUS reads something: no command is sent that changes the job.

RasError        what listens there is RAS, or may be, and it gave no complete answer
  EndedError    its connection ended before the answer did, as when the job ends
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

PORT, HOST = 28028, "localhost"
GREETING, GREETED = b"CLIENT PROTOCOL 2\n", b"SERVER PROTOCOL "
# Every process of a job listens on the same port, and the kernel chooses one of them: another one may answer where one is stopped.
TRIES, GREETING_S = 3, 1.0
MOST_LINE, MOST_BYTES, CHUNK = 4096, 32 << 20, 1 << 16


class RasError(Exception):
    """What is asked gave no complete answer. The message says what it did."""


class EndedError(RasError):
    """RAS ended the connection before its answer was complete."""


class Reach(str, Enum):
    """Who is there."""

    NOBODY = "nobody"  # no job on this node offers RAS
    OTHER = "other"  # another program uses the port
    OLD = "old"  # the RAS of an NCCL that is not asked
    OFF = "off"  # the operator wants no job to be asked
    JOB = "answered"


@dataclass(frozen=True)
class RasAnswer:
    """Who is there, and what it answered: JSON."""

    reach: Reach
    text: str = ""


class _NotRas(Exception):
    """The peer does not speak the protocol."""


class _Silence(Exception):
    """The peer says nothing."""


def address_of(text: str) -> tuple[str, int]:
    """The host and port of NCCL_RAS_ADDR ("10.0.0.7:28028", "[::1]:28028"), or the usual ones. Raises RasError."""
    if not text:
        return HOST, PORT
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise RasError(f"NCCL_RAS_ADDR is {text!r:.60}, which is not HOST:PORT")
    return host.strip("[]"), int(port)


def ask(address: tuple[str, int], until: float, clock: Callable[[], float] = time.monotonic) -> RasAnswer:
    """The answer of RAS at `address`; `until` is when `clock` ends the patience. Raises RasError.

    NCCL before 2.29.2 is not asked, because asking it has ended jobs: NCCL issues 1669 and 1718 (2.26), 1762 (up to 2.28).
    """
    for _ in range(TRIES):
        try:
            with _connected(address, until, clock) as connection:
                return _ask_status(_Lines(connection, until, clock))
        except ConnectionRefusedError:
            return RasAnswer(Reach.NOBODY)
        except _NotRas:
            return RasAnswer(Reach.OTHER)
        except _Silence:
            continue
    raise RasError("what listens there accepts connections and says nothing")


def _connected(address: tuple[str, int], until: float, clock: Callable[[], float]) -> socket.socket:
    try:
        return socket.create_connection(address, _left(until, clock, GREETING_S))
    except ConnectionRefusedError:
        raise
    except TimeoutError as error:
        raise _Silence from error
    except OSError as error:
        raise RasError(f"it cannot be reached ({error.strerror or error})") from error


def _ask_status(lines: _Lines) -> RasAnswer:
    _greet(lines)
    try:
        json_known = lines.command(b"SET FORMAT json\n") == b"OK"
        # A version has no command of its own. MONITOR came with 2.29.2, and answers a group of events that does not exist by an error
        # of its own; it changes nothing.
        is_new = json_known and lines.command(b"MONITOR prelaunch\n").startswith(
            b"ERROR: Invalid event group"
        )
        return RasAnswer(Reach.JOB, lines.rest(b"STATUS\n")) if is_new else RasAnswer(Reach.OLD)
    except _NotRas as error:
        raise EndedError("RAS ended the connection before its answer") from error
    except _Silence as error:
        raise RasError("RAS did not end its answer in time") from error


def _greet(lines: _Lines) -> None:
    try:
        greeting = lines.command(GREETING, GREETING_S)
    except OSError as error:
        raise _NotRas from error
    if not greeting.startswith(GREETED) or not greeting[len(GREETED) :].strip().isdigit():
        raise _NotRas


class _Lines:
    """The lines of a connection, until a deadline."""

    def __init__(self, connection: socket.socket, until: float, clock: Callable[[], float]) -> None:
        self._made, self._until, self._clock, self._kept = connection, until, clock, b""

    def command(self, text: bytes, patience_s: float = 60.0) -> bytes:
        """Sends a command and returns the line that answers it. Raises _NotRas, _Silence."""
        until = min(self._until, self._clock() + patience_s)
        self._send(text, until)
        while b"\n" not in self._kept:
            got = self._receive(until)
            self._kept += got
            if not got or len(self._kept) > MOST_LINE:
                raise _NotRas
        line, _, self._kept = self._kept.partition(b"\n")
        return line.strip()

    def rest(self, text: bytes) -> str:
        """Sends the last command and returns what comes until the connection ends. Raises RasError, _NotRas, _Silence."""
        self._send(text, self._until)
        chunks, size = [self._kept], len(self._kept)
        while got := self._receive(self._until):
            chunks.append(got)
            size += len(got)
            if size > MOST_BYTES:
                raise RasError(f"the answer of RAS is longer than {MOST_BYTES >> 20} MiB")
        return b"".join(chunks).decode("utf-8", "replace")

    def _send(self, text: bytes, until: float) -> None:
        self._made.settimeout(_left(until, self._clock))
        try:
            self._made.sendall(text)
        except TimeoutError as error:
            raise _Silence from error
        except OSError as error:
            raise _NotRas from error

    def _receive(self, until: float) -> bytes:
        self._made.settimeout(_left(until, self._clock))
        try:
            return self._made.recv(CHUNK)
        except TimeoutError as error:
            raise _Silence from error
        except OSError as error:
            raise _NotRas from error


def _left(until: float, clock: Callable[[], float], most: float = 60.0) -> float:
    left = min(most, until - clock())
    if left <= 0:
        raise _Silence
    return left
