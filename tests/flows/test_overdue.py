"""A question that nobody can act on any more is closed from outside: refused, kept, paged, whatever changed meanwhile."""

from __future__ import annotations

import dataclasses
import json
import time
from pathlib import Path

import pytest

from tasks.expire import close_expired_gate
from tasks.gate.context import open_gate_context
from tasks.gate.lease import lease as leases
from tasks.gate.lease.lease import LeaseLost, OpenQuestion
from tasks.gate.question import Question, keep_question
from tests.flows.driving import gate_it, open_session, request_of
from tests.flows.fake_engine import Engine
from tests.flows.pools import fake_gate
from tests.tasks.gate.lease.test_lease import DEAD

pytestmark = pytest.mark.usefixtures("without_prefect")
RUN = "00000000-0000-0000-0000-000000000007"


def _parked(folder: Path, deadline: float) -> tuple[Path, str]:
    """A gate that warned and whose process is gone, with a question that is open until `deadline`; the gate file and its id."""
    path = fake_gate(folder, on_warn="ask")
    _, outcome = gate_it(path)
    context, gate_id = open_gate_context(request_of(path)), outcome.gate_id
    (folder / "store" / "gates" / gate_id / "outcome.json").unlink()
    of = (1, gate_id, "test", "test", RUN, "k", "said", False)
    keep_question(context.store, Question(*of, deadline - 60, deadline, (), ()))
    with open_session(request_of(path), RUN) as session:
        lease = dataclasses.replace(session.renewal.lease, gate_id=gate_id, owner=DEAD)
    held = leases.acquire(context.store, lease, lambda _: (), lambda _: None)
    bound = leases.bind_run(context.store, held, RUN)
    leases.changed(context.store, bound, asking=OpenQuestion("k", "d", deadline, deadline + 600))
    return path, gate_id


def _let_warnings_go(folder: Path) -> None:
    policy = folder / "policy.toml"
    policy.write_text(policy.read_text().replace('on_warn = "ask"', 'on_warn = "go"'))


def test_expired_gate_is_refused_though_the_policy_now_lets_it_go(tmp_path: Path, engine: Engine) -> None:
    """Judged anew the answer is go; nobody said so while it was asked, and the next gate must not break on it."""
    engine.parts = ["warn"]
    path, gate_id = _parked(tmp_path, time.time() - 1)
    _let_warnings_go(tmp_path)
    context = open_gate_context(request_of(path))
    held = leases.lease_of_run(context.store, RUN)
    assert held is not None

    close_expired_gate(context, held.lease)

    kept = json.loads((tmp_path / "store" / "gates" / gate_id / "outcome.json").read_bytes())
    assert (kept["decision"], kept["exit_code"]) == ("refused", 1)
    leases.release(context.store, held)


def test_a_gate_file_that_was_changed_closes_the_question(tmp_path: Path, engine: Engine) -> None:
    """The run is rejected; the gate that asked is kept as refused, and somebody is told why."""
    engine.parts = ["warn"]
    path, gate_id = _parked(tmp_path, time.time() + 600)
    _let_warnings_go(tmp_path)

    change = "was changed while its question waited"
    with pytest.raises(LeaseLost, match=f"the gate file, its policy or the version of Prelaunch {change}"):
        open_session(request_of(path), RUN, resumed=True)

    store = tmp_path / "store"
    kept = json.loads((store / "gates" / gate_id / "outcome.json").read_bytes())
    assert kept["decision"] == "refused" and change in kept["approval"]["reason"]
    assert change in (store / "pages" / f"{gate_id}.txt").read_text()
    assert not list((store / "leases").rglob("*.json"))
