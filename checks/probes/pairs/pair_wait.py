"""One rank waits for one pair test: how long, for which peer, and what is reported if no answer comes.

The deadline counts from the last sign of life. A peer that is still waiting for another rank in an earlier round is alive: it writes
so in a note while it waits, so that one dead rank does not make its partners' partners look dead.
"""

from __future__ import annotations

import math
import threading
import time
from dataclasses import dataclass

from checks.culprit.test_rows import PairEnding
from checks.model_details import PairOutcome
from checks.probes.pairs.pair_test import PairTest
from checks.probes.pairs.rendezvous import NoteStore

LEFT = "left"
# Judgement: a test that makes progress may take this many times as long as a silence.
MOST_ROUNDS = 3.0


@dataclass
class WaitLimits:
    """How long a silence may last, and when everything must have ended (time.monotonic)."""

    round_s: float
    end: float
    unanswered: int = 0

    @property
    def silence_s(self) -> float:
        """The longest silence. A rank that got no answer twice in a row may be cut off itself, and must not spend all of its time
        waiting.
        """
        return self.round_s if self.unanswered < 2 else self.round_s / 4


@dataclass(frozen=True)
class PairWait:
    """How rank `me` waits. `fragile`: an exchange that hangs breaks all later ones (NCCL), so that both ranks first agree by notes
    to start.
    """

    me: int
    note_store: NoteStore
    limits: WaitLimits
    fragile: bool

    def wait(self, pair_test: PairTest, index: int) -> PairEnding | None:
        """Runs the pair test of round `index`. Returns None if it ended by itself, else why it was abandoned."""
        if self.fragile and (reason := self._call(pair_test.peer, index)):
            return reason
        threading.Thread(target=pair_test.run, name=f"pair test with {pair_test.peer}", daemon=True).start()
        begun = sign = time.monotonic()
        tick, steps, note = self.limits.silence_s / 8, 0, ""
        while not pair_test.ended.wait(tick):
            now, peer_note = time.monotonic(), self._peers_note(pair_test.peer, index)
            if pair_test.steps != steps or (_round_of(peer_note) < index and peer_note != note):
                sign, steps = now, pair_test.steps
            note = peer_note
            phase = pair_test.phase if pair_test.steps else ""
            if reason := self._given_up(pair_test.peer, phase, index, (now, begun, sign), peer_note):
                pair_test.abandoned = True
                self.say_left(index + 1)
                return reason
        return None

    def say_left(self, index: int) -> None:
        """Notes this rank's round for ranks that wait in an earlier round."""
        self.note_store.post(f"at/{self.me}", f"{index} {time.monotonic()}")

    def sign_of(self, rank: int) -> str:
        """The last note of a rank about where it is. It changes while the rank lives and waits; "" if there is none."""
        return self.note_store.read(f"at/{rank}") or ""

    def leave(self) -> None:
        """Notes for ranks that wait in any round that this one runs no more tests."""
        self.note_store.post(f"at/{self.me}", LEFT)

    def _given_up(
        self, peer: int, phase: str, index: int, times: tuple[float, float, float], peer_note: str
    ) -> PairEnding | None:
        """Why to stop waiting, or None. `phase` is the current step of the exchange, "" before its first step; `times` are now, the
        beginning of the wait, and the last sign of life (time.monotonic).
        """
        now, begun, sign = times
        # If the last message of the peer is still on its way, the peer may have left already.
        if not phase and peer_note == LEFT:
            return left(peer)
        if not phase and _round_of(peer_note) > index:
            waited = now - begun > self.limits.silence_s / 4
            if waited:
                return PairEnding(PairOutcome.NO_ANSWER, f"no answer until rank {peer} gave up waiting")
            return not_run(f"rank {peer} gave up waiting")
        if now > self.limits.end:
            return not_run("the check's time was used up")
        silence, most = self.limits.silence_s, MOST_ROUNDS * self.limits.round_s
        # The peer may be waiting for another rank, or for the store.
        if self.note_store.is_slow_to_answer and not phase:
            silence *= 2
        if now - sign > silence:
            text = f"no answer within {silence:g} s" + (f" in {phase}" if phase else "")
            return PairEnding(PairOutcome.NO_ANSWER, text)
        if phase and now - begun > most:
            return PairEnding(
                PairOutcome.FAILED, f"the exchange did not end within {most:g} s; it stopped at {phase}"
            )
        return None

    def _peers_note(self, peer: int, index: int) -> str:
        """The peer's last note about where it is. This rank also writes that it waits. A store that hangs delays no rank."""
        self.note_store.post(f"at/{self.me}", f"{index} {time.monotonic()}")
        return self.note_store.last_seen(f"at/{peer}")

    def _call(self, peer: int, index: int) -> PairEnding | None:
        """Both ranks write a note that they are ready, before either begins an exchange that cannot be undone."""
        self.note_store.post(f"here/{index}/{self.me}", "1")
        sign, note = time.monotonic(), ""
        while self.note_store.await_note(f"here/{index}/{peer}", self.limits.silence_s / 8) is None:
            now, peer_note = time.monotonic(), self._peers_note(peer, index)
            if self.note_store.lost:
                return not_run(f"the ranks cannot agree on a start ({self.note_store.lost})")
            sign = now if _round_of(peer_note) < index and peer_note != note else sign
            note = peer_note
            if reason := self._given_up(peer, "", index, (now, sign, sign), peer_note):
                self.say_left(index + 1)
                return reason
        return None


def not_run(reason: str) -> PairEnding:
    """The ending of a test that did not begin, and says nothing about the pair."""
    return PairEnding(PairOutcome.NOT_RUN, f"not run: {reason}")


def unsure(peer: int) -> PairEnding:
    """The ending of a test with a peer that did not come, if the ranks could not agree on the number of rounds."""
    return not_run(f"the store is lost, so it is unknown whether rank {peer} ended before this round")


def left(peer: int) -> PairEnding:
    """The ending of a test with a peer that has stopped its pair tests."""
    return PairEnding(PairOutcome.PEER_LEFT, f"not run: rank {peer} had stopped its pair tests")


def broken(error: str) -> PairEnding:
    """The ending of a test that failed, from torch's error text."""
    if "closed" in error or "reset" in error.lower() or "Broken pipe" in error:
        return PairEnding(PairOutcome.CLOSED, "connection closed")
    return PairEnding(PairOutcome.FAILED, f"failed: {' '.join(error.split())[:160]}")


def _round_of(note: str) -> float:
    """The round in a note; NaN, which is neither earlier nor later than any, if there is none."""
    head = note.partition(" ")[0]
    return int(head) if head.isdigit() else math.nan
