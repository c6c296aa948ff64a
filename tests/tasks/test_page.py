"""Who is notified of a machine that a gate condemned, whatever the gate's end: no server, no job."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from checks.model import Answer
from tasks import page
from tasks.finish import notify_launch
from tasks.gate.outcome import Decision, Ending, GateOutcome, JudgedReport, Training, first_line, with_ending
from tasks.gate.question import ApprovalAction
from tasks.gate.session import Session
from tasks.gate_file.model import Mode
from tasks.launchers.base import JobState
from tasks.notifiers.base import Audience, Notification, PageKind
from tasks.notifiers.deliver import DeliveryResult
from tasks.paging.content import kind_of
from tests.sample_reports import healthy, wrong_sums
from tests.tasks.sessions import TRAIN_JOB, answer, judged, session

GO = judged(healthy(4, 1))
BAD = judged(wrong_sums(healthy(4, 1), "node-1/rank-1"))
ASK = replace(GO, verdict=replace(GO.verdict, answer=Answer.ASK))
CANNOT_TELL = replace(GO, verdict=replace(GO.verdict, answer=Answer.CANNOT_TELL))
FAILED = Training(TRAIN_JOB, JobState.FAILED, "exit 7")


@dataclass
class Post:
    """What people were sent, in its order: who, and which notification; "settled" is what notified nobody."""

    sent: list[tuple[str, Notification]] = field(default_factory=list)

    def deliver(self, notify: object, store: object, note: Notification, *also: Audience) -> DeliveryResult:
        """Each audience hears of it."""
        self.sent += [(audience, note) for audience in (note.audience, *also)]
        return DeliveryResult()

    def settle(self, notify: object, store: object, note: Notification) -> DeliveryResult:
        """Nobody hears of it."""
        self.sent.append(("settled", note))
        return DeliveryResult()

    def heard(self, audience: str) -> list[str]:
        """The machines of which an audience heard, each as often as it did."""
        return [name for who, note in self.sent if who == audience for name in note.culprits]


@pytest.fixture
def post(monkeypatch: pytest.MonkeyPatch) -> Post:
    """Notifications are kept here."""
    made = Post()
    monkeypatch.setattr(page, "deliver", made.deliver)
    monkeypatch.setattr(page, "settle", made.settle)
    return made


def end(
    decision: Decision | None, found: JudgedReport | None, ending: Ending = Ending.VERDICT, **more: Any
) -> GateOutcome:
    """An end of the gate."""
    made = GateOutcome("g-1", ending, decision, found, None, "why it ended", "report", "html")
    return replace(made, **more)


ENDS = {
    "a GO": end(Decision.LAUNCHED, GO),
    "a GO whose training failed": end(Decision.LAUNCHED, GO, Ending.JOB_FAILED, training=FAILED),
    "a GO without machines": end(Decision.NOT_LAUNCHED, GO, Ending.NO_CAPACITY),
    "warnings that were approved": end(Decision.LAUNCHED, ASK, answer=answer()),
    "warnings that were refused": end(Decision.REFUSED, ASK, answer=answer(ApprovalAction.BLOCK)),
    "warnings": end(Decision.AWAITING, ASK),
    "missing evidence": end(Decision.CANNOT_TELL, CANNOT_TELL),
    "the same refusal": end(Decision.REFUSED, BAD),
    "no capacity": end(None, None, Ending.NO_CAPACITY),
    "a rejection": end(None, None, Ending.REJECTED),
    "a defect, or a lock that was lost": end(Decision.CANNOT_TELL, None),
}


def replaced(one: Session) -> None:
    """A later verdict replaced the refusal, which is a gate of its own."""
    one.replaced.append(end(Decision.REFUSED, BAD, gate_id="g-0"))


def began_again(one: Session) -> None:
    """The checks began again, and have no other verdict yet."""
    one.judged = BAD
    one.begin_again()


def still_judged(one: Session) -> None:
    """The gate broke after its refusal."""
    one.judged = BAD


@pytest.mark.parametrize(
    ("refuse", "name"),
    [
        *((refuse, name) for refuse in (replaced, began_again) for name in ENDS),
        *((still_judged, name) for name, ended in ENDS.items() if ended.judged is None),
    ],
)
def test_the_on_call_hears_of_a_condemned_machine_once_whatever_the_end_is(
    tmp_path: Path, post: Post, refuse: Any, name: str
) -> None:
    """The owner does not, and hears of the end alone; what is sent about the refusal says nothing of the end, nor of its answer."""
    one = session(tmp_path)
    refuse(one)
    page.send_notification(one, ENDS[name])

    assert ["node-1"] == post.heard(Audience.ONCALL)
    assert "node-1" not in post.heard(Audience.OWNER)
    (refusal,) = [note for who, note in post.sent if who == Audience.ONCALL]
    assert refusal.title.startswith("NO-GO local: node-1") and refusal.answer is None
    if name != "the same refusal":
        assert ("g-0" if refuse is replaced else "g-1") == refusal.gate_id
        assert 2 == len(post.sent)
    # Messages show the end last, and a GO resolves nothing that is opened after it.
    assert ("settled" == post.sent[0][0]) is (PageKind.GO is kind_of(ENDS[name]))


@pytest.mark.parametrize("name", ENDS)
def test_an_end_without_a_condemned_machine_is_one_notification_or_none(
    tmp_path: Path, post: Post, name: str
) -> None:
    """As it always was."""
    page.send_notification(session(tmp_path), ENDS[name])

    assert 1 == len(post.sent)
    assert (["node-1"] if name == "the same refusal" else []) == post.heard(Audience.ONCALL)


def test_a_machine_in_the_place_of_another_is_another(tmp_path: Path, post: Post) -> None:
    """The place has the same name in both jobs, and the engine has a name for each machine."""
    one = session(tmp_path)
    nodes = tuple(
        replace(node, identity={**node.identity, "engine_node": f"ip-{node.name}"})
        for node in BAD.report.nodes
    )
    other = replace(BAD, report=replace(BAD.report, nodes=nodes))
    replaced(one)
    page.send_notification(one, end(Decision.REFUSED, other))

    assert ["node-1", "node-1"] == post.heard(Audience.ONCALL)


def test_a_question_that_another_process_continues_keeps_no_refusal_back(tmp_path: Path, post: Post) -> None:
    """What the process that waits has notified people of, its own end does not repeat."""
    one = session(tmp_path)
    replaced(one)
    page.notify_replaced(one)
    page.send_notification(one, ENDS["warnings that were refused"])

    assert (["node-1"], 2) == (post.heard(Audience.ONCALL), len(post.sent))


YES = answer(override=True)
OVERRIDDEN, OBSERVED = end(Decision.OVERRIDDEN, BAD, answer=YES), end(Decision.OBSERVED, BAD)
UNKNOWN = replace(OVERRIDDEN, judged=CANNOT_TELL)


@pytest.mark.parametrize(
    ("launch", "oncall", "owner"),
    [(OVERRIDDEN, 1, 1), (UNKNOWN, 1, 1), (OBSERVED, 1, 0), (end(Decision.LAUNCHED, GO), 0, 0)],
)
@pytest.mark.parametrize("trained", [True, False])
def test_a_launch_against_the_verdict_is_notified_of_when_it_begins_and_once(
    tmp_path: Path, post: Post, launch: GateOutcome, oncall: int, owner: int, trained: bool
) -> None:
    """What becomes of the training is for the owner alone, where it failed; its messages show the end."""
    one = session(tmp_path, mode=Mode.OBSERVE if launch.decision is Decision.OBSERVED else Mode.ENFORCE)
    one.answer = launch.answer
    assert launch.judged is not None
    asyncio.run(notify_launch(one, launch.judged))
    begun = [who for who, _ in post.sent]
    assert (oncall, owner, 0) == (begun.count("oncall"), begun.count("owner"), begun.count("settled"))

    ended = launch if trained else replace(launch, ending=Ending.JOB_FAILED, training=FAILED)
    page.send_notification(one, ended)
    assert ["settled" if trained else "owner"] == [who for who, _ in post.sent[len(begun) :]]


@pytest.mark.parametrize("broken", [OVERRIDDEN, OBSERVED])
def test_a_failed_training_on_broken_hardware_is_the_on_call_s_as_well(
    tmp_path: Path, post: Post, broken: GateOutcome
) -> None:
    """A process that took the gate over does not know that people heard of the launch."""
    page.send_notification(session(tmp_path), replace(broken, ending=Ending.JOB_FAILED, training=FAILED))

    assert (["oncall", "owner"], ["node-1"]) == ([who for who, _ in post.sent], post.heard(Audience.ONCALL))


def test_the_title_of_a_failed_training_says_who_launched_it_against_the_verdict() -> None:
    """And its page does not say that no node is blamed."""
    ended = with_ending(replace(OVERRIDDEN, ending=Ending.JOB_FAILED, training=FAILED), "local")

    assert first_line(ended, "local").endswith("(against the verdict, by ada (Slack))")
    assert ended.judged is not None and "No node is blamed" not in ended.judged.context.training
