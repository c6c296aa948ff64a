"""One rank waits for one duel: how long, for whom, and what is said if nothing comes.

The deadline counts from the last sign of life. A peer that is still held up by somebody else in an earlier round lives:
it says so on the board while it waits, so that one dead rank does not make its partners' partners look dead.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

from checks.culprit.test_rows import Ending
from checks.model import PairOutcome
from checks.probes.pairs.pair_test import PairTest
from checks.probes.pairs.rendezvous import Board

LEFT = "left"
# Judgement: a test that moves on all the time may last so many times as long as a silence.
MOST_ROUNDS = 3.0


@dataclass
class Patience:
    """How long a silence may be, and when everything must have ended (time.monotonic)."""

    round_s: float
    end: float
    unanswered: int = 0

    @property
    def silence_s(self) -> float:
        """A rank whom nobody answered twice running may itself be cut off: it must not spend the whole time on it."""
        return self.round_s if self.unanswered < 2 else self.round_s / 4


@dataclass(frozen=True)
class Times:
    """Now, when the meeting began, and the last sign of life (time.monotonic)."""

    now: float
    begun: float
    sign: float


@dataclass(frozen=True)
class PairWait:
    """How rank `me` waits. `fragile`: an exchange that hangs breaks all later ones (NCCL), so ask on the board first."""

    me: int
    board: Board
    patience: Patience
    fragile: bool

    def wait(self, duel: PairTest, index: int) -> Ending | None:
        """Run the duel of round `index`: None once it ended by itself, else why it was left behind."""
        if self.fragile and (why := self._call(duel.peer, index)):
            return why
        threading.Thread(target=duel.run, name=f"duel with {duel.peer}", daemon=True).start()
        begun = sign = time.monotonic()
        tick, steps, note = self.patience.silence_s / 8, 0, ""
        while not duel.ended.wait(tick):
            now, seen = time.monotonic(), self._peers_note(duel.peer, index)
            if duel.steps != steps or (_earlier(seen, index) and seen != note):
                sign, steps = now, duel.steps
            note = seen
            phase = duel.phase if duel.steps else ""
            if why := self._given_up(duel.peer, phase, index, Times(now, begun, sign), seen):
                duel.abandoned = True
                self.say_left(index + 1)
                return why
        return None

    def say_left(self, index: int) -> None:
        """For whoever waits in an earlier round."""
        self.board.post(f"at/{self.me}", f"{index} {time.monotonic()}")

    def sign_of(self, rank: int) -> str:
        """What a rank said last of where it is: another text the next time, if it lives and waits; "" for nothing."""
        return self.board.read(f"at/{rank}") or ""

    def leave(self) -> None:
        """For whoever waits in any round: nothing more will come."""
        self.board.post(f"at/{self.me}", LEFT)

    def _given_up(self, peer: int, phase: str, index: int, times: Times, seen: str) -> Ending | None:
        """Why to wait no longer, or None. `phase` is where the exchange stands, "" before its first step."""
        if not phase and seen == LEFT:  # a peer whose last message is still on its way may have left already
            return left(peer)
        if not phase and _later(seen, index):
            waited = times.now - times.begun > self.patience.silence_s / 4
            if waited:
                return Ending(PairOutcome.NO_ANSWER, f"no answer until rank {peer} gave up waiting")
            return not_run(f"rank {peer} gave up waiting")
        if times.now > self.patience.end:
            return not_run("the check's time was used up")
        silence, most = self.patience.silence_s, MOST_ROUNDS * self.patience.round_s
        if self.board.mute and not phase:  # the peer may be held up by somebody else, or by the store
            silence *= 2
        if times.now - times.sign > silence:
            said = f"no answer within {silence:g} s" + (f" in {phase}" if phase else "")
            return Ending(PairOutcome.NO_ANSWER, said)
        if phase and times.now - times.begun > most:
            return Ending(
                PairOutcome.FAILED, f"the exchange did not end within {most:g} s; it stopped at {phase}"
            )
        return None

    def _peers_note(self, peer: int, index: int) -> str:
        """What the peer said last of where it is; and this rank says that it waits. A store that hangs holds up nobody."""
        self.board.post(f"at/{self.me}", f"{index} {time.monotonic()}")
        return self.board.glance(f"at/{peer}")

    def _call(self, peer: int, index: int) -> Ending | None:
        """Both say on the board that they are there, before either begins what cannot be taken back."""
        self.board.post(f"here/{index}/{self.me}", "1")
        sign, note = time.monotonic(), ""
        while self.board.await_note(f"here/{index}/{peer}", self.patience.silence_s / 8) is None:
            now, seen = time.monotonic(), self._peers_note(peer, index)
            if self.board.lost:
                return not_run(f"the ranks cannot agree on a start ({self.board.lost})")
            sign = now if _earlier(seen, index) and seen != note else sign
            note = seen
            if why := self._given_up(peer, "", index, Times(now, sign, sign), seen):
                self.say_left(index + 1)
                return why
        return None


def not_run(why: str) -> Ending:
    """The ending of a test that did not begin, and says nothing of the pair."""
    return Ending(PairOutcome.NOT_RUN, f"not run: {why}")


def unsure(peer: int) -> Ending:
    """The ending of a test with a peer that did not come, where the ranks could not agree on the number of rounds."""
    return not_run(f"the store is lost, so it is unknown whether rank {peer} ended before this round")


def left(peer: int) -> Ending:
    """The ending of a test with a peer that said that it takes no part any more."""
    return Ending(PairOutcome.PEER_LEFT, f"not run: rank {peer} had stopped its pair tests")


def broken(error: str) -> Ending:
    """The ending of a test that broke off, from what torch says."""
    if "closed" in error or "reset" in error.lower() or "Broken pipe" in error:
        return Ending(PairOutcome.CLOSED, "connection closed")
    return Ending(PairOutcome.FAILED, f"failed: {' '.join(error.split())[:160]}")


def _round_of(note: str) -> int | None:
    head = note.partition(" ")[0]
    return int(head) if head.isdigit() else None


def _earlier(note: str, index: int) -> bool:
    at = _round_of(note)
    return at is not None and at < index


def _later(note: str, index: int) -> bool:
    at = _round_of(note)
    return at is not None and at > index
