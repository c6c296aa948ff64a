"""Warm pools: who gets the machines of the job before, and who does not."""

from __future__ import annotations

import time
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.fakes.sagemaker.bench import ROLE, Cloud

SHELL = ("sh", "-c")
CACHE = "$SAGEMAKER_MANAGED_WARMPOOL_CACHE_DIRECTORY"


def test_a_matching_job_gets_the_same_machines(cloud: Cloud) -> None:
    """InUse, Available, Reused by name; the cache directory is as it was left; the chain goes on."""
    first = cloud.create("pool-1", *SHELL, f"hostname >{CACHE}/token", instances=2, keep_alive_s=600)
    in_use = cloud.reach(first, "Training")["WarmPoolStatus"]
    available = _settled(cloud, first)
    second = cloud.create("pool-2", *SHELL, f"cat {CACHE}/token", instances=2, keep_alive_s=300)
    cloud.wait(second)

    assert ("InUse", "Available") == (in_use["Status"], available["Status"])
    reused = _pool(cloud, first)
    assert ("Reused", second) == (reused["Status"], reused["ReusedByJob"])
    assert _machines(cloud, first) == _machines(cloud, second)
    assert ["algo-1", "algo-2"] == sorted(line for lines in cloud.log(second).values() for line in lines)
    assert "Available" == _settled(cloud, second)["Status"]
    cloud.expire(second)


@pytest.mark.parametrize(
    "changes",
    [
        {"RoleArn": f"{ROLE}Other"},
        {"volume_gb": 11},
        {"instances": 2},
        {"EnableInterContainerTrafficEncryption": True},
        {"VpcConfig": {"SecurityGroupIds": ["sg-1"], "Subnets": ["subnet-1"]}},
    ],
)
def test_a_job_that_differs_gets_others(cloud: Cloud, changes: dict[str, Any]) -> None:
    """Every part of AWS's key counts."""
    name = f"differs-{next(iter(changes)).lower().replace('_', '-')}"
    first = cloud.create(f"{name}-1", "true", keep_alive_s=600)
    _settled(cloud, first)
    second = cloud.create(f"{name}-2", "true", keep_alive_s=600, **changes)
    _settled(cloud, second)

    assert "Available" == _pool(cloud, first)["Status"]
    assert not set(_machines(cloud, first)) & set(_machines(cloud, second))
    cloud.expire(first)
    cloud.expire(second)


def test_image_environment_and_output_do_not_count(cloud: Cloud) -> None:
    """So that a check and a training job can share machines."""
    first = cloud.create("loose-1", "true", keep_alive_s=600)
    _settled(cloud, first)
    algorithm = {"TrainingImage": "123456789012.dkr.ecr.us-west-2.amazonaws.com/prelaunch-training:2"}
    algorithm |= {"TrainingInputMode": "File"}
    other = {"AlgorithmSpecification": {**algorithm, "ContainerEntrypoint": ["true"]}}
    cloud.wait(cloud.create("loose-2", **other, Environment={"A": "b"}))

    assert "loose-2" == _pool(cloud, first)["ReusedByJob"]


def test_hosts_of_a_reused_pool_may_change_names(cloud: Cloud) -> None:
    """AWS promises no order."""
    first = cloud.create("order-1", "true", instances=2, keep_alive_s=600)
    _settled(cloud, first)
    with cloud.turned(pool_order="reversed"):
        second = cloud.create("order-2", "true", instances=2)
        cloud.wait(second)

    assert _machines(cloud, first) == _machines(cloud, second)[::-1]


def test_a_pool_is_released_by_a_keep_alive_of_zero(cloud: Cloud) -> None:
    """UpdateTrainingJob; its machines and what lay on them are gone."""
    first = cloud.create("released", *SHELL, f"echo 1 >{CACHE}/token", keep_alive_s=600)
    _settled(cloud, first)
    _release(cloud, first)

    assert "Terminated" == _pool(cloud, first)["Status"]
    assert [] == list((cloud.folder / "cache").rglob("token"))
    with pytest.raises(ClientError, match="not Available"):
        _release(cloud, first)


def test_a_pool_ends_by_itself(cloud: Cloud) -> None:
    """After its keep-alive, which the dial shortens."""
    with cloud.turned(keep_alive_s=0.05):
        name = cloud.create("expires", "true", keep_alive_s=600)
        cloud.wait(name)
        cloud.until(lambda: _pool(cloud, name), lambda pool: pool["Status"] == "Terminated", 5)


@pytest.mark.parametrize("code", ["exit 1", "sleep 60"])
def test_a_pool_outlives_failure_and_stop(cloud: Cloud, code: str) -> None:
    """The next job lands on the machines that failed: somebody has to release them."""
    name = cloud.create(f"kept-{code[:4].strip()}", *SHELL, code, keep_alive_s=600)
    cloud.reach(name, "Training")
    if "sleep" in code:
        cloud.stop(name)

    assert "Available" == _settled(cloud, name)["Status"]
    cloud.expire(name)


