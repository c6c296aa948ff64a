"""network.names: whether the nodes' names resolve to the roster's addresses, and the addresses back to the names."""

from __future__ import annotations

import contextlib
import queue
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from checks.check import Context, Measurement, check
from checks.model import Scope
from checks.model_details import Contents
from checks.roster import Member

SIDE_BY_SIDE = 64
# As many questions at once as the ranks of this node ask about all nodes, and no more: a resolver that lost 32 of 40 answers when 32
# were asked at once loses none of few, and a small job is not to be told of what it never does.
MAPPED, MAPPED_S = 32, 2.0
NOT_THERE = (socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME))


@dataclass(frozen=True)
class DnsAnswer:
    """What the resolver said of one member; `reason` is "ok", or why it said nothing."""

    addresses: tuple[str, ...] = ()
    reverse: str = ""
    reverse_addresses: tuple[str, ...] = ()
    reason: str = "ok"
    seconds: float = 0.0


@check(
    "network.names",
    Scope.NODE,
    timeout_s=30,
    metrics=(
        "names",
        "unresolved",
        "unanswered",
        "elsewhere",
        "reverse_elsewhere",
        "shared_addresses",
        "slowest_s",
        "mapped_s",
    ),
    needs="the resolver",
    holds=lambda basis: (Contents("names", basis.declared.nodes),),
)
def names(context: Context) -> Measurement:
    """Resolves every member's name and address, each within `lookup_s`.

    `names` counts the members; `unresolved` those whose name does not exist, `unanswered` those for which the resolver gave
    no answer, `elsewhere` those whose name leads to other addresses than the roster's, `reverse_elsewhere` those whose
    address has a name that leads to other addresses, `shared_addresses` members whose address another one has too.
    `mapped_s` is the longest of up to MAPPED reverse lookups at once, one for each rank of this node and each member, of
    the members' addresses in the form ::ffff:ADDRESS, answered or not: each rank of torch asks for its peers' names by it
    (c10d, socket.cpp), /etc/hosts does not answer it, and if the resolver is silent every rank waits glibc's 5 s twice.
    The check waits for MAPPED_S. It asks as the training will, without the RES_OPTIONS of the gate's own ranks.
    """
    members = context.roster.members
    lookup_s = min(context.options.get("lookup_s", 5.0), context.timeout_s * 0.8)
    mapped_s = min(MAPPED_S, context.timeout_s * 0.1)
    at_once = min(MAPPED, len(members) * max(context.declared.ranks_per_node, 1))
    members_asked = [members[index % len(members)] for index in range(at_once)]
    mapped = look_up(members_asked, ask_mapped, mapped_s)
    took = [answer.seconds if answer is not None else mapped_s for answer in mapped]
    forward = measurement(members, look_up(members, ask, lookup_s), lookup_s, max(took))
    return replace(forward, evidence=f"{_cost(members_asked, took)}\n{forward.evidence}")


def measurement(
    members: Sequence[Member], answers: Sequence[DnsAnswer | None], lookup_s: float, mapped_s: float = 0.0
) -> Measurement:
    """The answers as metrics; None is a member that the resolver was silent about (pure)."""
    all_answers = [
        answer or DnsAnswer(reason=f"no answer within {lookup_s:g} s", seconds=lookup_s) for answer in answers
    ]
    pairs = list(zip(members, all_answers, strict=True))
    lines = [f"{member.name} {member.address}: {_account(member, answer)}" for member, answer in pairs]
    counts = Counter(member.address for member in members)
    return Measurement(
        {
            "names": len(members),
            "unresolved": sum(answer.reason == "ok" and not answer.addresses for answer in all_answers),
            "unanswered": sum(answer.reason != "ok" for answer in all_answers),
            # A node alone may be in its roster as 127.0.0.1: nobody else looks for it.
            "elsewhere": sum(
                bool(answer.addresses) and m.address not in answer.addresses
                for m, answer in pairs
                if len(members) > 1 or not m.address.startswith("127.")
            ),
            "reverse_elsewhere": sum(
                bool(answer.reverse) and m.address not in answer.reverse_addresses for m, answer in pairs
            ),
            "shared_addresses": sum(count for count in counts.values() if count > 1),
            "slowest_s": round(max(answer.seconds for answer in all_answers), 3),
            "mapped_s": round(mapped_s, 3),
        },
        "\n".join(sorted(lines, key=lambda line: line.endswith(": ok"))),
    )


