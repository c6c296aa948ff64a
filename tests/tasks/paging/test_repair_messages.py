"""Questions and pages about repairs, and the digest of a fleet: who may allow one, how that is known, and that nobody is called."""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tasks.gate.question import ApprovalAction, keep_answer, read_question
from tasks.gate_file.model import Gate, RemediationTable
from tasks.gate_file.people import Approval, Notify
from tasks.machines.base import Machine, Rung, ServiceState
from tasks.notifiers.base import Notification, PageKind, PendingQuestion
from tasks.notifiers.slack.messages import question_blocks
from tasks.paging import content
from tasks.paging.repair_messages import KEY, GatePeople, allow_in_advance, terminal_user
from tasks.remediation.model import ActState, Permission, Reason, RepairQuestion
from tasks.store.folder import FolderStore
from tests.tasks.notifiers.means import page
from tests.tasks.remediation.simulated import World
from tests.tasks.remediation.test_steps import an_act
from tests.tasks.sessions import answer as sample_answer

(CASE,) = World(1).condemn("n1")
NAME = "g1-n1-reboot-1"

GATE = cast(Gate, SimpleNamespace(name="prod", cluster=SimpleNamespace(name="c"), notify=Notify()))


def people(folder: Path) -> GatePeople:
    """Of a gate file with an approver and an overrider, whose notifications go to the log."""
    gate = SimpleNamespace(
        name="prod",
        cluster=SimpleNamespace(name="sim", declared=SimpleNamespace(instance_type="cpu")),
        notify=Notify(),
        approval=Approval(approvers=("U0APPROVES",), overriders=("U0OVERRIDES",)),
        remediation=RemediationTable(),
    )
    context = SimpleNamespace(gate=gate, store=FolderStore(folder), file="gate.toml")
    return GatePeople(cast(Any, context), "")


def asked(one: GatePeople) -> RepairQuestion:
    """The question as the journal has it."""
    now = time.time()
    deadline = one.ask(CASE, Rung.REBOOT, 1, "scontrol reboot n1")
    return RepairQuestion("g1", "n1", Rung.REBOOT, 1, Permission.PENDING, now, deadline)


def answer(one: GatePeople, **more: Any) -> None:
    """Somebody answers."""
    own: dict[str, Any] = {"gate_id": NAME, "key": KEY, "who": "U0OVERRIDES", "at": time.time()} | more
    assert keep_answer(one.context.store, replace(sample_answer(), **own))


def test_a_proven_overrider_allows_a_repair(tmp_path: Path) -> None:
    """The record names the person."""
    one = people(tmp_path)
    question = asked(one)
    assert (Permission.PENDING, "") == one.answer(question)
    answer(one)

    assert (Permission.ALLOWED, "U0OVERRIDES (Slack)") == one.answer(question)


BLOCKS = {"action": ApprovalAction.BLOCK}


@pytest.mark.parametrize(
    ("more", "permission"),
    [
        pytest.param({**BLOCKS, "who": "U0OVERRIDES"}, Permission.DENIED, id="an overrider refuses"),
        pytest.param({**BLOCKS, "who": "U0APPROVES"}, Permission.DENIED, id="an approver refuses"),
        pytest.param({"who": "U0APPROVES"}, Permission.PENDING, id="an approver"),
        pytest.param({"who": "U0NOBODY"}, Permission.PENDING, id="somebody else"),
        pytest.param({"verified": False}, Permission.PENDING, id="not proven"),
        pytest.param({"at": time.time() + 7200}, Permission.PENDING, id="too late"),
    ],
)
def test_repair_question_is_answered_by_those_who_may(
    tmp_path: Path, more: dict[str, Any], permission: Permission
) -> None:
    """Refusing needs no more right than approving. Else the question stays open until its deadline."""
    one = people(tmp_path)
    question = asked(one)
    answer(one, **more)

    assert permission is one.answer(question)[0]


def test_an_answer_to_another_question_counts_for_that_one_alone(tmp_path: Path) -> None:
    """Another node, another repair, another number."""
    one = people(tmp_path)
    question = asked(one)
    answer(one)

    others: list[dict[str, Any]] = [{"node": "n2"}, {"rung": Rung.REPLACE}, {"number": 2}, {"gate_id": "g2"}]
    for other in others:
        assert Permission.PENDING is one.answer(replace(question, **other))[0]


def test_a_question_that_is_asked_again_keeps_its_deadline(tmp_path: Path) -> None:
    """A process that died in between does not give more time."""
    first = asked(people(tmp_path))
    again = asked(people(tmp_path))
    kept = read_question(FolderStore(tmp_path), NAME, KEY)

    assert first.deadline == again.deadline
    assert kept is not None
    assert "reboot n1" == kept.repair
    assert kept.said.startswith("sim: may Prelaunch reboot n1? The gate found: n1: ")


