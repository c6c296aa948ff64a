"""When a gate offers certificates to its nodes at all."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from checks.documents.certificates import NO_CERTIFICATES
from checks.model import Profile
from checks.policy import Policy
from tasks import provision
from tasks.machines.base import Retest
from tasks.provision import offer_certificates
from tasks.retest import retest_context
from tasks.store.base import Store, StoreError
from tasks.store.folder import FolderStore
from tests.certified_machines import COSTLY, FACTS, THEN
from tests.flows.gates import write_gate
from tests.tasks.gate_file.gate_files import opened
from tests.tasks.store.test_certificates import filled


@pytest.fixture
def store(store: FolderStore) -> Store:
    """A store with two gates of one machine."""
    return filled(store)


def session(store: Store, policy: Policy = THEN, certifies: bool = True) -> Any:
    """As much of a session as offering certificates needs."""
    context = SimpleNamespace(store=store, policy=policy, certifies=certifies, facts=FACTS, baseline=None)
    return SimpleNamespace(context=context, certificates=None)


def lease(attempt: int = 1, adopted: bool = False) -> Any:
    return SimpleNamespace(attempt=attempt, adopted=adopted, gate_id="now-20261126-120000-abcd")


def test_the_first_job_of_a_gate_gets_what_earlier_gates_measured(store: Store) -> None:
    one = session(store)
    made = offer_certificates(one, lease())

    assert made is one.certificates
    assert [COSTLY] == [tuple(each.checks) for each in made.certificates]


def test_a_gate_that_goes_on_with_anothers_job_knows_what_that_job_was_offered(store: Store) -> None:
    made = offer_certificates(session(store), lease())
    again = session(store)

    assert made == offer_certificates(again, lease(adopted=True))
    assert made == again.certificates


@pytest.mark.parametrize("again", [lease(attempt=2), lease(attempt=2, adopted=True)])
def test_a_second_job_measures_everything(store: Store, again: Any) -> None:
    """The first one may have found something."""
    offer_certificates(session(store), lease())

    assert NO_CERTIFICATES == offer_certificates(session(store), again)


def test_a_retest_and_a_policy_without_valid_for_read_nothing(
    monkeypatch: pytest.MonkeyPatch, store: Store
) -> None:
    monkeypatch.setattr(provision, "offer", lambda *given: pytest.fail("it was asked"))
    plain = replace(THEN, checks={name: replace(line, valid_for=0.0) for name, line in THEN.checks.items()})

    assert NO_CERTIFICATES == offer_certificates(session(store, certifies=False), lease())
    assert NO_CERTIFICATES == offer_certificates(session(store, policy=plain), lease())


def test_a_store_that_does_not_answer_makes_the_gate_measure_and_refuses_nothing(
    monkeypatch: pytest.MonkeyPatch, store: Store
) -> None:
    monkeypatch.setattr(provision, "offer", Mock(side_effect=StoreError("the store is away")))
    one = session(store)

    assert NO_CERTIFICATES == offer_certificates(one, lease())
    assert NO_CERTIFICATES == one.certificates


def test_no_certificate_stands_for_a_check_of_a_retest(tmp_path: Path) -> None:
    """Its other nodes would lack what they skip, and then it proves nothing."""
    context = opened(write_gate(tmp_path))
    case: Any = SimpleNamespace(gate_id="g1", node="node-0", profile=Profile.QUICK)

    assert context.certifies
    assert not retest_context(context, case, Retest(("node-0", "node-1"), {})).certifies
