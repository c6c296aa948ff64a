"""What AWS would refuse of a request, told before it is asked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tasks.launchers.sagemaker.request.validate import objections, request_shape, translated
from tests.tasks.launchers.sagemaker.planning import CHECK, body_of, changed


def shapes(shape: Any, seen: set[str]) -> Iterator[Any]:
    """Every shape of the request, once."""
    if shape.name in seen:
        return
    seen.add(shape.name)
    yield shape
    kind = shape.type_name
    inner = list(shape.members.values()) if kind == "structure" else [shape.member] if kind == "list" else []
    for one in [*inner, *([shape.key, shape.value] if kind == "map" else [])]:
        yield from shapes(one, seen)


def test_a_sound_request_has_no_objections() -> None:
    """Nothing is said of what AWS takes."""
    assert objections(body_of(CHECK)) == []


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        ("RoleArn", "arn:x", "RoleArn, value: 5, valid min length: 20"),
        ("RoleArn", "arn:aws:iam::1:role/" + "x" * 10, "is not of the form arn:aws"),
        ("Nope", 1, 'Unknown parameter in input: "Nope"'),
        ("ResourceConfig.InstanceType", "ml.p5.48xlarg", "is none of the"),
        ("ResourceConfig.InstanceCount", "4", "ResourceConfig.InstanceCount, value: 4, type: <class 'str'>"),
        ("ResourceConfig.InstanceCount", True, "InstanceCount: True is not a whole number"),
        ("ResourceConfig.InstanceCount", 1 << 31, "is not a whole number of 32 bits"),
        ("ResourceConfig.KeepAlivePeriodInSeconds", 21601, "at most 21600 are taken"),
        ("AlgorithmSpecification.ContainerArguments", ["x" * 257], "ContainerArguments[0]: 257, at most 256"),
        ("AlgorithmSpecification.ContainerArguments", ["a\nb"], "is not of the form .*"),
        ("Environment", {"A-B": "1"}, "'A-B' is not of the form"),
        ("Environment", {"A": "x" * 513}, "Environment.A: 513, at most 512"),
        ("Environment", {f"A{n}": "" for n in range(101)}, "101, at most 100"),
        ("Environment", {"A": 1}, "Environment.A: its value is not text"),
        ("Environment", {1: "a"}, "value: 1, type: <class 'int'>"),
        ("HyperParameters", {"a" * 257: "1"}, "257, at most 256"),
        ("Tags", [{"Key": "a"}], 'Missing required parameter in Tags[0]: "Value"'),
        ("Tags", [{"Key": "a", "Value": "b!"}], "is not of the form"),
        ("StoppingCondition.MaxPendingTimeInSeconds", 60, "valid min value"),
        ("InputDataConfig", {}, "InputDataConfig, value: {}"),
    ],
)
def test_request_validation_finds_what_aws_would_refuse(path: str, value: Any, says: str) -> None:
    """Path, value, limit and source."""
    assert [line for line in objections(changed(body_of(CHECK), path, value)) if says in line] != []


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("Tags", [{"Key": "Größe:ä", "Value": "a b_c.d:/=+-@ ü"}]),
        ("Environment", {"A": "line\nline", "_B": ""}),
        ("HyperParameters", {"": ""}),
        ("ResourceConfig.TrainingPlanArn", "arn:aws:sagemaker:us-east-1:123456789012:training-plan/mine"),
    ],
)
def test_request_validation_accepts_what_aws_takes(path: str, value: Any) -> None:
    """The model's patterns are Java's, and are read as Java reads them."""
    assert objections(changed(body_of(CHECK), path, value)) == []


def test_no_secret_is_shown() -> None:
    """Values of environment and hyperparameters are counted."""
    long = changed(body_of(CHECK), "Environment", {"WANDB_API_KEY": "hunter2" * 100})
    wrong = long | {"HyperParameters": {"key": ["hunter2"]}}

    for body in (long, wrong):
        (line,) = objections(body)
        assert "hunter2" not in line


def test_a_long_value_is_shortened() -> None:
    """A message stays a line."""
    assert max(len(line) for line in objections(changed(body_of(CHECK), "RoleArn", "x" * 5000))) < 300


def test_every_pattern_of_the_model_is_understood() -> None:
    """A pattern that Python reads otherwise would refuse, or let through, in silence."""
    found = [shape.metadata.get("pattern") for shape in shapes(request_shape(), set())]
    patterns = [str(pattern) for pattern in found if pattern is not None]

    assert len(patterns) > 40
    assert [pattern for pattern in patterns if "\\p{" in translated(pattern).pattern] == []
