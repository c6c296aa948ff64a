"""Bad days, dial by dial."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.fakes.sagemaker.bench import BUCKET, Cloud, StandInError

SHELL = ("sh", "-c")
RETRYING = "Insufficient capacity error from EC2 while launching instances, retrying!"


def test_capacity_may_come_late(cloud: Cloud) -> None:
    """Pending, with AWS's words, then as ever."""
    with cloud.turned(capacity_after_s=0.2):
        seen = cloud.wait(cloud.create("late", "true"))

    assert ("Completed", True) == (seen["TrainingJobStatus"], ("Pending", RETRYING) in _told(seen))


def test_capacity_may_not_come(cloud: Cloud) -> None:
    """More machines than there are: Failed when patience ends."""
    with cloud.turned(pending_s=0.1):
        seen = cloud.wait(cloud.create("never", type="ml.g5.12xlarge", instances=3))

    assert "InsufficientCapacityError: Unable to provision" == seen["FailureReason"][:46]


def test_the_next_job_may_have_capacity(cloud: Cloud) -> None:
    """An error for one job, and none for the one after; older jobs said CapacityError."""
    with cloud.turned(next_capacity_errors=1, capacity_error="CapacityError"):
        reasons = [cloud.wait(cloud.create(f"next-{i}", "true")).get("FailureReason", "") for i in range(2)]

    assert ["CapacityError: ", ""] == [reason[:15] for reason in reasons]


def test_a_waiting_job_can_be_stopped(cloud: Cloud) -> None:
    """Stopped, and nothing ran."""
    with cloud.turned(capacity=False):
        name = cloud.create("waiting", "true")
        cloud.reach(name, "Pending")
        cloud.stop(name)
        seen = cloud.wait(name)

    assert ("Stopped", 0, []) == (seen["TrainingJobStatus"], seen["lives"], seen["machines"])


def test_calls_are_throttled(cloud: Cloud) -> None:
    """Every second one, of the operations that are named."""
    client = cloud.client("sagemaker")
    with cloud.turned(throttle={"share": 0.5, "operations": ["ListTrainingJobs"]}):
        codes = [_code(client.list_training_jobs) for _ in range(4)]
        other = _code(lambda: client.stop_training_job(TrainingJobName="none"))

    assert (["", "ThrottlingException", "", "ThrottlingException"], "ValidationException") == (codes, other)


def test_a_storm_of_throttling_ends(cloud: Cloud) -> None:
    """After its seconds."""
    client = cloud.client("sagemaker")
    with cloud.turned(throttle={"for_s": 0.2}):
        assert "ThrottlingException" == _code(client.list_training_jobs)
        cloud.until(lambda: {"code": _code(client.list_training_jobs)}, lambda seen: not seen["code"], 5)


@pytest.mark.parametrize("code", ["SlowDown", "InternalError", "AccessDenied"])
def test_objects_cannot_be_written(cloud: Cloud, code: str) -> None:
    """So many times, for keys that match; others are."""
    with cloud.turned(s3_faults=[{"method": "PUT", "key": "^bad/", "code": code, "count": 2}]):
        codes = [_code(lambda: cloud.put("bad/key", b"x")) for _ in range(3)]
        good = _code(lambda: cloud.put("good/key", b"x"))

    assert ([code, code, ""], "") == (codes, good)


def test_objects_come_back_cut(cloud: Cloud) -> None:
    """And say that they are whole."""
    cloud.put("long", b"0123456789")
    with cloud.turned(s3_faults=[{"method": "GET", "key": "^long$", "keep": 0.5}]):
        found = cloud.client("s3").get_object(Bucket=BUCKET, Key="long")

        assert (b"01234", 5) == (found["Body"].read(), found["ContentLength"])


def test_s3_keeps_its_promises(cloud: Cloud) -> None:
    """Behind the front are moto's conditional writes."""
    put = cloud.client("s3").put_object

    assert ["", "PreconditionFailed"] == [
        _code(lambda: put(Bucket=BUCKET, Key="once", Body=b"x", IfNoneMatch="*")) for _ in range(2)
    ]


