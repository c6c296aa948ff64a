"""The looks at what moto has not got, against answers in botocore's own shapes."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime
from typing import Any

import pytest

from tasks.launchers.base import PreflightResult
from tasks.launchers.sagemaker.preflight.account import quotas
from tasks.launchers.sagemaker.preflight.iam import inside, starts_jobs
from tasks.launchers.sagemaker.preflight.probe import Probe, run_probes
from tasks.launchers.sagemaker.preflight.storage import prefix
from tasks.store.aws import AwsRefused
from tests.tasks.launchers.sagemaker.preflight.accounts import answered, asked, looks
from tests.tasks.launchers.sagemaker.stubbed import ACCOUNT

OK, WRONG, UNSEEN = PreflightResult.OK, PreflightResult.WRONG, PreflightResult.UNSEEN

PLAN_ARN = "arn:aws:sagemaker:us-east-1:123456789012:training-plan/p5-november"
NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
OPS = {"Account": ACCOUNT, "Arn": f"arn:aws:iam::{ACCOUNT}:user/ops", "UserId": "AIDAEXAMPLE"}
CALLER = ("get_caller_identity", OPS)


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
    keys = {"MissingContextValues": list(missing)}
    rows = [{"EvalActionName": f"a:{i}", "EvalDecision": one, **keys} for i, one in enumerate(decisions)]
    return ("simulate_principal_policy", {"EvaluationResults": rows})


TRAINING, POOL, EVERY, SIZE, TIME = (
    "ml.p5.48xlarge for training job usage",
    "ml.p5.48xlarge for training warm pool usage",
    "Number of instances across all training jobs",
    "Maximum number of instances per training job",
    "Longest run time for a training job",
)
VPC = {"subnets": ("subnet-0123456789abcdef0",), "security_group_ids": ("sg-0123456789abcdef0",)}
P5: dict[str, Any] = {"kind": "p5.48xlarge", "nodes": 4, **VPC}


LIMITS = _quota(SIZE, 20), _quota(TIME, 432_000)


def test_quotas_that_suffice_are_ok_over_several_pages() -> None:
    """The rest of the pages is not asked for."""
    pages = [
        _page(_quota("other", 0), _quota(TRAINING, 4), token="2"),
        _page(_quota(POOL, 8), _quota(EVERY, 20), *LIMITS, token="3"),
    ]

    assert [("quota", OK)] * 5 == looks(quotas(asked(**P5), answered(quotas=pages)))


def test_a_pool_quota_of_zero_means_no_pool() -> None:
    """AWS's default: the job would run, and its machines would be gone."""
    rows = _quota(TRAINING, 4), _quota(POOL, 0, "L-0000AAAA"), _quota(EVERY, 20), *LIMITS

    found = quotas(asked(**P5), answered(quotas=[_page(*rows)]))

    assert [OK, WRONG, OK, OK, OK] == [line.result for line in found]
    assert "--quota-code L-0000AAAA --desired-value 4" in found[1].remedy


def test_the_default_counts_where_the_account_has_no_quota_of_its_own() -> None:
    """And what is in neither list is not seen."""
    defaults = ("list_aws_default_service_quotas", {"Quotas": [_quota(TRAINING, 0)]})

    found = quotas(asked(**P5), answered(quotas=[_page(_quota(POOL, 4)), defaults]))

    assert [WRONG, OK, UNSEEN, UNSEEN, UNSEEN] == [line.result for line in found]


def test_a_training_that_may_run_longer_than_the_account_allows_is_wrong() -> None:
    """A week is more than AWS's default of five days: the training would be refused after its checks were paid for."""
    rows = *(_quota(name, 20) for name in (TRAINING, POOL, EVERY, SIZE)), _quota(TIME, 432_000, "L-33A961FD")
    wanted = dataclasses.replace(asked(**P5), run_s=604_800)

    found = quotas(wanted, answered(quotas=[_page(*rows)]))[-1]

    assert (WRONG, f"{TIME}: 432000 s, 604800 s wanted") == (found.result, found.message)
    assert "--quota-code L-33A961FD --desired-value 604800" in found.remedy
    assert "max_runtime_minutes" in found.remedy


