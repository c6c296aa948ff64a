"""Notes of many nodes, which are asked for together."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

import pytest

from checks.exchange.exchange import ExchangeError, Responder, ask_notes, put_note
from checks.roster import Member
from tests.exchanges import access

ME = access("node-1")


@pytest.mark.parametrize(
    ("written", "alike", "notes", "ends"),
    [
        (("ok", "ok"), "ok", ["ok", "ok", "ok"], True),
        (("no",), "ok", ["ok", "no", None], True),
        (("no",), None, ["ok", "no", None], False),
        (("ok",), "ok", ["ok", "ok", None], False),
    ],
    ids=["all are there", "one differs", "one differs, and nobody minds", "one is missing"],
)
def test_several_notes_are_waited_for_at_once(
    member: Member, written: Sequence[str], alike: str | None, notes: list[str | None], ends: bool
) -> None:
    """All of them, or one that differs: who waits for a thousand nodes asks once, and hears an objection at once."""
    keys = [f"a/node-{at}" for at in range(3)]
    peers = [access(f"node-{at}") for at in range(3)]
    put_note(member, peers[0], keys[0], "ok", 60)
    said: list[list[str | None]] = []
    wait_s = 600.0 if ends else 0.6
    reader = threading.Thread(target=lambda: said.append(ask_notes(member, ME, keys, wait_s, 660, alike)))
    begun = time.monotonic()
    if ends:
        reader.start()
    for at, value in enumerate(written, 1):
        put_note(member, peers[at], keys[at], value, 60)
    if not ends:
        reader.start()
    reader.join(60)

    assert said == [notes]
    assert ends or time.monotonic() - begun >= wait_s


def test_a_note_wakes_nobody_who_waits_for_more() -> None:
    """A thousand nodes that wait for each other's notes would wake up a million times."""
    responder = Responder(access("node-0"), "catalogue")
    reader = threading.Thread(target=responder.get_all, args=(["a", "b"], 10.0))
    reader.start()
    while not (waits := [*responder._waiting.get("a", ())]):
        time.sleep(0.01)
    responder.put("a", "1")
    woken = waits[0].over.is_set()
    responder.put("b", "2")
    reader.join(60)

    assert not woken and not reader.is_alive()
    assert not responder._waiting


def test_an_answer_for_other_notes_is_no_answer(member: Member, monkeypatch: pytest.MonkeyPatch) -> None:
    """A note that is not there would look like one of another node."""
    monkeypatch.setattr(Responder, "get_all", lambda *_: ["ok"])

    with pytest.raises(ExchangeError, match="has not answered for 2 notes"):
        ask_notes(member, ME, ["a/node-0", "a/node-1"], 0.1, 2)
