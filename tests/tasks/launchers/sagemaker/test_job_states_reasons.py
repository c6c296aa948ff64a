"""FailureReason -> what kind of trouble; none of it condemns hardware."""

from __future__ import annotations

import pytest

from tasks.launchers.base import Trouble
from tasks.launchers.sagemaker.job_states import trouble_of
from tests.tasks.launchers.sagemaker.stubbed import ALGORITHM, CAPACITY


@pytest.mark.parametrize(
    ("reason", "trouble"),
    [
        (ALGORITHM, Trouble.ENDED),
        (
            "ClientError: Cannot pull algorithm container. Either the image does not exist",
            Trouble.CONFIGURATION,
        ),
        (CAPACITY, Trouble.NO_CAPACITY),
        ("InsufficientCapacityError: no capacity in the training plan", Trouble.NO_CAPACITY),
        ("InternalServerError: We encountered an internal error. Please try again.", Trouble.SERVICE),
        ("Something that nobody has seen", Trouble.ENDED),
        ("", Trouble.ENDED),
        ("AlgorithmError: the log said CapacityError: no", Trouble.ENDED),
    ],
)
def test_a_reason_has_a_kind(reason: str, trouble: Trouble) -> None:
    """Told by how it begins; a text of no known kind is to be judged by the report."""
    assert trouble is trouble_of("Failed", "Failed", reason, trained=True)


@pytest.mark.parametrize(
    ("secondary", "trained", "trouble"),
    [
        ("Stopped", True, Trouble.STOPPED),
        ("MaxRuntimeExceeded", True, Trouble.MAX_RUNTIME),
        ("MaxWaitTimeExceeded", True, Trouble.MAX_RUNTIME),
        ("MaxWaitTimeExceeded", False, Trouble.NO_CAPACITY),
    ],
)
def test_a_stop_has_a_kind(secondary: str, trained: bool, trouble: Trouble) -> None:
    """A wait for spot machines that never came is want of capacity."""
    assert trouble is trouble_of("Stopped", secondary, "", trained)


@pytest.mark.parametrize("status", ["Completed", "InProgress", "Stopping"])
def test_no_trouble_without_a_bad_end(status: str) -> None:
    """A job that runs or ended well has none."""
    assert trouble_of(status, status, "", True) is Trouble.NONE
