"""What a gate on SageMaker must survive, each against the stand-in: nothing passes wrongly, nothing is left running or paid for."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tasks import launch
from tasks.gate.outcome import Decision, GateOutcome
from tests.fakes.sagemaker.bench import Cloud
from tests.flows.cloud import ROOT, Account, account, cloud_gate, gate_there, names, pools
from tests.flows.driving import kept, request_of, run
from tests.survival.faulty_network import needs_root
from tests.waiting import until

__all__ = ["account"]
pytestmark = [needs_root, pytest.mark.root, pytest.mark.usefixtures("prefect_backend", "play")]


def nothing_left(cloud: Cloud) -> bool:
    """No container runs, and no pool is paid for."""
    return not cloud.running() and set(pools(cloud).values()) <= {"Terminated", "Reused"}


@pytest.mark.long
def test_missing_capacity_throttling_and_failing_s3_cost_only_time(tmp_path: Path, account: Account) -> None:
    """No machines at first, half of all calls throttled, reports that S3 hands out on the second try: a go all the same."""
    fault = {"method": "GET", "key": "/reports/", "code": "SlowDown", "share": 0.5, "count": 8}
    dials = {"next_capacity_errors": 1, "throttle": {"share": 0.5}, "s3_faults": [fault]}
    with account(part="healthy", dials=dials) as cloud:
        path = cloud_gate(tmp_path, cloud, cluster="capacity_wait_minutes = 2.0")
        _, outcome = gate_there(path)

        assert (Decision.LAUNCHED, 0) == (outcome.decision, outcome.code), outcome.reason
        assert "Failed" == cloud.jobs()[f"{outcome.gate_id}-check-1"]["TrainingJobStatus"]
        assert f"{outcome.gate_id}-train-2" in cloud.jobs()


def test_an_instance_replaced_inside_of_the_pool_is_checked_again_in_place(
    tmp_path: Path, account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SageMaker says "Reused", and the GPUs' UUIDs differ: the nodes check before they train."""
    with account(machines=3, part="healthy") as cloud:
        path = cloud_gate(tmp_path, cloud)
        outcome = between(path, monkeypatch, cloud, lambda check: cloud.repair(check))
        _, train = names(outcome)

        assert (Decision.LAUNCHED, 0) == (outcome.decision, outcome.code), outcome.reason
        lines = [line for host in cloud.log(train).values() for line in host]
        assert any("the machines are not as they were when they passed" in line for line in lines)
        assert "confirmed" not in str(kept(tmp_path, outcome, "outcome.json")["placement"]["proof"])


@pytest.mark.long
def test_hosts_that_changed_places_in_a_pool_are_the_same_machines(tmp_path: Path, account: Account) -> None:
    """What was algo-1 is algo-2 now: nothing is checked twice."""
    with account(part="healthy", dials={"pool_order": "reversed"}) as cloud:
        path = cloud_gate(tmp_path, cloud)
        _, outcome = gate_there(path)

        runs = (tmp_path / "runs").read_text().split()
        assert (Decision.LAUNCHED, 2) == (outcome.decision, len(runs)), outcome.reason
        assert "all 2 hosts confirmed" in str(kept(tmp_path, outcome, "outcome.json")["placement"]["proof"])


@pytest.mark.long
def test_two_gates_at_once_on_one_account(tmp_path: Path, account: Account) -> None:
    """Two clusters, one role: each trains on its own machines, or checks again."""
    with account(machines=4, part="healthy") as cloud:
        first = cloud_gate(tmp_path / "a", cloud)
        second = cloud_gate(tmp_path / "b", cloud)
        second.write_text(second.read_text().replace('name = "test"', 'name = "other"'))

        async def both() -> list[tuple[Any, GateOutcome]]:
            return await asyncio.gather(*(run(request_of(path)) for path in (first, second)))

        outcomes = [outcome for _, outcome in asyncio.run(both())]

        assert [0, 0] == [outcome.code for outcome in outcomes], [outcome.reason for outcome in outcomes]


@pytest.mark.long
# Each phase, with another engine: test_gate_pooled.py.
@pytest.mark.parametrize("phase", ["Training", "pool"])
def test_cancelled_in_each_phase_nothing_is_left(tmp_path: Path, account: Account, phase: str) -> None:
    """SIGINT to the command: 130, no container runs, no pool is paid for."""
    part, dials = ("hang", {}) if phase == "Training" else ("healthy", {"pool_s": 4.0})
    with account(part=part, dials=dials) as cloud:
        path = cloud_gate(tmp_path, cloud)
        with open(tmp_path / "stderr", "wb") as log:
            process = subprocess.Popen(
                (sys.executable, "-m", "flows.cli.main", "gate", str(path)),
                cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=log, stderr=log,
            )  # fmt: skip
        try:
            reach(cloud, phase)
            process.send_signal(signal.SIGINT)
            code = process.wait(120)
        finally:
            process.kill()
            process.wait()
        cloud.until(lambda: {"left": not nothing_left(cloud)}, lambda seen: not seen["left"], 60.0)

        assert 130 == code
        assert {job["TrainingJobStatus"] for job in cloud.jobs().values()} <= {"Stopped", "Completed"}


def reach(cloud: Cloud, phase: str, timeout_s: float = 90.0) -> None:
    """Until the check job trains, as SageMaker calls it, or has left its pool."""
    wanted = {"Training": ("SecondaryStatus", "Training"), "pool": ("TrainingJobStatus", "Completed")}[phase]
    until(lambda: any(wanted in job.items() for job in cloud.jobs().values()), cloud.jobs, timeout_s)


def between(
    path: Path, monkeypatch: pytest.MonkeyPatch, cloud: Cloud, act: Callable[[str], object]
) -> GateOutcome:
    """Run the gate, and act once its check job's pool is there, before the training is submitted."""
    done: list[object] = []

    async def slowly(*given: Any, **more: Any) -> Any:
        if not done:
            check = next(name for name in cloud.jobs() if "-check-" in name)
            cloud.wait(check)
            done.append(act(check))
        return await launch.wait_for_pool(*given, **more)

    monkeypatch.setattr("flows.gate.wait_for_pool", slowly)
    return gate_there(path)[1]
