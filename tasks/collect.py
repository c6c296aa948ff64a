"""What the nodes wrote -> one report. What is missing is said in it, with the job's last words as proof."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator, Mapping

from prefect import task
from prefect.cache_policies import NO_CACHE

from checks.bundle import Bundle
from checks.merge import merge
from checks.model import Report
from tasks import reports
from tasks.launchers.base import JobState, JobStatus, Launcher, LaunchError
from tasks.raw import keep_evidence, keep_logs
from tasks.render.clean import one_line
from tasks.session import Session
from tasks.threads import to_end
from tasks.troubles import ending_of, keep_story, require_reports, story
from tasks.watch import Watched, fetch_last

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
        folder, problems = fetch_last(session, watched.job), []
    except (LaunchError, OSError) as error:
        folder, problems = (
            session.folder / watched.job,
            [one_line(f"the reports could not be fetched: {error}")],
        )
    keep_evidence(session, folder / watched.status.attempt)
    keep_logs(session, watched.job, logged(bundle, watched.status))
    keep_story(session, watched.job, watched.status)
    files = reports.read_files(folder, watched.status.attempt)
    if not files and not problems:
        require_reports(watched)
    report = merge(bundle, watched.status.attempt, files, started)
    if not reports.complete(bundle, files):
        problems += _last_words(bundle, files, watched, session.setting.launcher)
    return dataclasses.replace(report, collection=(*report.collection, *problems))


def logged(bundle: Bundle, status: JobStatus) -> list[str]:
    """The nodes whose logs are worth keeping: those that ended, or all where the engine does not say."""
    return sorted(status.exit_codes) or (list(bundle.declared.node_names) if status.state.final else [])


def iso(unix_s: float) -> str:
    """UTC, ISO 8601."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(unix_s))


def _last_words(
    bundle: Bundle, files: Mapping[str, bytes], watched: Watched, launcher: Launcher
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
        tail = one_line(_tail(launcher, watched.job, node)[-400:], 400)
        yield f"{node}: {ended}; its log ends: {tail or '(empty)'}"


def _tail(launcher: Launcher, job: str, node: str) -> str:
    try:
        return launcher.logs(job, node, TAIL_BYTES)
    except LaunchError as error:
        return str(error)