def test_a_machine_that_died_leaves_no_pool(cloud: Cloud) -> None:
    """Where the health may be compromised nothing is retained."""
    name = cloud.create("unhealthy", "sleep", "60", keep_alive_s=600)
    cloud.reach(name, "Training")
    cloud.until(lambda: {"n": len(cloud.running())}, lambda seen: seen["n"] > 0, 5)
    cloud.kill(name, "algo-1")

    assert "Terminated" == _settled(cloud, name)["Status"]


def test_a_quota_of_zero_means_no_pool_and_no_word(cloud: Cloud) -> None:
    """The job runs; only the status says that there is no pool."""
    with cloud.turned(pool_quotas={"ml.m5.large": 0}):
        seen = cloud.wait(cloud.create("quota", *SHELL, f"echo {CACHE:s}${{UNSET-none}}", keep_alive_s=600))

    assert ("Completed", "Terminated") == (seen["TrainingJobStatus"], seen["WarmPoolStatus"]["Status"])


def test_a_quota_counts_what_others_of_its_type_hold(cloud: Cloud) -> None:
    """Two jobs at once with room for one pool: one of them has none afterwards. A pool of another type takes none of the room."""
    other = cloud.create("room-0", "true", keep_alive_s=600)
    _settled(cloud, other)
    with cloud.turned(pool_quotas={"ml.m5.xlarge": 1}):
        names = [
            cloud.create(f"room-{i}", "sleep", "1", type="ml.m5.xlarge", keep_alive_s=600) for i in (1, 2)
        ]
        found = [_settled(cloud, name)["Status"] for name in names]

    assert ["Available", "Terminated"] == sorted(found)
    cloud.expire(names[found.index("Available")])
    cloud.expire(other)


def test_somebody_else_may_take_a_pool(cloud: Cloud) -> None:
    """Any job of the account that matches."""
    first = cloud.create("robbed-1", "true", keep_alive_s=600)
    _settled(cloud, first)
    cloud.steal(first, by="thief")
    second = cloud.create("robbed-2", "true")
    cloud.wait(second)

    assert ("Reused", "thief") == (_pool(cloud, first)["Status"], _pool(cloud, first)["ReusedByJob"])
    assert not set(_machines(cloud, first)) & set(_machines(cloud, second))


@pytest.mark.parametrize(("how", "same_machine"), [("replace", False), ("reboot", True)])
def test_a_repair_inside_the_pool_is_not_seen(cloud: Cloud, how: str, same_machine: bool) -> None:
    """Available and Reused as ever, with another machine, or another boot, and no token on a new one."""
    first = cloud.create(f"repair-{how}-1", *SHELL, f"echo 1 >{CACHE}/token", keep_alive_s=600)
    _settled(cloud, first)
    before = _boots(cloud)
    machine = cloud.repair(first, 0, how)
    second = cloud.create(f"repair-{how}-2", *SHELL, f"test -e {CACHE}/token && echo there", keep_alive_s=600)
    cloud.wait(second)

    assert second == _pool(cloud, first)["ReusedByJob"]
    assert ([machine], same_machine) == (
        _machines(cloud, second),
        _machines(cloud, first) == _machines(cloud, second),
    )
    assert (same_machine, [["there"]] if same_machine else []) == (
        _boots(cloud)[machine] != before[machine],
        [lines for lines in cloud.log(second).values() if lines],
    )
    cloud.expire(second)


def test_retained_time_is_counted(cloud: Cloud) -> None:
    """From the job's end, whole seconds."""
    name = cloud.create("billed", "true", keep_alive_s=600)
    _settled(cloud, name)
    time.sleep(0.6)

    assert 1 == _pool(cloud, name)["ResourceRetainedBillableTimeInSeconds"]
    cloud.expire(name)


def _settled(cloud: Cloud, name: str) -> dict[str, Any]:
    return dict(cloud.wait(name)["WarmPoolStatus"])


def _pool(cloud: Cloud, name: str) -> dict[str, Any]:
    return dict(cloud.client("sagemaker").describe_training_job(TrainingJobName=name)["WarmPoolStatus"])


def _release(cloud: Cloud, name: str) -> None:
    cloud.client("sagemaker").update_training_job(
        TrainingJobName=name, ResourceConfig={"KeepAlivePeriodInSeconds": 0}
    )


def _machines(cloud: Cloud, name: str) -> list[str]:
    return [host["machine"] for host in cloud.hosts(name)]


def _boots(cloud: Cloud) -> dict[str, str]:
    return {machine["id"]: machine["boot_id"] for machine in cloud.machines()}
