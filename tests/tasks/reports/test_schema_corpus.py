"""The JSON Schemas of gate files and policies, and their readers: one corpus, one answer, except for what only a reader can refuse."""

from __future__ import annotations

import copy
import json
import tomllib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from pydantic import ValidationError

from checks.policy import load
from checks.value_types import DecodeError
from tasks.gate_file.model import Gate
from tasks.gate_file.references import options_from
from tasks.launchers.base import LaunchRejected
from tasks.launchers.registry import launcher_for
from tasks.reports.schema import SCHEMAS

ROOT = Path(__file__).resolve().parents[3]
GATES = sorted((ROOT / "deployments" / "gates").glob("*.toml"))
POLICIES = sorted((ROOT / "deployments" / "policies").glob("*.toml"))
# Between them they have every launcher, and tables of every kind.
MUTATED = ("gates/sagemaker-p5.toml", "gates/slurm-p5.toml", "policies/local.toml")
# 1.0 is left out: JSON's data model has one number for 1 and 1.0, so no schema can tell them apart.
INTRUDERS: tuple[Any, ...] = (True, -1, 1.5, 10**9, "", "nonsense", {}, [True], "x" * 5000)
# What only a reader can refuse, because it is about two values, a file or a meaning, with the words of the refusal. Besides these
# the reader of gate files looks at what the file names: the instance type, the policy, the checks.
READER_ALONE = {
    "gate": ("give either command or model_trainer",),
    "policy": (
        "has no rules, so that whatever it measures would pass",
        "the rule has no threshold and no other condition",
        "the threshold has no source",
        '"same" compares subjects: set over = "cluster"',
    ),
}
# More of these, each as a change of local.toml: a dotted key, its value, and the words of the refusal.
READER_ALONE_CASES: tuple[tuple[str, Any, str], ...] = (
    ("training.model_trainer", "a:b", "give either command or model_trainer"),
    ("training.command", ["python", "{here}/train.py"], "torchrun starts Python itself"),
    ("training.command", ["{python}", "-u", "train.py"], "torchrun starts Python itself"),
    ("checks.deadline_s", 3600.0, "does not fit into max_runtime_minutes"),
    ("cluster.declared.spares", 2, "spares must be fewer than nodes"),
    ("remediation", {"mode": "act"}, "needs machines that can be changed"),
    ("remediation", {"resume": True, "machines": "slurm"}, "would both start the training again"),
    ("notify", {"order": ["slack"], "owner": ["log"]}, "slack"),
    ("notify", {"order": ["log"], "owner": ["pagerduty"]}, "pagerduty"),
)


def validator(kind: str) -> jsonschema.Draft202012Validator:
    """Of the committed schema."""
    return jsonschema.Draft202012Validator(json.loads(SCHEMAS[kind][0].read_text()))


def refused_gate(document: Any) -> str:
    """Why the reader of gate files refuses the table; "" if it takes it."""
    try:
        gate = Gate.model_validate_json(json.dumps(document))
        options = options_from(ROOT / "deployments" / "gates", gate.cluster.options)
        launcher_for(gate.cluster.launcher, options, Path("/tmp/x"))
    except ValidationError as error:
        return "; ".join(f"{one['loc']}: {one['msg']}" for one in error.errors())
    except LaunchRejected as error:
        return str(error)
    return ""


def refused_policy(document: Any) -> str:
    """The same of the reader of policies."""
    try:
        load(document)
    except DecodeError as error:
        return str(error)
    return ""


READERS: dict[str, Callable[[Any], str]] = {"gate": refused_gate, "policy": refused_policy}


def kind_of(path: Path) -> str:
    """By the folder."""
    return "gate" if path.parent.name == "gates" else "policy"


@pytest.mark.parametrize("kind", list(SCHEMAS))
def test_the_committed_schema_is_current_and_a_schema(kind: str) -> None:
    """`python -m tasks.reports.schema` writes it."""
    path, make = SCHEMAS[kind]

    assert path.read_text() == make()
    jsonschema.Draft202012Validator.check_schema(json.loads(path.read_text()))


@pytest.mark.parametrize("path", [*GATES, *POLICIES], ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_shipped_file_is_taken_by_both_and_names_its_schema(path: Path) -> None:
    """The first line leads an editor to the file."""
    text, kind = path.read_text(), kind_of(path)
    document = tomllib.loads(text)
    named = text.splitlines()[0].removeprefix("#:schema ")

    assert (path.parent / named).resolve() == SCHEMAS[kind][0]
    assert [] == [error.message for error in validator(kind).iter_errors(document)]
    assert "" == READERS[kind](document)


@pytest.mark.parametrize(("key", "value", "words"), READER_ALONE_CASES)
def test_gate_file_reader_refuses_what_the_schema_accepts(key: str, value: Any, words: str) -> None:
    """The schema takes it; nobody may believe that an editor's silence means that a gate file is right."""
    document = tomllib.loads((ROOT / "deployments" / "gates" / "local.toml").read_text())
    *tables, last = key.split(".")
    table = document
    for name in tables:
        table = table[name]
    table[last] = value
    if "start the training again" in words:
        document["cluster"] = {**document["cluster"], "launcher": "slurm", "options": {"auto_resume": True}}

    assert validator("gate").is_valid(document)
    assert words in refused_gate(document)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every path in a document; of a list the first entry stands for all."""
    if path:
        yield path
    if isinstance(value, dict):
        for key, item in value.items():
            yield from places(item, (*path, key))
    elif isinstance(value, list) and value:
        yield from places(value[0], (*path, 0))


def broken(good: Any, intruders: Sequence[Any] = INTRUDERS) -> Iterator[tuple[str, Any]]:
    """Documents that are one step from the good one."""
    for path in places(good):
        name = ".".join(map(str, path))
        for value in intruders:
            made, inner = copied(good, path)
            inner[path[-1]] = value
            yield f"{name} = {value!r:.20}", made
        made, inner = copied(good, path)
        del inner[path[-1]]
        yield f"{name} removed", made
        if isinstance(inner, dict):
            made, inner = copied(good, path)
            inner[f"{path[-1]}x"] = 1
            yield f"{name}x = 1", made


def copied(good: Any, path: tuple[Any, ...]) -> tuple[Any, Any]:
    """A copy of the document, and what holds the path's last key in it."""
    inner = made = copy.deepcopy(good)
    for key in path[:-1]:
        inner = inner[key]
    return made, inner


@pytest.mark.parametrize("name", MUTATED)
def test_schema_and_reader_refuse_the_same(name: str) -> None:
    """The schema refuses nothing that the reader takes; what only the reader refuses is in READER_ALONE."""
    path = ROOT / "deployments" / name
    kind = kind_of(path)
    check, reader = validator(kind), READERS[kind]
    too_strict, too_lax, refused = [], [], 0
    good = tomllib.loads(path.read_text())
    if kind == "policy":
        good["checks"] = dict(list(good["checks"].items())[:3])
    for step, document in broken(good):
        valid, why = check.is_valid(document), reader(document)
        refused += not valid
        if not valid and not why:
            too_strict.append(step)
        if valid and why and not any(words in why for words in READER_ALONE[kind]):
            too_lax.append(f"{step}: {why:.150}")

    assert refused > 100
    assert [] == too_strict
    assert [] == too_lax
