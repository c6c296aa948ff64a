"""Keeps the report and the verdict in the store, and then shows them in Prefect's UI.

Nothing is launched before both are in the store, because a verdict that nobody can read again is worth nothing. What is shown
with them only for people (the trend of earlier gates) may fail: the failure is logged and changes nothing else.

The merged report is also written where the engine's other tools look for it, with the tables that they read. If that fails, it
is logged and changes nothing.
"""

from __future__ import annotations

import logging
import math
import os
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from pkgutil import resolve_name
from urllib.parse import quote

from prefect import task
from prefect.cache_policies import NO_CACHE

from checks.documents.report import digest, dump, dump_plain
from checks.model import Answer, Node, Report
from checks.runner.deadline import limited
from checks.value_types import DecodeError
from tasks.gate.blocking_calls import run_to_end
from tasks.gate.context import GateContext
from tasks.gate.jobs import new_gate_id
from tasks.gate.outcome import (
    Decision,
    Ending,
    GateOutcome,
    JudgedReport,
    keep_outcome,
    with_job_that_goes_on,
)
from tasks.gate.progress import Progress, report_progress
from tasks.gate.record.end import end_marks
from tasks.gate.session import Session
from tasks.gate_file.model import Mode
from tasks.judge import report_verdict
from tasks.launchers.base import LaunchError
from tasks.orchestration import artifacts
from tasks.render.context import GateHistory, VerdictContext, advice
from tasks.render.findings import gathered, verdict_json
from tasks.render.headline import headline
from tasks.render.html import html
from tasks.render.markdown import escape, fenced, markdown
from tasks.render.seed_report import with_seed_tables
from tasks.store import node_rows, records
from tasks.store.base import StoreError
from tasks.store.layout import fleet_key, html_key, policy_key, report_key, summary_key, verdict_key
from tasks.store.records import Record, judged_report, record_of
from tasks.text.inert import browsable, one_line

LOG = logging.getLogger("prelaunch")
# What stands for itself in an address; everything else is encoded, so that no link ends early.
URL = ":/?#@!$&'()*+,;=%~"
# A launch does not wait for longer than this for a page about other gates.
FLEET_S = 5.0
# What a gate does beside its verdict, in packages that it does not import: names for `resolve_name`.
TREND = "tasks.reports.trend:past_of"
NODES_PAGE = "tasks.reports.fleet.reading:cluster_page"
MLFLOW_RUN, MLFLOW_EXPORT = "tasks.reports.mlflow.run:run_of", "tasks.reports.mlflow.export:export"


def keep_record(session: Session, judged: JudgedReport) -> Record:
    """Keep the record, of which lists are made, beside the verdict. Raises StoreError."""
    gate, gate_id = session.context.gate, session.gate_id
    record = record_of(
        gate_id, judged.report, judged.verdict, report_key(gate_id), time.time(),
        gate.name, gate.cluster.name, judged.reused,
    )  # fmt: skip
    records.keep(session.context.store, record)
    return record


def keep_nodes(session: Session, judged: JudgedReport, record: Record) -> None:
    """Keep what the verdict says of each node, beside the record. The report has it all, so that a failure is logged, and the gate
    continues; nothing is kept of a PASS that was used again, because the nodes were not measured.
    """
    if judged.reused:
        return
    cluster = session.context.nodes_cluster
    try:
        gate_nodes = node_rows.rows_of(
            judged.report, judged.verdict, session.context.policy, record.gate_id, record.judged_at, cluster
        )  # fmt: skip
        node_rows.keep(session.context.store, gate_nodes)
    except Exception as error:  # noqa: BLE001 - whatever a report does to it: no verdict hangs on what a page shows later
        LOG.warning("the verdict is stored, but not what it says of each node: %s", error)


@dataclass(frozen=True)
class PublishedReport:
    """Where people find the report of this digest and its page. `past` is what the page shows of earlier gates."""

    report: str
    html: str
    past: GateHistory | None = None
    digest: str = ""


