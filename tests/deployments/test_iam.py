"""The shipped IAM policies: their grammar, that they grant what the product calls, and nothing more."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.architecture.tree import ROOT
from tests.deployments.iam_calls import actions_of, operations

FOLDER = ROOT / "deployments/iam"
FILES = sorted(FOLDER.glob("*.json"))
TRUST = FOLDER / "execution-role-trust.json"
GATES_OWN = [path.name for path in FOLDER.glob("orchestrator-*.json")]
# No operation of an API that is called here: asked for by CreateTrainingJob, or by S3 for a bucket that encrypts.
UNCALLED = {"iam:PassRole", "sagemaker:AddTags", "kms:Decrypt", "kms:GenerateDataKey"}

every = pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)


def _many(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _statements(path: Path) -> list[dict[str, Any]]:
    return list(json.loads(path.read_text())["Statement"])


def _granted(*patterns: str) -> set[str]:
    paths = [path for pattern in patterns for path in FOLDER.glob(pattern)]
    allowed = [one for path in paths for one in _statements(path) if one["Effect"] == "Allow"]
    return {action for statement in allowed for action in _many(statement["Action"])}


@every
def test_a_policy_is_written_as_iam_reads_it(path: Path) -> None:
    """Version, and statements that each have a name, an effect, actions, and resources or a principal."""
    policy = json.loads(path.read_text())
    whom = "Principal" if path == TRUST else "Resource"
    keys = {frozenset(statement) - {"Condition"} for statement in policy["Statement"]}
    sids = [statement["Sid"] for statement in policy["Statement"]]

    assert ({"Version", "Statement"}, "2012-10-17") == (set(policy), policy["Version"])
    assert {frozenset({"Sid", "Effect", "Action", whom})} == keys
    assert [] == [sid for sid in sids if not re.fullmatch("[A-Za-z0-9]+", sid) or sids.count(sid) > 1]
    assert {statement["Effect"] for statement in policy["Statement"]} <= {"Allow", "Deny"}


def test_the_execution_role_alone_reads_the_key_of_the_exchange() -> None:
    """The orchestrator writes and deletes it."""
    pairs = [(path.stem, statement) for path in FILES for statement in _statements(path)]
    denied = [(name, one["Action"], one["Resource"]) for name, one in pairs if one["Effect"] == "Deny"]
    statements = _statements(FOLDER / "execution-role.json")
    (read,) = (one for one in statements if one["Sid"] == "ReadInputsAndAnswers")

    key = "arn:aws:s3:::@BUCKET@/@PREFIX@/*/in/exchange.key"
    assert [("orchestrator-reports", "s3:GetObject", key)] == denied
    assert "arn:aws:s3:::@BUCKET@/@PREFIX@/@GATE@-*/in/*" in read["Resource"]


@every
def test_each_action_is_one_that_aws_has(path: Path) -> None:
    """Written out: no wildcard."""
    pairs = [pair for names in operations().values() for pair in names.items()]
    known = {f"{service.replace('-', '')}:{name}" for service, name in pairs}
    # PassRole and ListBucket are permissions, not operations; CloudWatch's service is not among those of the product.
    known |= {"iam:PassRole", "s3:ListBucket", "cloudwatch:PutMetricData"}
    actions = {action for statement in _statements(path) for action in _many(statement["Action"])}

    assert set() == actions - known


# Actions for which AWS knows no resource ("Actions, resources, and condition keys" of the Service Authorization Reference).
OF_NO_RESOURCE = (
    r"ecr:GetAuthorizationToken|cloudwatch:PutMetricData|servicequotas:List\w+|ec2:Describe\w+|sts:AssumeRole"
)


@every
def test_resources_are_named_where_the_action_has_any(path: Path) -> None:
    """ "*" only where AWS knows no resource."""
    wide = [one for one in _statements(path) if "*" in _many(one.get("Resource", "*"))]
    actions = [action for one in wide for action in _many(one["Action"])]

    assert [] == [action for action in actions if not re.fullmatch(OF_NO_RESOURCE, action)]


# The condition keys that an action carries, of those that are used here (the same reference; IAM's global keys of a trust policy).
CARRIED = {
    "sagemaker:CreateTrainingJob": "sagemaker:InstanceTypes sagemaker:InterContainerTrafficEncryption sagemaker:KeepAlivePeriod "
    "sagemaker:MaxRuntimeInSeconds sagemaker:NetworkIsolation sagemaker:OutputKmsKey sagemaker:VolumeKmsKey "
    "sagemaker:VpcSecurityGroupIds sagemaker:VpcSubnets aws:TagKeys",
    "sagemaker:UpdateTrainingJob": "sagemaker:InstanceTypes sagemaker:KeepAlivePeriod",
    "sagemaker:AddTags": "sagemaker:TaggingAction",
    "iam:PassRole": "iam:PassedToService",
    "s3:ListBucket": "s3:prefix",
    "cloudwatch:PutMetricData": "cloudwatch:namespace",
    "kms:CreateGrant": "kms:GrantIsForAWSResource",
    "sts:AssumeRole": "aws:SourceAccount aws:SourceArn",
}
OF_ALL = {"ec2": "ec2:Region", "kms": "kms:ViaService"}


@every
def test_conditions_are_on_keys_that_the_actions_know(path: Path) -> None:
    """A key that an action does not carry would refuse it for ever."""
    conditions = [(one, keys) for one in _statements(path) for keys in one.get("Condition", {}).values()]
    used = [(action, key) for one, keys in conditions for key in keys for action in _many(one["Action"])]

    carried = {one: (*CARRIED.get(one, "").split(), OF_ALL.get(one.partition(":")[0])) for one, _ in used}
    assert [] == [(action, key) for action, key in used if key not in carried[action]]


def test_tagging_stands_by_itself() -> None:
    """Conditions on the job's machines are no keys of AddTags: in one statement they would refuse it."""
    statements = [statement for path in FILES for statement in _statements(path)]
    tagging = [one for one in statements if "sagemaker:AddTags" in _many(one["Action"])]
    together = [one["Sid"] for one in tagging if len(_many(one["Action"])) > 1]

    assert ([], True) == (together, "sagemaker:AddTags" in _granted("*.json"))


