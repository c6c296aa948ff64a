"""The content of a notification: the answer and the culprit first, then evidence, remedy, cost, and where to find more.

Who is notified, and how urgently, follows from the outcome alone (docs/people.md shows the table).
"""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import UTC, datetime

from checks.judge.clocks import seconds_of
from checks.model import Answer, Cause, Level, Verdict
from tasks.gate.context import GateContext
from tasks.gate.outcome import Decision, Ending, GateOutcome, JudgedReport, first_line
from tasks.gate.session import Session
from tasks.launchers.base import JobState
from tasks.notifiers.base import (
    MEANING,
    PAID,
    Audience,
    Item,
    Link,
    Notification,
    PageKind,
    PendingQuestion,
    Severity,
)
from tasks.remediation.proof import engine_name
from tasks.render.context import Advised, VerdictContext, advised
from tasks.render.findings import followed, gathered, independent
from tasks.render.headline import coverage_text, culprits, deciding, explanation_before, lacking, sentence
from tasks.render.views.cost import cost_line
from tasks.render.views.finding_table import with_anchor
from tasks.store.base import Store
from tasks.store.layout import html_key, logs_folder
from tasks.text.inert import browsable, clean, one_line
from tasks.text.redact import redacted
from tasks.text.tables import excerpt

ITEMS = 20
EVIDENCE, EVIDENCE_LINES = 2000, 8
# Pages about somebody's machines; of the others none is to blame.
BLAMING = (PageKind.REFUSED, PageKind.OBSERVED, PageKind.OVERRIDDEN, PageKind.QUESTION)
_KINDS = {
    Ending.REJECTED: PageKind.REJECTED,
    Ending.NO_CAPACITY: PageKind.NO_CAPACITY,
    Ending.JOB_FAILED: PageKind.TRAINING_FAILED,
    Ending.CANCELLED: PageKind.CANCELLED,
}
SEEN_TO_RUN = (JobState.RUNNING, JobState.SUCCEEDED)


def page_of(session: Session, outcome: GateOutcome, links: tuple[Link, ...] = ()) -> Notification:
    """The notification about a gate's end; `links` are more places to look at."""
    judged, page = outcome.judged, _about_end(session.context, outcome, links)
    ran = outcome.training is not None
    training = f"Training: {training_of(outcome)}." if ran else ""
    page = _judged(page, judged, training) if judged else replace(page, facts=_meaning(page.topic, training))
    retry = judged.context.retry if judged is not None else ""
    facts = (
        *((PAID, text) for text in session.unreleased),
        *((("placement", str(outcome.placement or session.placed)),) if ran else ()),
        *((("to try without the failed nodes", retry),) if retry and page.topic is PageKind.REFUSED else ()),
        # Also where that file is, and the report of a store that is a folder.
        ("gate file", f"{os.path.abspath(session.context.file)} on {session.renewal.lease.owner.host}"),
    )
    page = replace(
        page,
        facts=(*page.facts, *facts),
        about=about_of(outcome, page.topic),
        trained=outcome.training is not None and outcome.training.state in SEEN_TO_RUN,
        answer=outcome.answer.summary if outcome.answer is not None else None,
    )
    return finish_page(page, outcome.reason)


def cancelled_page(context: GateContext, outcome: GateOutcome, links: tuple[Link, ...] = ()) -> Notification:
    """What the messages of a gate say that somebody cancelled. Nobody is notified: whoever cancelled it knows."""
    page = _about_end(context, outcome, links)
    facts = (("training", training_of(outcome)), ("gate file", os.path.abspath(context.file)))
    return finish_page(replace(page, facts=facts), outcome.reason)


def _about_end(context: GateContext, outcome: GateOutcome, links: tuple[Link, ...]) -> Notification:
    ending, title = kind_of(outcome), title_of(outcome, context.gate.name)
    url = _address(outcome.html or "", outcome.judged)
    base = new_page(context, outcome.gate_id, title, ending, url)
    audience, severity = audience_of(outcome, ending), severity_of(outcome, ending)
    links = (*links, *_store_links(context.store, outcome))
    return replace(base, audience=audience, severity=severity, links=links)


def new_page(context: GateContext, gate_id: str, title: str, topic: PageKind, url: str = "") -> Notification:
    """A notification for the gate's owner about an error, which has a title and an address alone."""
    gate = context.gate
    page = Notification(gate_id, gate.cluster.name, title, "", url, gate=gate.name, topic=topic)
    return replace(page, audience=Audience.OWNER)


def _address(page: str, judged: JudgedReport | None) -> str:
    return browsable(page) if judged is None else with_anchor(page, judged.verdict)


