"""Starts and ends a local job.

At the start the job's folder appears complete, then one shepherd takes the job. At the end a job is ended because somebody asked
for it, or because its shepherd is found to be gone.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from checks.exchange import secret_key
from checks.process.tree import alive, end_marked, end_tree, start_ticks
from checks.runner.deadline import ANSWER_S
from tasks.launchers.base import FAILED_NODE_GRACE_S, JobState, JobStatus, LaunchError, Plan
from tasks.launchers.local.job_folder import JobFolder, Keepers, Submission, boot_id
from tasks.launchers.local.nodes import WITHHELD
from tasks.launchers.local.plan import PACKAGES, LocalOptions, label_value, network_name
from tasks.launchers.local.shepherd import BUSY, remove_resources
from tasks.launchers.node_code import vendored
from tasks.text.redact import SECRET_NAME

# Without PYTHONPATH, which the nodes would inherit.
RUN_MODULE = """\
import runpy, sys
sys.path.insert(0, sys.argv.pop(1))
runpy.run_module(sys.argv.pop(1), run_name="__main__", alter_sys=True)
"""
SHEPHERD = ("-P", "-S", "-c", RUN_MODULE, str(PACKAGES), "tasks.launchers.local.shepherd")
START_S = 20.0
START_POLL_S = 0.005
START_MARGIN_S = 5.0  # the nodes' own clocks begin when Python has started
BIRTH_S = 20.0
SETTLE_S = 2.0
MARGIN_S = 15.0  # beyond the nodes' grace: SIGKILL, logs, network, last state
END_POLL_S = 0.01


def stage(plan: Plan, folder: JobFolder, staging: Path, options: LocalOptions) -> None:
    """Make the job's folder beside its place, then let it appear at once. Raises OSError, leaving nothing."""
    shutil.rmtree(staging, ignore_errors=True)
    try:
        staged = JobFolder(staging)
        staged.out.mkdir(parents=True)
        staged.life_lock.touch()
        staged.code.mkdir()
        (staged.code / "checks").symlink_to(PACKAGES / "checks")
        if options.container_image:  # an image need not have what the checks bring along
            for name, data in vendored().items():
                path = staged.code / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
        key = secret_key.make()
        for request in plan.processes:
            (staged.nodes / request.node).mkdir(parents=True)
            secret_key.write(staged.key(request.node), key)
        for name, data in plan.job.files.items():
            (staging / name).write_bytes(data)
        staged.write_submission(_submission(plan, folder, options))
        folder.path.parent.mkdir(parents=True, exist_ok=True)
        os.rename(staging, folder.path)
    except OSError:
        shutil.rmtree(staging, ignore_errors=True)
        raise


def start(plan: Plan, folder: JobFolder, *, remove: bool) -> None:
    """Start the shepherd and wait until it says that it lives.

    Raises LaunchError if it does not; then nothing runs, and with `remove` the folder is gone as well.
    """
    child = _spawn(folder, {name: plan.job.environment[name] for name in _secrets(plan)})
    try:
        _wait_for_keepers(child, folder)
    except LaunchError:
        end_tree(child.pid, 0.0)
        child.wait()
        if remove and folder.keepers() is None:
            shutil.rmtree(folder.path, ignore_errors=True)
        raise
    child.returncode = 0  # it outlives this object: Popen must neither wait for it nor warn


def _spawn(folder: JobFolder, withheld: Mapping[str, str]) -> subprocess.Popen[bytes]:
    environment = {**os.environ, WITHHELD: json.dumps(withheld)}
    with open(folder.shepherd_log, "ab") as log:
        return subprocess.Popen(
            (sys.executable, *SHEPHERD, str(folder.path)),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            env=environment,
            start_new_session=True,
        )


def _wait_for_keepers(child: subprocess.Popen[bytes], folder: JobFolder) -> None:
    deadline = time.monotonic() + START_S
    name = folder.path.name
    while folder.keepers() is None:
        code = child.poll()
        if code not in (None, BUSY) and folder.keepers() is None:
            raise LaunchError(f"{name}: its shepherd ended at once (exit code {code}): {_last_words(folder)}")
        if time.monotonic() > deadline:
            raise LaunchError(f"{name}: its shepherd did not start within {START_S:g} s. Try again.")
        time.sleep(START_POLL_S)


def _last_words(folder: JobFolder) -> str:
    lines = folder.shepherd_log.read_text(errors="replace")[-2000:].split("\n")
    last = next((line for line in reversed(lines) if line.strip()), "it left no message")
    return f"{last.strip()}. Check whether the disk of {folder.path} is full."


def _submission(plan: Plan, folder: JobFolder, options: LocalOptions) -> Submission:
    secrets = _secrets(plan)
    nodes = tuple(
        replace(
            process,
            environment={name: value for name, value in process.environment.items() if name not in secrets},
        )
        for process in plan.processes
    )
    return Submission(
        name=plan.job.name,
        nodes=nodes,
        max_runtime_s=plan.job.max_runtime_s,
        grace_s=options.grace_s,
        log_bytes=options.log_bytes,
        network=network_name(folder.path, options),
        subnet=options.subnet,
        prepared=bool(options.prepared),
        withheld=secrets,
        container_engine=str(options.container_engine) if options.container_image else "",
        container_label=label_value(folder.path, options),
        deadline_s=plan.job.deadline_s and plan.job.deadline_s + ANSWER_S + START_MARGIN_S,
        failed_node_grace_s=FAILED_NODE_GRACE_S if plan.job.work.trains else None,
    )


def _secrets(plan: Plan) -> tuple[str, ...]:
    return tuple(sorted(name for name in plan.job.environment if SECRET_NAME.search(name)))


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


def bury(folder: JobFolder, keepers: Keepers, state: JobState, reason: str) -> JobStatus:
    """End what a lost shepherd left, then write the last state that it could not write."""
    left: set[int] = set()
    if keepers.boot_id == boot_id():
        for pid, started in (keepers.guard, keepers.shepherd):
            left.update(end_tree(pid, 0.0, started))
        left.update(end_marked("PRELAUNCH_ATTEMPT", keepers.attempt, 0.0))
    details = [reason, *remove_resources(folder.submission(), folder)]
    details += [f"these processes cannot be ended: {sorted(left)}"] if left else []
    _collect(keepers)
    status = folder.status()
    if status is not None and status.state.final:
        return status
    final = JobStatus(state, "; ".join(details), keepers.attempt, status.exit_codes if status else {})
    with suppress(OSError):  # on a full or read-only disk the next call finds, and says, the same again
        folder.write_status(final)
    return final


def _keepers_or_never(folder: JobFolder) -> Keepers | None:
    """Who looks after the job; where nobody ever did, nobody will: it is marked CANCELLED."""
    deadline = time.monotonic() + BIRTH_S
    while (keepers := folder.keepers()) is None and time.monotonic() < deadline:
        with folder.life() as mine:
            if mine and folder.keepers() is None:
                if not folder.final():
                    folder.write_status(JobStatus(JobState.CANCELLED, "cancelled before it started", "", {}))
                return None
        time.sleep(END_POLL_S)
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
        time.sleep(END_POLL_S)


def _collect(keepers: Keepers) -> None:
    """Where this process started the guard, take its exit status, so that no zombie stays."""
    pid, started = keepers.guard
    if start_ticks(pid) == started and not alive(pid, started):
        with suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)