def test_repair_allowed_in_the_terminal_is_recorded_without_a_question(tmp_path: Path) -> None:
    """Of those repairs alone, and only within the block."""
    with allow_in_advance([Rung.REBOOT]):
        one = people(tmp_path)
    question = asked(one)

    permission, by = one.answer(question)
    assert Permission.ALLOWED is permission
    assert by.endswith("(terminal)")
    assert read_question(one.context.store, NAME, KEY) is None
    assert Permission.PENDING is one.answer(replace(question, rung=Rung.REPLACE))[0]
    assert Permission.PENDING is people(tmp_path).answer(question)[0]


def test_a_page_names_every_node_of_a_gate_and_what_was_done(tmp_path: Path) -> None:
    """One page, with the engine's words, and whether each gets new jobs."""
    one = people(tmp_path)
    cases = World(1).condemn("n1", "n2")
    done = [an_act(Rung.FENCE, said="drained"), an_act(Rung.REBOOT, said="rebooting", allowed_by="U1")]
    machines = {"n1": Machine("n1", ServiceState.OUT, status="DOWN*", jobs=("7",))}
    one.page(cases, Reason.TRIED_ALL, done, machines)
    text = (tmp_path / "pages" / "g1.txt").read_text()

    assert "n1, n2 need a person: every repair was tried" in text
    assert "drained" in text
    assert "rebooting (allowed by U1)" in text
    assert "Now n1 is out of service (DOWN*), and job 7 runs on it; nobody knows whether n2 gets" in text
    assert "To test it, log in there: prelaunch check --instance-type cpu" in text


@pytest.mark.parametrize("state", [ActState.DONE, ActState.REFUSED, ActState.AMBIGUOUS])
@pytest.mark.parametrize("rung", [Rung.RETURN, Rung.RECHECK])
def test_only_a_node_that_was_given_back_is_said_to_serve(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: ActState, rung: Rung
) -> None:
    """By what resolves the incident about it."""
    notes: list[Notification] = []
    monkeypatch.setattr("tasks.paging.repair_messages.settle", lambda notify, store, page: notes.append(page))
    people(tmp_path).tell(an_act(rung, state))

    done = rung is Rung.RETURN and state is ActState.DONE
    assert [("n1",) if done else ()] == [note.returned for note in notes]


def test_the_buttons_of_a_repair_allow_it_or_leave_it() -> None:
    """There is nothing to check again, and no training is spoken of."""
    blocks = question_blocks("g1", PendingQuestion("run", KEY, time.time(), True, "", True, "reboot n1"))
    shown, buttons = json.dumps(blocks), [one["text"]["text"] for one in blocks[1]["elements"]]

    assert "Allow this: reboot n1?" in shown
    assert ["Leave the machine as it is", "Allow it"] == buttons
    assert "training" not in shown and "aunch anyway" not in shown


def test_a_user_without_a_name_is_recorded_by_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a container with --user 12345 there is no entry in passwd, and records still say who it was."""

    def nobody(uid: int) -> None:
        raise KeyError(f"getpwuid(): uid not found: {uid}")

    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pwd.getpwuid", nobody)

    assert terminal_user() == f"user {os.getuid()} (terminal)"


FORM = "in Prefect, where the button Resume on the run's page opens the form"
ASKS, LATE = "Start the training despite these warnings?", "by 01:46 UTC. Without an answer by then,"
ENDS = "the training is not started, and the gate ends"


@pytest.mark.parametrize(
    ("by_slack", "url", "repair", "line"),
    [
        (True, "http://x", "", f"{ASKS} Answer in Slack or {FORM} {LATE} {ENDS}."),
        (False, "http://x", "", f"{ASKS} Answer {FORM} {LATE} {ENDS}."),
        (False, "http://x", "", "  Launch anyway: the training starts now on these nodes, and your name and reason are recorded."),
        (True, "http://x", "reboot n2", f"Allow this: reboot n2? Answer in Slack {LATE} nothing more is done to the node."),
        (False, "", "", "Nobody may answer: [approval] of the gate file names nobody."),
    ],
)  # fmt: skip
def test_a_question_says_where_it_can_be_answered(by_slack: bool, url: str, repair: str, line: str) -> None:
    """A repair is allowed in Slack alone."""
    asked = PendingQuestion("run", "k", 1e9, False, url, by_slack, repair)

    assert line in content.finish_page(page(PageKind.QUESTION, question=asked), "").text.splitlines()
