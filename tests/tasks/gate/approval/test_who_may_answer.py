"""Whose answer launches: a user that Slack has proven and the gate file names, or the form where the gate file lets it."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from unittest.mock import AsyncMock, Mock
from uuid import uuid4

import httpx
import pytest
from prefect.states import Paused

from checks.documents.report import dump_plain
from checks.model import Answer, Level
from checks.value_types import DecodeError
from tasks.approve import QuestionLost, ask_for_approval, digest_of
from tasks.gate.approval.answers import collect_answer, pause_name, paused_for, read_proven_answer
from tasks.gate.question import (
    AnswerChannel,
    ApprovalAction,
    ApprovalAnswer,
    Question,
    checked_answer,
    keep_answer,
    keep_final_answer,
    keep_question,
    may_answer,
    read_answer,
)
from tasks.store.folder import FolderStore
from tasks.store.layout import answer_key
from tests.sample_reports import healthy
from tests.tasks.sessions import judged, session

QUESTION = Question(1, "g-1", "test", "test", "run", "key", "NO-GO", True, 0.0, 1e12, ("U1",), ("U2",))
LAUNCH = ApprovalAnswer(
    1, "g-1", "key", ApprovalAction.LAUNCH, "U2", AnswerChannel.SLACK, True, "the node is known", 1.0
)


@pytest.mark.parametrize("override", [False, True], ids=["WARN", "FAIL"])
@pytest.mark.parametrize("verified", [False, True], ids=["form", "slack"])
@pytest.mark.parametrize("form_may_override", [False, True])
def test_the_form_overrides_a_fail_if_it_may(override: bool, verified: bool, form_may_override: bool) -> None:
    """A warning, and a user who is proven, need no such permission."""
    question = replace(QUESTION, override=override)
    answer = checked_answer(question, replace(LAUNCH, verified=verified), form_may_override)

    assert answer.launches is (verified or form_may_override or not override)
    assert ("form_may_override" in answer.note) is not answer.launches


def test_a_refusal_needs_no_permission() -> None:
    """Whoever fills in the form may stop a training, and who may let a warning pass may also refuse an override."""
    assert may_answer(QUESTION, "U1", ApprovalAction.BLOCK)
    assert may_answer(replace(QUESTION, override=False), "U1", ApprovalAction.LAUNCH)
    answer = checked_answer(QUESTION, replace(LAUNCH, verified=False, action=ApprovalAction.BLOCK), False)

    assert (False, "") == (answer.launches, answer.note)


@pytest.mark.parametrize(
    ("who", "verified", "counts"),
    [("U2", True, True), ("U2", False, False), ("U1", True, False), ("U3", True, False)],
    ids=["an overrider", "not proven", "an approver of warnings", "somebody else"],
)
def test_an_answer_in_the_store_counts_if_it_is_proven_and_allowed(
    store: FolderStore, who: str, verified: bool, counts: bool
) -> None:
    """A file that anybody could write there with an overrider's name launches nothing."""
    answer = replace(LAUNCH, who=who, verified=verified)
    keep_answer(store, answer)

    assert asyncio.run(read_proven_answer(store, QUESTION)) == (answer if counts else None)


def test_an_answer_in_the_store_counts_beside_a_form_that_nobody_filled_in(store: FolderStore) -> None:
    """Prefect does not find the form's answer then."""
    missing = httpx.HTTPStatusError("", request=Mock(), response=httpx.Response(httpx.codes.NOT_FOUND))
    client = Mock(read_flow_run_input=AsyncMock(side_effect=missing))
    assert asyncio.run(collect_answer(client, store, uuid4(), QUESTION)) is None
    keep_answer(store, LAUNCH)
    assert asyncio.run(collect_answer(client, store, uuid4(), QUESTION)) == LAUNCH


def test_a_paused_run_waits_for_its_question() -> None:
    """Other pauses, also ones without a key, are none of the gate's."""
    keys = (pause_name(QUESTION), "another", None)
    assert [("g-1", "key"), None, None] == [paused_for(Paused(timeout_seconds=60, pause_key=k)) for k in keys]


@pytest.mark.parametrize(("size", "is_read"), [(1 << 20, True), ((1 << 20) + 1, False)])
def test_an_answer_of_more_than_a_mebibyte_is_not_read(store: FolderStore, size: int, is_read: bool) -> None:
    """Whoever may write there could otherwise fill the gate's memory."""
    store.put(answer_key(LAUNCH.gate_id, LAUNCH.key), dump_plain(LAUNCH).ljust(size))

    with nullcontext() if is_read else pytest.raises(DecodeError):
        assert read_answer(store, LAUNCH.gate_id, LAUNCH.key) == LAUNCH


@pytest.mark.parametrize(("reason", "line"), [("a short run", "allowed it: a short run"), ("", "allowed it")])
def test_an_answer_is_said_with_its_reason(reason: str, line: str) -> None:
    """Where there is one."""
    assert line == replace(LAUNCH, reason=reason).summary.text


WARN, FAIL = Level.WARN, Level.FAIL


@pytest.mark.parametrize(
    ("level", "override", "trained", "is_launched"),
    [(WARN, False, False, True), (WARN, True, False, False), (FAIL, False, False, False),
     (FAIL, False, True, True)],
)  # fmt: skip
def test_an_answer_is_about_the_verdict_that_was_asked_about(
    tmp_path: Path, level: Level, override: bool, trained: bool, is_launched: bool
) -> None:
    """A gate may judge other reports than the dead one whose checks it adopts. What trains has its answer."""
    one = session(tmp_path, on_fail="ask")
    one.trained, store = trained, one.context.store
    warned = judged(healthy(2, 1), level=Level.WARN, answer=Answer.ASK)
    found = warned if level is Level.WARN else judged(healthy(2, 1), level=level, answer=Answer.NO_GO)
    key = f"gate-1-{found.report.attempt}"
    keep_question(store, replace(QUESTION, key=key, verdict=digest_of(warned), override=override))
    keep_final_answer(store, replace(LAUNCH, key=key))
    with nullcontext() if is_launched else pytest.raises(QuestionLost, match="another verdict"):
        received = asyncio.run(ask_for_approval(one, found, 5))
        assert received is not None and received.launches