def _cost(members_asked: Sequence[Member], took: Sequence[float]) -> str:
    """What the resolver costs each rank of a training, with the member whose reverse lookup took longest."""
    longest = max(took)
    member = members_asked[took.index(longest)]
    return (
        f"The reverse lookup of ::ffff:{member.address} ({member.name}) took {longest:.2f} s, the longest of {len(took)} at once: "
        "each rank of torch waits so long for the name of a peer."
    )


def ask(member: Member) -> DnsAnswer:
    """Forward, reverse, and the reverse name forward again."""
    begun = time.monotonic()
    try:
        addresses = _forward(member.name)
        reverse = _reverse(member.address)
        again = _forward(reverse) if reverse else ()
    except OSError as error:
        return DnsAnswer(
            reason=f"the resolver failed: {error.strerror or error}", seconds=time.monotonic() - begun
        )
    return DnsAnswer(addresses, reverse, again, "ok", time.monotonic() - begun)


def ask_mapped(member: Member) -> DnsAnswer:
    """How long torch's own question about the member takes; what comes of it does not matter to torch, nor here."""
    begun = time.monotonic()
    address = member.address if ":" in member.address else f"::ffff:{member.address}"
    with contextlib.suppress(OSError):
        socket.getnameinfo((address, 0), socket.NI_NAMEREQD)
    return DnsAnswer(seconds=time.monotonic() - begun)


def look_up(
    members: Sequence[Member], resolve: Callable[[Member], DnsAnswer], lookup_s: float
) -> list[DnsAnswer | None]:
    """An answer a member, None if there was none within `lookup_s` of its turn.

    The threads are daemons: a resolver that hangs in the C library cannot be interrupted, and is not waited for.
    """
    waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
    answers: dict[int, DnsAnswer] = {}
    for index in range(len(members)):
        waiting.put(index)

    def work() -> None:
        while True:
            try:
                index = waiting.get_nowait()
            except queue.Empty:
                return
            answers[index] = resolve(members[index])

    threads = [threading.Thread(target=work, daemon=True) for _ in range(min(SIDE_BY_SIDE, len(members)))]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + lookup_s
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    return [answers.get(index) for index in range(len(members))]


def _forward(name: str) -> tuple[str, ...]:
    """The name's addresses; none if there is no such name. Raises OSError if nobody can tell."""
    try:
        answers = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        if error.errno in NOT_THERE:
            return ()
        raise
    except UnicodeError:
        return ()  # no name that a resolver could know
    return tuple(dict.fromkeys(str(answer[4][0]) for answer in answers))


def _reverse(address: str) -> str:
    """The address's name, "" if it has none."""
    try:
        return socket.getnameinfo((address, 0), socket.NI_NAMEREQD)[0]
    except socket.gaierror as error:
        if error.errno in NOT_THERE:
            return ""
        raise


def _account(member: Member, answer: DnsAnswer) -> str:
    if answer.reason != "ok":
        return answer.reason
    if not answer.addresses:
        return "the name does not exist"
    if member.address not in answer.addresses:
        return f"the name resolves to {', '.join(answer.addresses[:4])}"
    if answer.reverse and member.address not in answer.reverse_addresses:
        return f"the address resolves to {answer.reverse}, which resolves to {', '.join(answer.reverse_addresses[:4]) or 'nothing'}"
    return "ok"
