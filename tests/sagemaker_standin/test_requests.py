"""What CreateTrainingJob and its siblings refuse, and with which words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.fakes.sagemaker.bench import ROLE, Cloud, request
from tests.fakes.sagemaker.validate import problems


def test_a_plain_request_is_taken() -> None:
    """Nothing is wrong with what the bench makes."""
    assert "" == problems("CreateTrainingJob", request("a", "true", keep_alive_s=60))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"Nonsense": 1}, "Unknown member 'nonsense'"),
        ({"RoleArn": None}, "Value null at 'roleArn' failed to satisfy constraint: Member must not be null"),
        ({"TrainingJobName": "a_b"}, "Value 'a_b' at 'trainingJobName' failed to satisfy constraint: Member must satisfy regular"),
        ({"Environment": {"A": "x" * 513}}, "at 'environment.A.member' failed to satisfy constraint: Member must have length less"),
        ({"Environment": {f"A{i}": "" for i in range(101)}}, "Member must have length less than or equal to 100"),
        ({"ResourceConfig": {"KeepAlivePeriodInSeconds": 21601}}, "Member must have value less than or equal to 21600"),
        ({"ResourceConfig": {"InstanceType": "ml.p99.big"}}, "Member must satisfy enum value set"),
        ({"StoppingCondition": {"MaxPendingTimeInSeconds": 60}}, "Member must have value greater than or equal to 1800"),
        ({"Tags": [{"Key": "a;b", "Value": ""}]}, "at 'tags.1.member.key'"),
        ({"ResourceConfig": {"InstanceCount": "2"}}, "Member must be a integer"),
    ],
)  # fmt: skip
def test_shapes_are_held(changes: dict[str, Any], said: str) -> None:
    """botocore's model, in the words of the service."""
    assert said in problems("CreateTrainingJob", request("a") | changes)


def test_problems_are_counted() -> None:
    """All of them in one answer."""
    found = problems("CreateTrainingJob", request("a_b") | {"RoleArn": "short"})

    assert "3 validation errors detected: " == found[: len("3 validation errors detected: ")]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"keep_alive_s": 3601}, "at most 3600"),
        ({"EnableManagedSpotTraining": True}, "Invalid MaxWaitTimeInSeconds"),
        ({"StoppingCondition": {"MaxWaitTimeInSeconds": 9}}, "without managed spot training"),
        ({"AlgorithmSpecification": {"TrainingInputMode": "File"}}, "either TrainingImage or AlgorithmName"),
        ({"RoleArn": f"{ROLE}Unknown"}, f"Could not assume role {ROLE}Unknown"),
        ({"ResourceConfig": {"InstanceCount": 1}}, "one of InstanceType, InstanceGroups"),
    ],
)
def test_members_that_do_not_go_together(cloud: Cloud, changes: dict[str, Any], said: str) -> None:
    """Rules that the shapes cannot say."""
    with cloud.turned(unassumable=[f"{ROLE}Unknown"]):
        assert ("ValidationException", True) == _refusal(lambda: cloud.create("r", **changes), said)


def test_a_name_is_used_once(cloud: Cloud) -> None:
    """So that a retry can adopt."""
    cloud.create("once", "true")

    assert ("ResourceInUse", True) == _refusal(lambda: cloud.create("once", "true"), "already exists")


def test_a_quota_is_counted_over_what_runs(cloud: Cloud) -> None:
    """With the numbers that AWS gives."""
    with cloud.turned(quotas={"ml.m5.xlarge": 1}):
        code, numbers = _refusal(
            lambda: cloud.create("q", type="ml.m5.xlarge", instances=2),
            "'ml.m5.xlarge for training job usage' is 1 Instances, with current utilization of 0 Instances and a request delta of 2",
        )

    assert ("ResourceLimitExceeded", True) == (code, numbers)


@pytest.mark.parametrize(
    ("dials", "changes", "said"),
    [
        (
            {"most_instances": 1},
            {"instances": 2},
            "'Maximum number of instances per training job' is 1 Instances",
        ),
        (
            {"longest_run_s": 60},
            {"StoppingCondition": {"MaxRuntimeInSeconds": 61}},
            "'Longest run time for a training job' is 60 Seconds",
        ),
    ],
)
def test_one_job_has_limits(cloud: Cloud, dials: Any, changes: Any, said: str) -> None:
    """Whatever the account may have of the type."""
    with cloud.turned(**dials):
        assert ("ResourceLimitExceeded", True) == _refusal(lambda: cloud.create("limit", **changes), said)


