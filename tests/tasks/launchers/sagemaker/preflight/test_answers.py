"""The looks at what moto has not got, against answers in botocore's own shapes."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime
from typing import Any

import pytest

from tasks.launchers.base import PreflightResult
from tasks.launchers.sagemaker.preflight.account import credentials, plan, pools, quotas, types
from tasks.launchers.sagemaker.preflight.iam import inside, passable, starts_jobs
from tasks.launchers.sagemaker.preflight.probe import Probe, look_at
from tasks.launchers.sagemaker.preflight.storage import prefix
from tasks.store.aws import Refused
from tests.tasks.launchers.sagemaker.preflight.accounts import ACCOUNT, REGION, ROLE, answered, asked, looks

OK, WRONG, UNSEEN = PreflightResult.OK, PreflightResult.WRONG, PreflightResult.UNSEEN

PLAN_ARN = "arn:aws:sagemaker:us-east-1:123456789012:training-plan/p5-november"
NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
CALLER = (
    "get_caller_identity",
    {"Account": ACCOUNT, "Arn": f"arn:aws:iam::{ACCOUNT}:user/ops", "UserId": "AIDAEXAMPLE"},
)


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stubbed client signs nothing, but is not made without a key."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")


def _quota(name: str, value: float, code: str = "L-12345678") -> dict[str, Any]:
    return {"ServiceCode": "sagemaker", "QuotaName": name, "QuotaCode": code, "Value": value}


def _page(*rows: dict[str, Any], token: str = "") -> tuple[str, dict[str, Any]]:
    return ("list_service_quotas", {"Quotas": list(rows), **({"NextToken": token} if token else {})})


def _decided(*decisions: str, missing: tuple[str, ...] = ()) -> tuple[str, dict[str, Any]]:
    rows = [
        {"EvalActionName": f"a:{i}", "EvalDecision": one, "MissingContextValues": list(missing)}
        for i, one in enumerate(decisions)
    ]
    return ("simulate_principal_policy", {"EvaluationResults": rows})


TRAINING, POOL, EVERY, SIZE, TIME = (
    "ml.p5.48xlarge for training job usage",
    "ml.p5.48xlarge for training warm pool usage",
    "Number of instances across all training jobs",
    "Maximum number of instances per training job",
    "Longest run time for a training job",
)
P5: dict[str, Any] = {
    "kind": "p5.48xlarge",
    "nodes": 4,
    "subnets": ("subnet-0123456789abcdef0",),
    "security_group_ids": ("sg-0123456789abcdef0",),
}


LIMITS = _quota(SIZE, 20), _quota(TIME, 432_000)


def test_quotas_that_suffice_are_ok_over_several_pages() -> None:
    """The rest of the pages is not asked for."""
    pages = [
        _page(_quota("other", 0), _quota(TRAINING, 4), token="2"),
        _page(_quota(POOL, 8), _quota(EVERY, 20), _quota(SIZE, 20), _quota(TIME, 432_000), token="3"),
    ]

    assert [("quota", OK)] * 5 == looks(quotas(asked(**P5), answered(quotas=pages)))


def test_a_pool_quota_of_zero_means_no_pool() -> None:
    """AWS's default: the job would run, and its machines would be gone."""
    rows = _quota(TRAINING, 4), _quota(POOL, 0, "L-0000AAAA"), _quota(EVERY, 20), *LIMITS

    found = quotas(asked(**P5), answered(quotas=[_page(*rows)]))

    assert [
        OK,
        WRONG,
        OK,
        OK,
        OK,
    ] == [line.result for line in found]
    assert "--quota-code L-0000AAAA --desired-value 4" in found[1].remedy


def test_the_default_counts_where_the_account_has_no_quota_of_its_own() -> None:
    """And what is in neither list is not seen."""
    defaults = ("list_aws_default_service_quotas", {"Quotas": [_quota(TRAINING, 0)]})

    found = quotas(asked(**P5), answered(quotas=[_page(_quota(POOL, 4)), defaults]))

    assert [
        WRONG,
        OK,
        UNSEEN,
        UNSEEN,
        UNSEEN,
    ] == [line.result for line in found]


