"""What a gate on SageMaker must survive, each against the stand-in: nothing passes wrongly, nothing is left running or paid for."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tasks import launch
from tasks.gate.outcome import Decision, Outcome
from tests.fakes.sagemaker.bench import Cloud
from tests.flows.cloud import ROOT, Account, account, cloud_gate, gate_there, kept, names, pools
from tests.flows.driving import play, request_of, run
from tests.survival.faulty_network import needs_root

__all__ = ["account", "play"]
pytestmark = [
    needs_root,
    pytest.mark.root,
    pytest.mark.usefixtures("prefect_backend", "play"),
]


def nothing_left(cloud: Cloud) -> bool:
    """No container runs, and no pool is paid for."""
    return not cloud.running() and set(pools(cloud).values()) <= {"Terminated", "Reused"}


def text_of(outcome: Outcome) -> str:
    """Everything that was found."""
    assert outcome.judged is not None
    return "\n".join(f"{f.cause.value} {f.subject} {f.message}" for f in outcome.judged.verdict.findings)


def test_missing_capacity_throttling_and_a_failing_s3_cost_only_time(
    tmp_path: Path, account: Account
) -> None:
    """No machines at first, half of all calls throttled, reports that S3 hands out on the second try: a go all the same."""
    fault = {"method": "GET", "key": "/reports/", "code": "SlowDown", "share": 0.5, "count": 8}
    dials = {"next_capacity_errors": 1, "throttle": {"share": 0.5}, "s3_faults": [fault]}
    with account(part="healthy", dials=dials) as cloud:
        path = cloud_gate(tmp_path, cloud, cluster="capacity_wait_minutes = 2.0")
        _, outcome = gate_there(path)

        assert (Decision.LAUNCHED, 0) == (outcome.decision, outcome.code), outcome.reason
        assert "Failed" == cloud.jobs()[f"{outcome.gate_id}-check-1"]["TrainingJobStatus"]
        assert f"{outcome.gate_id}-train-2" in cloud.jobs()


@pytest.mark.long
def test_no_capacity_is_waited_for(tmp_path: Path, account: Account) -> None:
    """An error for want of machines, then success: the next attempt is submitted under another name."""
    with account(part="healthy", dials={"next_capacity_errors": 1}) as cloud:
        path = cloud_gate(tmp_path, cloud, cluster="capacity_wait_minutes = 2.0")
        _, outcome = gate_there(path)

        assert (Decision.LAUNCHED, 0) == (outcome.decision, outcome.code), outcome.reason
        assert "Failed" == cloud.jobs()[f"{outcome.gate_id}-check-1"]["TrainingJobStatus"]
        assert f"{outcome.gate_id}-train-2" in cloud.jobs()


@pytest.mark.parametrize(
    "code", [pytest.param("CapacityError", marks=pytest.mark.long), "InsufficientCapacityError"]
)
def test_no_capacity_condemns_nobody(tmp_path: Path, account: Account, code: str) -> None:
    """Nothing was judged: exit 5."""
    with account(part="healthy", dials={"next_capacity_errors": 1, "capacity_error": code}) as cloud:
        _, outcome = gate_there(cloud_gate(tmp_path, cloud))

        assert (5, None) == (outcome.code, outcome.judged), outcome.reason
        assert nothing_left(cloud)


@pytest.mark.long
def test_a_training_without_capacity_is_waited_for(tmp_path: Path, account: Account) -> None:
    """The checks passed, and SageMaker has no machines for the training: it is submitted again, under another name."""
    dials = {"next_capacity_errors": 1, "meant": "-train-"}
    with account(part="healthy", dials=dials) as cloud:
        path = cloud_gate(tmp_path, cloud, "none", cluster="capacity_wait_minutes = 2.0")
        _, outcome = gate_there(path)

        assert (Decision.LAUNCHED, 0) == (outcome.decision, outcome.code), outcome.reason
        states = {name: job["TrainingJobStatus"] for name, job in cloud.jobs().items()}
        ended = {"check-1": "Completed", "train-1": "Failed", "train-1-2": "Completed"}
        assert {f"{outcome.gate_id}-{name}": state for name, state in ended.items()} == states
        assert nothing_left(cloud)


@pytest.mark.long
@pytest.mark.parametrize(
    ("dials", "said"),
    [
        ({"next_capacity_errors": 9}, "InsufficientCapacityError: Unable to provision"),
        ({"quotas": {"ml.m5.large": 0}}, "'ml.m5.large for training job usage' is 0 Instances"),
    ],
)
def test_a_training_that_gets_no_machines_is_not_launched(
    tmp_path: Path, account: Account, dials: dict[str, Any], said: str
) -> None:
    """After a go: exit code 5. The machines that were checked are let go, and nothing runs."""
    with account(part="healthy", dials={**dials, "meant": "-train-"}) as cloud:
        _, outcome = gate_there(cloud_gate(tmp_path, cloud, "none" if "quotas" not in dials else "pooled"))

        assert (Decision.NOT_LAUNCHED, 5) == (outcome.decision, outcome.code), outcome.reason
        assert outcome.judged is not None and said in outcome.reason
        assert nothing_left(cloud)


def test_a_host_that_dies_is_named_and_nobody_is_condemned(tmp_path: Path, account: Account) -> None:
    """There is no report from it: cannot tell."""
    with account(part="slow") as cloud:
        cloud.machine("m5.large-1", fault={"dies_at_line": "fake node"})
        path = cloud_gate(tmp_path, cloud)
        _, outcome = gate_there(path)

        assert (Decision.CANNOT_TELL, 3) == (outcome.decision, outcome.code), outcome.reason
        assert "algo-2" in text_of(outcome) and "HARDWARE" not in text_of(outcome)
        assert outcome.judged is not None and () == outcome.judged.verdict.condemned
        assert nothing_left(cloud)


CUT = {"method": "GET", "key": r"nodes/algo-2\.json$", "keep": 0.5}


def test_a_report_that_arrives_cut_is_no_report(tmp_path: Path, account: Account) -> None:
    """S3 hands out half of an object and calls it whole; the archive cannot be read either."""
    lost = {"method": "GET", "key": r"output\.tar\.gz$", "code": "AccessDenied"}
    with account(part="healthy", dials={"s3_faults": [CUT, lost]}) as cloud:
        _, outcome = gate_there(cloud_gate(tmp_path, cloud))

        assert (Decision.CANNOT_TELL, 3) == (outcome.decision, outcome.code), outcome.reason
        assert "algo-2" in text_of(outcome) and nothing_left(cloud)


@pytest.mark.long
def test_a_report_that_arrives_cut_is_taken_from_the_archive(tmp_path: Path, account: Account) -> None:
    """SageMaker's own archive has it whole."""
    with account(part="healthy", dials={"s3_faults": [CUT]}) as cloud:
        _, outcome = gate_there(cloud_gate(tmp_path, cloud))

        assert (Decision.LAUNCHED, 0) == (outcome.decision, outcome.code), outcome.reason


