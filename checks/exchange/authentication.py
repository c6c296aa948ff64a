"""The messages between two nodes, as bytes. Each proves that the sender has the gate's key, and that nothing was replayed or
changed. Pure.

    responder -> caller   MARK, its nonce
    caller -> responder   its nonce, op, length of the request, MAC              (the opening, of fixed length)
                          the request, MAC
    responder -> caller   length, the answer, MAC                                (one or more)

A MAC is HMAC-SHA256 (RFC 2104) over direction, number, op, length, both nonces and the bytes. The responder's nonce is new for each
connection, so that a message of another connection is never accepted; direction and number distinguish the messages of one
connection. The opening is verified before a byte of the request is read.

AuthenticationError      the message is not signed with this gate's key
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from dataclasses import dataclass, field
from enum import Enum, IntEnum

MARK = b"prelaunch-1\n"
NONCE_BYTES = MAC_BYTES = 32
GREETING_BYTES = len(MARK) + NONCE_BYTES
_OPENING = struct.Struct(f">{NONCE_BYTES}sBI")
_COVERED = struct.Struct(f">8sIBI{NONCE_BYTES}s{NONCE_BYTES}s")
_LENGTH = struct.Struct(">I")
LENGTH_BYTES = _LENGTH.size
OPENING_BYTES = _OPENING.size + MAC_BYTES


class AuthenticationError(Exception):
    """A message that does not prove the key, or is none."""


class Op(IntEnum):
    """The operation that a caller asks for."""

    HELLO = 1
    PING = 2
    SINK = 3
    PUT = 4
    NOTES = 5


class MessageKind(Enum):
    """Which message of a connection this is."""

    OPENING = b"opening"
    REQUEST = b"request"
    ANSWER = b"answer"


@dataclass(frozen=True)
class ExchangeSession:
    """One connection, as both sides know it after the opening. `length` is the request's."""

    key: bytes = field(repr=False)
    responder_nonce: bytes
    caller_nonce: bytes
    op: Op
    length: int

    def opening(self) -> bytes:
        """The first message of the caller."""
        head = _OPENING.pack(self.caller_nonce, self.op, self.length)
        return head + self._mac(MessageKind.OPENING, 0, self.length, b"")

    def request(self, data: bytes) -> bytes:
        """The second message of the caller: `length` bytes and their MAC."""
        return data + self._mac(MessageKind.REQUEST, 0, self.length, data)

    def open_request(self, message: bytes) -> bytes:
        """The request in the caller's `length` bytes and MAC. Raises AuthenticationError."""
        return self._proven(MessageKind.REQUEST, 0, self.length, message)

    def answer(self, number: int, data: bytes) -> bytes:
        """The responder's answer `number`, counted from 0."""
        return _LENGTH.pack(len(data)) + data + self._mac(MessageKind.ANSWER, number, len(data), data)

    def open_answer(self, number: int, message: bytes) -> bytes:
        """The answer in the bytes that follow its length. Raises AuthenticationError."""
        return self._proven(MessageKind.ANSWER, number, len(message) - MAC_BYTES, message)

    def _proven(self, direction: MessageKind, number: int, length: int, message: bytes) -> bytes:
        data, mac = message[:length], message[length:]
        if len(data) != length or not hmac.compare_digest(mac, self._mac(direction, number, length, data)):
            raise AuthenticationError("the message is not signed with this gate's key")
        return data

    def _mac(self, direction: MessageKind, number: int, length: int, data: bytes) -> bytes:
        covered = _COVERED.pack(
            direction.value, number, self.op, length, self.responder_nonce, self.caller_nonce
        )
        code = hmac.new(self.key, covered, hashlib.sha256)
        code.update(data)
        return code.digest()


def greeting(nonce: bytes) -> bytes:
    """The first message of the responder."""
    return MARK + nonce


def nonce_of(message: bytes) -> bytes:
    """The nonce in a responder's greeting. Raises AuthenticationError for what is none."""
    if len(message) != GREETING_BYTES or not message.startswith(MARK):
        raise AuthenticationError("the greeting is not one of this version")
    return message[len(MARK) :]


def open_opening(key: bytes, nonce: bytes, message: bytes) -> ExchangeSession:
    """The session that a caller opens on the connection which got this nonce. Raises AuthenticationError."""
    if len(message) != OPENING_BYTES:
        raise AuthenticationError("the opening message is truncated")
    caller_nonce, op, length = _OPENING.unpack_from(message)
    if op not in Op.__members__.values():
        raise AuthenticationError("the opening message has an unknown operation")
    session = ExchangeSession(key, nonce, caller_nonce, Op(op), length)
    if not hmac.compare_digest(message, session.opening()):
        raise AuthenticationError("the opening message is not signed with this gate's key")
    return session


def length_of(data: bytes) -> int:
    """The length in front of an answer. Raises AuthenticationError where it is cut."""
    if len(data) != LENGTH_BYTES:
        raise AuthenticationError("the answer is truncated")
    count: int = _LENGTH.unpack(data)[0]
    return count
