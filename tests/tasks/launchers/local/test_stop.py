"""Jobs that do not want to end, nodes that fail alone, and shepherds that die: nothing is left, and the state says so."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from checks.exchange import secret_key
from checks.process.tree import alive, start_ticks
from tasks.launchers.base import JobSpec, JobState, Work
from tasks.launchers.local import start_stop
from tasks.launchers.local.job_folder import JobFolder, Keepers
from tasks.launchers.local.launcher import LocalLauncher
from tasks.launchers.local.plan import LocalOptions
from tests import waiting
from tests.tasks.launchers.contract import until, until_final

SECONDS = 60.0
TELL = """
import os, signal, subprocess, sys, time
def tell(what="pid"):
    path = os.path.join(sys.argv[1], f"{what}.{os.getpid()}")
    open(path + ".tmp", "w").close(); os.replace(path + ".tmp", path)
"""
DEAF = TELL + "signal.signal(signal.SIGTERM, signal.SIG_IGN); tell(); time.sleep(300)"
FROZEN = TELL + "tell(); os.kill(os.getpid(), signal.SIGSTOP); time.sleep(300)"
DAEMON = (
    TELL
    + """
if os.fork() == 0:
    os.setsid()
    if os.fork(): os._exit(0)
    signal.signal(signal.SIGTERM, signal.SIG_IGN); tell(); time.sleep(300)
os.wait()
"""
)
STAYS = DAEMON + "tell(); time.sleep(300)"
LEAVES = DAEMON + "\nwhile len(os.listdir(sys.argv[1])) < 1: time.sleep(0.01)"
SLEEP = "[sys.executable, '-S', '-c', 'import time; time.sleep(300)']"
NAMELESS = STAYS.replace("tell(); time", f"tell(); os.execve(sys.executable, {SLEEP}, {{}}); time", 1)

STARTED = """
import os, sys, time
node, folder = os.environ["PRELAUNCH_NODE"], os.path.join(sys.argv[1], os.environ["PRELAUNCH_ATTEMPT"])
def started():
    os.makedirs(os.path.join(folder, "started"), exist_ok=True)
    open(os.path.join(folder, "started", node), "w").close()
