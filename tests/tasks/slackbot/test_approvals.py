"""Buttons of questions: over real HTTP and a real WebSocket, with a real Prefect server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tasks.gate.question import AnswerChannel, ApprovalAction, keep_question
from tasks.notifiers.slack.messages import APPROVE, RECHECK, REFUSE
from tasks.orchestration.server.server import EmbeddedServer
from tasks.store.layout import HANDING_OVER, question_key
from tests.fakes.slack.server import Failure
from tests.tasks.slackbot.stage import (
    ADA,
    BOB,
    EVE,
    KEY,
    Stage,
    filled_in,
    paused_run,
    set_state,
    stage,
    state_of,
    until,
)


@pytest.fixture
def world(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prefect_backend: EmbeddedServer
) -> Iterator[Stage]:
    """A workspace, a gate file, and the process that serves them."""
    with stage(tmp_path, monkeypatch) as made, made.app():
        yield made


def test_a_repair_is_allowed_by_somebody_who_may_override_alone(world: Stage) -> None:
    """An approver may not; the dialog speaks of the repair, and the thread says who allowed it."""
    asking = world.ask(repair="reboot n2")
    assert "Allow this: reboot n2?" in asking.message.shown
    asking.click(ADA, APPROVE)
    assert f"You may not allow this repair: <@{BOB}> may" in asking.whispered()
    assert asking.answer is None

    asking.launch(BOB, "it fell off the bus")
    dialog = json.dumps(world.socket.modal())
    assert "Allow a repair" in dialog and "This is done:" in dialog and "raining" not in dialog
    answer = asking.answer
    assert answer is not None
    assert (ApprovalAction.LAUNCH, BOB, True) == (answer.action, answer.who, answer.verified)
    until(lambda: any(BOB in line for line in asking.said_below()), "the thread says who")


def test_an_approval_asks_why_then_launches(world: Stage) -> None:
    """The reason and the proven user reach the store, the form of the run, and the thread."""
    asking = world.ask()

    sent = asking.launch(ADA, "spare node is on its way")

    asking.resumed()
    answer = asking.answer
    assert answer is not None
    assert (ApprovalAction.LAUNCH, ADA, AnswerChannel.SLACK, True) == (
        answer.action,
        answer.who,
        answer.via,
        answer.verified,
    )
    assert "spare node is on its way" == answer.reason
    assert None is sent.answer
    assert {"action": "launch-anyway", "reason": answer.reason, "approver": ADA} == filled_in(
        asking.question.flow_run_id
    )
    until(lambda: not asking.message.actions, "the buttons are gone")
    until(lambda: bool(asking.said_below()), "the thread says it")
    assert any("spare node is on its way" in text and ADA in text for text in asking.said_below())
    until(lambda: not world.store.list(HANDING_OVER), "nothing is left to hand over")


@pytest.mark.parametrize(
    ("button", "action"), [(REFUSE, ApprovalAction.BLOCK), (RECHECK, ApprovalAction.RECHECK)]
)
def test_refusing_and_checking_again_count_at_once(world: Stage, button: str, action: ApprovalAction) -> None:
    """Nobody has to explain why a doubtful machine is not used."""
    asking = world.ask()

    asking.click(ADA, button)

    asking.resumed()
    assert asking.answer is not None
    assert (action, ADA) == (asking.answer.action, asking.answer.who)
    assert f"Recorded: <@{ADA}>" in asking.whispered()


def test_an_override_says_what_it_is_and_takes_an_overrider(world: Stage) -> None:
    """The modal names the failure and that it is recorded."""
    asking = world.ask(override=True)

    asking.launch(BOB, "the deadline is worth more")

    asking.resumed()
    shown = json.dumps(world.socket.modal())
    assert asking.answer is not None
    assert (ApprovalAction.LAUNCH, BOB) == (asking.answer.action, asking.answer.who)
    assert "overrides a FAIL" in shown and "recorded" in shown


def test_an_approver_is_no_overrider(world: Stage) -> None:
    """Who may let a warning pass may not let a failure pass, and hears who may."""
    asking = world.ask(override=True)

    asking.click(ADA, APPROVE)

    assert f"You may not override this FAIL: <@{BOB}> may" in asking.whispered()
    assert (None, "PAUSED", {}) == (asking.answer, asking.state, world.slack.views)


def test_a_stranger_changes_nothing(world: Stage) -> None:
    """Whoever is not named in the gate file is told who is."""
    asking = world.ask()

    for count, button in enumerate((APPROVE, REFUSE, RECHECK), 1):
        asking.click(EVE, button)
        assert f"<@{ADA}>, <@{BOB}> may" in asking.whispered(count)
    assert (None, "PAUSED") == (asking.answer, asking.state)


def test_who_was_taken_off_the_gate_file_may_not_answer_any_more(world: Stage) -> None:
    """The list counts as it is now, not only as it was when the question was asked."""
    asking = world.ask()
    world.file.write_text(world.file.read_text().replace('["U0ADA"]', '["U0ZOE"]'))

    asking.click(ADA, REFUSE)

    assert "You may not answer" in asking.whispered()
    assert None is asking.answer


def test_a_modal_sent_by_another_than_who_opened_it_is_checked_again(world: Stage) -> None:
    """What stands in a modal proves nothing."""
    asking = world.ask()
    asking.click(ADA, APPROVE)

    sent = world.socket.submit(EVE, world.socket.modal(), "let me")

    assert sent.answer is not None
    assert "You may not answer" in sent.answer["errors"]["reason"]
    assert None is asking.answer


def test_a_reason_that_says_nothing_is_refused_beside_the_field(world: Stage) -> None:
    """Four characters and a lot of space are no reason."""
    asking = world.ask()

    sent = asking.launch(ADA, "  ok         ")

    assert sent.answer is not None
    assert "at least 5 characters" in sent.answer["errors"]["reason"]
    assert None is asking.answer


def test_a_late_click_changes_nothing(world: Stage) -> None:
    """After the deadline the run is refused; the click hears when that was."""
    asking = world.ask(minutes=-1)

    asking.click(ADA, REFUSE)

    assert "The time to answer was over" in asking.whispered()
    assert (None, "PAUSED") == (asking.answer, asking.state)


def test_the_second_of_two_clicks_hears_of_the_first(world: Stage) -> None:
    """The first answer stands."""
    asking = world.ask()
    asking.click(ADA, REFUSE)
    asking.whispered(1)
    value = value_of(KEY, asking.question.flow_run_id, asking.question.gate_id)

    world.socket.click(BOB, asking.message, RECHECK, value)

    assert f"It is answered already: <@{ADA}> refused the launch" in asking.whispered(2)
    assert asking.answer is not None
    assert (ApprovalAction.BLOCK, ADA) == (asking.answer.action, asking.answer.who)


def test_a_modal_sent_after_somebody_else_answered_says_who(world: Stage) -> None:
    """Beside the field, without markup, and the modal stays open."""
    asking = world.ask()
    asking.click(ADA, APPROVE)
    view = world.socket.modal()
    asking.click(BOB, REFUSE)
    until(lambda: asking.answer is not None, "Bob has answered")

    sent = world.socket.submit(ADA, view, "it is fine")

    assert sent.answer is not None
    said = sent.answer["errors"]["reason"]
    assert f"It is answered already: {BOB} refused the launch" in said
    assert "<" not in said
    assert asking.answer is not None
    assert BOB == asking.answer.who


def test_an_envelope_that_comes_twice_is_done_once(world: Stage) -> None:
    """Slack delivers again what it holds for lost; it is acknowledged, and nothing else."""
    asking = world.ask()
    envelope = asking.click(ADA, REFUSE)
    asking.whispered(1)
    envelope.acknowledged.clear()

    world.socket.again(envelope)

    world.socket.command(EVE, "help")  # answered after it, so that nothing more can come
    world.socket.answered(2)
    assert 2 == len(world.slack.responses)
    assert 1 == len([text for text in asking.said_below() if "refused the launch" in text])


def test_a_run_that_has_ended_takes_no_answer(world: Stage) -> None:
    """Somebody cancelled it in Prefect."""
    asking = world.ask()
    set_state(asking.question.flow_run_id, "CANCELLED")

    asking.click(ADA, REFUSE)

    assert "The run has ended" in asking.whispered()
    assert None is asking.answer


def test_a_run_of_another_gate_file_takes_no_answer(world: Stage) -> None:
    """A question in an allowed store does not make a run of something else an allowed one."""
    other = paused_run(world.folder / "other.toml", KEY)
    asking = world.ask()
    question = replace(asking.question, flow_run_id=other)
    keep_question(world.store, question)

    value = value_of(KEY, other, question.gate_id)
    world.socket.click(ADA, asking.message, REFUSE, value)

    assert "of another gate file" in asking.whispered()
    assert (None, "PAUSED") == (asking.answer, state_of(other))


def test_a_forged_button_is_held_against_the_store(world: Stage) -> None:
    """The value of a button is never believed."""
    asking = world.ask()
    forged = (
        ("no JSON", "does not belong to Prelaunch"),
        ('{"flow_run_id": "x", "gate_id": 1, "key": "y"}', "does not belong to Prelaunch"),
        ('{"flow_run_id": "x", "gate_id": "../../etc", "key": "passwd"}', "cannot be read now"),
        ('{"flow_run_id": "x", "gate_id": "test-1", "key": "gate-1"}', "has asked this question"),
        (value_of(KEY, "x", asking.question.gate_id), "a different question"),
    )
    for count, (value, said) in enumerate(forged, 1):
        world.socket.click(ADA, asking.message, REFUSE, value)
        assert said in asking.whispered(count)

    assert (None, "PAUSED") == (asking.answer, asking.state)


def test_a_store_that_cannot_be_read_takes_no_answer(world: Stage) -> None:
    """What could not be recorded does not count, and the click hears it."""
    asking = world.ask()
    world.store.put(question_key(asking.question.gate_id, KEY), b"{")

    asking.click(ADA, REFUSE)

    assert "cannot be read now, so nothing was recorded" in asking.whispered()
    assert "PAUSED" == asking.state


def test_slack_that_opens_no_modal_is_said_and_nothing_is_recorded(world: Stage) -> None:
    """The click is to be made again."""
    asking = world.ask()
    world.slack.fail(Failure.SERVER_ERROR, times=5, method="views.open")

    asking.click(ADA, APPROVE)

    assert "Click again" in asking.whispered()
    assert None is asking.answer


def test_a_message_that_cannot_be_updated_does_not_hold_the_answer(world: Stage) -> None:
    """Slack's failure is logged; the run goes on."""
    asking = world.ask()
    world.slack.scopes.remove("chat:write")

    asking.click(ADA, REFUSE)

    asking.resumed()
    assert asking.answer is not None


def value_of(key: str, run: str, gate_id: str) -> str:
    """The value of a button that a person still sees, though the message has lost it."""
    return json.dumps({"flow_run_id": run, "gate_id": gate_id, "key": key})