def with_past(judged: JudgedReport, published: PublishedReport | None) -> JudgedReport:
    """The report with what its page shows of earlier gates, so that questions and notifications say it as well."""
    if published is None or published.past is None:
        return judged
    return replace(judged, context=replace(judged.context, past=published.past))


@task(cache_policy=NO_CACHE, task_run_name="publish {session.gate_id}")
async def publish_report(session: Session, judged: JudgedReport) -> PublishedReport:
    """Write the files first, then the artifacts. Raises StoreError."""
    try:
        published, context = await run_to_end(store_report, session, judged)
    except StoreError as error:
        raise StoreError(str(error), await run_to_end(write_locally, session, judged)) from error
    finally:
        session.answer_by = math.inf  # nothing after the verdict is in such a hurry
    report_progress(Progress("verdict", "it is stored; its page is being written to the Prefect server"))
    await _show_verdict(session, judged, context)
    session.judged = with_past(judged, published)
    return published


async def publish_ending(session: Session, judged: JudgedReport) -> None:
    """Publish the pages of a verdict again, with how the gate ended. A failure is logged."""
    await _show_verdict(session, judged, await run_to_end(store_pages, session, judged))


async def _show_verdict(session: Session, judged: JudgedReport, context: VerdictContext) -> None:
    """The one page for people that a run leaves in Prefect, with the places of all others."""
    gate, location_of = session.context.gate, session.context.store.location
    places = location_of(html_key(session.gate_id)), location_of(fleet_key(session.context.nodes_cluster))
    host, file = session.renewal.lease.owner.host, os.path.abspath(session.context.file)
    page = verdict_page(replace(judged, context=context), gate.name, places, file, host)
    line = headline(judged.verdict, gate.name)
    await artifacts.show_markdown(f"gate-verdict-{gate.cluster.name}", page, line)


def verdict_page(judged: JudgedReport, name: str, places: tuple[str, str], gate_file: str, host: str) -> str:
    """Markdown for Prefect's page of the run: the answer, what to type, where the report, the page of all nodes and the gate file are,
    then all the rest. `places` are those of both pages; where the store is a folder, the gate's `host` has them.
    """
    verdict, context = judged.verdict, judged.context
    first, _, rest = markdown(judged.report, verdict, name, context).partition("\n")
    # Prefect shows the description above it, and a heading in letters that leave no room for more.
    sections = [f"**{first.removeprefix('# ')}**"]
    commands = next(
        filter(None, (advice(item, verdict, context.site)[1] for item in gathered(verdict.findings))), ()
    )
    sections += [fenced("\n".join(commands))] if commands else []
    report, nodes = (_linked(location, host) for location in places)
    sections.append(f"Report: {report}\n\nAll nodes: {nodes}\n\nGate file: {escape(gate_file)}")
    return "\n\n".join((*sections, rest.lstrip("\n")))


def _linked(location: str, host: str) -> str:
    """A link where a browser can follow it, for S3 to the console; from a server's page it opens no file."""
    if "://" not in location:
        return f"{escape(location)} (a file of {escape(host)})"
    return f"[{escape(location)}](<{quote(browsable(location), safe=URL)}>)"


def store_pages(session: Session, judged: JudgedReport) -> VerdictContext:
    """Store the HTML page and the summary again; returns what is shown beside the verdict. A failure is logged."""
    context = judged.context
    if context.past is None:
        context = replace(context, past=_past(session, judged))
    try:
        put_pages(session.context, session.gate_id, judged, context)
    except StoreError as error:
        LOG.warning("the page does not say how the gate ended: %s", error)
    return context


def put_pages(
    context: GateContext, gate_id: str, judged: JudgedReport, beside_verdict: VerdictContext
) -> None:
    """Store the HTML page and the summary of a verdict. Raises StoreError."""
    store, name = context.store, context.gate.name
    page = html(judged.report, judged.verdict, name, beside_verdict)
    store.put(html_key(gate_id), page.encode("utf-8", "backslashreplace"))
    summary = markdown(judged.report, judged.verdict, name, beside_verdict)
    store.put(summary_key(gate_id), summary.encode("utf-8", "backslashreplace"))