@pytest.mark.long
@pytest.mark.parametrize("method", ["PUT", "GET"])
def test_s3_that_fails_for_a_while_costs_nothing(tmp_path: Path, account: Account, method: str) -> None:
    """Every second request for a report fails a few times; the reports come all the same."""
    fault = {"method": method, "key": "/reports/", "code": "SlowDown", "share": 0.5, "count": 8}
    with account(part="healthy", dials={"s3_faults": [fault]}) as cloud:
        _, outcome = gate_there(cloud_gate(tmp_path, cloud))

        assert (Decision.LAUNCHED, 0) == (outcome.decision, outcome.code), outcome.reason


@pytest.mark.long
def test_reports_that_cannot_be_uploaded_come_in_the_archive(tmp_path: Path, account: Account) -> None:
    """The container reaches no S3 at all; SageMaker's own archive has its reports."""
    fault = {"method": "PUT", "key": "/reports/", "code": "ServiceUnavailable"}
    with account(part="healthy", dials={"s3_faults": [fault]}) as cloud:
        _, outcome = gate_there(cloud_gate(tmp_path, cloud))

        assert outcome.judged is not None and outcome.judged.verdict.coverage.complete, outcome.reason


def test_a_job_that_somebody_stopped_tells_nothing(tmp_path: Path, account: Account) -> None:
    """No machine is blamed for it."""
    with account(part="hang") as cloud:

        def stop(check: str) -> None:
            cloud.reach(check, "Training")
            cloud.stop(check)

        outcome = meanwhile(cloud_gate(tmp_path, cloud), cloud, stop)

        assert (3, ()) == (outcome.code, outcome.judged.verdict.condemned if outcome.judged else None), (
            outcome.reason
        )
        assert nothing_left(cloud)


