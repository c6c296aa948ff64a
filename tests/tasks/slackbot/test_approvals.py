"""Buttons of questions: over real HTTP and a real WebSocket, with a real Prefect server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tasks.gate.question import AnswerChannel, ApprovalAction, keep_question
from tasks.notifiers.slack.messages import APPROVE, RECHECK, REFUSE
from tasks.store.layout import question_key
from tests.fakes.slack.server import Failure
from tests.tasks.slackbot.stage import ADA, BOB, EVE, Stage, filled_in, paused_run, set_state, stage, state_of
from tests.waiting import until

pytestmark = pytest.mark.usefixtures("prefect_backend")


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    """A workspace, a gate file, and the process that serves them."""
    with stage(tmp_path, monkeypatch) as made, made.app():
        yield made


def test_a_repair_is_allowed_by_somebody_who_may_override_alone(world: Stage) -> None:
    """An approver may not; the dialog speaks of the repair, and the thread says who allowed it. The run that asked may have failed:
    the next run of the remediation goes on with the question.
    """
    asking = world.ask(repair="reboot n2")
    assert "Allow this: reboot n2?" in asking.message.shown
    asking.click(ADA, APPROVE)
    assert f"You may not give this answer: <@{BOB}> may" in asking.whispered()
    assert asking.answer is None

    set_state(asking.question.flow_run_id, "FAILED")
    asking.launch(BOB, "it fell off the bus")
    dialog = json.dumps(world.socket.modal())
    assert "Allow a repair" in dialog and "This is done:" in dialog and "raining" not in dialog
    answer = asking.answer
    assert answer is not None
    assert (ApprovalAction.LAUNCH, BOB, True) == (answer.action, answer.who, answer.verified)
    until(lambda: any(BOB in line for line in asking.said_below()), "the thread says who")


def test_an_approval_asks_why_then_launches(world: Stage) -> None:
    """A reason that says nothing is refused beside its field; a good one reaches, with the proven user, the store, the form of the
    run, and the thread. Slack that refuses to update the message does not hold the answer.
    """
    asking = world.ask()

    empty = asking.launch(ADA, "  ok         ")
    assert empty.answer is not None and "at least 5 characters" in empty.answer["errors"]["reason"]
    assert asking.answer is None
    sent = world.socket.submit(ADA, world.socket.modal(), "spare node is on its way")

    asking.resumed()
    answer = asking.answer
    assert answer is not None and sent.answer is None
    found = (answer.action, answer.who, answer.via, answer.verified, answer.reason)
    assert (ApprovalAction.LAUNCH, ADA, AnswerChannel.SLACK, True, "spare node is on its way") == found
    form = filled_in(asking.question.flow_run_id)
    assert {"action": "launch-anyway", "reason": answer.reason, "approver": ADA} == form
    until(lambda: not asking.message.actions, "the buttons are gone")
    until(
        lambda: any("spare node is on its way" in text and ADA in text for text in asking.said_below()),
        asking.said_below,
    )


@pytest.mark.parametrize(
    ("button", "action"), [(REFUSE, ApprovalAction.BLOCK), (RECHECK, ApprovalAction.RECHECK)]
)
def test_refusing_and_checking_again_count_at_once(world: Stage, button: str, action: ApprovalAction) -> None:
    """Nobody has to explain why a doubtful machine is not used; the first answer stands, and whoever comes later hears of it."""
    asking = world.ask()
    asking.click(ADA, APPROVE)
    modal = world.socket.modal()
    world.slack.scopes.remove("chat:write")  # the message cannot be updated, and the run goes on all the same

    envelope = asking.click(ADA, button)

    asking.resumed()
    assert f"Recorded: <@{ADA}>" in asking.whispered()
    world.socket.click(BOB, asking.message, RECHECK, asking.value(asking.question.flow_run_id))
    assert f"It is answered already: <@{ADA}>" in asking.whispered(2)
    late = world.socket.submit(BOB, modal, "it is fine")
    assert late.answer is not None
    assert f"It is answered already: {ADA}" in late.answer["errors"]["reason"]
    assert "<" not in late.answer["errors"]["reason"]
    envelope.acknowledged.clear()
    world.socket.again(envelope)  # Slack delivers again what it holds for lost
    world.socket.command(EVE, "help")  # answered after it, so that nothing more can come
    assert 3 == len(world.socket.answered(3))
    assert asking.answer is not None
    assert (action, ADA) == (asking.answer.action, asking.answer.who)


def test_an_override_says_what_it_is_and_takes_an_overrider(world: Stage) -> None:
    """The modal names the failure and that it is recorded; an approver may let a warning pass alone, and hears who may."""
    asking = world.ask(override=True)
    asking.click(ADA, APPROVE)
    assert f"You may not give this answer: <@{BOB}> may" in asking.whispered()
    assert (None, "PAUSED", {}) == (asking.answer, asking.state, world.slack.views)

    asking.launch(BOB, "the deadline is worth more")

    asking.resumed()
    shown = json.dumps(world.socket.modal())
    assert asking.answer is not None
    assert (ApprovalAction.LAUNCH, BOB) == (asking.answer.action, asking.answer.who)
    assert "overrides a FAIL" in shown and "recorded" in shown


def test_approval_by_an_unlisted_user_changes_no_answer(world: Stage) -> None:
    """A stranger, also with somebody else's modal, and whom the gate file does not name any more, are told who may."""
    asking = world.ask()
    for count, button in enumerate((APPROVE, REFUSE, RECHECK), 1):
        asking.click(EVE, button)
        assert f"<@{ADA}>, <@{BOB}> may" in asking.whispered(count)
    asking.click(ADA, APPROVE)
    sent = world.socket.submit(EVE, world.socket.modal(), "let me")
    assert sent.answer is not None and "You may not" in sent.answer["errors"]["reason"]

    world.file.write_text(world.file.read_text().replace('["U0ADA"]', '["U0ZOE"]'))
    asking.click(ADA, REFUSE)
    assert "You may not" in asking.whispered(4)
    assert (None, "PAUSED") == (asking.answer, asking.state)


