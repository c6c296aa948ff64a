"""Whether a click may answer: the question is read from an allowed gate's own store, never taken from the click.

NotAnswerable       no; the message is for whoever clicked
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from checks.value_types import DecodeError
from tasks.gate.question import (
    ApprovalAction,
    ApprovalAnswer,
    Question,
    may_answer,
    read_answer,
    read_question,
)
from tasks.gate_file.model import Gate
from tasks.gate_file.read import GateFileError
from tasks.notifiers.slack.blocks import escape, when
from tasks.slackbot.config import Allowed
from tasks.slackbot.prefect_client import FLOW, REMEDY, Run, Runs, Unreachable
from tasks.slackbot.wording import answered, user
from tasks.store.base import Store, StoreError

LOG = logging.getLogger("prelaunch.slack")
VALUE_CHARACTERS = 2000


class NotAnswerable(Exception):
    """This click changes nothing. The message says why, and the remedy, in mrkdwn."""


@dataclass(frozen=True)
class Named:
    """What a button names. It is not trusted until it was compared with the store."""

    flow_run_id: str
    gate_id: str
    key: str


@dataclass(frozen=True)
class Open:
    """A question that waits, where its answer goes, and the gate file as it is now."""

    question: Question
    allowed: Allowed
    gate: Gate
    store: Store


def named_in(value: str) -> Named:
    """What a button's value, or a modal's metadata, names. Raises NotAnswerable."""
    try:
        table = json.loads(value[:VALUE_CHARACTERS])
        parts = [table[name] for name in ("flow_run_id", "gate_id", "key")]
    except (ValueError, KeyError, TypeError) as error:
        raise NotAnswerable("This button does not belong to Prelaunch. Answer in Prefect.") from error
    if not all(isinstance(part, str) and part for part in parts):
        raise NotAnswerable("This button does not belong to Prelaunch. Answer in Prefect.")
    return Named(*parts)


def find(gates: Sequence[Allowed], named: Named) -> Open:
    """The question, from the store of an allowed gate. Raises NotAnswerable."""
    failed: list[str] = []
    for allowed in gates:
        try:
            gate, store = allowed.gate(), allowed.store()
            question = read_question(store, named.gate_id, named.key)
        except (GateFileError, StoreError, DecodeError) as error:
            LOG.error("the store of gate %s cannot be asked: %s", allowed.name, error)
            failed.append(allowed.name)
            continue
        if question is not None and question.gate == gate.name:
            if (question.gate_id, question.key, question.flow_run_id) != (
                named.gate_id,
                named.key,
                named.flow_run_id,
            ):
                raise NotAnswerable("The store has a different question. Answer in Prefect.")
            return Open(question, allowed, gate, store)
    if failed:
        said = f"The store of {', '.join(failed)} cannot be read now, so nothing was recorded. Click again."
        raise NotAnswerable(said)
    raise NotAnswerable(
        "No gate that this app serves has asked this question. See deployments/slack.toml, or answer in Prefect."
    )


def require_open(found: Open, runs: Runs, who: str, action: ApprovalAction) -> Run | None:
    """The run that waits; None while Prefect's server does not answer. Raises NotAnswerable."""
    given = answer_of(found)
    if given is not None:
        raise NotAnswerable(f"It is answered already: {answered(given)}. Nothing was changed.")
    if time.time() >= found.question.deadline:
        raise NotAnswerable(
            f"The time to answer was over {when(found.question.deadline)}: it is refused. Run the gate again."
        )
    _require_allowed(found, who, action)
    try:
        run = runs.run(found.question.flow_run_id)
    except Unreachable as error:
        LOG.warning(
            "gate %s: %s The answer is stored and will be delivered later.", found.question.gate_id, error
        )
        return None
    if run is None:
        raise NotAnswerable(
            "Prefect's server has no such run. Check that it is the server that runs the gate."
        )
    if not belongs(run, found):
        raise NotAnswerable(
            "The run is of another gate file than this app serves. Answer in Prefect, and see deployments/slack.toml."
        )
    if run.over:
        raise NotAnswerable(f"The run has ended ({escape(run.state, 60)}): nobody waits for an answer.")
    return run


def belongs(run: Run, found: Open) -> bool:
    """Whether the run is one of the allowed gate's."""
    flow = REMEDY if found.question.repair else FLOW
    return run.flow == flow and run.gate_file == found.allowed.file


def answer_of(found: Open) -> ApprovalAnswer | None:
    """The answer that was given. Raises NotAnswerable if the store cannot be read."""
    try:
        return read_answer(found.store, found.question.gate_id, found.question.key)
    except (StoreError, DecodeError) as error:
        LOG.error("the answer to %s cannot be read: %s", found.question.gate_id, error)
        said = "The gate's store cannot be read now, so nothing was recorded. Click again."
        raise NotAnswerable(said) from error


def _require_allowed(found: Open, who: str, action: ApprovalAction) -> None:
    """Require that the user may answer by the question as it was asked and by the gate file as it is now."""
    asked, approval = found.question, found.gate.approval
    now = replace(asked, approvers=approval.approvers, overriders=approval.overriders)
    if may_answer(asked, who, action) and may_answer(now, who, action):
        return
    override = asked.override and action is ApprovalAction.LAUNCH
    may = sorted(
        one
        for one in {*asked.approvers, *asked.overriders}
        if may_answer(asked, one, action) and may_answer(now, one, action)
    )
    what = (
        "allow this repair" if asked.repair else "override this FAIL" if override else "answer for this gate"
    )
    whom = ", ".join(map(user, may)) or "nobody through Slack"
    key = "approval.overriders" if override else "approval.approvers"
    LOG.warning("%s may not %s (%s)", who, what, asked.gate_id)
    raise NotAnswerable(
        f"You may not {what}: {whom} may. The gate file says so ({key}). Nothing was changed."
    )