def test_the_services_clock_may_be_wrong(cloud: Cloud) -> None:
    """In every time that it reports."""
    name = cloud.create("skewed", "true")
    cloud.wait(name)
    with cloud.turned(clock_skew_s=-3600):
        seen = cloud.client("sagemaker").describe_training_job(TrainingJobName=name)
    late = datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=3500)

    times = [
        seen["CreationTime"],
        seen["TrainingEndTime"],
        seen["SecondaryStatusTransitions"][0]["StartTime"],
    ]
    assert [True] * 3 == [time < late for time in times]


@pytest.mark.parametrize(("attempts", "status", "lives"), [(None, "Failed", 1), (1, "Completed", 2)])
def test_internal_errors_are_retried_where_asked(
    cloud: Cloud, attempts: int | None, status: str, lives: int
) -> None:
    """RetryStrategy covers these, and nothing else."""
    given: dict[str, Any] = {"RetryStrategy": {"MaximumRetryAttempts": attempts}} if attempts else {}
    code = "sleep 0.4"
    with cloud.turned(next_internal_errors=1, internal_after_s=0.05):
        seen = cloud.wait(cloud.create(f"internal-{lives}", *SHELL, code, **given))

    assert (status, lives) == (seen["TrainingJobStatus"], seen["lives"])
    assert ("FailureReason" in seen) == (status == "Failed")


def test_a_faulty_machine_is_replaced_in_the_job(cloud: Cloud) -> None:
    """Cluster repair: Restarting, then a new life of every container, on another machine."""
    first = next(m["id"] for m in cloud.machines() if m["type"] == "ml.m5.xlarge")
    cloud.machine(first, fault={"ecc": True}, environment={"BROKEN": "1"})
    with cloud.turned(repair="faulty"):
        name = cloud.create("repaired", *SHELL, 'test "$BROKEN" != 1', type="ml.m5.xlarge")
        seen = cloud.wait(name)
    cloud.machine(first, fault={}, environment={}, owner="")

    assert ("Completed", 2, 1) == (seen["TrainingJobStatus"], seen["lives"], seen["repairs"])
    assert ("Restarting", "Repairing training cluster due to hardware failure") in _told(seen)
    assert (True, 2) == (first != cloud.hosts(name)[0]["machine"], len(cloud.log(name)))


def test_repairs_have_a_limit(cloud: Cloud) -> None:
    """Ten on AWS, two here."""
    with cloud.turned(repair="always", repairs_most=2):
        seen = cloud.wait(cloud.create("hopeless", "false"))

    assert ("Failed", 3) == (seen["TrainingJobStatus"], seen["lives"])


def test_spot_capacity_is_taken_away_and_comes_back(cloud: Cloud) -> None:
    """Interrupted, then another life."""
    stopping = {"MaxRuntimeInSeconds": 60, "MaxWaitTimeInSeconds": 120}
    spot = {"EnableManagedSpotTraining": True, "StoppingCondition": stopping}
    name = cloud.create("spot", "sleep", "60", **spot)
    cloud.until(lambda: {"n": cloud.running()}, lambda seen: bool(seen["n"]), 5)
    cloud.interrupt(name)
    cloud.until(lambda: cloud.jobs()[name], lambda seen: seen["lives"] == 2, 5)
    cloud.stop(name)

    assert "Interrupted" in [status for status, _ in _told(cloud.wait(name))]


def test_output_may_be_lost(cloud: Cloud) -> None:
    """With the failure that loses it."""
    with cloud.turned(lose_output=True):
        name = cloud.create("lossy", *SHELL, "echo 1 >/opt/ml/output/data/a; exit 1")
        cloud.wait(name)

    assert [] == cloud.keys(f"out/{name}/")


def test_a_dial_that_is_not_there_is_named(cloud: Cloud) -> None:
    """A test that turns nothing proves nothing."""
    with pytest.raises(StandInError, match="did you mean 'throttle'"):
        cloud.dial("throtle", {})


def _told(seen: dict[str, Any]) -> list[tuple[str, str]]:
    return [(entry["Status"], entry["StatusMessage"]) for entry in seen["SecondaryStatusTransitions"]]


def _code(call: Any) -> str:
    try:
        call()
    except ClientError as error:
        return str(error.response["Error"]["Code"])
    return ""
