"""What the nodes wrote -> one report. What is missing is said in it, with the job's last words as proof."""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Callable, Iterator, Mapping

from prefect import task
from prefect.cache_policies import NO_CACHE

from checks.bundle import Bundle
from checks.deadline import limited
from checks.merge import merge
from checks.model import Report
from tasks import reports
from tasks.launchers.base import JobState, JobStatus, LaunchError
from tasks.raw import keep_evidence, keep_logs
from tasks.render.clean import one_line
from tasks.session import Session
from tasks.threads import to_end
from tasks.troubles import ending_of, keep_story, require_reports, story
from tasks.watch import Watched, fetch_last

LOG = logging.getLogger("prelaunch")
LOGGED_NODES = 8
TAIL_BYTES = 2048
STORY_CHARACTERS = 1200


@task(cache_policy=NO_CACHE, task_run_name="collect {watched.job}")
async def collect(session: Session, watched: Watched) -> Report:
    """The report of the job's current attempt.

    Raises LaunchRejected, NoCapacity, EngineUnavailable where no node reported and the engine says why.
    """
    return await to_end(collected, session, watched)


def collected(session: Session, watched: Watched) -> Report:
    """Fetch for the last time and merge; what could not be fetched is evidence that is missing."""
    bundle, started = session.setting.bundle(session.gate_id), iso(session.keeper.lease.taken_at)
    try:
        folder, problems = limited(session.left_s(), lambda: fetch_last(session, watched.job)), []
    except (LaunchError, OSError) as error:
        folder, problems = (
            session.folder / watched.job,
            [one_line(f"the reports could not be fetched: {error}")],
        )
    limit_s = session.left_s() / 2  # what the engine says beside the reports must not cost the verdict
    _keep(lambda: keep_evidence(session, folder / watched.status.attempt), "raw output", limit_s)
    _keep(lambda: keep_logs(session, watched.job, logged(bundle, watched.status)), "the logs", limit_s)
    _keep(lambda: keep_story(session, watched.job, watched.status), "the engine's words", limit_s)
    files = reports.read_files(folder, watched.status.attempt)
    if not files and not problems:
        require_reports(watched)
    report = merge(bundle, watched.status.attempt, files, started)
    if not reports.complete(bundle, files):
        problems += _last_words(bundle, files, watched, session)
    return dataclasses.replace(report, collection=(*report.collection, *problems))


def _keep(keep: Callable[[], object], what: str, limit_s: float) -> None:
    """Keep what nothing is decided upon; where that hangs, it is said."""
    try:
        limited(limit_s, keep)
    except TimeoutError as error:
        LOG.warning("%s could not be kept: %s", what, error)


def logged(bundle: Bundle, status: JobStatus) -> list[str]:
    """The nodes whose logs are worth keeping: those that ended, or all where the engine does not say."""
    return sorted(status.exit_codes) or (list(bundle.declared.node_names) if status.state.final else [])


def iso(unix_s: float) -> str:
    """UTC, ISO 8601."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(unix_s))


def _last_words(
    bundle: Bundle, files: Mapping[str, bytes], watched: Watched, session: Session
) -> Iterator[str]:
    """Why reports are missing, as far as the launcher can tell: evidence, never a verdict on a machine."""
    status = watched.status
    if watched.late:
        yield one_line(f"job {watched.job}: {watched.late}")
    elif status.state is not JobState.SUCCEEDED or not files:
        yield one_line(f"job {watched.job} ended {ending_of(status)} without every report: {status.detail}")
    if said := "; ".join(story(status)):
        yield one_line(f"what the engine said of {watched.job}: {said}", STORY_CHARACTERS)
    for node in reports.unfinished(bundle, files)[:LOGGED_NODES]:
        code = status.exit_codes.get(node)
        ended = f"its command ended with {code}" if code is not None else "its command did not end"
        tail = one_line(_tail(session, watched.job, node)[-400:], 400)
        yield f"{node}: {ended}; its log ends: {tail or '(empty)'}"


def _tail(session: Session, job: str, node: str) -> str:
    launcher = session.setting.launcher
    try:
        return limited(session.left_s() / 4, lambda: launcher.logs(job, node, TAIL_BYTES))
    except (LaunchError, TimeoutError) as error:
        return str(error)