def test_a_training_that_may_run_longer_than_the_account_allows_is_wrong() -> None:
    """A week is more than AWS's default of five days: the training would be refused after its checks were paid for."""
    rows = (
        _quota(TRAINING, 4),
        _quota(POOL, 4),
        _quota(EVERY, 20),
        _quota(SIZE, 20),
        _quota(TIME, 432_000, "L-33A961FD"),
    )
    wanted = dataclasses.replace(asked(**P5), run_s=604_800)

    found = quotas(wanted, answered(quotas=[_page(*rows)]))[-1]

    assert (WRONG, "Longest run time for a training job: 432000 s, 604800 s wanted") == (
        found.result,
        found.message,
    )
    assert "--quota-code L-33A961FD --desired-value 604800" in found.remedy
    assert "max_runtime_minutes" in found.remedy


def test_a_job_of_more_machines_than_the_account_allows_in_one_job_is_wrong() -> None:
    """AWS's default is 20, however many machines of the type the account may have."""
    rows = (
        _quota(TRAINING, 64),
        _quota(POOL, 64),
        _quota(EVERY, 64),
        _quota(SIZE, 20, "L-622CFD70"),
        _quota(TIME, 432_000),
    )
    wanted = asked(**{**P5, "nodes": 32})

    found = quotas(wanted, answered(quotas=[_page(*rows)]))

    assert [
        OK,
        OK,
        OK,
        WRONG,
        OK,
    ] == [line.result for line in found]
    assert "Maximum number of instances per training job: 20, 32 wanted" == found[3].message
    assert "--quota-code L-622CFD70 --desired-value 32" in found[3].remedy


def test_a_quota_is_known_by_its_code_where_aws_gave_it_another_name() -> None:
    """The codes are AWS's own, and stay."""
    renamed = _quota("Instances per job", 20, "L-622CFD70"), _quota("Run time", 432_000, "L-33A961FD")
    rows = _quota(TRAINING, 4), _quota(POOL, 4), _quota(EVERY, 20), *renamed

    assert [("quota", OK)] * 5 == looks(quotas(asked(**P5), answered(quotas=[_page(*rows)])))


def test_a_limit_that_no_list_has_is_not_seen() -> None:
    """An account whose run time limit nobody can see is not an account that allows it."""
    rows = _quota(TRAINING, 4), _quota(POOL, 4), _quota(EVERY, 20), _quota(SIZE, 20)
    defaults: tuple[str, dict[str, Any]] = ("list_aws_default_service_quotas", {"Quotas": []})

    found = quotas(asked(**P5), answered(quotas=[_page(*rows), defaults]))

    assert [
        OK,
        OK,
        OK,
        OK,
        UNSEEN,
    ] == [line.result for line in found]
    assert TIME in found[-1].message


def test_with_a_training_plan_nobody_knows_whether_the_quota_counts() -> None:
    """Its machines are reserved."""
    rows = _quota(TRAINING, 0), _quota(POOL, 4), _quota(EVERY, 20), *LIMITS
    wanted = asked(**P5, training_plan_arn=PLAN_ARN)

    assert UNSEEN is quotas(wanted, answered(quotas=[_page(*rows)]))[0].result


def test_who_may_not_list_quotas_is_told_the_action_and_the_policy() -> None:
    """Not seen is neither ok nor wrong."""
    found = look_at(
        (Probe("quota", quotas),),
        asked(),
        answered(quotas=[("list_service_quotas", "AccessDeniedException")]),
    )

    assert [("quota", UNSEEN)] == looks(found)
    assert "permission is missing: servicequotas:ListServiceQuotas" == found[0].message
    assert "deployments/iam/orchestrator-preflight.json" in found[0].remedy


@pytest.mark.parametrize("code", ["ExpiredToken", "InvalidClientTokenId"])
def test_credentials_that_aws_does_not_take(code: str) -> None:
    """Wrong, with what to do."""
    assert [("credentials", WRONG)] == looks(
        credentials(asked(), answered(sts=[("get_caller_identity", code)]))
    )


