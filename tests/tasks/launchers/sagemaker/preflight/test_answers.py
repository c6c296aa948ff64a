"""The looks at what moto has not got, against answers in botocore's own shapes."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from tasks.launchers.sagemaker.preflight.account import quotas
from tasks.launchers.sagemaker.preflight.iam import inside, starts_jobs
from tasks.launchers.sagemaker.preflight.probe import Probe, run_probes
from tasks.launchers.sagemaker.preflight.requirements import Requirements
from tasks.launchers.sagemaker.preflight.storage import prefix
from tests.tasks.launchers.golden import GOLDEN, golden_text
from tests.tasks.launchers.sagemaker.preflight.accounts import answered, asked
from tests.tasks.launchers.sagemaker.stubbed import ACCOUNT

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
SESSION = f"arn:aws:sts::{ACCOUNT}:assumed-role/ci/run-1"
ROLE = {
    "Path": "/teams/",
    "RoleName": "ci",
    "RoleId": "AROAEXAMPLEEXAMPLE",
    "Arn": f"arn:aws:iam::{ACCOUNT}:role/teams/ci",
    "CreateDate": NOW,
}
MADE, FINE, DENIED = asked(**P5), [_decided("allowed")] * 4, "AccessDenied"
Row = tuple[Callable[..., Any], Requirements, Mapping[str, list[tuple[str, Any]]]]
LOOKS: Mapping[str, Row] = {
    # The rest of the pages is not asked for.
    "quotas_over_pages": (quotas, MADE, {"quotas": [
        _page(_quota("other", 0), _quota(TRAINING, 4), token="2"),
        _page(_quota(POOL, 8), _quota(EVERY, 20), *LIMITS, token="3"),
    ]}),
    # AWS's default: the job would run, and its machines would be gone.
    "quota_of_no_pool": (quotas, MADE, {"quotas": [
        _page(_quota(TRAINING, 4), _quota(POOL, 0, "L-0000AAAA"), _quota(EVERY, 20), *LIMITS),
    ]}),
    # The default counts where the account has no quota of its own, and what is in neither list is not seen.
    "quotas_by_default": (quotas, MADE, {"quotas": [
        _page(_quota(POOL, 4)), ("list_aws_default_service_quotas", {"Quotas": [_quota(TRAINING, 0)]}),
    ]}),
    # A week is more than AWS's default of five days: the training would be refused after its checks were paid for.
    "quota_of_time": (quotas, dataclasses.replace(MADE, run_s=604_800), {"quotas": [
        _page(*(_quota(name, 20) for name in (TRAINING, POOL, EVERY, SIZE)), _quota(TIME, 432_000, "L-33A961FD")),
    ]}),
    # The machines of a training plan are reserved: nobody knows whether the quota counts.
    "quota_with_a_training_plan": (quotas, asked(**P5, training_plan_arn=PLAN_ARN), {"quotas": [
        _page(_quota(TRAINING, 0), _quota(POOL, 4), _quota(EVERY, 20), *LIMITS),
    ]}),
    # Not seen is neither ok nor wrong: the action and the policy are named.
    "quotas_denied": (quotas, asked(), {"quotas": [("list_service_quotas", "AccessDeniedException")]}),
    # No bundle would reach the nodes.
    "prefix_unwritable": (prefix, asked(), {"s3": [("put_object", DENIED)]}),
    # No report would come back. The probe stays, and people are told where.
    "prefix_unreadable": (prefix, asked(), {"s3": [("put_object", {}), ("get_object", DENIED), ("delete_object", DENIED)]}),
    # The session's ARN lacks the role's path, which the simulation wants.
    "session": (starts_jobs, asked(), {
        "sts": [("get_caller_identity", {**OPS, "Arn": SESSION})], "iam": [("get_role", {"Role": ROLE}), *FINE, *FINE[:1]],
    }),
    # For a pool the one that releases it is asked for as well.
    "pool_not_allowed": (starts_jobs, asked(), {"sts": [CALLER], "iam": [*FINE, _decided("implicitDeny")]}),
    "pool_denied": (starts_jobs, asked(), {"sts": [CALLER], "iam": [*FINE, _decided("explicitDeny")]}),
    # The simulation lacks the key that a condition asks for, and cannot weigh it.
    "condition": (starts_jobs, asked(), {
        "sts": [CALLER], "iam": [_decided("implicitDeny", missing=("aws:RequestTag/team",))],
    }),
    # What a role may is not seen; only an explicit Deny is wrong.
    "role_not_allowed": (inside, asked(), {"iam": [_decided("implicitDeny"), *FINE]}),
    "role_denied": (inside, asked(), {"iam": [_decided("explicitDeny"), *FINE]}),
    "role_allowed": (inside, asked(), {"iam": [*FINE, *FINE[:1]]}),
    "no_role": (inside, asked(), {"iam": [("simulate_principal_policy", "NoSuchEntity")]}),
}  # fmt: skip
TEXTS = GOLDEN / "sagemaker_preflight"


@pytest.mark.parametrize("name", LOOKS)
def test_what_a_look_says_is_the_golden_text(name: str) -> None:
    """Every line with its result, its words and its remedy; UPDATE_GOLDEN=1 writes it."""
    look, wanted, services = LOOKS[name]
    lines = run_probes((Probe("the look", look),), wanted, answered(**services))
    said = "".join(f"{line.result.name} {line.text}\n" for line in lines)
    said = re.sub(r"(prelaunch-probe-)\w+", r"\1{id}", said)

    assert said == golden_text(TEXTS / f"{name}.txt", said)


def test_every_golden_text_is_of_a_look() -> None:
    """A file that nobody compares says nothing."""
    assert set(LOOKS) == {path.stem for path in TEXTS.iterdir()}
