"""One node of a training fails while the others go on: they get a grace, then the job ends and says whose failure it was."""

from __future__ import annotations

import pytest

from tasks.launchers.base import JobSpec, JobState, Work
from tasks.launchers.local import start_stop
from tasks.launchers.local.launcher import LocalLauncher
from tests.tasks.launchers.contract import until, until_final

SECONDS = 60.0
STARTED = """
import os, sys, time
node, folder = os.environ["PRELAUNCH_NODE"], os.path.join(sys.argv[1], os.environ["PRELAUNCH_ATTEMPT"])
def started():
    os.makedirs(os.path.join(folder, "started"), exist_ok=True)
    open(os.path.join(folder, "started", node), "w").close()
"""
FAILS_ALONE = STARTED + "started()\nif node == 'node-1': sys.exit(7)\ntime.sleep(300)"
FAILS_BEFORE = STARTED + "if node == 'node-1': sys.exit(7)\ntime.sleep(2)"
FAILS_BOTH = STARTED + "started()\nif node == 'node-1': sys.exit(7)\ntime.sleep(0.4); sys.exit(9)"
ENDS_WELL = STARTED + "started()\nif node == 'node-1': sys.exit(0)\ntime.sleep(2)"


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
    assert (
        "node-1 ended with exit code 7; the other nodes still ran 0.5 s later and were ended" == status.detail
    )


def test_a_node_that_failed_shortly_before_the_max_runtime_is_the_reason(launcher: LocalLauncher) -> None:
    """And not the limit, which the others would have met."""
    submit(launcher, FAILS_ALONE, Work.CONFIRM, max_runtime_s=2.0)
    status = until_final(launcher, "two-1", SECONDS)

    assert (JobState.FAILED, ("node-0",)) == (status.state, status.ended)
    assert "node-1 ended with exit code 7; it did not end within its max runtime of 2 s" == status.detail


def test_while_the_others_have_their_grace_the_state_says_who_failed(launcher: LocalLauncher) -> None:
    """A person who looks on sees why nothing happens any more; one who cancels keeps what is known."""
    submit(launcher, FAILS_ALONE, Work.CONFIRM)
    status = until(launcher, "two-1", SECONDS, lambda status: bool(status.exit_codes))
    begun = until(launcher, "two-1", SECONDS, lambda status: "the other nodes" in status.detail)
    launcher.cancel("two-1")
    after = launcher.state("two-1")

    assert JobState.RUNNING is status.state and status.detail.startswith("node-1 ended with exit code 7")
    assert (
        begun.detail
        == "node-1 ended with exit code 7; the other nodes have 30 s from then on to end by themselves"
    )
    assert (JobState.CANCELLED, "cancelled, after node-1 ended with exit code 7") == (
        after.state,
        after.detail,
    )


@pytest.mark.parametrize(
    ("code", "work", "codes", "state"),
    [
        (FAILS_ALONE.replace("300", "2"), Work.CHECK, {"node-0": 0, "node-1": 7}, JobState.FAILED),
        (FAILS_BEFORE, Work.GATE, {"node-0": 0, "node-1": 7}, JobState.FAILED),
        (FAILS_BOTH, Work.CONFIRM, {"node-0": 9, "node-1": 7}, JobState.FAILED),
        (ENDS_WELL, Work.CONFIRM, {"node-0": 0, "node-1": 0}, JobState.SUCCEEDED),
    ],
    ids=["checks", "before the training", "by itself", "well"],
)
def test_no_other_node_is_ended(
    launcher: LocalLauncher,
    monkeypatch: pytest.MonkeyPatch,
    code: str,
    work: Work,
    codes: dict[str, int],
    state: JobState,
) -> None:
    """Healthy nodes of a health check write their reports, also within the training's job; what ends by itself was not ended."""
    monkeypatch.setattr(start_stop, "FAILED_NODE_GRACE_S", 1.0)
    submit(launcher, code, work)
    status = until_final(launcher, "two-1", SECONDS)

    assert (state, codes, ()) == (status.state, dict(status.exit_codes), status.ended)