def test_a_prefix_that_may_not_be_written_is_wrong() -> None:
    """No bundle would reach the nodes."""
    found = prefix(asked(), answered(s3=[("put_object", "AccessDenied")]))

    assert ([("S3 prefix", WRONG)], True) == (
        looks(found),
        "orchestrator-reports" in found[0].remedy,
    )


def test_a_prefix_that_may_not_be_read_is_wrong() -> None:
    """No report would come back; the probe is removed all the same."""
    calls = [("put_object", {}), ("get_object", "AccessDenied"), ("delete_object", {})]

    assert [("S3 prefix", WRONG)] == looks(prefix(asked(), answered(s3=calls)))


def test_a_probe_that_may_not_be_removed_is_named() -> None:
    """It stays, and people are told where."""
    calls = [("put_object", {}), ("get_object", "AccessDenied"), ("delete_object", "AccessDenied")]

    found = prefix(asked(), answered(s3=calls))

    assert [WRONG, UNSEEN] == [line.result for line in found]
    assert "s3://ml-bucket/gates/.prelaunch-probe-" in found[1].message


def test_a_role_that_may_be_passed() -> None:
    """IAM's own simulation says so."""
    assert [("role passable", OK)] == looks(
        passable(asked(), answered(sts=[CALLER], iam=[_decided("allowed")]))
    )


def test_a_role_that_may_not_be_passed() -> None:
    """The policy that grants it is named."""
    for decision, said in (("implicitDeny", "orchestrator-jobs"), ("explicitDeny", "service control policy")):
        found = passable(asked(), answered(sts=[CALLER], iam=[_decided(decision)]))

        assert ([("role passable", WRONG)], True) == (looks(found), said in found[0].remedy)


def test_a_session_is_asked_for_by_its_role() -> None:
    """The session's ARN lacks the role's path, which the simulation wants."""
    session = f"arn:aws:sts::{ACCOUNT}:assumed-role/ci/run-1"
    role = {
        "Path": "/teams/",
        "RoleName": "ci",
        "RoleId": "AROAEXAMPLEEXAMPLE",
        "Arn": f"arn:aws:iam::{ACCOUNT}:role/teams/ci",
        "CreateDate": NOW,
    }
    made = answered(
        sts=[("get_caller_identity", {**CALLER[1], "Arn": session})],
        iam=[("get_role", {"Role": role}), _decided("allowed")],
    )

    found = passable(asked(), made)

    assert found[0].message.startswith(f"{role['Arn']} may pass")


def test_jobs_that_may_not_be_started() -> None:
    """For a pool the one that releases it is asked for as well."""
    fine = _decided("allowed"), _decided("allowed"), _decided("allowed", "allowed")
    for decision, said in (("implicitDeny", "orchestrator-pool"), ("explicitDeny", "service control policy")):
        found = starts_jobs(asked(), answered(sts=[CALLER], iam=[*fine, _decided(decision)]))

        assert [("permission to start jobs", WRONG)] == looks(found)
        assert said in found[0].remedy and ("Attach" in found[0].remedy) is (decision == "implicitDeny")


def test_a_condition_that_the_simulation_cannot_weigh_is_not_seen() -> None:
    """It lacks the key that a condition asks for."""
    made = answered(sts=[CALLER], iam=[_decided("implicitDeny", missing=("aws:RequestTag/team",))])

    with pytest.raises(Refused, match="aws:RequestTag/team"):
        starts_jobs(asked(), made)


def test_what_the_role_may_not_do_by_itself_a_bucket_may_still_allow() -> None:
    """So it is not seen; only an explicit Deny is wrong."""
    allowed = _decided("allowed")

    quiet = inside(asked(), answered(iam=[_decided("implicitDeny"), *[allowed] * 4]))
    denied = inside(asked(), answered(iam=[_decided("explicitDeny"), *[allowed] * 4]))
    fine = inside(asked(), answered(iam=[allowed] * 5))

    assert [UNSEEN, WRONG, OK] == [line.result for line in (*quiet, *denied, *fine)]


