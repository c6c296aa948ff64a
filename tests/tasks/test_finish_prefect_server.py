"""How a gate ends if the Prefect server fails: a service error, after the client's own retries."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from checks.exit_codes import Exit
from tasks.finish import defect_outcome, failed_outcome
from tasks.gate.outcome import Decision, Ending
from tests.tasks.sessions import TRAIN_JOB, session
from tests.tasks.test_finish import GO, PUBLISHED

BUSY = httpx.HTTPStatusError(
    "503", request=httpx.Request("POST", "http://127.0.0.1:9/api"), response=httpx.Response(503, json={"detail": "busy"})
)  # fmt: skip
WRONG = httpx.HTTPStatusError(
    "422", request=httpx.Request("POST", "http://127.0.0.1:9/api"), response=httpx.Response(422, json={})
)


@pytest.mark.parametrize("error", [BUSY, httpx.ReadTimeout("slow"), httpx.ConnectError("refused")])
@pytest.mark.parametrize("wrapped", [False, True])
def test_a_prefect_server_that_is_busy_is_a_service_that_failed(
    tmp_path: Path, error: Exception, wrapped: bool
) -> None:
    """Not an error in prelaunch itself; the code is the documented 5."""
    if wrapped:
        error, error.__cause__ = RuntimeError("Failed to reach API"), error
        outcome = defect_outcome(session(tmp_path), error)
    else:
        outcome = failed_outcome(session(tmp_path), error, None)

    assert (Ending.NO_CAPACITY, Exit.NO_CAPACITY) == (outcome.ending, outcome.code)
    assert outcome.reason.startswith("the Prefect server at "), outcome.reason


def test_a_training_that_ran_is_not_denied_because_the_prefect_server_failed(tmp_path: Path) -> None:
    """Who believed that nothing was started would start it twice."""
    one = session(tmp_path)
    one.judged, one.training, one.trained = GO, TRAIN_JOB, True
    outcome = failed_outcome(one, BUSY, PUBLISHED)

    assert (Ending.JOB_FAILED, Decision.LAUNCHED) == (outcome.ending, outcome.decision)


def test_a_request_that_the_prefect_server_calls_wrong_is_an_error_of_ours(tmp_path: Path) -> None:
    """Waiting does not help."""
    assert "an error in prelaunch itself" in failed_outcome(session(tmp_path), WRONG, None).reason
