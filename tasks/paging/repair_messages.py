"""What people are asked and told about repairs of machines: the questions, the pages, and the replies below the gate's message.

A question about a repair has a folder of its own in the store, gates/<act id>, because a gate may have several. It is answered in
Slack by somebody in [approval] overriders, or in advance by who starts `prelaunch repair run` in a terminal: that person has the
rights to repair machines by hand.
"""

from __future__ import annotations

import getpass
import logging
import os
import shlex
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace

from checks.model import SCHEMA_VERSION
from checks.value_types import DecodeError
from tasks.gate.context import GateContext
from tasks.gate.links import run_links, run_url
from tasks.gate.question import (
    ApprovalAction,
    Question,
    keep_question,
    may_answer,
    read_answer,
    read_question,
)
from tasks.machines.base import REPAIRS, Machine, Rung, ServiceState
from tasks.notifiers.base import MEANING, Audience, Item, Notification, PageKind, PendingQuestion, Severity
from tasks.notifiers.deliver import deliver, settle
from tasks.paging.content import finish_page, new_page
from tasks.remediation.ladder import required
from tasks.remediation.model import Act, ActState, Case, Permission, Reason, RepairQuestion
from tasks.remediation.records import act_id
from tasks.remediation.steps import PAGED, UNPROVEN, reason_text
from tasks.store.base import StoreError
from tasks.text.inert import one_line

LOG = logging.getLogger("prelaunch")
KEY = "repair"
# What a person does next, by the reason why the repair stopped; and for all other reasons.
NEXT = {
    Reason.NOT_ALLOWED: "To allow the {step} now, for every open node: prelaunch repair run {file} --allow {step}",
    Reason.BREAKER_OPEN: "When the cause is found: prelaunch repair run {file} --close-breaker",
}
AGAIN = "Look at the node, and repair or replace it if it is broken. To test it, log in there: prelaunch check --instance-type {type}"
MINUTE_S = 60.0


@dataclass(frozen=True)
class InAdvance:
    """Repairs that the person at the terminal allows, and who that is."""

    rungs: tuple[Rung, ...] = ()
    person: str = ""


_NOTHING = InAdvance()
_ALLOWED: ContextVar[InAdvance] = ContextVar("prelaunch_allowed_in_advance", default=_NOTHING)


@contextmanager
def allow_in_advance(rungs: Sequence[Rung]) -> Iterator[None]:
    """Within the block this process's remediation needs no other answer for these repairs. It is no part of any request."""
    token = _ALLOWED.set(InAdvance(tuple(rungs), terminal_user()))
    try:
        yield
    finally:
        _ALLOWED.reset(token)


