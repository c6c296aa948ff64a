"""What SageMaker would be asked for; every request that a shipped gate makes, and one for each feature, as a person reads it."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from botocore.stub import Stubber

from tasks.gate.context import open_gate_context
from tasks.gate.jobs import planned_jobs
from tasks.gate_file.request import GateRequest
from tasks.launchers.base import JobSpec, LaunchRejected, Placement, Work
from tasks.launchers.sagemaker.job_request import make_plan
from tasks.launchers.sagemaker.options import ImageCode, SageMakerOptions
from tasks.launchers.sagemaker.request.validate import objections
from tests.fakes.sagemaker.pools import key
from tests.tasks.launchers.golden import GOLDEN, gates_of, golden_text
from tests.tasks.launchers.sagemaker.planning import CHECK, GATED, TRAIN, body_of, in_job, options, told
from tests.tasks.launchers.sagemaker.stubbed import ARN, IMAGE, client_of

CHANNEL = "/opt/ml/input/data/prelaunch"
ROOT = "s3://bucket/gates"


def test_check_and_training_are_one_pool() -> None:
    """All that SageMaker finds a warm pool by is equal, whatever the training asks for besides."""
    vpc = {"subnets": ("subnet-b", "subnet-a"), "security_group_ids": ("sg-1",)}
    made = options(volume_gb=317, encrypt_traffic=True, network_isolation=True, **vpc)
    output = {"OutputDataConfig": {"CompressionType": "NONE"}}
    request = {"Environment": {"A": "1"}, "HyperParameters": {"lr": "1e-3"}, **output}

    assert key(body_of(CHECK, made)) == key(body_of(replace(TRAIN, request=request), made))


@pytest.mark.parametrize(
    "behind",
    [("x" * 257,), tuple("x" * 101), ("python3", "-c", "a\nb")],
    ids=["a long word", "many words", "lines"],
)
def test_long_command_is_carried_by_a_file(behind: tuple[str, ...]) -> None:
    """SageMaker takes 100 arguments of 256 characters on one line."""
    plan = make_plan(replace(GATED, training=behind), in_job())

    assert told(dict(plan.calls[0].body))[-2:] == ["--command-file", f"{CHANNEL}/command.json"]
    assert json.loads(plan.uploads[f"{ROOT}/{GATED.name}/in/command.json"]) == list(behind)


def test_the_checks_come_by_a_channel_to_an_image_without_them() -> None:
    """AUTO: a training image of its own does not have the agent; the check image does."""
    plans = [make_plan(job, options()) for job in (CHECK, TRAIN, replace(TRAIN, image=""))]
    starts = [plan.calls[0].body["AlgorithmSpecification"]["ContainerEntrypoint"][0] for plan in plans]  # type: ignore[index]

    assert starts == ["python3", "/bin/sh", "python3"]
    assert [sorted(url.rpartition("/")[2] for url in plan.uploads) for plan in plans] == [
        ["bundle.json"],
        ["bundle.json", "pass.json", "prelaunch.tar.gz", "start.sh"],
        ["bundle.json", "pass.json"],
    ]


@pytest.mark.parametrize(("code", "image", "start"), [
    (ImageCode.CHANNEL, "", "/bin/sh"),
    (ImageCode.IMAGE, GATED.image, "python3"),
    (ImageCode.AUTO, IMAGE, "python3"),
])  # fmt: skip
def test_code_option_selects_the_entrypoint(code: ImageCode, image: str, start: str) -> None:
    """For an image that has the agent, or a check image that has not."""
    body = body_of(replace(GATED, image=image), in_job(code=code))

    assert body["AlgorithmSpecification"]["ContainerEntrypoint"][0] == start


@pytest.mark.parametrize(
    "said", [{"environment": {"PYTHONPATH": "/srv"}}, {"request": {"Environment": {"PYTHONPATH": "/srv"}}}]
)
def test_a_pythonpath_of_the_training_does_not_hide_the_agent(said: dict[str, Any]) -> None:
    """The image's own is what the agent is found by."""
    body = body_of(replace(GATED, image="", **said), in_job())

    assert body["Environment"] == {"PYTHONPATH": "/opt/prelaunch:/srv"}


