"""What a message proves, as bytes: replayed, reflected, cut, lengthened or of another key it proves nothing."""

from __future__ import annotations

import dataclasses

import pytest

from checks.exchange.authentication import (
    LENGTH_BYTES,
    AuthenticationError,
    ExchangeSession,
    Op,
    greeting,
    length_of,
    nonce_of,
    open_opening,
)
from checks.exchange.secret_key import Service
from tests.exchanges import SECRET, access

KEY, NONCE, MINE = access().key, bytes(range(32)), bytes(range(32, 64))
DATA = b'{"from": "node-1"}'
SESSION = ExchangeSession(KEY, NONCE, MINE, Op.NOTES, len(DATA))


def opened(message: bytes, nonce: bytes = NONCE, key: bytes = KEY) -> ExchangeSession:
    """What the responder makes of an opening."""
    return open_opening(key, nonce, message)


def test_both_sides_come_to_one_session() -> None:
    """Of what the responder sent and what the caller answered."""
    assert (SESSION, NONCE) == (opened(SESSION.opening()), nonce_of(greeting(NONCE)))
    assert DATA == opened(SESSION.opening()).open_request(SESSION.request(DATA))
    assert DATA == SESSION.open_answer(1, opened(SESSION.opening()).answer(1, DATA)[LENGTH_BYTES:])


OTHER_REQUESTS = {
    "op": dataclasses.replace(SESSION, op=Op.PUT),
    "length": dataclasses.replace(SESSION, length=len(DATA) + 1),
    "caller's nonce": dataclasses.replace(SESSION, caller_nonce=bytes(32)),
    "responder's nonce": dataclasses.replace(SESSION, responder_nonce=bytes(32)),
}


@pytest.mark.parametrize("other", OTHER_REQUESTS.values(), ids=OTHER_REQUESTS)
def test_a_request_belongs_to_its_opening(other: ExchangeSession) -> None:
    """It does not fit behind another one."""
    with pytest.raises(AuthenticationError):
        other.open_request(SESSION.request(DATA))


def flipped(whole: bytes) -> list[bytes]:
    """The message with each of its bits changed, cut, and lengthened."""
    number, size = int.from_bytes(whole, "big"), len(whole)
    changed = [(number ^ 1 << bit).to_bytes(size, "big") for bit in range(8 * size)]
    return [*changed, whole[:-1], whole + b"x", b""]


def test_every_bit_of_an_opening_and_of_a_request_counts() -> None:
    """Nonce, op, length, data and MAC."""
    for message in flipped(SESSION.opening()):
        with pytest.raises(AuthenticationError):
            opened(message)
    for message in flipped(SESSION.request(DATA)):
        with pytest.raises(AuthenticationError):
            SESSION.open_request(message)


OTHER_OPENINGS = {
    "another connection": (bytes(32), KEY),
    "another key": (NONCE, bytes(32)),
    "another gate": (NONCE, SECRET.access(Service.CHECKS, "another-gate", "node-0").key),
    "another service": (NONCE, SECRET.access(Service.AGENT, "corpus", "node-0").key),
    "the secret itself": (NONCE, SECRET.data),
}


@pytest.mark.parametrize(("nonce", "key"), OTHER_OPENINGS.values(), ids=OTHER_OPENINGS)
def test_an_opening_is_for_one_connection_and_one_key(nonce: bytes, key: bytes) -> None:
    """That of this service of this gate; on another connection it is a replay."""
    with pytest.raises(AuthenticationError):
        opened(SESSION.opening(), nonce, key)


def test_a_message_is_taken_in_its_place_alone() -> None:
    """Whoever reflects what a node sent says nothing, and the second answer is not the first, nor the other way round."""
    first, second = (SESSION.answer(number, DATA)[LENGTH_BYTES:] for number in (0, 1))
    for number, message in ((0, SESSION.request(DATA)), (0, second), (1, first)):
        with pytest.raises(AuthenticationError):
            SESSION.open_answer(number, message)
    with pytest.raises(AuthenticationError):
        SESSION.open_request(first)


def test_half_an_answer_and_another_programs_greeting_are_none() -> None:
    """Another program listens on the port, or it ended."""
    for cut in (0, 3):
        with pytest.raises(AuthenticationError):
            length_of(SESSION.answer(0, DATA)[:cut])
    for message in (b"", greeting(NONCE)[:-1], b"HTTP/1.1 200 OK\r\n".ljust(44, b" ")):
        with pytest.raises(AuthenticationError):
            nonce_of(message)
