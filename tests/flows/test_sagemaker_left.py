"""Whatever ends a gate on SageMaker: no job runs on, no pool is paid for, or somebody is told what to type."""

from __future__ import annotations

import json
import signal
from functools import partial
from pathlib import Path

import pytest

from tasks.gate.outcome import Decision
from tasks.launchers.sagemaker import launcher
from tasks.launchers.sagemaker.api import Clients, Limits
from tests.flows.cloud import Account, account, cloud_gate, gate_there, names, page
from tests.flows.driving import play
from tests.flows.test_sagemaker_survives import command, nothing_left, reach
from tests.survival.faulty_network import needs_root

__all__ = ["account", "play"]
pytestmark = [
    needs_root,
    pytest.mark.root,
    pytest.mark.usefixtures("prefect_backend", "play"),
]


def test_a_release_that_is_throttled_is_paged_with_the_command(
    tmp_path: Path, account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The verdict's own page says which pool, and what to type."""
    brief = partial(Clients, limits=Limits(deadline_s=1.0))
    monkeypatch.setattr(launcher, "Clients", lambda region, limits=None, attempts=3: brief(region))
    with account(part="wrong", dials={"throttle": {"operations": ["UpdateTrainingJob"]}}) as cloud:
        path = cloud_gate(tmp_path, cloud)
        _, outcome = gate_there(path)
        check, _ = names(outcome)

        said = page(path, outcome)
        assert 1 == outcome.code and "MACHINES MAY STILL BE BILLED" in said
        assert f"aws sagemaker update-training-job --training-job-name {check} " in said


def test_a_sigterm_and_the_interrupts_after_it_leave_nothing(tmp_path: Path, account: Account) -> None:
    """What was started is ended all the same."""
    with account(part="hang") as cloud:
        path = cloud_gate(tmp_path, cloud)
        with command(path) as process:
            reach(cloud, "Training")
            process.send_signal(signal.SIGTERM)
            reach(
                cloud, "ending"
            )  # two signals that arrive at once are handled in the order of their numbers
            for _ in range(2):
                process.send_signal(signal.SIGINT)
                cloud.jobs()
            code = process.wait(60)

        assert 128 + signal.SIGTERM == code and nothing_left(cloud)


@pytest.mark.long  # a killed gate of another engine: tests/flows/cli/test_gate.py and test_gate_adopted.py
def test_a_gate_in_one_job_that_was_killed_goes_on(tmp_path: Path, account: Account) -> None:
    """SIGKILL while it trains, and the same command: one job, which is followed to its end."""
    training = ("{python}", "-c", "import time; time.sleep(6)")
    with account(part="healthy") as cloud:
        path = cloud_gate(tmp_path, cloud, "in_job", training=training)
        with command(path) as process:
            reach(cloud, "train")
            process.kill()
            process.wait(60)
        with command(path, "--wait", "finished") as process:
            said, _ = process.communicate()

        assert (0, 1) == (process.returncode, len(cloud.jobs())), said
        assert "launched" == json.loads(said)["decision"] and nothing_left(cloud)


@pytest.mark.long  # too many refusals: test_gate_in_job.py; the starts of a repaired job: test_launcher_contract_faults.py
def test_a_job_that_is_repaired_and_refused_again_is_ended(tmp_path: Path, account: Account) -> None:
    """Each start counts; the last one allowed ends the job."""
    with account(part="wrong", dials={"repair": "always"}) as cloud:
        path = cloud_gate(tmp_path, cloud, "in_job", more="max_attempts = 2")
        _, outcome = gate_there(path)

        assert (Decision.REFUSED, 1) == (outcome.decision, outcome.code), outcome.reason
        assert "no-go 2 of 2" in page(path, outcome) and nothing_left(cloud)


def test_where_nothing_can_be_uploaded_nothing_is_started(tmp_path: Path, account: Account) -> None:
    """The bucket cannot be written: the request is refused, no job was made."""
    fault = {"method": "PUT", "key": "/in/", "code": "AccessDenied"}
    with account(part="healthy", dials={"s3_faults": [fault]}) as cloud:
        path = cloud_gate(tmp_path, cloud)
        _, outcome = gate_there(path)

        assert (2, {}) == (outcome.code, cloud.jobs()), outcome.reason