@pytest.mark.parametrize("named", [("u-1",), ("u-1=3",), ("u-1=x",), ("=4",), ("u-1=0", "u-2=4")])
def test_ultraservers_must_add_up(named: tuple[str, ...]) -> None:
    """Every node has a place."""
    with pytest.raises(LaunchRejected, match="id=instances"):
        make_plan(CHECK, options(placement=Placement.PINNED, ultraservers=named))


@pytest.mark.parametrize(
    ("job", "changes", "says"),
    [
        (CHECK, {"keep_alive_s": 0}, "keeps no machines"),
        (CHECK, {"spot": True}, "Spot machines are not kept"),
        (CHECK, {"placement": Placement.PINNED}, "needs ultraservers"),
        (CHECK, {"ultraservers": ("u-1",)}, "cannot be used with placement pooled"),
        (CHECK, {"subnets": ("subnet-1",)}, "only useful together"),
        (CHECK, {"spot_wait_minutes": 5.0}, "is for spot = true"),
        (CHECK, {"max_pending_minutes": 10.0}, "MaxPendingTimeInSeconds, value: 600, valid min value: 1800"),
        (CHECK, {"prefix": "s3://bucket/" + "x" * 300}, "Shorten it"),
        (CHECK, {"tags": ("a",)}, "key=value"),
        (CHECK, {"tags": ("prelaunch:gate=other",)}, "Name yours otherwise"),
        (replace(CHECK, instance_type=""), {}, "no instance type"),
        (replace(CHECK, instance_type="p5.49xlarge"), {}, "none of the [0-9]+ choices"),
        (replace(CHECK, max_runtime_s=0), {}, "may run for 0"),
        (replace(CHECK, name="x" * 64), {}, "at most 63"),
        (replace(CHECK, name="../x"), {}, "TrainingJobName"),
        (replace(CHECK, files={"start.sh": b""}), {}, "cannot be named 'start.sh'"),
        (replace(TRAIN, training=()), {}, "no training command"),
        (replace(TRAIN, environment={"PRELAUNCH_OBSERVE": "1"}), {}, "would tell the gate's agent"),
    ],
)  # fmt: skip
def test_job_request_rejects_bad_options_with_remedy(job: Any, changes: dict[str, Any], says: str) -> None:
    """Before anything is looked at or paid for, with the remedy."""
    with pytest.raises(LaunchRejected, match=says):
        make_plan(job, options(**changes))


def test_the_python_of_the_gate_file_is_the_agents() -> None:
    """Whatever the training's environment says."""
    body = body_of(replace(TRAIN, environment={"PRELAUNCH_PYTHON": "x"}), options(python="y"))
    assert body["Environment"] == {"PRELAUNCH_PYTHON": "y"}


def test_no_answer_reaches_an_isolated_node() -> None:
    """So a policy that asks cannot be kept."""
    with pytest.raises(LaunchRejected, match="no answer reaches"):
        make_plan(replace(GATED, ask_s=60.0), in_job(network_isolation=True))


def test_a_request_is_the_trainings_alone() -> None:
    """The health check does not read the training's data."""
    assert "HyperParameters" not in body_of(replace(CHECK, request={"HyperParameters": {"lr": "1"}}))


