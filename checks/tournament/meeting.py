"""One rank waits for one duel: how long, for whom, and what is said if nothing comes.

The deadline counts from the last sign of life. A peer that is still held up by somebody else in an earlier round lives:
it says so on the board while it waits, so that one dead rank does not make its partners' partners look dead.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

from checks.tournament.board import Board
from checks.tournament.duel import Duel

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
class Meetings:
    """How rank `me` waits. `fragile`: an exchange that hangs breaks all later ones (NCCL), so ask on the board first."""

    me: int
    board: Board
    patience: Patience
    fragile: bool

    def wait(self, duel: Duel, index: int) -> str:
        """Run the duel of round `index`: "" once it ended by itself, else why it was left behind."""
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
        return ""

    def say_left(self, index: int) -> None:
        """For whoever waits in an earlier round."""
        self.board.post(f"at/{self.me}", f"{index} {time.monotonic()}")

    def sign_of(self, rank: int) -> str:
        """What a rank said last of where it is: another text the next time, if it lives and waits; "" for nothing."""
        return self.board.read(f"at/{rank}") or ""

    def leave(self) -> None:
        """For whoever waits in any round: nothing more will come."""
        self.board.post(f"at/{self.me}", LEFT)

    def _given_up(self, peer: int, phase: str, index: int, times: Times, seen: str) -> str:
        """Why to wait no longer, or "". `phase` is where the exchange stands, "" before its first step."""
        if not phase and seen == LEFT:  # a peer whose last message is still on its way may have left already
            return left(peer)
        if not phase and _later(seen, index):
            waited = times.now - times.begun > self.patience.silence_s / 4
            return f"{'no answer before' if waited else 'not run:'} rank {peer} had given up waiting"
        if times.now > self.patience.end:
            return "not run: the check's time was over"
        silence, most = self.patience.silence_s, MOST_ROUNDS * self.patience.round_s
        if self.board.mute and not phase:  # the peer may be held up by somebody else, or by the store
            silence *= 2
        if times.now - times.sign > silence:
            return f"no answer within {silence:g} s" + (f" in {phase}" if phase else "")
        if phase and times.now - times.begun > most:
            return f"not ended within {most:g} s: it came to {phase}"
        return ""

    def _peers_note(self, peer: int, index: int) -> str:
        """What the peer said last of where it is; and this rank says that it waits. A store that hangs holds up nobody."""
        self.board.post(f"at/{self.me}", f"{index} {time.monotonic()}")
        return self.board.glance(f"at/{peer}")

    def _call(self, peer: int, index: int) -> str:
        """Both say on the board that they are there, before either begins what cannot be taken back."""
        self.board.post(f"here/{index}/{self.me}", "1")
        sign, note = time.monotonic(), ""
        while self.board.await_note(f"here/{index}/{peer}", self.patience.silence_s / 8) is None:
            now, seen = time.monotonic(), self._peers_note(peer, index)
            if self.board.lost:
                return f"not run: the ranks cannot agree when to begin ({self.board.lost})"
            sign = now if _earlier(seen, index) and seen != note else sign
            note = seen
            if why := self._given_up(peer, "", index, Times(now, sign, sign), seen):
                self.say_left(index + 1)
                return why
        return ""


def unsure(peer: int) -> str:
    """The failure of a test with a peer that did not come, where the ranks could not agree on the number of rounds."""
    return f"not run: without the store nobody knows whether rank {peer} was to end before this round"


def left(peer: int) -> str:
    """The failure of a test with a peer that said that it takes no part any more."""
    return f"not run: rank {peer} had left the tournament"


def has_left(failure: str) -> bool:
    """Whether the failure is such a one."""
    return failure.startswith("not run: rank") and failure.endswith("left the tournament")


def broken(error: str) -> str:
    """A failure in words, from what torch says."""
    if "closed" in error or "reset" in error.lower() or "Broken pipe" in error:
        return "connection closed"
    return f"failed: {' '.join(error.split())[:160]}"


def _round_of(note: str) -> int | None:
    head = note.partition(" ")[0]
    return int(head) if head.isdigit() else None


def _earlier(note: str, index: int) -> bool:
    at = _round_of(note)
    return at is not None and at < index


def _later(note: str, index: int) -> bool:
    at = _round_of(note)
    return at is not None and at > index
