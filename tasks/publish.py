"""Keep the report and the verdict in the store, then show them in Prefect's UI.

Nothing is launched before the store has them: a verdict that nobody can read again is none.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from prefect import task
from prefect.cache_policies import NO_CACHE

from checks.report import dump, dump_plain
from tasks import artifacts
from tasks.entering import enter, keep_record
from tasks.kept import verdict_key
from tasks.outcome import Judged
from tasks.render.document import verdict_json
from tasks.render.headline import headline
from tasks.render.html import html
from tasks.render.markdown import markdown
from tasks.render.nodetable import node_rows
from tasks.reuse import report_key
from tasks.session import Session
from tasks.threads import to_end


@dataclass(frozen=True)
class Published:
    """Where people find both."""

    report: str
    html: str


@task(cache_policy=NO_CACHE, task_run_name="publish {session.gate_id}")
async def publish(session: Session, judged: Judged) -> Published:
    """The files first, then the artifacts. Raises StoreError."""
    published = await to_end(store, session, judged)
    cluster, name = session.setting.gate.cluster.name, session.setting.gate.name
    said = headline(judged.verdict, name)
    page = markdown(judged.report, judged.verdict, name, judged.beside)
    await artifacts.show_markdown(f"gate-verdict-{cluster}", page, said)
    await artifacts.show_table(f"gate-nodes-{cluster}", node_rows(judged.report, judged.verdict), said)
    link = published.html if "://" in published.html else Path(published.html).as_uri()
    await artifacts.show_link(f"gate-report-{cluster}", link, f"Report of {session.gate_id}")
    return published


def store(session: Session, judged: Judged) -> Published:
    """Report, verdict, HTML and summary under gates/<gate id>/, the record, its row in the index. Raises StoreError."""
    kept, gate_id, name = session.setting.store, session.gate_id, session.setting.gate.name
    kept.put(report_key(gate_id), dump(judged.report))
    kept.put(verdict_key(gate_id), dump_plain(verdict_json(judged.verdict)))
    record = keep_record(session, judged)
    page = html(judged.report, judged.verdict, name, judged.beside)
    kept.put(f"gates/{gate_id}/report.html", page.encode("utf-8", "backslashreplace"))
    summary = markdown(judged.report, judged.verdict, name, judged.beside)
    kept.put(f"gates/{gate_id}/summary.md", summary.encode("utf-8", "backslashreplace"))
    enter(session, record)
    return Published(kept.place(report_key(gate_id)), kept.place(f"gates/{gate_id}/report.html"))