def question_of(
    session: Session, judged: JudgedReport, question: PendingQuestion, text: str, links: tuple[Link, ...]
) -> Notification:
    """The notification that asks for an answer; `text` is the line that says by when and where."""
    url = _address(session.context.store.location(html_key(session.gate_id)), judged)
    base = new_page(session.context, session.gate_id, text, PageKind.QUESTION, url)
    severity = Severity.ERROR if question.override else Severity.WARNING
    base = replace(base, severity=severity, links=links, question=question)
    return finish_page(_judged(base, judged), text)


def unreleased_page(page: Notification, failures: tuple[str, ...]) -> Notification:
    """The notification, after a GO, that machines may still run. It is for the owner and is no verdict."""
    title = f"{PAID} {page.gate}: {failures[0]}"
    about = replace(
        page, title=title, topic=PageKind.MACHINES, audience=Audience.OWNER, severity=Severity.ERROR, items=(),
        facts=(("verdict of the gate", page.title), *page.facts),
    )  # fmt: skip
    return finish_page(about, title)


def finish_page(page: Notification, reason: str) -> Notification:
    """The notification with its plain text: what happened, each finding with what to do and what proves it, and where to find more."""
    # The reason of a launch repeats the title, and says who allowed it.
    launched = page.answer is not None and page.topic in (PageKind.GO, PageKind.OVERRIDDEN)
    begins = str(page.answer) if launched else reason
    lines = [begins] if launched or reason not in page.title else []
    lines += [value for key, value in page.facts if key == MEANING]
    lines += [_how_to_answer(page.question)] if page.question is not None else []
    for item in page.items:
        lines += ["", str(item)]
        lines += [f"  Do: {item.remedy}"] if item.remedy else []
        lines += [f"  $ {command}" for command in item.commands]
        lines += [f"  | {line}" for line in item.evidence.splitlines()[:EVIDENCE_LINES]]
    lines += ["", f"{page.more_items} more findings are in the report."] if page.more_items else []
    lines += ["", *page.costs] if page.costs else []
    # A repair has no report of its own.
    is_repair = page.topic is PageKind.REPAIR or (page.question is not None and bool(page.question.repair))
    report = [] if is_repair and not page.url else [("report", page.url or "none was written")]
    places = [*report, *((link.text, link.url) for link in page.links)]
    facts = [fact for fact in (*places, *page.facts, ("gate id", page.gate_id)) if fact[0] != MEANING]
    lines += ["", *(f"{key[:1].upper()}{key[1:]}: {value}" for key, value in facts)]
    return replace(page, text="\n".join(lines).strip("\n"))


def _how_to_answer(question: PendingQuestion) -> str:
    in_prefect = question.url and not question.repair
    places = ["in Slack"] * question.by_slack + [
        "in Prefect, where the button Resume on the run's page opens the form"
    ] * bool(in_prefect)
    if not places:
        return "Nobody may answer: [approval] of the gate file names nobody."
    until = datetime.fromtimestamp(question.deadline, UTC).strftime("%H:%M UTC")
    lines = [f"  {label}: {effect}." for label, effect in question.choices]
    how = f"{question.prompt} Answer {' or '.join(places)} by {until}. Without an answer by then, {question.default}."
    return "\n".join([how, *lines])


def title_of(outcome: GateOutcome, name: str) -> str:
    """The title: one line, without secrets."""
    return redacted(first_line(outcome, name))


def items_of(verdict: Verdict, context: VerdictContext) -> tuple[Item, ...]:
    """The findings that a page names, the worst first."""
    own, _ = independent(gathered(verdict.findings))
    titled = () if context.end or verdict.answer is Answer.GO else deciding(verdict)[:1]
    advices = advised(own[:ITEMS], verdict, context)
    return tuple(replace(_item(advice), is_titled=advice.item in titled) for advice in advices)


def kind_of(outcome: GateOutcome) -> PageKind:
    """The kind of a notification about an end."""
    if outcome.ending in _KINDS:
        return _KINDS[outcome.ending]
    if outcome.decision is Decision.OVERRIDDEN:
        return PageKind.OVERRIDDEN
    answer = outcome.judged.verdict.answer if outcome.judged else Answer.CANNOT_TELL
    if outcome.decision is Decision.OBSERVED:
        return PageKind.GO if answer is Answer.GO else PageKind.OBSERVED
    if outcome.decision in (Decision.LAUNCHED, Decision.PASSED):
        return PageKind.GO
    return PageKind.CANNOT_TELL if outcome.decision in (Decision.CANNOT_TELL, None) else PageKind.REFUSED


def audience_of(outcome: GateOutcome, ending: PageKind) -> Audience:
    """Who is notified. On-call is notified of hardware only: measured, broken, and not so much of it that it is implausible.

    An override goes to both: its first audience is the on-call, who called those machines broken.
    """
    if ending is PageKind.OVERRIDDEN:
        return Audience.ONCALL
    blames = outcome.judged is not None and blames_hardware(outcome.judged.verdict)
    return Audience.ONCALL if blames and ending in (PageKind.REFUSED, PageKind.OBSERVED) else Audience.OWNER


