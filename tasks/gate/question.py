"""A verdict that waits for a person: the question and its answer, as the store keeps them.

gates/<gate id>/questions/<key>.json is written before anybody is asked. gates/<gate id>/answers/<key>.json is written by the
process that proved who answers (the Slack process). Whoever can write the store can forge reports as well, so it is trusted. The
form of Prefect writes no file, because it knows no users. gates/<gate id>/given/<key>.json is the answer that the gate followed.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from checks.documents.report import Version, dump_plain
from checks.model import SCHEMA_VERSION
from tasks.notifiers.base import AnswerLine
from tasks.store.base import Store, document_at
from tasks.store.layout import answer_key, given_key, question_key

FILE_BYTES = 1 << 20
REASON_CHARACTERS = 1000
# To launch anyway needs a reason of this many characters.
LEAST_REASON = 5
_PLAIN = str.maketrans("()", "[]")


class ApprovalAction(StrEnum):
    """What a person may decide."""

    BLOCK = "block"
    LAUNCH = "launch-anyway"
    RECHECK = "check-again"


# What somebody did who chose it; the question says what it is about.
ACTION_TEXTS = {
    ApprovalAction.BLOCK: "refused",
    ApprovalAction.LAUNCH: "allowed it",
    ApprovalAction.RECHECK: "asked for new checks",
}


class AnswerChannel(StrEnum):
    """How the answer came. SLACK: the user was proven by Slack. PREFECT: anybody who can reach the server. NOBODY: the time was up."""

    SLACK = "slack"
    PREFECT = "prefect"
    NOBODY = "nobody"


@dataclass(frozen=True)
class Question:
    """What is asked. Times are Unix seconds; `override` is true if the verdict is a FAIL; `said` is the headline, and `verdict`
    the verdict's digest.

    `repair` is set if a repair of a machine is to be allowed, which `ApprovalAction.LAUNCH` then does.
    """

    schema_version: Version
    gate_id: str
    gate: str
    cluster: str
    flow_run_id: str
    key: str
    said: str
    override: bool
    asked_at: float
    deadline: float
    approvers: tuple[str, ...]
    overriders: tuple[str, ...]
    repair: str = ""
    verdict: str = ""


@dataclass(frozen=True)
class ApprovalAnswer:
    """What was answered. `who` is a Slack user id, or the name that somebody typed; `verified` whether it was proven.

    The gate itself adds `override`, whether it is about a FAIL, and `note`: why it does not do what the answer says.
    """

    schema_version: Version
    gate_id: str
    key: str
    action: ApprovalAction
    who: str
    via: AnswerChannel
    verified: bool
    reason: str
    at: float
    override: bool = False
    note: str = ""

    @property
    def launches(self) -> bool:
        """Whether the training is to start because of this answer."""
        return self.action is ApprovalAction.LAUNCH and not self.note

    @property
    def by(self) -> str:
        """Who answered, and how that is known."""
        if self.via is AnswerChannel.NOBODY:
            return "nobody"
        how = "Slack" if self.via is AnswerChannel.SLACK else "Prefect's form"
        # Typed by whoever filled the form in: no part of a name may look like a proof of it.
        return f"{self.who} ({how})" if self.verified else f"{self.who.translate(_PLAIN)} ({how}, unverified)"

    @property
    def line(self) -> str:
        """Who decided what and why, and what came of it, in one line."""
        return str(self.summary)

    @property
    def summary(self) -> AnswerLine:
        """The line is returned in its parts, for notifiers that show a person by name."""
        if self.via is AnswerChannel.NOBODY:
            return AnswerLine(self.reason, key=self.key)
        because = f": {self.reason}" if self.reason else ""
        sentence = f"{ACTION_TEXTS[self.action]}{because}{f' (the answer is not valid: {self.note})' if self.note else ''}"
        proven = self.verified and self.via is AnswerChannel.SLACK
        return AnswerLine(sentence, self.by, self.who if proven else "", self.key)


STRICTNESS = (ApprovalAction.LAUNCH, ApprovalAction.RECHECK, ApprovalAction.BLOCK)
"""The further to the right, the stricter."""


def standing_answer(question: Question, answers: Sequence[ApprovalAnswer]) -> ApprovalAnswer | None:
    """Which of several answers counts: the strictest; of equal ones a verified one. An answer that came too late does not count."""
    timely = [answer for answer in answers if answer.at <= question.deadline]
    ranked = sorted(timely, key=lambda answer: (-STRICTNESS.index(answer.action), not answer.verified))
    return ranked[0] if ranked else None


def expired_answer(question: Question, now: float) -> ApprovalAnswer:
    """The answer that counts if the time was up."""
    until = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(question.deadline))
    return nobodys_answer(question.gate_id, question.key, f"nobody answered by {until}", now)


def nobodys_answer(gate_id: str, key: str, reason: str, now: float) -> ApprovalAnswer:
    """The answer where no person has given one."""
    block, channel = ApprovalAction.BLOCK, AnswerChannel.NOBODY
    return ApprovalAnswer(SCHEMA_VERSION, gate_id, key, block, "nobody", channel, False, reason, now)


def checked_answer(question: Question, answer: ApprovalAnswer, form_may_override: bool) -> ApprovalAnswer:
    """The answer with the gate's `note` on it, if the gate must not launch in spite of it."""
    note = ""
    if answer.action is ApprovalAction.LAUNCH:
        if question.override and not answer.verified and not form_may_override:
            note = (
                "Prefect's form does not know who answers, and the gate file does not allow it to override a FAIL "
                "([approval] form_may_override)"
            )
        elif len(answer.reason.strip()) < LEAST_REASON:
            note = f"launch-anyway needs a reason of at least {LEAST_REASON} characters"
    return replace(answer, override=question.override, note=note)


def may_answer(question: Question, user: str, action: ApprovalAction) -> bool:
    """Whether a proven Slack user may give this answer. Overriders may do all that approvers may."""
    if question.override and action is ApprovalAction.LAUNCH:
        return user in question.overriders
    return user in (*question.approvers, *question.overriders)


def keep_question(store: Store, question: Question) -> None:
    """Write it; the same question again changes nothing. Raises StoreError."""
    store.put(question_key(question.gate_id, question.key), dump_plain(question))


def read_question(store: Store, gate_id: str, key: str) -> Question | None:
    """The question; None if there is none. Raises StoreError, DecodeError."""
    return document_at(store, question_key(gate_id, key), Question, FILE_BYTES)


def keep_answer(store: Store, answer: ApprovalAnswer) -> bool:
    """Write it, unless somebody answered before: the first answer counts. Raises StoreError."""
    return store.put_if_absent(answer_key(answer.gate_id, answer.key), dump_plain(answer))


def read_answer(store: Store, gate_id: str, key: str) -> ApprovalAnswer | None:
    """The answer that was proven; None if there is none. Raises StoreError, DecodeError."""
    return document_at(store, answer_key(gate_id, key), ApprovalAnswer, FILE_BYTES)


def keep_final_answer(store: Store, answer: ApprovalAnswer) -> None:
    """Write the answer that the gate follows. Raises StoreError."""
    store.put(given_key(answer.gate_id, answer.key), dump_plain(answer))


def read_final_answer(store: Store, gate_id: str, key: str) -> ApprovalAnswer | None:
    """The answer that the gate followed; None if the question is open. Raises StoreError, DecodeError."""
    return document_at(store, given_key(gate_id, key), ApprovalAnswer, FILE_BYTES)