"""
FAILS_ALONE = STARTED + "started()\nif node == 'node-1': sys.exit(7)\ntime.sleep(300)"
FAILS_BOTH = STARTED + "started()\nif node == 'node-1': sys.exit(7)\ntime.sleep(0.4); sys.exit(9)"
WHY = "node-1 ended with exit code 7"


def start(
    launcher: LocalLauncher, code: str, pids: int, nodes: int = 1, max_runtime_s: float = 60.0
) -> list[int]:
    """Submit a job "stubborn-1" of that code; the pids of its processes, once there are so many."""
    command = ("{python}", "-S", "-c", code, "{out}")
    launcher.submit(launcher.plan(JobSpec("stubborn-1", command, nodes, 1, max_runtime_s, {}, {})))
    out = folder(launcher).out
    waiting.until(lambda: len([*out.glob("pid.*[0-9]")]) >= pids, lambda: launcher.state("stubborn-1"))
    return [int(path.suffix[1:]) for path in out.glob("pid.*[0-9]")]


def folder(launcher: LocalLauncher) -> JobFolder:
    return JobFolder(launcher.root / "jobs" / "stubborn-1")


def keepers(launcher: LocalLauncher) -> Keepers:
    found = folder(launcher).keepers()
    assert found is not None
    return found


def no_key(launcher: LocalLauncher) -> bool:
    """Whether the key of the exchange went with the job."""
    return not list(folder(launcher).nodes.glob(f"*/{secret_key.FILE}"))


def living(pids: list[int]) -> list[int]:
    return [pid for pid in pids if alive(pid, start_ticks(pid))]


@pytest.mark.parametrize(("code", "pids"), [(FROZEN, 2), (STAYS, 4)], ids=["frozen", "daemon"])
def test_cancel_ends_everything(launcher: LocalLauncher, code: str, pids: int) -> None:
    """One that ignores SIGTERM, one that stands still, one that fled into a session of its own."""
    running = start(launcher, code, pids, nodes=2)
    assert len(living(running)) == pids
    launcher.cancel("stubborn-1")

    assert (living(running), launcher.state("stubborn-1").state) == ([], JobState.CANCELLED)
    assert not keepers(launcher).alive() and no_key(launcher)


def test_a_frozen_shepherd_is_cancelled_too(launcher: LocalLauncher) -> None:
    """It cannot answer before it is continued."""
    running = start(launcher, DEAF, 1)
    for pid, _ in (keepers(launcher).shepherd, keepers(launcher).guard):
        os.kill(pid, signal.SIGSTOP)
    launcher.cancel("stubborn-1")

    assert (living(running), launcher.state("stubborn-1").state) == ([], JobState.CANCELLED)


@pytest.mark.parametrize(
    ("code", "victim"), [(NAMELESS, "shepherd"), (STAYS, "guard")], ids=["no environment", "daemon"]
)
def test_local_job_ends_when_one_keeper_is_killed(launcher: LocalLauncher, code: str, victim: str) -> None:
    """SIGKILL lets it say nothing; the other of the two ends all, and the state is FAILED."""
    running = start(launcher, code, 2)
    os.kill(getattr(keepers(launcher), victim)[0], signal.SIGKILL)
    state = until_final(launcher, "stubborn-1", SECONDS).state

    assert (living(running), state, keepers(launcher).alive()) == ([], JobState.FAILED, False)
    assert "killed" in (said := launcher.state("stubborn-1").detail) or "SIGKILL" in said


@pytest.mark.parametrize("cancelled", [False, True])
def test_local_job_ends_when_both_keepers_are_killed(launcher: LocalLauncher, cancelled: bool) -> None:
    """Killed in the same moment: whoever asks for the state next, or cancels, ends what is left; it is FAILED, or CANCELLED."""
    running = start(launcher, STAYS, 2)
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for pid, _ in (keepers(launcher).guard, keepers(launcher).shepherd):
            os.kill(pid, number)
    if cancelled:
        launcher.cancel("stubborn-1")
    state = until_final(launcher, "stubborn-1", SECONDS).state

    assert (living(running), state) == ([], JobState.CANCELLED if cancelled else JobState.FAILED)
    assert no_key(launcher)
    assert cancelled or "died" in launcher.state("stubborn-1").detail
    launcher.cancel("stubborn-1")
    assert launcher.state("stubborn-1").state is state


def test_a_command_that_ended_leaves_no_daemon(launcher: LocalLauncher) -> None:
    """The job ended well, and what its command left running was ended. Without its state it is FAILED: nobody lives to mend that."""
    running = start(launcher, LEAVES, 1)

    assert (until_final(launcher, "stubborn-1", SECONDS).state, living(running)) == (JobState.SUCCEEDED, [])
    (folder(launcher).path / "state.json").write_bytes(b"{")
    assert launcher.state("stubborn-1").state is JobState.FAILED


def test_the_max_runtime_ends_what_ignores_sigterm(launcher: LocalLauncher) -> None:
    """After the grace; the exit codes say how."""
    running = start(launcher, DEAF, 2, nodes=2, max_runtime_s=1.0)
    status = until_final(launcher, "stubborn-1", SECONDS)

    assert (living(running), status.state) == ([], JobState.FAILED)
    assert "max runtime of 1 s" in status.detail
    assert dict(status.exit_codes) == {"node-0": -9, "node-1": -9}


def test_a_node_that_cannot_start_does_not_stop_the_others(launcher: LocalLauncher) -> None:
    """The gate needs the others' reports; the log says why this one has none."""
    launcher.submit(launcher.plan(JobSpec("stubborn-1", ("no-such-program",), 2, 1, 60.0, {}, {})))
    status = until_final(launcher, "stubborn-1", SECONDS)

    assert (status.state, status.exit_codes) == (JobState.FAILED, {"node-0": 127, "node-1": 127})
    assert "no-such-program could not be started" in launcher.logs("stubborn-1", "node-1")


def test_a_job_of_another_boot_is_not_mistaken_for_processes_of_this_one(launcher: LocalLauncher) -> None:
    """Numbers from before a reboot mean nothing: FAILED, and nobody is harmed."""
    running = start(launcher, DEAF, 1)
    path = folder(launcher).path / "shepherd.json"
    true = path.read_bytes()
    path.write_text(json.dumps({**json.loads(true), "boot_id": "another"}))
    state = launcher.state("stubborn-1").state
    harmed = living(running) != running
    path.write_bytes(true)
    (folder(launcher).path / "state.json").unlink()
    launcher.cancel("stubborn-1")

    assert (state, harmed) == (JobState.FAILED, False)


@pytest.mark.parametrize(
    "garbage", [b"", b"{", b"null", b"[]", b'{"state": "splendid"}', b'{"state": "succeeded", "x": 1}']
)
def test_a_spoilt_state_is_none(tmp_path: Path, garbage: bytes) -> None:
    """What cannot be read says nothing, least of all that a job ended well."""
    (tmp_path / "state.json").write_bytes(garbage)

    assert JobFolder(tmp_path).status() is None