def test_iam_policies_grant_what_the_sagemaker_launcher_calls() -> None:
    """By some policy of the orchestrator's, without that of the store."""
    called = actions_of(list((ROOT / "tasks/launchers/sagemaker").rglob("*.py")))
    files = [name for name in GATES_OWN if name != "orchestrator-store.json"]

    assert set() == called - _granted(*files)
    assert {"sagemaker:CreateTrainingJob", "ecr:DescribeImages", "s3:PutObject"} <= called


def test_iam_policy_for_ecr_grants_what_the_image_push_calls() -> None:
    """create-image.sh asks the AWS command line."""
    script = (ROOT / "container/create-image.sh").read_text()
    words = {word.title().replace("-", "") for word in re.findall(r"aws ecr ([a-z-]+)", script)}
    renamed = {"GetLoginPassword": "GetAuthorizationToken"}

    assert set() == {f"ecr:{renamed.get(word, word)}" for word in words} - _granted("ecr-push.json")


def test_iam_policy_for_the_store_grants_exactly_what_it_calls() -> None:
    """By its own policy, which is needed only for a store in S3."""
    called = actions_of([ROOT / "tasks/store/s3.py", ROOT / "tasks/store/aws.py"], by_default="s3")

    assert _granted("orchestrator-store.json") == called


def test_iam_execution_role_grants_what_the_agent_calls() -> None:
    """To the execution role."""
    called = actions_of(list((ROOT / "container/agent").rglob("*.py")), by_default="s3")

    assert (set(), True) == (called - _granted("execution-role.json"), bool(called))


def test_the_orchestrator_may_do_nothing_that_it_does_not_call() -> None:
    """Least privilege, held to the code."""
    called = actions_of(list((ROOT / "tasks/launchers/sagemaker").rglob("*.py")))
    called |= actions_of([ROOT / "tasks/store/s3.py", ROOT / "tasks/store/aws.py"], by_default="s3")

    assert set() == _granted(*GATES_OWN) - called - UNCALLED
