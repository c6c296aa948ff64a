"""The shipped IAM policies: their grammar, that they grant what the product calls, and nothing more.

Filled in as the page on setting up an account does it, they let the shipped gates run.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import botocore.session
import pytest

from tasks.gate.context import open_gate_context
from tasks.gate.jobs import planned_jobs
from tasks.gate_file.request import GateRequest
from tasks.launchers.base import PreflightResult
from tasks.launchers.sagemaker.options import SageMakerOptions
from tasks.launchers.sagemaker.preflight.iam import context_of, inside, starts_jobs
from tasks.launchers.sagemaker.preflight.requirements import Requirements, requirements_of
from tasks.launchers.sagemaker.preflight.storage import sources
from tasks.launchers.sagemaker.request.locations import bucket_of, key_of
from tests.architecture.tree import ROOT
from tests.deployments.iam_calls import actions_of, operations
from tests.deployments.iam_weighing import simulated, weigh

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


PAGE = (ROOT / "docs/sagemaker.md").read_text()
BLOCKS = re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL)
LINES = [line for block in BLOCKS for line in block.splitlines()]
AWS = [found for line in LINES for found in re.findall(r"aws (?!s3 )[a-z0-9-]+ [a-z-]+ .*?(?=\)$|$)", line)]
EVERYWHERE = {"region", "query", "output"}

GATES = sorted((ROOT / "deployments" / "gates").glob("sagemaker-*.toml"))
PINS = (ROOT / "container" / "pins.toml").read_text()


gates = pytest.mark.parametrize("path", GATES, ids=lambda path: path.stem)


@lru_cache
def filled() -> Mapping[str, Any]:
    """Every policy by its name, filled in by the page's own commands."""
    names = next(block for block in BLOCKS if "export ACCOUNT" in block)
    fill = next(block for block in BLOCKS if "sed -e" in block)
    show = "for file in filled/*.json; do printf '%s ' $(basename $file); tr -d '\\n' <$file; echo; done"
    script = f'set -euo pipefail; work=$(mktemp -d); cd "$work"; ln -s "{ROOT}/deployments" .\n{names}{fill}{show}; rm -r "$work"'
    done = subprocess.run(("bash", "-c", script), check=True, capture_output=True, text=True)
    rows = (line.partition(" ") for line in done.stdout.splitlines())
    return {name.removesuffix(".json"): json.loads(text) for name, _, text in rows}


def policies(*names: str) -> Sequence[Any]:
    """These of them."""
    return [filled()[name] for name in names]


@lru_cache
def asked(path: Path) -> Requirements:
    """What a shipped gate asks of the account."""
    setting = open_gate_context(GateRequest(gate_file=str(path)))
    options = getattr(setting.launcher, "options", None)
    assert isinstance(options, SageMakerOptions)
    return requirements_of(tuple(setting.launcher.plan(job) for job in planned_jobs(setting)), options)


def for_the_gate(wanted: Requirements) -> Sequence[Any]:
    """What the page attaches to who runs the gate."""
    return policies("orchestrator-jobs", *(("orchestrator-pool",) if wanted.pooled else ()))


@gates
def test_iam_policies_allow_every_shipped_gate_to_start(path: Path) -> None:
    """Seen to be allowed, and not "not seen": no condition of the policies rests on what the simulation was not told."""
    wanted = asked(path)

    (line,) = starts_jobs(wanted, simulated(for_the_gate(wanted)))

    assert (PreflightResult.OK, "") == (line.result, line.remedy)


def test_a_type_that_the_policy_does_not_list_is_wrong() -> None:
    """Found before the start, and not by CreateTrainingJob's refusal."""
    wanted = asked(GATES[0])
    listed = json.loads(json.dumps(for_the_gate(wanted)).replace("ml.m5.large", "ml.m5.xlarge"))

    (line,) = starts_jobs(wanted, simulated(listed))

    assert (PreflightResult.WRONG, True) == (line.result, "INSTANCE_TYPES" in line.remedy)


def test_a_pool_needs_the_policy_for_pools() -> None:
    """orchestrator-jobs alone starts no job that keeps its machines."""
    wanted = asked(next(path for path in GATES if path.stem == "sagemaker-p5"))

    (line,) = starts_jobs(wanted, simulated(policies("orchestrator-jobs")))

    assert (PreflightResult.WRONG, True) == (line.result, "orchestrator-pool.json" in line.remedy)


def test_the_types_of_all_shipped_gates_are_listed_together() -> None:
    """One policy serves gates of several types."""
    kinds = {asked(path).instance_type for path in GATES}
    both = policies("orchestrator-jobs", "orchestrator-pool")
    conditions = [row["Condition"] for row in [row for policy in both for row in policy["Statement"]][::4]]
    lists = [one["ForAllValues:StringEquals"]["sagemaker:InstanceTypes"] for one in conditions]

    assert len(lists) == 2 and all(kinds <= set(one) for one in lists)


@gates
def test_the_keys_that_the_simulation_is_told_are_those_of_the_action(path: Path) -> None:
    """A key that CreateTrainingJob does not carry would make the simulation weigh another request."""
    told = {str(row["ContextKeyName"]) for body in asked(path).bodies for row in context_of(body)}
    known = {*CARRIED["sagemaker:CreateTrainingJob"].split()}

    assert {"sagemaker:InstanceTypes", "sagemaker:MaxRuntimeInSeconds"} <= told
    assert [] == [key for key in told - known if not key.startswith("aws:RequestTag/")]


