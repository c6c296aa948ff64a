"""The end of a local job from outside: asked for, or found when its shepherd is gone."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from contextlib import suppress

from checks.processes import alive, end_marked, end_tree, start_ticks
from tasks.launchers import local_network
from tasks.launchers.base import JobState
from tasks.launchers.local_folder import JobFolder, Keepers, Progress, boot_id
from tasks.launchers.local_network import NetworkError

BIRTH_S = 20.0
SETTLE_S = 2.0
MARGIN_S = 15.0  # beyond the nodes' grace: SIGKILL, logs, network, last state
POLL_S = 0.01


def settle(keepers: Keepers | None) -> None:
    """After the last state was read: wait for the moment until those who wrote it have ended."""
    if keepers is not None:
        _wait_for_end(keepers, SETTLE_S)
        _collect(keepers)


def cancel(folder: JobFolder, grace_s: float) -> str:
    """End the job; "" once nothing of it runs, else what is left. Raises OSError: it cannot be marked."""
    keepers = _keepers_or_never(folder)
    if keepers is None:
        return ""
    _ask_to_end(keepers, grace_s + MARGIN_S)
    if keepers.alive() or not folder.final():
        bury(folder, keepers, JobState.CANCELLED, "cancelled; its shepherd had to be killed")
    _collect(keepers)
    return f"{keepers} still run" if keepers.alive() else ""


def bury(folder: JobFolder, keepers: Keepers, state: JobState, why: str) -> Progress:
    """End what a lost shepherd left, then write the last state that it could not write."""
    left: set[int] = set()
    if keepers.boot_id == boot_id():
        for pid, started in (keepers.guard, keepers.shepherd):
            left.update(end_tree(pid, 0.0, started))
        left.update(end_marked("PRELAUNCH_ATTEMPT", keepers.attempt, 0.0))
    said = [why, *_remove_network(folder)]
    with suppress(OSError):
        folder.remove_keys()
    said += [f"these processes cannot be ended: {sorted(left)}"] if left else []
    _collect(keepers)
    known = folder.progress()
    if known is not None and known.state.final:
        return known
    progress = Progress(state, "; ".join(said), keepers.attempt, known.exit_codes if known else {})
    with suppress(OSError):  # on a full or read-only disk the next call finds, and says, the same again
        folder.write_progress(progress)
    return progress


def _keepers_or_never(folder: JobFolder) -> Keepers | None:
    """Who looks after the job; where nobody ever did, nobody will: it is marked CANCELLED."""
    deadline = time.monotonic() + BIRTH_S
    while (keepers := folder.keepers()) is None and time.monotonic() < deadline:
        with folder.life() as mine:
            if mine and folder.keepers() is None:
                if not folder.final():
                    folder.write_progress(Progress(JobState.CANCELLED, "cancelled before it started"))
                return None
        time.sleep(POLL_S)
    return keepers


def _ask_to_end(keepers: Keepers, within_s: float) -> None:
    if keepers.boot_id != boot_id():
        return
    for pid, started in (keepers.guard, keepers.shepherd):
        if alive(pid, started):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
                os.kill(pid, signal.SIGCONT)
    _wait_for_end(keepers, within_s)


def _wait_for_end(keepers: Keepers, within_s: float) -> None:
    deadline = time.monotonic() + within_s
    while keepers.alive() and time.monotonic() < deadline:
        time.sleep(POLL_S)


def _collect(keepers: Keepers) -> None:
    """Where this process started the guard, take its exit status, so that no zombie stays."""
    pid, started = keepers.guard
    if start_ticks(pid) == started and not alive(pid, started):
        with suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)


def _remove_network(folder: JobFolder) -> Sequence[str]:
    submission = folder.submission()
    if submission is None or not submission.network or submission.prepared or local_network.unavailable():
        return ()
    try:
        local_network.remove(submission.network)
    except NetworkError as error:
        return (f"its network is still there: {error}",)
    return ()
