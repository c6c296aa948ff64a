"""What a message proves, as bytes: replayed, reflected, cut, lengthened or of another key it proves nothing."""

from __future__ import annotations

import dataclasses

import pytest

from checks.exchange.authentication import (
    LENGTH_BYTES,
    OPENING_BYTES,
    AuthenticationError,
    Op,
    Session,
    greeting,
    length_of,
    nonce_of,
    open_opening,
)
from checks.exchange.secret_key import Service
from tests.exchanges import SECRET, access

KEY, NONCE, MINE = access().key, bytes(range(32)), bytes(range(32, 64))
DATA = b'{"from": "node-1"}'
SESSION = Session(KEY, NONCE, MINE, Op.NOTES, len(DATA))


def opened(message: bytes, nonce: bytes = NONCE, key: bytes = KEY) -> Session:
    """What the responder makes of an opening."""
    return open_opening(key, nonce, message)


def test_both_sides_come_to_one_session() -> None:
    """Of what the responder sent and what the caller answered."""
    assert (SESSION, NONCE) == (opened(SESSION.opening()), nonce_of(greeting(NONCE)))
    assert DATA == opened(SESSION.opening()).open_request(SESSION.request(DATA))
    assert DATA == SESSION.open_answer(1, opened(SESSION.opening()).answer(1, DATA)[LENGTH_BYTES:])


def test_every_bit_of_an_opening_counts() -> None:
    """Nonce, op, length and MAC."""
    whole = SESSION.opening()
    for position in range(8 * OPENING_BYTES):
        changed = bytearray(whole)
        changed[position // 8] ^= 1 << position % 8
        with pytest.raises(AuthenticationError):
            opened(bytes(changed))


@pytest.mark.parametrize("message", [b"", SESSION.opening()[:-1], SESSION.opening() + b"x"])
def test_an_opening_has_one_length(message: bytes) -> None:
    """Cut or lengthened."""
    with pytest.raises(AuthenticationError):
        opened(message)


def test_an_opening_of_another_connection_is_a_replay() -> None:
    """Another nonce of the responder."""
    with pytest.raises(AuthenticationError):
        opened(SESSION.opening(), nonce=bytes(32))


@pytest.mark.parametrize(
    "key",
    [
        bytes(32),
        SECRET.access(Service.CHECKS, "another-gate", "node-0").key,
        SECRET.access(Service.AGENT, "corpus", "node-0").key,
        SECRET.data,
    ],
    ids=["another key", "another gate", "another service", "the secret itself"],
)
def test_only_one_key_opens(key: bytes) -> None:
    """That of this service of this gate."""
    with pytest.raises(AuthenticationError):
        opened(SESSION.opening(), key=key)


def test_every_byte_of_a_request_counts() -> None:
    """And its length."""
    whole = SESSION.request(DATA)
    for position in range(len(whole)):
        changed = bytearray(whole)
        changed[position] ^= 1
        with pytest.raises(AuthenticationError):
            SESSION.open_request(bytes(changed))
    for wrong in (whole[:-1], whole + b"x", b""):
        with pytest.raises(AuthenticationError):
            SESSION.open_request(wrong)


@pytest.mark.parametrize(
    "other",
    [
        dataclasses.replace(SESSION, op=Op.PUT),
        dataclasses.replace(SESSION, length=len(DATA) + 1),
        dataclasses.replace(SESSION, caller_nonce=bytes(32)),
        dataclasses.replace(SESSION, responder_nonce=bytes(32)),
    ],
    ids=["op", "length", "caller's nonce", "responder's nonce"],
)
def test_a_request_belongs_to_its_opening(other: Session) -> None:
    """It does not fit behind another one."""
    with pytest.raises(AuthenticationError):
        other.open_request(SESSION.request(DATA))


def test_a_message_does_not_come_back_as_its_own_answer() -> None:
    """Whoever reflects what a node sent says nothing."""
    with pytest.raises(AuthenticationError):
        SESSION.open_answer(0, SESSION.request(DATA))
    with pytest.raises(AuthenticationError):
        SESSION.open_request(SESSION.answer(0, DATA)[LENGTH_BYTES:])


def test_answers_keep_their_order() -> None:
    """The second is not the first, nor the other way round."""
    first, second = (SESSION.answer(number, DATA)[LENGTH_BYTES:] for number in (0, 1))
    for number, message in ((0, second), (1, first)):
        with pytest.raises(AuthenticationError):
            SESSION.open_answer(number, message)


@pytest.mark.parametrize("cut", [0, 3])
def test_a_length_that_is_cut_is_none(cut: int) -> None:
    """Half an answer is no answer."""
    with pytest.raises(AuthenticationError):
        length_of(SESSION.answer(0, DATA)[:cut])


@pytest.mark.parametrize("message", [b"", greeting(NONCE)[:-1], b"HTTP/1.1 200 OK\r\n".ljust(44, b" ")])
def test_a_greeting_of_something_else_is_none(message: bytes) -> None:
    """Another program listens on the port."""
    with pytest.raises(AuthenticationError):
        nonce_of(message)
