"""Keep the report and the verdict in the store, then show them in Prefect's UI.

Nothing is launched before the store has them: a verdict that nobody can read again is none. What stands beside them for
people alone (the trend of earlier gates, the picture) may fail: that is said, and nothing else.
"""

from __future__ import annotations

import logging
import math
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from prefect import task
from prefect.cache_policies import NO_CACHE

from checks.report import dump, dump_plain
from tasks import artifacts
from tasks.entering import enter, keep_record
from tasks.kept import verdict_key
from tasks.outcome import Judged
from tasks.pastgates import This, past_of
from tasks.progress import Progress, tell
from tasks.render.beside import Beside
from tasks.render.clean import one_line
from tasks.render.document import verdict_json
from tasks.render.headline import headline
from tasks.render.html import html
from tasks.render.markdown import markdown
from tasks.render.nodetable import node_rows
from tasks.render.past import Past
from tasks.render.picture import PictureUnavailable, picture
from tasks.render.tables import bandwidth_table, finding_rows, pair_rows, suspect_table
from tasks.reuse import report_key
from tasks.session import Session
from tasks.store.base import StoreError
from tasks.threads import to_end

LOG = logging.getLogger("prelaunch")


@dataclass(frozen=True)
class Published:
    """Where people find them; `picture` is "" where there is none."""

    report: str
    html: str
    picture: str = ""


@dataclass(frozen=True)
class Kept:
    """What was kept, and what is shown of it."""

    published: Published
    beside: Beside
    png: bytes = b""


@task(cache_policy=NO_CACHE, task_run_name="publish {session.gate_id}")
async def publish(session: Session, judged: Judged) -> Published:
    """The files first, then the artifacts. Raises StoreError."""
    try:
        kept = await to_end(store, session, judged)
    except StoreError as error:
        raise StoreError(f"{error} {await to_end(elsewhere, session, judged)}") from error
    finally:
        session.answer_by = (
            math.inf
        )  # the verdict is there, or has failed: nothing after it is in such a hurry
    cluster, name = session.setting.gate.cluster.name, session.setting.gate.name
    report, verdict, published = judged.report, judged.verdict, kept.published
    said = headline(verdict, name)
    first, _, rest = markdown(report, verdict, name, kept.beside).partition("\n")
    # Prefect shows the description above it, and a heading in letters that leave no room for more.
    page = f"**{first.removeprefix('# ')}**\n{rest}"
    await artifacts.show_markdown(f"gate-verdict-{cluster}", page, said)
    await artifacts.show_table(f"gate-findings-{cluster}", finding_rows(verdict), said)
    await artifacts.show_table(f"gate-nodes-{cluster}", node_rows(report, verdict), said)
    if rows := bandwidth_table(report, kept.beside):
        about = f"Bus bandwidth against what is expected, {session.gate_id}"
        await artifacts.show_table(f"gate-bandwidth-{cluster}", rows, about)
    if rows := pair_rows(report, verdict):
        about = f"Bandwidth between hosts, {session.gate_id}"
        await artifacts.show_table(f"gate-pairs-{cluster}", rows, about)
    if rows := suspect_table(kept.beside):
        about = f"Who stands out among those that measured each other, {session.gate_id}"
        await artifacts.show_table(f"gate-suspects-{cluster}", rows, about)
    if kept.png:
        await artifacts.show_picture(f"gate-picture-{cluster}", kept.png, said)
    link = published.html if "://" in published.html else Path(published.html).as_uri()
    await artifacts.show_link(f"gate-report-{cluster}", link, f"Report of {session.gate_id}")
    return published


def store(session: Session, judged: Judged) -> Kept:
    """Report, verdict, record, HTML, summary and picture under gates/<gate id>/, a row in the index. Raises StoreError."""
    kept, gate_id, name = session.setting.store, session.gate_id, session.setting.gate.name
    kept.put(report_key(gate_id), dump(judged.report))
    kept.put(verdict_key(gate_id), dump_plain(verdict_json(judged.verdict)))
    tell(
        Progress("verdict", headline(judged.verdict, name))
    )  # what follows is for people, and takes its time
    record = keep_record(session, judged)
    shown = replace(judged.beside, past=_past(session, judged))
    page = html(judged.report, judged.verdict, name, shown)
    kept.put(f"gates/{gate_id}/report.html", page.encode("utf-8", "backslashreplace"))
    summary = markdown(judged.report, judged.verdict, name, shown)
    kept.put(f"gates/{gate_id}/summary.md", summary.encode("utf-8", "backslashreplace"))
    png = _picture(judged, name, shown)
    drawn = _kept_picture(session, png)
    enter(session, record)
    places = Published(kept.place(report_key(gate_id)), kept.place(f"gates/{gate_id}/report.html"), drawn)
    return Kept(places, shown, png)


def elsewhere(session: Session, judged: Judged) -> str:
    """Report and verdict in a folder of this machine, where the store cannot be written; says where, or why not."""
    try:
        folder = Path(tempfile.mkdtemp(prefix=f"prelaunch-{session.gate_id}-"))
        (folder / Path(report_key(session.gate_id)).name).write_bytes(dump(judged.report))
        (folder / Path(verdict_key(session.gate_id)).name).write_bytes(
            dump_plain(verdict_json(judged.verdict))
        )
    except OSError as error:
        return f"Nor could report and verdict be written on this machine: {error.strerror or error}."
    return f"Report and verdict were written to {folder} instead."


def _past(session: Session, judged: Judged) -> Past:
    setting = session.setting
    this = This(
        session.gate_id,
        setting.gate.cluster.name,
        judged.report,
        judged.verdict.digests.report,
        setting.policy,
    )
    try:
        return past_of(setting.store, setting.index, this)
    except Exception as error:  # noqa: BLE001 - whatever old reports do to it: no verdict hangs on a trend, and the page says so
        LOG.warning("the trend of %s could not be made: %s", this.cluster, error)
        return Past(
            problems=(one_line(f"The trend could not be made: {type(error).__name__}: {error}", 400),)
        )


def _picture(judged: Judged, name: str, shown: Beside) -> bytes:
    try:
        return picture(judged.report, judged.verdict, name, shown)
    except PictureUnavailable as error:
        LOG.info("the report has no picture: %s", error)
        return b""


def _kept_picture(session: Session, png: bytes) -> str:
    key = f"gates/{session.gate_id}/picture.png"
    if not png:
        return ""
    try:
        session.setting.store.put(key, png)
    except StoreError as error:
        LOG.warning("the picture could not be kept: %s", error)
        return ""
    return session.setting.store.place(key)
