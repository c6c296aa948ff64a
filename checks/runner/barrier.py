"""Barriers between the nodes of a gate: notes on one node's responder, usually the first one's, each with a deadline."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Sequence

from checks.exchange.authentication import Op
from checks.exchange.exchange import ExchangeError, Responder, ask, ask_notes, put_note
from checks.exchange.secret_key import Access
from checks.roster import Member, Roster

ASK_S = 3.0
RETRY_S = 0.1
LOOK_S = 5.0
LEAST_S = 0.5
PAUSE_S = 1.0
GONE_AFTER = 3
OK = "ok"


class NodeBarrier:
    """The notes that nodes exchange. The first node stores them, and the others ask it. `network_s`: how long a node that does not
    answer is waited for.
    """

    def __init__(self, roster: Roster, access: Access, network_s: float, responder: Responder) -> None:
        self.members, self.access = roster.members, access
        self.network_s, self.responder = network_s, responder
        self.node, self.first = access.node, roster.members[0]
        self.rank = [member.name for member in roster.members].index(access.node)
        self._refused: dict[str, int] = {}

    def kept_by(self, member: Member) -> NodeBarrier:
        """The notes that this member stores in place of the first node."""
        board = copy.copy(self)
        board.first = member
        return board

    @property
    def _is_here(self) -> bool:
        return self.first.name == self.node

    def agree(self, barrier: str, objection: str, patience_s: float = 0.0, until: float = math.inf) -> str:
        """Waits for every node at the barrier. Returns the first objection, or which node is missing, or "".

        A node that does not answer is waited for `network_s`. One that answers and is still at its checks, which take longer on one
        node than on another, is waited for `patience_s` more. Neither wait goes beyond `until` (time.monotonic()). A node that
        objects does not wait for the others.
        """
        if len(self.members) == 1:
            return objection
        # A node that objects has waited for its peers that long already: it writes its note, and does not wait for a first node that
        # is gone.
        wait_s = min(self.network_s, ASK_S) if objection else self.network_s
        deadline = min(time.monotonic() + wait_s, until)
        objection_of_others = self.put(f"{barrier}/{self.node}", objection or OK, deadline)
        if objection or objection_of_others:
            return objection or objection_of_others
        notes = self.arrivals(barrier, OK, deadline, min(deadline + patience_s, until))
        if objection_of_others := next((note for note in notes.values() if note not in (None, OK)), ""):
            return objection_of_others
        late = [name for name, note in notes.items() if note is None]
        return f"{late[0]} did not reach the barrier '{barrier}' in time" if late else ""

    def arrivals(self, barrier: str, alike: str, deadline: float, last: float) -> dict[str, str | None]:
        """The notes of all nodes, or one that is not `alike` at once. The first node that is late is waited for as long as it answers,
        until `last`.
        """
        keys = [f"{barrier}/{member.name}" for member in self.members]
        notes = self.get_all(keys, deadline, alike)
        while (
            not any(note not in (None, alike) for note in notes) and None in notes and time.monotonic() < last
        ):
            if not self._answers(self.members[notes.index(None)], self.network_s, last):
                break
            again = self.get_all(keys, min(last, time.monotonic() + LOOK_S), alike)
            # A first node that fell silent meanwhile takes nothing back.
            notes = [new if new is not None else old for new, old in zip(again, notes, strict=True)]
        return dict(zip((member.name for member in self.members), notes, strict=True))

    def await_note(self, key: str, member: Member, patience_s: float, last: float) -> str | None:
        """A note of the node that is not there yet: waited for as long as the node answers within `patience_s`, until `last`."""
        note = None
        while note is None and time.monotonic() < last and self._answers(member, patience_s, last):
            note = self.get(key, min(time.monotonic() + LOOK_S, last))
        return note

    def _answers(self, member: Member, patience_s: float, last: float) -> bool:
        """Whether the node's responder answers within `patience_s`, and before `last`."""
        deadline = min(time.monotonic() + patience_s, last)
        while True:
            try:
                ask(member, self.access, Op.HELLO, _patience_s(deadline))
            except ExchangeError:
                if time.monotonic() + RETRY_S > deadline:
                    return False
                time.sleep(RETRY_S)
            else:
                return True

    def has_left(self, member: Member) -> bool:
        """Whether nothing listened there the last times that this was asked. A node that does not answer in time may come back."""
        try:
            ask(member, self.access, Op.HELLO, ASK_S)
            self._refused[member.name] = 0
        except ExchangeError as error:
            self._refused[member.name] = self._refused.get(member.name, 0) + error.refused
        return self._refused[member.name] >= GONE_AFTER

    def put(self, key: str, value: str, deadline: float) -> str:
        """Writes a note, and tries again until the deadline, because the first node may still be starting. Returns why it failed, or
        "".
        """
        if self._is_here:
            return self._failure(key, self.responder.put(key, value).value)
        while True:
            try:
                return self._failure(
                    key, put_note(self.first, self.access, key, value, _patience_s(deadline))
                )
            except ExchangeError as error:
                if time.monotonic() + RETRY_S < deadline:
                    time.sleep(RETRY_S)
                    continue
                return f"{self.node} cannot reach {self.first.name}: {error}"

    def _failure(self, key: str, reason: str) -> str:
        return f"{self.first.name} did not take the note {key} of {self.node}: {reason}" if reason else ""

    def get(self, key: str, deadline: float) -> str | None:
        """A note, waited for until the deadline; None if there is none or the first node does not answer."""
        return self.get_all((key,), deadline)[0]

    def get_all(self, keys: Sequence[str], deadline: float, alike: str | None = None) -> list[str | None]:
        """The notes, None for those that there are not. All of them are waited for until the deadline, or one that is not `alike`, if
        that is given. One request asks for all, because of many nodes each asks for the notes of all. Without keys nobody is asked:
        the first node may have left already.
        """
        if self._is_here:
            return self.responder.get_all(keys, max(0.0, deadline - time.monotonic()), alike)
        notes: list[str | None] = [None] * len(keys)
        while None in notes and (left := deadline - time.monotonic()) > 0:
            wait = min(left, ASK_S)
            patience_s, asked_at = wait + _patience_s(deadline - wait), time.monotonic()
            try:
                notes = ask_notes(self.first, self.access, keys, wait, patience_s, alike)
            except ExchangeError:
                time.sleep(min(RETRY_S, left))
                continue
            if None not in notes or (alike is not None and any(note not in (None, alike) for note in notes)):
                break
            if time.monotonic() - asked_at < wait / 2:  # the first node has no room for those who wait
                # Nodes that ask again do so at different times.
                pause_s = PAUSE_S * (0.5 + self.rank % 16 / 32)
                time.sleep(max(0.0, min(pause_s, deadline - time.monotonic())))
        return notes

    def linger(self, seconds: float) -> None:
        """Waits until every node says that it is done, at most `seconds`, because peers may still be testing this one."""
        deadline = time.monotonic() + seconds
        if len(self.members) == 1 or self.put(f"done/{self.node}", OK, deadline):
            return
        names = [member.name for member in self.members]
        if None in self.get_all([f"done/{name}" for name in names], deadline):
            return
        if self.rank:
            self.put(f"left/{self.node}", OK, deadline)
            return
        self.get_all([f"left/{name}" for name in names[1:]], deadline)


def _patience_s(deadline: float) -> float:
    """The longest time for one request: ASK_S, and little more than until the deadline, in case the peer has stopped."""
    return min(ASK_S, max(deadline - time.monotonic(), LEAST_S))
