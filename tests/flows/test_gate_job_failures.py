"""What an engine says of a job without reports: an exit code each, and none of it condemns hardware."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from checks.model import Cause, NodeEnd
from tasks.collect import poll_pause_s
from tasks.gate.job_failures import never_ran, require_machines, require_reports
from tasks.gate.jobs import JobEnd
from tasks.launchers.base import (
    EngineUnavailable,
    JobState,
    JobStatus,
    LaunchError,
    LaunchRejected,
    NoCapacity,
    QuotaExceeded,
    Trouble,
)
from tests.flows.driving import gate_it
from tests.flows.fake_engine import Engine
from tests.flows.pools import fake_gate

FAILED = JobStatus(JobState.FAILED, "the engine's words", "", {}, history=("Starting", "Failed: why"))
RAISED: dict[Trouble, type[LaunchError]] = {
    Trouble.CONFIGURATION: LaunchRejected,
    Trouble.NO_CAPACITY: NoCapacity,
    Trouble.QUOTA: QuotaExceeded,
    Trouble.SERVICE: EngineUnavailable,
}


@pytest.mark.usefixtures("without_prefect", "play")
def test_a_job_that_somebody_stopped_before_it_reported_cannot_tell(tmp_path: Path, engine: Engine) -> None:
    """With the engine's words, and without a word against a machine."""
    engine.endings = [dataclasses.replace(FAILED, trouble=Trouble.STOPPED)]

    state, outcome = gate_it(fake_gate(tmp_path))

    assert ("CannotTell", 3, True) == (state.name, outcome.code, engine.idle)
    assert outcome.judged is not None
    first = outcome.judged.report.ends[0]
    assert first == NodeEnd("node-0", None, "the last words of node-0", first.said)
    assert first.said.startswith("its job failed ")
    assert (
        f"states of {outcome.gate_id}-check-1, reported by the engine: Starting; Failed: why"
        in outcome.judged.report.collection[1]
    )
    assert {Cause.EVIDENCE} == {finding.cause for finding in outcome.judged.verdict.findings}


@pytest.mark.parametrize(
    ("codes", "rejected"),
    [
        ({"node-0": 2, "node-1": 2}, True),
        ({"node-0": 2}, True),
        ({"node-0": 2, "node-1": 3}, False),
        ({"node-0": 1}, False),
        ({}, False),
    ],
)
@pytest.mark.parametrize("trouble", list(Trouble))
def test_nodes_that_rejected_the_job_are_no_missing_evidence(
    codes: dict[str, int], rejected: bool, trouble: Trouble
) -> None:
    """An image of another version, or one without a module, is a matter of configuration: the agent's reason is what to do."""
    ended = JobEnd("j", JobStatus(JobState.FAILED, "the image lacks pynvml", "", codes, trouble))
    by_itself = trouble in (Trouble.NONE, Trouble.ENDED)
    if by_itself and rejected:
        with pytest.raises(LaunchRejected, match="the image lacks pynvml"):
            require_reports(ended)
    elif by_itself or trouble in (Trouble.STOPPED, Trouble.MAX_RUNTIME):
        require_reports(ended)
    else:
        with pytest.raises(RAISED[trouble]):
            require_reports(ended)


@pytest.mark.parametrize(
    ("trouble", "error"), [(Trouble.NO_CAPACITY, NoCapacity), (Trouble.QUOTA, QuotaExceeded)]
)
def test_a_training_without_machines_raises_what_it_lacks(trouble: Trouble, error: type[Exception]) -> None:
    """In the engine's words: capacity is waited for, a quota is not."""
    with pytest.raises(error, match="the engine's words"):
        require_machines(JobEnd("j", dataclasses.replace(FAILED, trouble=trouble)))


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"trouble": Trouble.CONFIGURATION}, True),
        ({"trouble": Trouble.SERVICE}, True),
        ({"trouble": Trouble.STOPPED}, True),
        ({"trouble": Trouble.ENDED}, False),
        ({"trouble": Trouble.MAX_RUNTIME}, False),
        ({"trouble": Trouble.CONFIGURATION, "attempt": "t1"}, False),
        ({"trouble": Trouble.CONFIGURATION, "exit_codes": {"node-0": 1}}, False),
        ({"trouble": Trouble.CONFIGURATION, "state": JobState.UNKNOWN}, False),
    ],
)
def test_job_without_any_sign_of_a_start_never_ran(changes: dict[str, Any], expected: bool) -> None:
    """A node that spoke, an exit code, or an end of its own say that it ran; so does having seen it run."""
    status = dataclasses.replace(FAILED, **changes)

    assert (expected, False) == (never_ran(JobEnd("j", status)), never_ran(JobEnd("j", status, ran=True)))


def test_poll_pause_grows_with_the_time_waited_up_to_a_limit() -> None:
    """From the launcher's own pace to three times that, or five seconds."""
    assert [0.2, 1.0, 5.0] == [poll_pause_s(0.2, seconds) for seconds in (0.0, 100.0, 9000.0)]
    assert [5.0, 15.0] == [poll_pause_s(5.0, seconds) for seconds in (0.0, 9000.0)]