def test_a_job_at_its_max_runtime_tells_nothing(tmp_path: Path, account: Account) -> None:
    """It is judged by its reports, and there are none."""
    with account(part="hang", dials={"max_runtime_s": 3.0, "grace_s": 5.0}) as cloud:
        _, outcome = gate_there(cloud_gate(tmp_path, cloud))

        assert (Decision.CANNOT_TELL, 3) == (outcome.decision, outcome.code), outcome.reason
        assert "max runtime" in text_of(outcome).lower() and nothing_left(cloud)


@pytest.mark.long
def test_a_throttling_storm_is_sat_out(tmp_path: Path, account: Account) -> None:
    """Half of all calls are refused, from the first on."""
    with account(part="healthy", dials={"throttle": {"share": 0.5}}) as cloud:
        _, outcome = gate_there(cloud_gate(tmp_path, cloud))

        assert (Decision.LAUNCHED, 0) == (outcome.decision, outcome.code), outcome.reason


def test_an_instance_replaced_inside_of_the_pool_is_checked_again_in_place(
    tmp_path: Path, account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SageMaker says "Reused", and the GPUs' UUIDs differ: the nodes check before they train."""
    with account(machines=3, part="healthy") as cloud:
        path = cloud_gate(tmp_path, cloud)
        outcome = between(path, monkeypatch, cloud, lambda check: cloud.repair(check))
        _, train = names(outcome)

        assert (Decision.LAUNCHED, 0) == (outcome.decision, outcome.code), outcome.reason
        assert any(
            "these are not the machines that passed" in line
            for lines in cloud.log(train).values()
            for line in lines
        )
        assert "confirmed" not in str(kept(path, outcome, "outcome.json")["placement"]["proof"])


@pytest.mark.long  # tests/tasks/test_launch.py and tests/flows/test_gate_pooled.py have a pool that is lost, with another engine
def test_a_pool_that_was_taken_means_checking_again(
    tmp_path: Path, account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another job of the account took it before the training was submitted."""
    with account(machines=4, part="healthy") as cloud:
        outcome = between(cloud_gate(tmp_path, cloud), monkeypatch, cloud, lambda check: cloud.steal(check))

        assert (Decision.LAUNCHED, 0) == (outcome.decision, outcome.code), outcome.reason
        jobs = cloud.jobs()
        assert f"{outcome.gate_id}-train-2" in jobs and f"{outcome.gate_id}-train-1" not in jobs


@pytest.mark.long
def test_hosts_that_changed_places_in_the_pool_are_the_same_machines(
    tmp_path: Path, account: Account
) -> None:
    """What was algo-1 is algo-2 now: nothing is checked twice."""
    with account(part="healthy", dials={"pool_order": "reversed"}) as cloud:
        path = cloud_gate(tmp_path, cloud)
        _, outcome = gate_there(path)

        assert (Decision.LAUNCHED, 2) == (outcome.decision, len((tmp_path / "runs").read_text().split())), (
            outcome.reason
        )
        assert "all 2 hosts confirmed" in str(kept(path, outcome, "outcome.json")["placement"]["proof"])


@pytest.mark.parametrize("skew_s", [-7200.0, 7200.0])
@pytest.mark.long
def test_clock_skew_changes_nothing(tmp_path: Path, account: Account, skew_s: float) -> None:
    """AWS's clock is two hours off ours."""
    with account(part="healthy", dials={"clock_skew_s": skew_s}) as cloud:
        _, outcome = gate_there(cloud_gate(tmp_path, cloud))

        assert (Decision.LAUNCHED, 0) == (outcome.decision, outcome.code), outcome.reason


@pytest.mark.long
def test_two_gates_at_once_on_one_account(tmp_path: Path, account: Account) -> None:
    """Two clusters, one role: each trains on its own machines, or checks again."""
    with account(machines=4, part="healthy") as cloud:
        first = cloud_gate(tmp_path / "a", cloud)
        second = cloud_gate(tmp_path / "b", cloud)
        second.write_text(second.read_text().replace('name = "test"', 'name = "other"'))

        async def both() -> list[tuple[Any, Outcome]]:
            return await asyncio.gather(*(run(request_of(path)) for path in (first, second)))

        outcomes = [outcome for _, outcome in asyncio.run(both())]

        assert [0, 0] == [outcome.code for outcome in outcomes], [outcome.reason for outcome in outcomes]


@pytest.mark.parametrize(
    "phase",
    [
        pytest.param("Starting", marks=pytest.mark.long),
        "Training",
        pytest.param("pool", marks=pytest.mark.long),
        pytest.param("train", marks=pytest.mark.long),  # of another engine: test_gate_pooled.py
    ],
)
def test_cancelled_in_each_phase_nothing_is_left(tmp_path: Path, account: Account, phase: str) -> None:
    """SIGINT to the command: 130, no container runs, no pool is paid for."""
    slow = {"starting_s": 3.0} if phase == "Starting" else {"pool_s": 4.0} if phase == "pool" else {}
    part = "hang" if phase == "Training" else "healthy"
    training = ("{python}", "-c", "import time; time.sleep(300)")
    with account(part=part, dials=slow) as cloud:
        path = cloud_gate(tmp_path, cloud, training=training)
        with command(path) as process:
            reach(cloud, phase)
            process.send_signal(signal.SIGINT)
            code = process.wait(120)
        cloud.until(lambda: {"left": not nothing_left(cloud)}, lambda seen: not seen["left"], 60.0)

        assert 130 == code
        assert {job["TrainingJobStatus"] for job in cloud.jobs().values()} <= {"Stopped", "Completed"}


@pytest.mark.long  # of another engine: tests/flows/cli/test_gate.py; two submits of one job: test_launcher_contract_faults.py
def test_a_killed_worker_is_taken_up_again(tmp_path: Path, account: Account) -> None:
    """SIGKILL after CreateTrainingJob, and the same command again: one check job, not two."""
    with account(part="slow") as cloud:
        path = cloud_gate(tmp_path, cloud)
        with command(path) as process:
            reach(cloud, "Training")
            process.kill()
            process.wait(60)
        with command(path, "--wait", "finished") as process:
            said, _ = process.communicate()

        assert (0, 2) == (process.returncode, len(cloud.jobs())), said
        assert ["launched"] == [json.loads(said)["decision"]]


class command:
    """`prelaunch gate`, as a process that is gone with the block."""

    def __init__(self, path: Path, *words: str) -> None:
        argv = (sys.executable, "-m", "flows.cli.main", "gate", str(path), "--format", "json", *words)
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        with open(path.with_name("stderr"), "ab") as log:
            self.process = subprocess.Popen(
                argv, cwd=path.parent, env=environment, stdout=subprocess.PIPE, stderr=log, text=True
            )

    def __enter__(self) -> subprocess.Popen[str]:
        return self.process

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(60)
        if self.process.stdout is not None:
            self.process.stdout.close()


def reach(cloud: Cloud, phase: str, timeout_s: float = 90.0) -> None:
    """Until the gate is there."""
    deadline = time.monotonic() + timeout_s
    while not _there(cloud.jobs(), phase):
        assert time.monotonic() < deadline, cloud.jobs()
        time.sleep(0.05)


def _there(jobs: dict[str, dict[str, Any]], phase: str) -> bool:
    check = next((job for name, job in jobs.items() if "-check-" in name), None)
    train = next((job for name, job in jobs.items() if "-train-" in name), None)
    if phase == "train":
        return train is not None and train["SecondaryStatus"] == "Training"
    if phase == "ending":
        return check is not None and check["TrainingJobStatus"] in ("Stopping", "Stopped")
    if phase == "pool":
        return check is not None and check["TrainingJobStatus"] == "Completed"
    return check is not None and check["SecondaryStatus"] == phase


def between(
    path: Path, monkeypatch: pytest.MonkeyPatch, cloud: Cloud, act: Callable[[str], object]
) -> Outcome:
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


def meanwhile(path: Path, cloud: Cloud, act: Callable[[str], None]) -> Outcome:
    """Run the gate, and act beside it once its check job is there."""

    async def both() -> Outcome:
        running = asyncio.create_task(run(request_of(path)))
        while not (names := [name for name in await asyncio.to_thread(cloud.jobs) if "-check-" in name]):
            await asyncio.sleep(0.05)
        await asyncio.to_thread(act, names[0])
        return (await running)[1]

    return asyncio.run(both())