def test_a_flood_of_output_is_cut_and_blocks_nobody(tmp_path: Path) -> None:
    """The log keeps its first bytes and its last, says how much it dropped, and the node goes on."""
    launcher = LocalLauncher(tmp_path / "work", LocalOptions(log_bytes=100_000))
    code = "import os\nfor _ in range(3000): os.write(1, b'x' * 10000)\nos.write(1, b'the end')"
    launcher.submit(launcher.plan(JobSpec("flood-1", ("{python}", "-c", code), 1, 1, 60.0, {}, {})))
    status = until_final(launcher, "flood-1", SECONDS)
    log = launcher.logs("flood-1", "node-0", 1 << 20)

    assert status.state is JobState.SUCCEEDED
    assert log.startswith("x" * 100_000 + "\n[prelaunch: the log is cut here, at 100000 bytes]")
    assert "29900007 bytes were dropped" in log and log.endswith("the end")
    assert len(log) < 200_000


def submit(launcher: LocalLauncher, code: str, work: Work, max_runtime_s: float = 60.0) -> None:
    """Submit the job "two-1", whose two nodes run that code."""
    command = ("{python}", "-S", "-c", code, "{out}")
    launcher.submit(launcher.plan(JobSpec("two-1", command, 2, 1, max_runtime_s, {}, {}, work=work)))


def test_a_training_does_not_wait_for_the_others_for_ever(
    launcher: LocalLauncher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The failed node is named, the one that was ended because of it is known as such, and no limit is blamed."""
    monkeypatch.setattr(start_stop, "FAILED_NODE_GRACE_S", 0.5)
    submit(launcher, FAILS_ALONE, Work.GATE)
    status = until_final(launcher, "two-1", SECONDS)

    assert (JobState.FAILED, 7, ("node-0",)) == (status.state, status.exit_codes["node-1"], status.ended)
    assert f"{WHY}; the other nodes still ran 0.5 s later and were ended" == status.detail


def test_a_node_that_failed_shortly_before_the_max_runtime_is_the_reason(launcher: LocalLauncher) -> None:
    """And not the limit, which the others would have met."""
    submit(launcher, FAILS_ALONE, Work.CONFIRM, max_runtime_s=2.0)
    status = until_final(launcher, "two-1", SECONDS)

    assert (JobState.FAILED, ("node-0",)) == (status.state, status.ended)
    assert f"{WHY}; it did not end within its max runtime of 2 s" == status.detail


def test_while_the_others_have_their_grace_the_state_says_who_failed(launcher: LocalLauncher) -> None:
    """A person who looks on sees why nothing happens any more; one who cancels keeps what is known."""
    submit(launcher, FAILS_ALONE, Work.CONFIRM)
    status = until(launcher, "two-1", SECONDS, lambda status: bool(status.exit_codes))
    begun = until(launcher, "two-1", SECONDS, lambda status: "the other nodes" in status.detail)
    launcher.cancel("two-1")
    after = launcher.state("two-1")

    assert JobState.RUNNING is status.state and status.detail.startswith(WHY)
    assert begun.detail == f"{WHY}; the other nodes have 30 s from then on to end by themselves"
    assert (JobState.CANCELLED, f"cancelled, after {WHY}") == (after.state, after.detail)


@pytest.mark.parametrize(
    ("code", "work", "codes"),
    [
        (FAILS_ALONE.replace("300", "2"), Work.CHECK, (0, 7)),
        (STARTED + "if node == 'node-1': sys.exit(7)\ntime.sleep(2)", Work.GATE, (0, 7)),
        (FAILS_BOTH, Work.CONFIRM, (9, 7)),
        (STARTED + "started()\nif node == 'node-1': sys.exit(0)\ntime.sleep(2)", Work.CONFIRM, (0, 0)),
    ],
    ids=["checks", "before the training", "by itself", "well"],
)
def test_no_other_node_is_ended(
    launcher: LocalLauncher, monkeypatch: pytest.MonkeyPatch, code: str, work: Work, codes: tuple[int, int]
) -> None:
    """Healthy nodes of a health check write their reports, also within the training's job; what ends by itself was not ended."""
    monkeypatch.setattr(start_stop, "FAILED_NODE_GRACE_S", 1.0)
    submit(launcher, code, work)
    status = until_final(launcher, "two-1", SECONDS)

    assert status.state is (JobState.FAILED if any(codes) else JobState.SUCCEEDED)
    assert (dict(zip(("node-0", "node-1"), codes, strict=True)), ()) == (status.exit_codes, status.ended)