def test_quotas_can_be_asked_for(cloud: Cloud) -> None:
    """Under the names that the console shows."""
    with cloud.turned(quotas={"ml.p5.48xlarge": 4}, pool_quotas={"ml.p5.48xlarge": 0}):
        found = cloud.client("service-quotas").list_service_quotas(ServiceCode="sagemaker")["Quotas"]

    expected = {
        "ml.p5.48xlarge for training job usage": 4,
        "ml.p5.48xlarge for training warm pool usage": 0,
        "Maximum number of instances per training job": 20,
        "Longest run time for a training job": 432_000,
    }
    assert expected == {row["QuotaName"]: row["Value"] for row in found}


@pytest.mark.parametrize("operation", ["describe_training_job", "stop_training_job"])
def test_a_job_that_is_not_there(cloud: Cloud, operation: str) -> None:
    """ValidationException, which the model does not even name; or ResourceNotFound, which it does."""
    call = getattr(cloud.client("sagemaker"), operation)

    assert ("ValidationException", True) == _refusal(
        lambda: call(TrainingJobName="none"), "Requested resource not found."
    )
    with cloud.turned(not_found="ResourceNotFound"):
        assert "ResourceNotFound" == _refusal(lambda: call(TrainingJobName="none"), "")[0]


def test_plans_are_what_the_dial_says(cloud: Cloud) -> None:
    """A plan that expired takes no job."""
    arn = "arn:aws:sagemaker:us-west-2:123456789012:training-plan/spring"
    resources = request("p")["ResourceConfig"] | {"TrainingPlanArn": arn}
    with cloud.turned(training_plans={"spring": {"Status": "Expired", "TotalInstanceCount": 4}}):
        found = cloud.client("sagemaker").describe_training_plan(TrainingPlanName="spring")
        refusal = _refusal(lambda: cloud.create("p", ResourceConfig=resources), "its status is Expired")

    assert ("Expired", 4, ("ValidationException", True)) == (
        found["Status"],
        found["TotalInstanceCount"],
        refusal,
    )


def test_permissions_can_be_simulated(cloud: Cloud) -> None:
    """Everything is allowed, but for what the dial denies."""
    simulate = cloud.client("iam").simulate_principal_policy
    with cloud.turned(denied={"s3:PutObject": "explicitDeny"}):
        found = simulate(PolicySourceArn=ROLE, ActionNames=["s3:GetObject", "s3:PutObject"])

    assert {"s3:GetObject": "allowed", "s3:PutObject": "explicitDeny"} == {
        row["EvalActionName"]: row["EvalDecision"] for row in found["EvaluationResults"]
    }


def test_the_account_can_run_a_gate(cloud: Cloud) -> None:
    """The role trusts SageMaker, and the image of the bench is in ECR."""
    trust = cloud.client("iam").get_role(RoleName="PrelaunchTraining")["Role"]["AssumeRolePolicyDocument"]
    found = cloud.client("ecr").describe_images(repositoryName="prelaunch", imageIds=[{"imageTag": "test"}])

    assert ("sagemaker.amazonaws.com", 1) == (
        trust["Statement"][0]["Principal"]["Service"],
        len(found["imageDetails"]),
    )


def test_jobs_are_listed_page_by_page(cloud: Cloud) -> None:
    """Newest first, by name and by status."""
    for number in range(3):
        cloud.wait(cloud.create(f"listed-{number}", "true"))
    pages = cloud.client("sagemaker").get_paginator("list_training_jobs")
    found = pages.paginate(
        NameContains="listed", StatusEquals="Completed", PaginationConfig={"PageSize": 2}
    ).build_full_result()

    assert ["listed-2", "listed-1", "listed-0"] == [
        row["TrainingJobName"] for row in found["TrainingJobSummaries"]
    ]


def test_tags_are_kept(cloud: Cloud) -> None:
    """Those of the request, and those that come later."""
    name = cloud.create("tagged", "true", Tags=[{"Key": "gate", "Value": "g1"}])
    client = cloud.client("sagemaker")
    arn = client.describe_training_job(TrainingJobName=name)["TrainingJobArn"]
    client.add_tags(ResourceArn=arn, Tags=[{"Key": "more", "Value": ""}])

    assert {"gate": "g1", "more": ""} == {
        t["Key"]: t["Value"] for t in client.list_tags(ResourceArn=arn)["Tags"]
    }


def _refusal(call: Callable[[], object], said: str) -> tuple[str, bool]:
    """The code, and whether the message holds these words."""
    with pytest.raises(ClientError) as caught:
        call()
    error = caught.value.response["Error"]
    return error["Code"], said in error["Message"]