@pytest.mark.parametrize(
    ("request_", "says"),
    [
        ({"TrainingJobName": "mine"}, "training.request.TrainingJobName is the gate's own"),
        ({"ResourceConfig": {"VolumeSizeInGB": 1}}, "training.request.ResourceConfig is the gate's own"),
        ({"RoleArn": "x"}, "training.request.RoleArn is the gate's own"),
        ({"VpcConfig": "x"}, "training.request.VpcConfig is the gate's own"),
        ({"EnableNetworkIsolation": "x"}, "training.request.EnableNetworkIsolation is the gate's own"),
        ({"AlgorithmSpecification": {"ContainerEntrypoint": ["x"]}}, "write yours as .training. command"),
        ({"AlgorithmSpecification": {"TrainingImage": "x"}}, "set .training. image"),
        ({"OutputDataConfig": {"S3OutputPath": "s3://x/y"}}, "where reports are looked for"),
        ({"StoppingCondition": {"MaxRuntimeInSeconds": 5}}, "max_runtime_minutes"),
        ({"SessionChainingConfig": {"EnableSessionTagChaining": True}}, "no warm pool would match"),
        ({"InputDataConfig": [{"ChannelName": "prelaunch"}]}, "the channel 'prelaunch' and tags"),
        ({"Tags": [{"Key": "prelaunch:gate", "Value": "x"}]}, "Name yours otherwise"),
        ({"Environment": {"PRELAUNCH_UPLOAD": "s3://x"}}, "would tell the gate's agent"),
        ({"Environment": {"B": "2"}}, "in .training. environment too"),
        ({"HyperParamters": {}}, 'Unknown parameter in input: "HyperParamters"'),
        ({"Tags": "x"}, "parameter Tags, value: x"),
        ({"AlgorithmSpecification": 3}, "parameter AlgorithmSpecification, value: 3"),
        ({"HyperParameters": {"lr": 3}}, "HyperParameters.lr: its value is not text"),
        ({"CheckpointConfig": {}}, 'Missing required parameter in CheckpointConfig: "S3Uri"'),
        *(
            ({"CheckpointConfig": {"S3Uri": "s3://b/c", "LocalPath": path}}, "the gate's own files lie")
            for path in (CHANNEL, "/opt/ml/x/../output/data/", "/opt/ml", "/opt/ml/sagemaker")
        ),
    ],
)
def test_a_request_cannot_take_what_is_the_gates(request_: dict[str, Any], says: str) -> None:
    """By its path, and where to say it instead."""
    with pytest.raises(LaunchRejected, match=says):
        make_plan(replace(TRAIN, request=request_, environment={"B": "1"}), options())


def test_a_plan_is_its_job_and_options_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same again, without credentials, region or HOME, and nothing is called."""
    first = make_plan(TRAIN, options())
    for name in ("HOME", "AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ACCESS_KEY_ID"):
        monkeypatch.delenv(name, raising=False)
    events: list[str] = []
    watched = ("socket.connect", "socket.getaddrinfo", "subprocess.Popen", "os.mkdir", "open")
    watching = True
    sys.addaudithook(lambda event, _: events.append(event) if watching and event in watched else None)
    second = make_plan(TRAIN, options())
    watching = False

    assert (first == second, events) == (True, [])


GATES = gates_of("sagemaker")
REQUESTS = GOLDEN / "sagemaker"
PLAN = "arn:aws:sagemaker:us-east-1:123456789012:training-plan/large-2026"
KEY = "arn:aws:kms:us-east-1:123456789012:key/12345678-1234-1234-1234-123456789012"
RACK = {"placement": Placement.PINNED, "ultraservers": ("us-0123456789abcdef0=18",)}
VPC = {"subnets": ("subnet-0123456789abcdef0",), "security_group_ids": ("sg-0123456789abcdef0",)}
SMALL = {"instance_type": "m5.large", "ranks_per_node": 2}
# Tables are merged, lists follow each other, and what is the gate's stays.
LAID_OVER = {
    "HyperParameters": {"lr": "1e-3"},
    "AlgorithmSpecification": {"MetricDefinitions": [{"Name": "loss", "Regex": "loss=(.*)"}]},
    "InputDataConfig": [{"ChannelName": "code", "DataSource": {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": "s3://b/c"}}}],
    "OutputDataConfig": {"CompressionType": "NONE"},
    "Environment": {"WANDB_MODE": "offline", "PRELAUNCH_GRACE_S": "100"},
    "Tags": [{"Key": "team", "Value": "llm"}],
    "CheckpointConfig": {"S3Uri": "s3://b/checkpoints"},
    "SessionChainingConfig": {"EnableSessionTagChaining": True},
}  # fmt: skip
FEATURES: Mapping[str, tuple[JobSpec, SageMakerOptions]] = {
    "training_plan": (GATED, in_job(training_plan_arn=PLAN, max_pending_minutes=2880, **VPC)),
    "ultraserver": (
        replace(CHECK, nodes=18, instance_type="p6e-gb200.36xlarge"),
        options(training_plan_arn=PLAN, **RACK, **VPC),
    ),
    "spot": (GATED, in_job(spot=True, spot_wait_minutes=120, retries=3)),
    "network_isolation": (GATED, in_job(network_isolation=True, **VPC)),
    # The pass is proven by the pool; the command's folders are filled in, what a node fills in stays.
    "observed_pool": (
        replace(TRAIN, observe=True, training=("train", "{out}", "{job}", "{node_rank}")),
        options(keep_alive_s=1800),
    ),
    "holds_for_an_answer": (replace(GATED, ask_s=1800.0, training=("train",)), in_job()),
    "command": (
        replace(CHECK, work=Work.COMMAND, command=("{python}", "-c", "print()", "{out}")),
        options(placement=Placement.NONE),
    ),
    "confirms_by_name": (TRAIN, options(placement=Placement.NONE)),
    "request": (replace(GATED, request=LAID_OVER, environment={"A": "1"}), in_job()),
    "encryption": (GATED, in_job(encrypt_traffic=True, **VPC)),
    "kms": (replace(GATED, **SMALL), in_job(volume_kms_key=KEY, output_kms_key=KEY, infra_check=False)),  # type: ignore[arg-type]
}


def golden(name: str, bodies: list[dict[str, Any]]) -> tuple[str, str]:
    """What is, and what is committed."""
    text = json.dumps(bodies, indent=2) + "\n"
    return text, golden_text(REQUESTS / f"{name}.json", text)


def taken(body: Mapping[str, Any]) -> None:
    """botocore's own validation; it raises."""
    client = client_of("sagemaker")
    with Stubber(client) as stub:
        stub.add_response("create_training_job", ARN, dict(body))
        client.create_training_job(**body)