def about_of(outcome: GateOutcome, ending: PageKind) -> tuple[str, ...]:
    """The nodes, or the check, of which evidence is missing; of a training that failed, the node whose log says why."""
    if ending is PageKind.TRAINING_FAILED:
        return (outcome.training.node,) if outcome.training is not None and outcome.training.node else ()
    unknown = outcome.judged is not None and outcome.judged.verdict.answer is Answer.CANNOT_TELL
    return lacking(outcome.judged.verdict) if outcome.judged is not None and unknown else ()


def severity_of(outcome: GateOutcome, ending: PageKind) -> Severity:
    """The severity, by cause: broken hardware is critical, and so is a FAIL that somebody overrode; warnings are warnings."""
    if ending is PageKind.GO:
        return Severity.INFO
    if ending is PageKind.OVERRIDDEN:
        return Severity.CRITICAL
    if ending is PageKind.CANCELLED:
        return Severity.WARNING
    verdict = outcome.judged.verdict if outcome.judged else None
    if ending not in (PageKind.REFUSED, PageKind.OBSERVED) or verdict is None:
        return Severity.ERROR
    if verdict.level is not Level.FAIL:
        return Severity.WARNING
    return Severity.CRITICAL if blames_hardware(verdict) else Severity.ERROR


def blames_hardware(verdict: Verdict) -> bool:
    """Whether something that was measured is broken, a node or a link, and the image or the policy is not the suspect."""
    broken = any(f.level is Level.FAIL and f.cause is Cause.HARDWARE for f in verdict.findings)
    return broken and not verdict.suspect_policy


def training_of(outcome: GateOutcome) -> str:
    """What became of the training. People who wait for it ask this first."""
    job = outcome.training
    if job is not None:
        return f"job {job.job_id} {job.state.value}" + (f": {job.detail}" if job.detail else "")
    return "none was to be started" if outcome.decision is Decision.PASSED else "it was not started"


def _judged(page: Notification, judged: JudgedReport, training: str = "") -> Notification:
    verdict, context = judged.verdict, judged.context
    groups, caused = independent(gathered(verdict.findings))
    costs = context.notes
    # A command that takes a node away would end the training that an answer starts. Only who has to decide weighs the costs.
    if page.topic is PageKind.QUESTION:
        context = replace(context, site=replace(context.site, launcher=""))
        costs += (cost_line(context.cost),)
    items = items_of(verdict, context)
    texts = (explanation_before(verdict, context.failed), context.about_training, training, context.measured)
    meaning = " ".join(filter(None, texts))
    also = (("left out", f"{followed(caused)}; the report has them"),) if caused else ()
    facts = ((MEANING, meaning), ("coverage", coverage_text(verdict.coverage)), *also)
    return replace(
        page,
        culprits=culprits(verdict) if page.topic in BLAMING else (),
        returned=tuple(map(engine_name, judged.report.nodes)) if page.topic is PageKind.GO else (),
        items=items,
        measured_s=seconds_of(judged.report.measured_at) or 0.0,
        more_items=max(0, len(groups) - ITEMS),
        facts=(*facts, *page.facts),
        costs=tuple(one_line(line, 600) for line in costs if line),
    )


def _meaning(ending: PageKind, training: str) -> tuple[tuple[str, str], ...]:
    """What the end means if nothing was judged."""
    meanings = {
        PageKind.CANNOT_TELL: "The gate cannot tell: evidence is missing. This does not mean that any machine is broken.",
        PageKind.NO_CAPACITY: "No machine was tested: the engine gave none, or failed. "
        "This does not mean that any machine is broken. Run the gate again later.",
        PageKind.REJECTED: "No machine was tested: the request cannot run. Correct it, then run the gate again.",
    }
    text = " ".join(filter(None, (meanings.get(ending), training)))
    return ((MEANING, text),) if text else ()


def _item(advice: Advised) -> Item:
    item = advice.item
    # A secret that a cut went through would not be known any more.
    proof = excerpt(redacted(clean(item.evidence[0][1])), EVIDENCE) if item.evidence else ""
    text = one_line(sentence(item, names=True), 900)
    remedy = one_line(advice.remedy, 600)
    return Item(item.heading, item.cause.value, item.names, item.where, text, remedy, advice.commands, proof)


def _store_links(store: Store, outcome: GateOutcome) -> tuple[Link, ...]:
    """The links to what the store keeps of the gate."""
    if outcome.report is None:
        return ()
    location, gate_id = store.location, outcome.gate_id
    return (
        Link("report as JSON", browsable(outcome.report)),
        Link("logs", browsable(location(logs_folder(gate_id)))),
    )