@gates
def test_the_execution_role_may_do_what_every_shipped_gate_needs(path: Path) -> None:
    """Its inputs, reports and output, and the training's own channels."""
    mine = policies("execution-role", "execution-role-data")
    # The training's image is its owner's.
    image = json.loads(json.dumps(mine).replace("repository/prelaunch", "repository/*"))

    (line,) = inside(asked(path), simulated(image))

    assert (PreflightResult.OK, "") == (line.result, line.remedy)


@gates
def test_the_trainings_own_channels_can_be_looked_at(path: Path) -> None:
    """Outside of the gate's PREFIX as well: by who runs the gate, with the policy of the preflight."""
    readers = ("orchestrator-reports", "orchestrator-preflight")
    refused = [url for url in sources(asked(path)).values() if _lists(readers, url) != "allowed"]

    assert [] == refused


@gates
def test_checkpoints_can_be_kept_where_the_gate_file_says(path: Path) -> None:
    """Written, and read again by a start after an interruption."""
    wanted = [body["CheckpointConfig"]["S3Uri"] for body in asked(path).bodies if "CheckpointConfig" in body]
    mine = policies("execution-role", "execution-role-data")
    arns = [f"arn:aws:s3:::{url.removeprefix('s3://')}step-1" for url in wanted]
    decisions = {weigh(mine, f"s3:{verb}Object", arn, {})[0] for arn in arns for verb in ("Get", "Put")}

    assert decisions <= {"allowed"}
    assert {"allowed"} >= {_lists(("execution-role-data",), url) for url in wanted}


def test_iam_policies_list_no_whole_bucket() -> None:
    """Each right to list is bound to prefixes: other people's data in the bucket stay theirs."""
    rows = ((name, row) for name, policy in filled().items() for row in policy["Statement"])
    statements = [(name, row.get("Condition", {})) for name, row in rows if "s3:ListBucket" in row["Action"]]
    unbound = [name for name, condition in statements if not condition.get("StringLike", {}).get("s3:prefix")]
    url = "s3://prelaunch-123456789012/payroll/"
    others = [name for name, _ in statements if _lists((name,), url) == "allowed"]

    assert ([], [], True) == (unbound, others, len(statements) >= 5)


def test_iam_policy_for_ecr_allows_pulling_the_aws_base_image() -> None:
    """The pinned base is in a registry of AWS's own account, which wants a login and rights in one's own account."""
    found = re.search(r'"(\d+)\.dkr\.ecr\.([a-z0-9-]+)\.amazonaws\.com/([^":]+)', PINS)
    assert found
    arn = f"arn:aws:ecr:{found[2]}:{found[1]}:repository/{found[3]}"
    pulls = ("ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer")

    assert ["allowed"] * 3 == [weigh(policies("ecr-push"), action, arn, {})[0] for action in pulls]
    assert "implicitDeny" == weigh(policies("ecr-push"), "ecr:PutImage", arn, {})[0]


REPAIRS = ("BatchRebootClusterNodes", "BatchReplaceClusterNodes", "StartClusterHealthCheck")


@pytest.mark.parametrize("action", REPAIRS)
def test_iam_policies_allow_no_repair_of_a_node(action: str) -> None:
    """With every policy attached to one identity: neither the gate, nor the jobs, nor who builds the image."""
    every = [policy for name, policy in filled().items() if name != TRUST.stem]
    arn = "arn:aws:sagemaker:us-east-1:123456789012:cluster/none"

    assert "implicitDeny" == weigh(every, f"sagemaker:{action}", arn, {})[0]


def _lists(names: Sequence[str], url: str) -> str:
    bucket = f"arn:aws:s3:::{bucket_of(url)}"
    return weigh(policies(*names), "s3:ListBucket", bucket, {"s3:prefix": [key_of(url)]})[0]


@pytest.mark.parametrize("command", AWS, ids=lambda command: " ".join(command.split()[1:3]))
def test_a_command_of_aws(command: str) -> None:
    """Service, operation and options as botocore's own models have them; what is required is given."""
    words = shlex.split(re.sub(r"\$\{?\w+\}?", "x", command))
    model = botocore.session.get_session().get_service_model(words[1])
    names = {_plain(name): name for name in model.operation_names}
    shape = model.operation_model(names[_plain(words[2])]).input_shape
    given = {_plain(word[2:]) for word in words if word.startswith("--")} - EVERYWHERE

    assert set() == given - {_plain(name) for name in shape.members}
    assert set() == {_plain(name) for name in shape.required_members} - given


# IAM, "IAM and AWS STS quotas": characters of a managed policy, white space not counted.
MOST_CHARACTERS = 6144


def test_each_policy_fits_into_a_managed_policy() -> None:
    """With all of its placeholders filled."""
    texts = {name: re.sub(r"\s", "", json.dumps(policy)) for name, policy in filled().items()}

    assert {path.stem for path in (ROOT / "deployments/iam").glob("*.json")} == set(texts)
    assert [] == [name for name, text in texts.items() if "@" in text or len(text) > MOST_CHARACTERS]


def test_each_policy_has_a_line_in_the_table() -> None:
    """Whom it is for, and when it is needed."""
    rows = " ".join(re.findall(r"^\| (`[^|]*) \|", PAGE, re.MULTILINE))

    assert [] == [p.stem for p in (ROOT / "deployments/iam").glob("*.json") if f"`{p.stem}`" not in rows]


def _plain(name: str) -> str:
    return name.replace("-", "").lower()
