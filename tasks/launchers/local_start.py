"""The start of a local job: its folder appears whole, then one shepherd takes it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from checks import exchangekey
from checks.deadline import ANSWER_S
from checks.processes import end_tree
from tasks.launchers.base import LaunchError, Plan
from tasks.launchers.local_folder import JobFolder, NodeCommand, Submission
from tasks.launchers.local_nodes import WITHHELD
from tasks.launchers.local_plan import PACKAGES, SECRET, LocalOptions, network_name
from tasks.launchers.local_shepherd import BUSY

START_S = 20.0
POLL_S = 0.005
START_MARGIN_S = 5.0  # the nodes' own clocks begin when Python has started


def stage(plan: Plan, folder: JobFolder, staging: Path, options: LocalOptions) -> None:
    """Make the job's folder beside its place, then let it appear at once. Raises OSError, leaving nothing."""
    shutil.rmtree(staging, ignore_errors=True)
    try:
        made = JobFolder(staging)
        made.out.mkdir(parents=True)
        made.life_lock.touch()
        key = exchangekey.make()
        for request in plan.processes:
            (made.nodes / request.node).mkdir(parents=True)
            exchangekey.write(made.key(request.node), key)
        for name, data in plan.job.files.items():
            (staging / name).write_bytes(data)
        made.write_submission(_submission(plan, folder, options))
        folder.path.parent.mkdir(parents=True, exist_ok=True)
        os.rename(staging, folder.path)
    except OSError:
        shutil.rmtree(staging, ignore_errors=True)
        raise


def start(plan: Plan, folder: JobFolder, *, remove: bool) -> None:
    """Start the shepherd and wait until it says that it lives.

    Raises LaunchError where it does not; then nothing runs, and with `remove` the folder is gone as well.
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
    paths = [PACKAGES, *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": ":".join(paths), WITHHELD: json.dumps(withheld)}
    with open(folder.shepherd_log, "ab") as log:
        return subprocess.Popen(
            (sys.executable, "-P", "-S", "-m", "tasks.launchers.local_shepherd", str(folder.path)),
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
        time.sleep(POLL_S)


def _last_words(folder: JobFolder) -> str:
    said = folder.shepherd_log.read_text(errors="replace")[-2000:].split("\n")
    words = next((line for line in reversed(said) if line.strip()), "it could not even say why")
    return f"{words.strip()}. Look whether the disk of {folder.path} is full."


def _submission(plan: Plan, folder: JobFolder, options: LocalOptions) -> Submission:
    secrets = _secrets(plan)
    nodes = tuple(
        NodeCommand(
            request.node,
            request.argv,
            {name: value for name, value in request.environment.items() if name not in secrets},
            request.working_directory,
        )
        for request in plan.processes
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
        deadline_s=plan.job.deadline_s and plan.job.deadline_s + ANSWER_S + START_MARGIN_S,
    )


def _secrets(plan: Plan) -> tuple[str, ...]:
    return tuple(sorted(name for name in plan.job.environment if SECRET.search(name)))
