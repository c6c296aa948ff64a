"""What squeue prints, as our states. That the table has every state is asked of Slurm itself in tests/engines."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.launchers.base import JobState, Trouble
from tasks.launchers.slurm.job_states import STATES, TROUBLES, UnreadableRow, row_for, rows_of, task_ends
from tests.tasks.parameters import spread


@pytest.mark.parametrize(
    ("line", "state", "trouble", "detail"),
    [
        ("7|PENDING||Resources", JobState.PENDING, Trouble.NONE, "job 7 is PENDING: Resources"),
        ("7|RUNNING|n[0-1]|None", JobState.RUNNING, Trouble.NONE, "job 7 is RUNNING"),
        ("7|COMPLETING|n[0-1]|None", JobState.RUNNING, Trouble.NONE, "job 7 is COMPLETING"),
        ("7|COMPLETED|n0|None", JobState.SUCCEEDED, Trouble.NONE, "job 7 is COMPLETED"),
        ("7|FAILED|n0|NonZeroExitCode", JobState.FAILED, Trouble.ENDED, "job 7 is FAILED: NonZeroExitCode"),
        ("7|NODE_FAIL|n0|None", JobState.FAILED, Trouble.SERVICE, "job 7 is NODE_FAIL: Slurm lost a node of it"),
        ("7|CANCELLED by 1000|n0|", JobState.CANCELLED, Trouble.STOPPED, "job 7 is CANCELLED"),
        ("7|EXPLODED|n0|", JobState.UNKNOWN, Trouble.NONE, "job 7 is EXPLODED"),
        (
            "7|TIMEOUT|n0|TimeLimit", JobState.FAILED, Trouble.MAX_RUNTIME,
            "job 7 is TIMEOUT: it reached its max runtime: TimeLimit",
        ),
        (
            "7|PENDING||ReqNodeNotAvail, UnavailableNodes:n|1", JobState.PENDING, Trouble.NONE,
            "job 7 is PENDING: ReqNodeNotAvail, UnavailableNodes:n|1",
        ),
    ],
)  # fmt: skip
def test_a_row_is_read(line: str, state: JobState, trouble: Trouble, detail: str) -> None:
    """A reason may hold anything; a word that is not known is UNKNOWN, which is never final."""
    (row,) = rows_of(f"{line}\n\n")

    assert (row.job_state, row.trouble, row.detail) == (state, trouble, detail)


@pytest.mark.parametrize(
    "text", ["7|RUNNING", "x|RUNNING|n0|", "7||n0|", "slurm_load_jobs error", "-1|R|n0|"]
)
def test_squeue_row_that_cannot_be_read_is_refused(text: str) -> None:
    """A line that cannot be read must not pass for "there is no such job"."""
    with pytest.raises(UnreadableRow):
        rows_of(f"7|RUNNING|n0|None\n{text}\n")


@given(st.text(max_size=200))
def test_no_text_is_read_wrongly(text: str) -> None:
    """Either rows with numbers and states, or an error."""
    try:
        rows = rows_of(text)
    except UnreadableRow:
        return
    assert all(row.job_id >= 0 and row.state for row in rows)
    assert len(rows) == sum(bool(line.strip()) for line in text.splitlines())


@pytest.mark.parametrize(
    ("state", "held", "reason"),
    spread(
        ("PENDING", True, ("launch failed requeued held", "launch_failed_requeued_held")),
        ("PENDING", True, ("JobHoldMaxRequeue",)),
        ("REQUEUE_HOLD", True, ("launch failed requeued held",)),
        ("PENDING", False, ("JobHeldUser", "JobHeldAdmin", "BeginTime")),
        ("RUNNING", False, ("launch failed requeued held",)),
    ),
)
def test_a_job_that_slurm_holds_after_it_could_not_start_it(state: str, reason: str, held: bool) -> None:
    """A person's hold is waited for; Slurm's own would be waited for in vain."""
    (row,) = rows_of(f"7|{state}||{reason}")

    assert row.held is held


def test_a_kind_of_failure_goes_with_a_state_that_is_final() -> None:
    """Every final state but success has one, and no other state has."""
    unwell = {name for name, state in STATES.items() if state in (JobState.FAILED, JobState.CANCELLED)}

    assert unwell == set(TROUBLES)
    assert Trouble.NONE not in TROUBLES.values()


def test_the_row_of_a_job() -> None:
    """By its number; without one the first that bore the name, because a second one does nothing."""
    rows = rows_of("9|PENDING||\n7|RUNNING||\n")

    assert (row_for(rows, None), row_for(rows, 9), row_for(rows, 8)) == (rows[1], rows[0], None)


OF_FOUR = "n[0-1],n[3,7]"
STARTED = "prelaunch: start 1 of job 5\n"


@pytest.mark.parametrize(
    ("log", "ends"),
    [
        # The first five are what Slurm 22.05 printed.
        ("srun: error: task 0 launch failed: Slurmd could not connect IO", {"n0": (False, None)}),
        ("srun: error: n1: task 1: Exited with exit code 127", {"n1": (True, 127)}),
        (
            "srun: error: n7: task 3: Exited with exit code 2\nsrun: error: n1: task 1: Exited with exit code 2",
            {"n1": (True, 2), "n7": (True, 2)},
        ),
        ("srun: error: n0: task 0: Killed\nsrun: Force Terminated StepId=4.0", {"n0": (True, -9)}),
        (
            "slurmstepd-n1: error: execve(): /no/such: No such file or directory\nsrun: error: n1: task 1: Exited with exit code 2",
            {"n1": (True, 2)},
        ),
        ("srun: error: task 2 launch failed: Unspecified error", {"n3": (False, None)}),
        ("srun: error: tasks 1-2 launch failed: Error configuring interconnect", {"n1": (False, None), "n3": (False, None)}),
        ("srun: error: n[0-1]: tasks 0-1: Exited with exit code 127", {"n0": (True, 127), "n1": (True, 127)}),
        ("srun: error: n1: task 1: Segmentation fault", {"n1": (True, -11)}),
        ("srun: error: n1: task 1: Out Of Memory", {"n1": (True, None)}),
        ("srun: error: task 9 launch failed: x", {}),
        ("srun: error: elsewhere: task 1: Exited with exit code 1", {}),
        ("srun: error: n[0-: task 1: Exited with exit code 1", {}),
        ("srun: error: Unable to confirm allocation for job 5: Socket timed out", {}),
        ("srun: Job step creation temporarily disabled, retrying", {}),
        ("my training says srun: error: n1: task 1: Exited with exit code 1", {}),
        ("srun: error: n1: task 1: Exited with exit code 1\nprelaunch: start 2 of job 5", {}),
        ("", {}),
    ],
)  # fmt: skip
def test_srun_log_gives_start_and_exit_codes(log: str, ends: dict[str, tuple[bool, int | None]]) -> None:
    """By node, of the last start alone: whether it was started at all, and its exit code."""
    by_node = task_ends(STARTED + log + "\n", OF_FOUR)
    assert ends == {node: (end.launched, end.code) for node, end in by_node.items()}


@pytest.mark.parametrize(
    ("never", "trouble", "why"),
    spread(
        (True, Trouble.CONFIGURATION, ("PartitionTimeLimit", "PartitionNodeLimit", "BadConstraints")),
        (True, Trouble.CONFIGURATION, ("InvalidQOS", "InvalidAccount", "DependencyNeverSatisfied")),
        (True, Trouble.QUOTA, ("AssocMaxNodePerJobLimit", "QOSMaxNodePerJobLimit")),
        (True, Trouble.QUOTA, ("QOSMaxWallDurationPerJobLimit", "QOSMinGRES", "AssocMaxGRESMinutesPerJob")),
        (False, Trouble.QUOTA, ("AssocGrpNodeLimit", "AssocGrpCPUMinutesLimit", "QOSGrpGRES")),
        (False, Trouble.QUOTA, ("AssocMaxJobsLimit", "QOSMaxNodePerUserLimit")),
        (False, Trouble.NONE, ("Resources", "Priority", "Dependency", "BeginTime")),
        (False, Trouble.NONE, ("ReqNodeNotAvail, UnavailableNodes:n1",)),
        (
            False,
            Trouble.NONE,
            ("Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions",),
        ),
        (False, Trouble.NONE, ("",)),
    ),
)
def test_a_job_waits_only_where_waiting_can_help(why: str, never: bool, trouble: Trouble) -> None:
    """A limit of a group may be used up by jobs that end; what is wrong with the job itself does not pass."""
    (row,) = rows_of(f"7|PENDING||{why.replace(' ', '_')}\n")

    assert (never, trouble) == (row.never_runs is not None, row.trouble)
    assert rows_of(f"7|RUNNING|n0|{why}\n")[0].never_runs is None
