"""How a node of a gate in a job gets the reports of all others."""

from __future__ import annotations

import time
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from checks.documents.report import dump
from checks.exchange.exchange import ExchangeError
from checks.exchange.secret_key import Access
from checks.roster import Member, Roster
from checks.runner import barrier
from checks.runner.barrier import NodeBarrier
from checks.runner.deadline import NEVER
from checks.runner.in_job import job_gate
from tests.sample_reports import healthy

MEMBERS = tuple(Member(f"node-{rank}", "127.0.0.1", rank + 1) for rank in range(500))


def test_reports_of_many_hosts_are_small_and_come_in_few_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first host answers all others. What is there is read although hosts are dead, a whole page of them, and the time for them is
    up; no host is asked for ever.
    """
    report = dump(healthy(64))
    dead = {"node-5", *(f"node-{rank}" for rank in range(65, 65 + job_gate.PAGE))}
    reporting = {member.name for member in MEMBERS} - dead
    notes = {f"report/{name}": job_gate.packed(report) for name in reporting}
    requests, hellos = list[int](), list[str]()

    def ask_notes(
        first: Member, access: Access, keys: Sequence[str], wait_s: float, *_: object
    ) -> list[str | None]:
        requests.append(len(keys))
        time.sleep(0 if all(key in notes for key in keys) else min(wait_s, 0.2))
        return [notes.get(key) for key in keys]

    def ask(member: Member, *_: object) -> dict[str, Any]:
        hellos.append(member.name)
        if member.name in dead:
            raise ExchangeError("timed out")
        return {}

    monkeypatch.setattr(barrier, "ask_notes", ask_notes)
    monkeypatch.setattr(barrier, "ask", ask)
    monkeypatch.setattr(job_gate, "_by", lambda *_: time.monotonic() + 0.3)
    roster = Roster(MEMBERS, 999, "lo")
    place = SimpleNamespace(
        bundle=SimpleNamespace(network_s=0.3, stage_s=1.0), roster=roster, node="node-1", deadline=NEVER
    )
    board = NodeBarrier(roster, Access(b"k" * 32, "node-1"), 0.3, cast(Any, None))
    reports = job_gate._reports(cast(Any, place), board)

    assert reporting - {"node-1"} == reports.keys()
    assert {report} == set(reports.values()) and len(job_gate.packed(report)) < len(report) / 5
    assert len(requests) < 30 and len(hellos) < 10