def test_with_a_training_plan_nobody_knows_whether_the_quota_counts() -> None:
    """Its machines are reserved."""
    rows = _quota(TRAINING, 0), _quota(POOL, 4), _quota(EVERY, 20), *LIMITS
    wanted = asked(**P5, training_plan_arn=PLAN_ARN)

    assert UNSEEN is quotas(wanted, answered(quotas=[_page(*rows)]))[0].result


def test_quota_look_without_permission_names_the_action_and_the_policy() -> None:
    """Not seen is neither ok nor wrong."""
    denied = answered(quotas=[("list_service_quotas", "AccessDeniedException")])
    found = run_probes((Probe("quota", quotas),), asked(), denied)

    assert [("quota", UNSEEN)] == looks(found)
    assert "permission is missing: servicequotas:ListServiceQuotas" == found[0].message
    assert "deployments/iam/orchestrator-preflight.json" in found[0].remedy


def test_a_prefix_that_may_not_be_written_is_wrong() -> None:
    """No bundle would reach the nodes."""
    found = prefix(asked(), answered(s3=[("put_object", "AccessDenied")]))

    assert ([("S3 prefix", WRONG)], True) == (looks(found), "orchestrator-reports" in found[0].remedy)


def test_a_prefix_that_may_not_be_read_is_wrong_and_a_probe_that_may_not_be_removed_is_named() -> None:
    """No report would come back. The probe stays, and people are told where."""
    calls = [("put_object", {}), ("get_object", "AccessDenied"), ("delete_object", "AccessDenied")]

    found = prefix(asked(), answered(s3=calls))

    assert [WRONG, UNSEEN] == [line.result for line in found]
    assert "s3://ml-bucket/gates/.prelaunch-probe-" in found[1].message


def test_a_session_is_asked_for_by_its_role() -> None:
    """The session's ARN lacks the role's path, which the simulation wants."""
    session = f"arn:aws:sts::{ACCOUNT}:assumed-role/ci/run-1"
    names = {"Path": "/teams/", "RoleName": "ci", "RoleId": "AROAEXAMPLEEXAMPLE"}
    role = {**names, "Arn": f"arn:aws:iam::{ACCOUNT}:role/teams/ci", "CreateDate": NOW}
    made = answered(
        sts=[("get_caller_identity", {**OPS, "Arn": session})],
        iam=[("get_role", {"Role": role}), *[_decided("allowed")] * 5],
    )

    (line,) = starts_jobs(asked(), made)

    assert (OK, True) == (line.result, line.message.startswith(f"{role['Arn']} may PassRole"))


def test_jobs_that_may_not_be_started() -> None:
    """For a pool the one that releases it is asked for as well."""
    fine = [_decided("allowed")] * 4
    for decision, said in (("implicitDeny", "orchestrator-pool"), ("explicitDeny", "service control policy")):
        found = starts_jobs(asked(), answered(sts=[CALLER], iam=[*fine, _decided(decision)]))

        assert [("permission to start jobs", WRONG)] == looks(found)
        assert said in found[0].remedy and ("Attach" in found[0].remedy) is (decision == "implicitDeny")


def test_a_condition_that_the_simulation_cannot_weigh_is_not_seen() -> None:
    """It lacks the key that a condition asks for."""
    made = answered(sts=[CALLER], iam=[_decided("implicitDeny", missing=("aws:RequestTag/team",))])

    with pytest.raises(AwsRefused, match="aws:RequestTag/team"):
        starts_jobs(asked(), made)


def test_role_permission_is_wrong_only_for_an_explicit_deny() -> None:
    """So it is not seen; only an explicit Deny is wrong."""
    allowed = _decided("allowed")

    quiet = inside(asked(), answered(iam=[_decided("implicitDeny"), *[allowed] * 4]))
    denied = inside(asked(), answered(iam=[_decided("explicitDeny"), *[allowed] * 4]))
    fine = inside(asked(), answered(iam=[allowed] * 5))

    assert [UNSEEN, WRONG, OK] == [line.result for line in (*quiet, *denied, *fine)]


def test_a_role_that_is_not_there_is_wrong() -> None:
    """The remedy names the key of the gate file."""
    calls = answered(iam=[("simulate_principal_policy", "NoSuchEntity")])
    (line,) = run_probes((Probe("permissions of the role", inside),), asked(), calls)

    assert (WRONG, True) == (line.result, "role_arn" in line.remedy)