def store_report(session: Session, judged: JudgedReport) -> tuple[PublishedReport, VerdictContext]:
    """Store report, verdict, record, nodes, HTML and summary. Raises StoreError."""
    gate_id, name = session.gate_id, session.context.gate.name
    keep_replaced(session, judged)
    _put_verdict(session.context, gate_id, judged)
    # What follows is for people, and takes its time.
    report_progress(Progress("verdict", headline(judged.verdict, name)))
    keep_nodes(session, judged, keep_record(session, judged))
    context = replace(judged.context, past=_past(session, judged))
    put_pages(session.context, gate_id, judged, context)
    keep_fleet_page(session)
    return replace(published_report(session, context.past), digest=judged.verdict.digests.report), context


def published_report(session: Session, past: GateHistory | None = None) -> PublishedReport:
    """Where people find what this gate published."""
    location, gate_id = session.context.store.location, session.gate_id
    return PublishedReport(location(report_key(gate_id)), location(html_key(gate_id)), past)


def keep_replaced(session: Session, judged: JudgedReport) -> None:
    """Keep an earlier refusal of this gate as a gate of its own, before the verdict on another report replaces it: its nodes may be in
    no later report, are still to be repaired, and people are notified of them at the gate's end. Idempotent. Raises StoreError.
    """
    context, gate_id = session.context, session.gate_id
    try:
        before = records.read(context.store, gate_id)
        later = judged.verdict.digests.report
        if before is None or before.answer is not Answer.NO_GO or before.digests.report == later:
            return
        # Of two gates that were judged at the same time, or began at the same time, the later id counts as the newer gate.
        began = (records.stamped_at(gate_id) or time.time()) - 1
        own_id = new_gate_id(context.gate.name, began)[:-4] + before.digests.report[:4]
        # A process that died after it had written a later report had kept the refusal before.
        stored = judged_report(context.store, report_key(gate_id), before.digests.report)
        report = replace(stored, gate_id=own_id)
        if not session.excluded and _covers(before, report, judged):
            session.previous = None
            return
    except DecodeError as error:
        LOG.warning("the earlier verdict of this gate cannot be read, and is not kept: %s", error)
        return
    earlier = report_verdict(session, report, digest(dump(report)))
    goes_on = session.left_out if judged.verdict.answer in (Answer.GO, Answer.ASK) else {}
    if goes_on:
        earlier = with_job_that_goes_on(earlier, context.launcher.holds_nodes)
    digests = replace(before.digests, report=earlier.verdict.digests.report)
    record = replace(before, gate_id=own_id, report=report_key(own_id), digests=digests)
    _put_verdict(context, own_id, earlier)
    put_pages(context, own_id, earlier, earlier.context)
    reason = f"{headline(earlier.verdict, context.gate.name)} (gate {gate_id} began again)"
    places = context.store.location(report_key(own_id)), context.store.location(html_key(own_id))
    end = GateOutcome(
        own_id, Ending.VERDICT, Decision.REFUSED, earlier, None, reason, *places, left_out=goes_on
    )
    session.replaced.append(end)
    session.previous = None
    if not may_have_launched(session, earlier):
        keep_outcome(context.store, end, end.code, before.cluster)
    keep_nodes(session, earlier, record)
    records.keep(context.store, record)


def _covers(before: Record, report: Report, judged: JudgedReport) -> bool:
    """Whether the later verdict is about the machines of the refusal, since the same start: they pass, or are condemned again."""
    condemned, answer = set(judged.verdict.condemned), judged.verdict.answer
    passes = answer in (Answer.GO, Answer.ASK) and not condemned
    again = bool(before.condemned) and condemned.issuperset(before.condemned)
    earlier = [node for node in report.nodes if node.name in before.condemned or not before.condemned]
    return (passes or again) and _starts(earlier) <= _starts(judged.report.nodes)


def _starts(nodes: Iterable[Node]) -> set[tuple[str, str]]:
    return {(node.name, node.identity.get("boot_id", "")) for node in nodes}


