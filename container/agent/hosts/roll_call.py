"""The roll call: all hosts of one start agree on one attempt token, which a container that starts again never gets.

Every start of a container makes a number of its own. Hosts leave theirs, with their address, on the first host; when all
have come, or the time is over, the first host closes the roll. The token is the digest of the roll, so
that it identifies exactly these starts of these containers. A host that is not on the closed roll has no part in the
attempt. A host that cannot reach the first one continues under a token of its own: its report then says what it
cannot reach, and no reader takes it for a part of another attempt.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from checks.documents.decode import decode, parse_json
from checks.documents.report import digest, dump_plain
from checks.exchange.exchange import ExchangeError, Put, Responder, ask_notes, put_note
from checks.exchange.secret_key import Access
from checks.roster import Member
from checks.value_types import DecodeError
from container.agent.supervisor import Signals

ROLL_BYTES = 1 << 20
TOKEN_CHARACTERS = 32
ASK_S = 3.0
RETRY_S = 0.3
JOIN, MEMBERS = "join/", "roll"


class NotInAttempt(Exception):
    """The attempt began without this start of this host. The message says so."""


@dataclass(frozen=True)
class ContainerStart:
    """One start of one host's container: its number and the address that its peers use."""

    number: str
    address: str


@dataclass(frozen=True)
class AttemptMembers:
    """The hosts of the attempt. `alone` says why this host could not answer the roll call, "" if it did."""

    members: Mapping[str, ContainerStart]
    reason: str = ""

    @property
    def token(self) -> str:
        """The attempt's token."""
        return digest(dump_plain(dict(self.members)))[:TOKEN_CHARACTERS]


class RollCallResponder(Responder):
    """The agent's own responder. On the first host it keeps the roll; nobody can join a closed roll."""

    def put(self, key: str, value: str) -> Put:
        """Leave a note; nobody can join a closed roll."""
        return Put.CLOSED if key.startswith(JOIN) and MEMBERS in self.notes else super().put(key, value)

    def replaceable(self, key: str) -> bool:
        """Whether a note may be replaced: a host that starts again before the roll is closed replaces its own."""
        return key.startswith(JOIN)

    def close_roll(self, names: tuple[str, ...]) -> AttemptMembers:
        """Close the roll with the hosts that came, in the order of `names`, for everybody to read."""
        with self.lock:
            starts = {name: read_start(self.notes.get(JOIN + name, "")) for name in names}
            closed = AttemptMembers({name: start for name, start in starts.items() if start is not None})
            self.write(MEMBERS, dump_plain(dict(closed.members)).decode())
        return closed


def keep(
    responder: RollCallResponder,
    names: tuple[str, ...],
    own: tuple[str, ContainerStart],
    join_s: float,
    signals: Signals,
) -> AttemptMembers:
    """The first host: wait for everybody, then close the roll."""
    responder.put(JOIN + own[0], dump_start(own[1]))
    until = time.monotonic() + join_s
    while not signals.number and time.monotonic() < until:
        if all(JOIN + name in responder.notes for name in names):
            break
        signals.pause(0.1)
    return responder.close_roll(names)


def answer(
    first: Callable[[], Member | None],
    access: Access,
    own: tuple[str, ContainerStart],
    join_s: float,
    signals: Signals,
) -> AttemptMembers:
    """Any other host: join, and read the closed roll. Raises NotInAttempt.

    `first` is asked for the first host each time: its name may resolve only later.
    """
    name, start = own
    until, reason = time.monotonic() + join_s, "its name does not resolve"
    while not signals.number and time.monotonic() < until:
        member = first()
        if member is not None:
            try:
                put_note(member, access, JOIN + name, dump_start(start), ASK_S)
                (text,) = ask_notes(member, access, [MEMBERS], ASK_S, 2 * ASK_S)
            except ExchangeError as error:
                reason = str(error)
            else:
                reason = "it did not close the roll in time"
                if text is not None:
                    return _require_member(read_roll(text), name, start)
        signals.pause(RETRY_S)
    return AttemptMembers({name: start}, f"the first host did not answer the roll call: {reason}")


def read_roll(text: str) -> AttemptMembers:
    """The roll that the first host closed. Raises NotInAttempt for what is none."""
    try:
        value = parse_json(text, ROLL_BYTES)
        members = value if isinstance(value, dict) else {}
        return AttemptMembers({str(name): decode(ContainerStart, start) for name, start in members.items()})
    except DecodeError as error:
        raise NotInAttempt(f"the first host's roll cannot be read: {error}") from error


def dump_start(start: ContainerStart) -> str:
    """The host's start as one line of text."""
    return dump_plain(start).decode()


def read_start(text: str) -> ContainerStart | None:
    """The host's start that a note describes, None if it describes none."""
    try:
        return decode(ContainerStart, json.loads(text))
    except (ValueError, DecodeError):
        return None


def _require_member(joined: AttemptMembers, name: str, start: ContainerStart) -> AttemptMembers:
    if joined.members.get(name) == start:
        return joined
    began = "with an earlier start of" if name in joined.members else "without"
    message = f"attempt {joined.token} began {began} this host. Start all hosts of the job again, together."
    raise NotInAttempt(message)
