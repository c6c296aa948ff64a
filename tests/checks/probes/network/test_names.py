"""network.names: hundreds of names, and a resolver that is slow or hangs."""

from __future__ import annotations

import socket
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from checks.probes.network.names import SIDE_BY_SIDE, DnsAnswer, look_up, measurement, names
from checks.roster import Member, Roster
from tests.corpus.case import context, observed

MEMBERS = [Member(f"node-{index}", f"10.1.{index // 250}.{index % 250 + 1}", 1) for index in range(500)]


def test_hundreds_of_names_are_asked_side_by_side() -> None:
    """The first 64 end only together."""
    first = threading.Barrier(SIDE_BY_SIDE)

    def slow(member: Member) -> DnsAnswer:
        if member in MEMBERS[:SIDE_BY_SIDE]:
            first.wait()
        return DnsAnswer((member.address,))

    found = look_up(MEMBERS, slow, 60.0)

    assert all(answer == DnsAnswer((member.address,)) for answer, member in zip(found, MEMBERS, strict=True))


def test_name_that_resolves_to_one_right_address_is_enough() -> None:
    """A node has many interfaces."""
    found = measurement(MEMBERS[:1], [DnsAnswer(("10.9.9.9", "10.1.0.1"))], 4.0).metrics

    assert 0 == found["elsewhere"]


def test_a_node_alone_may_be_listed_by_loopback() -> None:
    """Nobody else looks for it: /etc/hosts may give its name the address of an interface."""
    alone = Member("algo-1", "127.0.0.1", 1)
    answers = [DnsAnswer(("10.1.0.1",)), DnsAnswer((MEMBERS[1].address,))]
    found = measurement([alone], answers[:1], 4.0).metrics
    beside = measurement([alone, MEMBERS[1]], answers, 4.0).metrics

    assert (0, 1) == (found["elsewhere"], beside["elsewhere"])


def test_names_evidence_begins_with_the_wrong_name() -> None:
    """Of thousands of lines the first 4 KiB are shown."""
    answers = [DnsAnswer((member.address,)) for member in MEMBERS[:3]]
    answers[2] = DnsAnswer(("10.9.9.9",))

    evidence = measurement(MEMBERS[:3], answers, 4.0).evidence
    assert evidence.startswith("node-2 10.1.0.3: the name resolves to")


def test_names_check_runs_as_many_reverse_lookups_at_once_as_ranks_would(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A resolver that answers eight at a time and loses the others is seen, though two nodes have two addresses."""
    free = threading.Semaphore(8)

    def reverse(place: tuple[str, int], _flags: int) -> tuple[str, str]:
        if place[0].startswith("::ffff:"):
            if not free.acquire(blocking=False):
                threading.Event().wait(1.1)  # as if the answer was lost
                return ("late", "0")
            threading.Event().wait(0.05)
            free.release()
        return ("node", "0")

    monkeypatch.setattr(socket, "getnameinfo", reverse)
    address = (0, 0, 0, "", (MEMBERS[0].address, 0))
    monkeypatch.setattr(socket, "getaddrinfo", lambda name, *_, **__: [address])
    made = replace(context(names, tmp_path, nodes=2), roster=Roster(tuple(MEMBERS[:2]), 1, ""))
    healthy, found = (
        observed(names, replace(made, declared=replace(made.declared, ranks_per_node=ranks)))[0]
        for ranks in (4, 16)
    )

    assert float(healthy.metrics["mapped_s"]) < 1.0  # type: ignore[arg-type]
    assert "the longest of 8 at once" in healthy.evidence
    assert float(found.metrics["mapped_s"]) > 1.0  # type: ignore[arg-type]
    assert found.evidence.startswith("The reverse lookup of ::ffff:10.1.0.")
    assert "the longest of 32 at once" in found.evidence.partition("\n")[0]