def test_a_question_that_is_over_or_unclear_takes_no_answer(world: Stage) -> None:
    """After its deadline, where no modal could be opened, where its store cannot be read, and where its run has ended."""
    late = world.ask(minutes=-1)
    late.click(ADA, REFUSE)
    assert "The time to answer was over" in late.whispered(1)

    asking = world.ask(gate_id="test-20261122-070000-0002")
    world.slack.fail(Failure.SERVER_ERROR, times=5, method="views.open")
    asking.click(ADA, APPROVE)
    assert "Click again" in asking.whispered(2)
    set_state(asking.question.flow_run_id, "CANCELLED")
    asking.click(ADA, REFUSE)
    assert "The run has ended" in asking.whispered(3)
    assert asking.answer is None
    world.store.put(question_key(asking.question.gate_id, asking.question.key), b"{")
    asking.click(ADA, REFUSE)
    assert "cannot be read now, so nothing was recorded" in asking.whispered(4)


def test_a_forged_button_is_held_against_the_store(world: Stage) -> None:
    """The value of a button is never believed, nor is a question in an allowed store about a run of another gate file."""
    asking = world.ask()
    forged = (
        ("no JSON", "does not belong to Prelaunch"),
        ('{"flow_run_id": "x", "gate_id": 1, "key": "y"}', "does not belong to Prelaunch"),
        ('{"flow_run_id": "x", "gate_id": "../../etc", "key": "passwd"}', "cannot be read now"),
        ('{"flow_run_id": "x", "gate_id": "test-1", "key": "gate-1"}', "has asked this question"),
        (asking.value("x"), "a different question"),
    )
    for count, (value, said) in enumerate(forged, 1):
        world.socket.click(ADA, asking.message, REFUSE, value)
        assert said in asking.whispered(count)
    assert (None, "PAUSED") == (asking.answer, asking.state)

    other = paused_run(world.folder / "other.toml", asking.question.key)
    keep_question(world.store, replace(asking.question, flow_run_id=other))
    world.socket.click(ADA, asking.message, REFUSE, asking.value(other))
    assert "of another gate file" in asking.whispered(len(forged) + 1)
    assert (None, "PAUSED") == (asking.answer, state_of(other))