def may_have_launched(session: Session, judged: JudgedReport) -> bool:
    """Whether the verdict or a person's approval let the training start."""
    observed = session.context.gate.policy.mode is Mode.OBSERVE
    approved = session.answer is not None and session.answer.launches
    return observed or approved or judged.verdict.answer is Answer.GO


def _put_verdict(context: GateContext, gate_id: str, judged: JudgedReport) -> None:
    context.store.put(report_key(gate_id), dump(judged.report))
    context.store.put(policy_key(gate_id), dump_plain(context.policy))
    context.store.put(verdict_key(gate_id), dump_plain(verdict_json(judged.verdict)))


def keep_fleet_page(session: Session) -> None:
    """Store the page about all nodes of the cluster. That it could not be made in time is logged."""
    store, cluster = session.context.store, session.context.nodes_cluster
    try:
        page_of = resolve_name(NODES_PAGE)
        page = limited(FLEET_S, lambda: page_of(store, cluster, time.time()))
        store.put(fleet_key(cluster), page.encode("utf-8", "backslashreplace"))
    except Exception as error:  # noqa: BLE001 - a page about other gates keeps no verdict from being published
        LOG.warning("the page about the nodes of %s was not made: %s", cluster, error)


def write_locally(session: Session, judged: JudgedReport) -> str:
    """Write report and verdict to a folder of this machine if the store cannot be written; returns where, or why not."""
    try:
        folder = Path(tempfile.mkdtemp(prefix=f"prelaunch-{session.gate_id}-"))
        (folder / Path(report_key(session.gate_id)).name).write_bytes(dump(judged.report))
        (folder / Path(policy_key(session.gate_id)).name).write_bytes(dump_plain(session.context.policy))
        (folder / Path(verdict_key(session.gate_id)).name).write_bytes(
            dump_plain(verdict_json(judged.verdict))
        )
    except OSError as error:
        return f"Report and verdict could also not be written on this machine: {error.strerror or error}."
    return f"Report and verdict were written to {folder} instead."


def _past(session: Session, judged: JudgedReport) -> GateHistory:
    context, cluster = session.context, session.context.nodes_cluster
    report = replace(judged.report, gate_id=session.gate_id)
    try:
        past: GateHistory = resolve_name(TREND)(
            context.store, report, judged.verdict.digests, context.policy, cluster, end_marks
        )
        return past
    except Exception as error:  # noqa: BLE001 - whatever old reports do to it: no verdict hangs on a trend, and the page says so
        LOG.warning("the trend of %s could not be made: %s", cluster, error)
        problem = one_line(f"The trend could not be made: {type(error).__name__}: {error}", 400)
        return GateHistory(problems=(problem,))


async def export_report(session: Session, judged: JudgedReport) -> None:
    """Write the merged report beside the job that wrote it, and log it in MLflow if the gate file says so; a reused report is there
    already.
    """
    if not judged.reused:
        await run_to_end(_hand_out, session, judged)
        if session.context.gate.mlflow.uri:
            await run_to_end(_log_in_mlflow, session, judged)


def _log_in_mlflow(session: Session, judged: JudgedReport) -> None:
    """A server that fails changes no verdict, and costs a few seconds."""
    table, policy = session.context.gate.mlflow, session.context.policy
    try:
        run = resolve_name(MLFLOW_RUN)(judged.report, judged.verdict, policy, session.gate_id)
        LOG.info("logged in MLflow: %s", resolve_name(MLFLOW_EXPORT)(run, table.uri, table.experiment_name))
    except Exception as error:  # noqa: BLE001 - whatever another program does, the verdict is in the store already
        LOG.warning("the report is stored, but not in MLflow: %s", error)


def _hand_out(session: Session, judged: JudgedReport) -> None:
    try:
        where = session.context.launcher.hand_out(
            session.checking, with_seed_tables(judged.report, judged.verdict)
        )
    except LaunchError as error:
        LOG.warning("the report is stored, but could not be copied for other tools: %s", error)
        return
    if where:
        LOG.info("the report is also at %s", where)