def terminal_user() -> str:
    """Who runs this process, as records show it."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        # As in a container with --user 12345: no entry in passwd (OSError since Python 3.13).
        user = f"user {os.getuid()}"
    return f"{user} (terminal)"


class GatePeople:
    """The people of one gate file. `flow_run_id` is the remediation's."""

    def __init__(self, context: GateContext, flow_run_id: str) -> None:
        self.context, self.flow_run_id = context, flow_run_id
        self.in_advance = _ALLOWED.get()

    def ask(self, case: Case, rung: Rung, number: int, command: str) -> float:
        """Ask once; a question that was asked before keeps its deadline. Raises StoreError."""
        now = time.time()
        deadline = now + self.context.gate.remediation.ask_minutes * MINUTE_S
        if rung in self.in_advance.rungs:
            return deadline
        name = act_id(case.gate_id, case.node, rung, number)
        question = self._read(name)
        if question is None:
            question = self._question(case, rung, name, now, deadline, command)
            keep_question(self.context.store, question)
        self._announce(case, question, command)
        return question.deadline

    def answer(self, act: RepairQuestion) -> tuple[Permission, str]:
        """The answer of a proven person who may give it. One that came after the deadline is none."""
        if act.rung in self.in_advance.rungs:
            return Permission.ALLOWED, self.in_advance.person
        name = act_id(act.gate_id, act.node, act.rung, act.number)
        try:
            answer = read_answer(self.context.store, name, KEY)
        except (StoreError, DecodeError) as error:
            LOG.warning("the answer about %s cannot be read: %s", name, error)
            return Permission.PENDING, ""
        question = self._read(name)
        if answer is None or question is None or answer.at > act.deadline:
            return Permission.PENDING, ""
        if not answer.verified or not may_answer(question, answer.who, answer.action):
            LOG.warning("the answer of %s about %s is ignored: this user may not give it", answer.who, name)
            return Permission.PENDING, ""
        allowed = answer.action is ApprovalAction.LAUNCH
        return (Permission.ALLOWED if allowed else Permission.DENIED), answer.by

    def page(
        self, cases: Sequence[Case], reason: Reason, acts: Sequence[Act], machines: Mapping[str, Machine]
    ) -> None:
        """Call the on-call once for all of these nodes, with what was done for each, and whether the engine gives it jobs."""
        nodes = ", ".join(case.node for case in cases)
        cause = PAGED.get(reason, f"{UNPROVEN} ({reason_text(reason)})")
        verb = "needs" if len(cases) == 1 else "need"
        title = f"{self.context.gate.cluster.name}: {nodes} {verb} a person: {cause}"
        items = tuple(_item(act) for act in acts if act.rung is not Rung.PAGE)
        file = os.path.abspath(self.context.file)
        which = ("--node", cases[0].node) if len(cases) == 1 else ()
        service = "; ".join(_service_text(case.node, machines.get(case.node)) for case in cases)
        step = next((rung for rung in REPAIRS if rung is required(cases[0])), Rung.REBOOT)
        advice = NEXT.get(reason, AGAIN).format(
            file=shlex.quote(file), step=step.value, type=self.context.gate.cluster.declared.instance_type
        )
        facts = (
            (MEANING, f"Now {service}. Prelaunch does nothing more by itself. {advice}"),
            ("condemned for", "; ".join(map(_finding_text, cases))),
            ("to see the state", shlex.join(("prelaunch", "fleet", "list", file, *which))),
            ("gate file", file),
        )
        page = self._page(cases[0].gate_id, tuple(case.node for case in cases), title, items, facts)
        deliver(self.context.gate.notify, self.context.store, finish_page(page, title))

    def tell(self, act: Act) -> None:
        """Reply below the gate's message; nobody is called."""
        returned = (act.node,) if act.rung is Rung.RETURN and act.state is ActState.DONE else ()
        title = f"{act.node}: {act.rung.value} {act.state.value}"
        title = f"{act.node} serves again, because it passed its checks" if returned else title
        page = self._page(act.gate_id, (act.node,), title, (_item(act),), ())
        page = replace(page, severity=Severity.INFO, returned=returned)
        settle(self.context.gate.notify, self.context.store, finish_page(page, title))

    def _read(self, name: str) -> Question | None:
        try:
            return read_question(self.context.store, name, KEY)
        except DecodeError as error:
            raise StoreError(f"the question {name} cannot be read: {error}") from error

    def _question(
        self, case: Case, rung: Rung, name: str, now: float, deadline: float, command: str
    ) -> Question:
        gate = self.context.gate
        repair = f"{rung.value} {case.node}"
        text = f"{gate.cluster.name}: may Prelaunch {repair}? The gate found: {_finding_text(case)}"
        return Question(
            SCHEMA_VERSION, name, gate.name, gate.cluster.name, self.flow_run_id, KEY, text, True, now, deadline,
            gate.approval.approvers, gate.approval.overriders, repair,
        )  # fmt: skip

    def _announce(self, case: Case, question: Question, command: str) -> None:
        url = run_url(self.flow_run_id)
        pending = PendingQuestion(
            self.flow_run_id, KEY, question.deadline, True, url, bool(question.overriders), question.repair
        )
        facts = (
            ("command", command),
            ("gate", case.gate_id),
            ("gate file", os.path.abspath(self.context.file)),
        )
        page = self._page(question.gate_id, (case.node,), question.said, (), facts)
        page = replace(page, topic=PageKind.QUESTION, question=pending, severity=Severity.WARNING)
        deliver(self.context.gate.notify, self.context.store, finish_page(page, question.said))

    def _page(
        self,
        gate_id: str,
        nodes: tuple[str, ...],
        title: str,
        items: tuple[Item, ...],
        facts: tuple[tuple[str, str], ...],
    ) -> Notification:
        page = new_page(self.context, gate_id, title, PageKind.REPAIR)
        links = run_links(self.flow_run_id)
        return replace(page, audience=Audience.ONCALL, culprits=nodes, items=items, facts=facts, links=links)


def _finding_text(case: Case) -> str:
    """What a gate found on the node first."""
    return f"{case.node}: {case.blames[0].message if case.blames else 'it was condemned'}"


def _service_text(node: str, machine: Machine | None) -> str:
    """Whether the engine starts jobs on a node, with the engine's own words."""
    service = machine.service if machine is not None else ServiceState.UNKNOWN
    status = f" ({one_line(machine.status, 200)})" if machine is not None and machine.status else ""
    if machine is None or service is ServiceState.UNKNOWN:
        return f"nobody knows whether {node} gets new jobs, or whether one runs on it{status}"
    jobs = f"job {', '.join(machine.jobs)} runs on it" if machine.jobs else "no job runs on it"
    return f"{node} is {service.value}{status}, and {jobs}"


def _item(act: Act) -> Item:
    """One act as a line of a page: what, how it ended, who allowed it, and the engine's words."""
    has_failed = act.state in (ActState.FAILED, ActState.REFUSED, ActState.AMBIGUOUS)
    label = "FAIL REPAIR" if has_failed else "INFO REPAIR"
    text = f"{act.rung.value} of {act.node}: {', '.join(filter(None, (act.state.value, one_line(act.said, 300))))}"
    text += f" (allowed by {act.allowed_by})" if act.allowed_by else ""
    commands = (act.command,) if act.command else ()
    return Item(label, "REPAIR", act.node, act.rung.value, text, "", commands, act.after or act.before)
