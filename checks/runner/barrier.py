"""Barriers between the nodes of a gate: notes on the first node's responder, each with a deadline."""

from __future__ import annotations

import math
import time

from checks.exchange.authentication import Op
from checks.exchange.exchange import ExchangeError, Responder, ask
from checks.roster import Member
from checks.runner.node_context import NodeContext

ASK_S = 3.0
RETRY_S = 0.1
LOOK_S = 5.0
LEAST_S = 0.5


class NodeBarrier:
    """The notes that the nodes of a gate exchange. The first node stores them, and the others ask it."""

    def __init__(self, node_context: NodeContext, responder: Responder) -> None:
        self.node_context, self.responder = node_context, responder
        self.first = node_context.roster.members[0]
        self.access = node_context.access

    def agree(self, barrier: str, objection: str, patience_s: float = 0.0, until: float = math.inf) -> str:
        """Waits for every node at the barrier. Returns the first objection, or which node is missing, or "".

        A node that does not answer is waited for `network_s`. One that answers and is still at its checks, which take longer on one
        node than on another, is waited for `patience_s` more. Neither wait goes beyond `until` (time.monotonic()). A node that
        objects does not wait for the others.
        """
        if self.node_context.bundle.declared.nodes == 1:
            return objection
        network_s = self.node_context.bundle.network_s
        # A node that objects has waited for its peers that long already: it writes its note, and does not wait for a first node that
        # is gone.
        deadline = min(time.monotonic() + (min(network_s, ASK_S) if objection else network_s), until)
        said = self.put(f"{barrier}/{self.node_context.node}", objection or "ok", deadline)
        if objection or said:
            return objection or said
        for member in self.node_context.roster.members:
            note = self._arrival(barrier, member, deadline, min(deadline + patience_s, until))
            if note is None:
                return f"{member.name} did not reach the barrier '{barrier}' in time"
            if note != "ok":
                return note
        return ""

    def _arrival(self, barrier: str, member: Member, deadline: float, last: float) -> str | None:
        """The node's note. It is waited for as long as the node answers, until `last`."""
        note = self.get(f"{barrier}/{member.name}", deadline)
        while note is None and time.monotonic() < last and self._answers(member, last):
            note = self.get(f"{barrier}/{member.name}", min(last, time.monotonic() + LOOK_S))
        return note

    def _answers(self, member: Member, last: float) -> bool:
        """Whether the node's responder answers within `network_s`, and before `last`."""
        deadline = min(time.monotonic() + self.node_context.bundle.network_s, last)
        while True:
            try:
                ask(member, self.access, Op.HELLO, _patience_s(deadline))
            except ExchangeError:
                if time.monotonic() + RETRY_S > deadline:
                    return False
                time.sleep(RETRY_S)
            else:
                return True

    def put(self, key: str, value: str, deadline: float) -> str:
        """Writes a note, and tries again until the deadline, because the first node may still be starting. Returns why it failed, or
        "".
        """
        if self.node_context.node_rank == 0:
            return self._word(key, self.responder.put(key, value).value)
        while True:
            try:
                said = ask(self.first, self.access, Op.PUT, _patience_s(deadline), key=key, value=value)
            except ExchangeError as error:
                if time.monotonic() + RETRY_S < deadline:
                    time.sleep(RETRY_S)
                    continue
                return f"{self.node_context.node} cannot reach {self.first.name}: {error}"
            return "" if said.get("ok") is True else self._word(key, str(said.get("why")))

    def _word(self, key: str, why: str) -> str:
        return (
            f"{self.first.name} did not take the note {key} of {self.node_context.node}: {why}" if why else ""
        )

    def get(self, key: str, deadline: float) -> str | None:
        """A note, waited for until the deadline; None if there is none or the first node does not answer."""
        if self.node_context.node_rank == 0:
            return self.responder.get(key, max(0.0, deadline - time.monotonic()))
        while (left := deadline - time.monotonic()) > 0:
            wait = min(left, ASK_S)
            patience_s = wait + _patience_s(deadline - wait)
            try:
                said = ask(self.first, self.access, Op.GET, patience_s, key=key, wait_ms=int(wait * 1000))
            except ExchangeError:
                time.sleep(min(RETRY_S, left))
                continue
            value = said.get("value")
            if isinstance(value, str):
                return value
        return None

    def linger(self, seconds: float) -> None:
        """Waits until every node says that it is done, at most `seconds`, because peers may still be testing this one."""
        deadline = time.monotonic() + seconds
        if self.node_context.bundle.declared.nodes == 1 or self.put(
            f"done/{self.node_context.node}", "ok", deadline
        ):
            return
        for member in self.node_context.roster.members:
            if self.get(f"done/{member.name}", deadline) is None:
                return
        if self.node_context.node_rank:
            self.put(f"left/{self.node_context.node}", "ok", deadline)
            return
        for member in self.node_context.roster.members[1:]:
            self.get(f"left/{member.name}", deadline)


def _patience_s(deadline: float) -> float:
    """The longest time for one request: ASK_S, and little more than until the deadline, in case the peer has stopped."""
    return min(ASK_S, max(deadline - time.monotonic(), LEAST_S))
