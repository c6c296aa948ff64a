"""What the engine reports about a job that left no report at all. None of it blames hardware; some of it says what to do."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from checks.documents.report import load_node
from checks.exit_codes import Exit
from checks.model import unreachable
from checks.runner.in_job.spares import next_attempt
from checks.value_types import DecodeError
from checks.version import BUILD_IMAGE
from tasks.gate.jobs import JobEnd, is_unanswered
from tasks.launchers.base import (
    EngineUnavailable,
    JobState,
    JobStatus,
    LaunchRejected,
    NoCapacity,
    QuotaExceeded,
    Trouble,
)
from tasks.reports.node_reports import read_files

HISTORY_LINES = 12
MOST_NAMED = 8
# Python's own words (runpy.py, and importlib's ModuleNotFoundError) for `python3 -m container.agent`.
NO_AGENT = re.compile(r"No module named ('container'|container(\.agent)?$|'container\.agent')", re.MULTILINE)
# The ids by which people find a machine, first the one that they know best.
MACHINE_IDS = ("instance_id", "engine_node", "product_uuid")
NODE_ERRORS = {
    Trouble.NONE: "",
    Trouble.ENDED: " by itself",
    Trouble.CONFIGURATION: " because the request was wrong",
    Trouble.NO_CAPACITY: " because the engine had no machines",
    Trouble.QUOTA: " because a quota of the account was exceeded",
    Trouble.SERVICE: " because the engine failed",
    Trouble.STOPPED: " because somebody stopped it",
    Trouble.MAX_RUNTIME: " because its time limit was reached",
}


def require_reports(watched: JobEnd, logs: Iterable[str] = ()) -> None:
    """Raise the error that the engine's state means if no node reported, or what the nodes' `logs` say; return if nobody can tell.

    Raises LaunchRejected, QuotaExceeded, NoCapacity, EngineUnavailable.
    """
    status, reason = watched.status, _said_of(watched)
    if any(map(NO_AGENT.search, (status.detail, *logs))):
        message = f"{reason}. The image has no container.agent, which starts the checks. {BUILD_IMAGE}"
        raise LaunchRejected(message)
    if watched.late and status.state is JobState.PENDING and status.trouble is Trouble.NONE:
        message = f"{reason} ({status.detail}). Try later, or set capacity_wait_minutes in [cluster] to wait."
        raise NoCapacity(message)
    match status.trouble:
        case Trouble.CONFIGURATION:
            message = f"{reason}. Nothing was judged: correct the gate file, or the files that it names."
            raise LaunchRejected(message)
        case Trouble.NO_CAPACITY:
            raise NoCapacity(f"{reason}. Try later, or set capacity_wait_minutes in [cluster] to wait.")
        case Trouble.QUOTA:
            raise QuotaExceeded(f"{reason}. Nothing was judged: request a higher quota.")
        case Trouble.SERVICE:
            raise EngineUnavailable(f"{reason}. Nothing was judged: run the gate again.")
        case Trouble.NONE | Trouble.ENDED if status.exit_codes and {*status.exit_codes.values()} == {
            Exit.REJECTED
        }:
            message = f"{reason}. Nothing was judged: the nodes rejected the job before the first check."
            raise LaunchRejected(message)
        case Trouble.NONE | Trouble.ENDED | Trouble.STOPPED | Trouble.MAX_RUNTIME:
            return
        case _:
            unreachable(status.trouble)


def require_machines(watched: JobEnd) -> None:
    """Raise NoCapacity or QuotaExceeded if a training never got machines."""
    status, reason = watched.status, _said_of(watched)
    if watched.late and status.state is JobState.PENDING and status.trouble is Trouble.NONE:
        raise NoCapacity(f"{reason} ({status.detail}).")
    if status.trouble is Trouble.NO_CAPACITY:
        raise NoCapacity(f"{reason}.")
    if status.trouble is Trouble.QUOTA:
        raise QuotaExceeded(f"{reason}. Request a higher quota.")


def _said_of(watched: JobEnd) -> str:
    """What is known of the job, with what its engine said last where the gate ended it."""
    late, detail = watched.late, watched.status.detail
    waits = f" ({detail})" if late and watched.status.trouble is not Trouble.NONE else ""
    return f"job {watched.job}: {late or detail}{waits}"


def never_ran(watched: JobEnd) -> bool:
    """Whether the engine ended the job before its containers ran, as far as anybody can tell."""
    status = watched.status
    if watched.ran or status.attempt or status.exit_codes or is_unanswered(status):
        return False
    return bool(watched.late) or status.trouble not in (Trouble.NONE, Trouble.ENDED, Trouble.MAX_RUNTIME)


def ending_text(status: JobStatus) -> str:
    """ "was cancelled because somebody stopped it"."""
    was = "was " if status.state is JobState.CANCELLED else ""
    return f"{was}{status.state.value}{NODE_ERRORS[status.trouble]}"


def end_said(watched: JobEnd) -> str:
    """How the job of a node ended whose own exit code nobody knows; "" where the job has not ended by itself."""
    if watched.late and watched.status.state is JobState.PENDING:
        return "its job never got its machines"
    return "" if watched.late or not watched.status.state.final else f"its job {ending_text(watched.status)}"


def starts_said(folder: Path, status: JobStatus) -> tuple[str, ...]:
    """ "start 2 of 2; n1 was lost" of a job that its engine started again, () of its first start. `folder` has its files. A node was
    lost where the start before this one had it and this one has not, or where its name is another machine's now.
    """
    tokens = tuple(dict.fromkeys((*status.earlier, status.attempt)))
    # The nodes of a start that go on without the spares are no other start of the engine's.
    origins = {next_attempt(token): token for token in tokens}
    tokens = tuple(token for token in tokens if token not in origins)
    index = tokens.index(origins.get(status.attempt, status.attempt))
    if index == 0 or not status.attempt:
        return ()
    before, now = (_machines(folder, token) for token in tokens[index - 1 : index + 1])
    names = sorted(filter(None, [_lost(name, ids, now) for name, ids in before.items()] if now else []))
    start = f"start {index + 1} of {len(tokens)}"
    were = "were" if len(names) > 1 else "was"
    return (f"{start}; {', '.join(names[:MOST_NAMED])} {were} lost" if names else start,)


def _machines(folder: Path, token: str) -> dict[str, dict[str, str]]:
    """The nodes of that start, each with the ids of its machine as far as it has reported them."""
    ids: dict[str, dict[str, str]] = {path.stem: {} for path in (folder / token / "agent").glob("*.json")}
    for name, data in read_files(folder, token).items():
        with contextlib.suppress(DecodeError):
            identity = load_node(data).node.identity
            ids[name] = {key: identity[key] for key in MACHINE_IDS if identity.get(key)}
    return ids


def _lost(name: str, ids: Mapping[str, str], now: Mapping[str, Mapping[str, str]]) -> str:
    """The name of a node whose machine takes no part any more, with the machine's where another has that name now; "" if it does, or
    if nothing says which machine it is now.
    """
    if any(ids.items() & other.items() for other in now.values()):
        return ""
    if name not in now:
        return name
    return f"{name} ({next(iter(ids.values()))})" if ids.keys() & now[name].keys() else ""