def test_a_second_repository_is_named_because_the_policy_file_has_one() -> None:
    """To attach the same file again would change nothing."""
    allowed, own = _decided("allowed"), asked()
    two = dataclasses.replace(
        own, images=(*own.images, f"{ACCOUNT}.dkr.ecr.us-east-1.amazonaws.com/training:2")
    )
    (line,) = inside(two, answered(iam=[*[allowed] * 5, _decided("implicitDeny")]))
    (one,) = inside(own, answered(iam=[*[allowed] * 4, _decided("implicitDeny")]))

    assert f"add arn:aws:ecr:us-east-1:{ACCOUNT}:repository/training to its Resource" in line.remedy
    assert "to its Resource" not in one.remedy


HERE, NONE = ({"InstanceTypeOfferings": found} for found in ([{"InstanceType": "p5.48xlarge"}], []))


@pytest.mark.parametrize(
    ("offered", "plan_arn", "result"),  # a plan has its own place, such as a Local Zone
    [(HERE, "", OK), (NONE, "", UNSEEN), (NONE, PLAN_ARN, OK), ("UnauthorizedOperation", "", OK)],
)
def test_a_region_for_which_ec2_lists_no_such_type_is_named(
    offered: dict[str, Any] | str, plan_arn: str, result: PreflightResult
) -> None:
    """A warning: EC2 lists what EC2 sells, and SageMaker may have more. Nothing is said where EC2 does not answer."""
    wanted = asked("p5.48xlarge", 2, **({"training_plan_arn": plan_arn} if plan_arn else {}))
    found = types(wanted, answered(sagemaker=[], ec2=[("describe_instance_type_offerings", offered)]))
    assert [("instance type", result)] == looks(found)
    assert result is OK or f"EC2 lists no p5.48xlarge in {REGION}" in found[0].message


def test_a_plan_that_is_not_there() -> None:
    """SageMaker's own word for it."""
    wanted = asked("p5.48xlarge", 4, training_plan_arn=PLAN_ARN)
    made = answered(sagemaker=[("describe_training_plan", "ResourceNotFound")])

    assert [("training plan", WRONG)] == looks(plan(wanted, made))


def _described(name: str, volume_gb: int = 100, role: str = ROLE) -> tuple[str, dict[str, Any]]:
    return (
        "describe_training_job",
        {
            "TrainingJobName": name,
            "TrainingJobArn": f"arn:aws:sagemaker:us-east-1:{ACCOUNT}:training-job/{name}",
            "ModelArtifacts": {"S3ModelArtifacts": "s3://b/m"},
            "TrainingJobStatus": "Completed",
            "SecondaryStatus": "Completed",
            "AlgorithmSpecification": {"TrainingInputMode": "File"},
            "ResourceConfig": {
                "InstanceType": "ml.m5.large",
                "InstanceCount": 2,
                "VolumeSizeInGB": volume_gb,
                "KeepAlivePeriodInSeconds": 1800,
            },
            "StoppingCondition": {"MaxRuntimeInSeconds": 60},
            "CreationTime": NOW,
            "RoleArn": role,
            "EnableNetworkIsolation": False,
            "EnableInterContainerTrafficEncryption": False,
        },
    )


def _listed(*names: str) -> tuple[str, dict[str, Any]]:
    rows = [
        {
            "TrainingJobName": name,
            "TrainingJobArn": f"arn:aws:sagemaker:us-east-1:{ACCOUNT}:training-job/{name}",
            "CreationTime": NOW,
            "TrainingJobStatus": "Completed",
        }
        for name in names
    ]
    return ("list_training_jobs", {"TrainingJobSummaries": rows})


@pytest.mark.parametrize(
    ("name", "volume_gb", "expected"),
    [
        ("somebodys-job", 100, WRONG),
        ("somebodys-job", 101, OK),
        ("theirs-20261122-000000-abcd-check-1", 100, WRONG),
        ("ours-20261121-000000-abcd-check-1", 100, OK),
    ],
)
def test_a_pool_that_waits(name: str, volume_gb: int, expected: PreflightResult) -> None:
    """With our key it is wrong, unless this gate itself left it behind."""
    made = answered(sagemaker=[_listed(name), _described(name, volume_gb)])

    assert [("warm pool", expected)] == looks(pools(asked(), made))