@pytest.mark.parametrize("path", GATES, ids=lambda path: path.stem)
def test_a_shipped_gate_asks_for_what_its_golden_file_says(path: Path) -> None:
    """Whole requests, of one job or of two that get one pool, within the quotas that an account begins with.

    Source: "Amazon SageMaker AI endpoints and quotas", AWS General Reference. Those for GPUs begin at 0, which the preflight says.
    """
    context = open_gate_context(GateRequest(gate_file=str(path)))
    bodies: list[Any] = [dict(context.launcher.plan(job).calls[0].body) for job in planned_jobs(context)]
    written, committed = golden(path.stem.replace("-", "_"), bodies)
    training = context.gate.training

    assert written == committed
    assert 1 == len({key(body) for body in bodies})
    assert max(body["StoppingCondition"]["MaxRuntimeInSeconds"] for body in bodies) <= 432_000
    assert max(body["ResourceConfig"]["InstanceCount"] for body in bodies) <= 20
    assert max(body["ResourceConfig"]["VolumeSizeInGB"] for body in bodies) <= 1024
    assert training.expected_hours is None or training.expected_hours * 60 < training.max_runtime_minutes


@pytest.mark.parametrize("name", FEATURES)
def test_a_feature_asks_for_what_its_golden_file_says(name: str) -> None:
    """One thing changed at a time."""
    written, committed = golden(name, [body_of(*FEATURES[name])])

    assert written == committed


def test_aws_takes_every_golden_request() -> None:
    """By botocore's own validation, and by ours."""
    # A golden file holds one request or several.
    files = [json.loads(path.read_text()) for path in sorted(REQUESTS.glob("*.json"))]
    bodies = [body for held in files for body in (held if isinstance(held, list) else [held])]
    for body in bodies:
        taken(body)

    assert len(bodies) >= len(FEATURES) + len(GATES)
    assert [line for body in bodies for line in objections(body)] == []


def test_every_golden_file_is_of_something() -> None:
    """What nothing makes any more would be checked for ever."""
    known = {path.stem.replace("-", "_") for path in GATES} | set(FEATURES) | {"model_trainer"}

    assert {path.stem for path in REQUESTS.glob("*.json")} - known == set()
