"""Reads policy files, the one that an operator named or the shipped one for an instance type, and baselines.

A file of another kind (a report, a baseline, a gate file) is recognised by the keys at its top, so that the error names its kind.
"""

from __future__ import annotations

import functools
import os
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

from checks.command_line import InputError
from checks.documents.decode import parse_json
from checks.documents.nearest import nearest
from checks.facts.builtin import builtin
from checks.facts.instances import types_text
from checks.facts.plausibility import impossible
from checks.judge.baseline.bands import BASELINE_BYTES, Baseline
from checks.judge.baseline.bands import load as load_baseline
from checks.model import Declared
from checks.policy import Policy, load
from checks.value_types import DecodeError

MOST_FILE_BYTES = 1 << 24
VERDICT, A_GATE_FILE = "a verdict", "a gate file"
# The first whose keys are all there. Each set is of no other kind.
KINDS = (
    ("a report", frozenset({"schema_version", "gate_id", "declared", "plan"})),
    ("a baseline", frozenset({"schema_version", "groups", "left_out", "reports"})),
    (VERDICT, frozenset({"answer", "findings", "digests"})),
    ("a policy", frozenset({"instance_types", "on_warn", "checks"})),
    (A_GATE_FILE, frozenset({"cluster", "policy", "training"})),
    (
        "a report of another tool, which prelaunch explain reads",
        frozenset({"cluster_info", "cluster_summary", "nodes"}),
    ),
)


def document_kind(data: bytes) -> str:
    """Such as "a baseline"; "" for what nobody here writes, and for more bytes than are worth a look."""
    if len(data) > MOST_FILE_BYTES:
        return ""
    keys = _keys(data)
    return next((name for name, needed in KINDS if needed <= keys), "")


def _keys(data: bytes) -> frozenset[str]:
    try:
        text = data.decode("utf-8")
        value = parse_json(text, MOST_FILE_BYTES) if text.lstrip()[:1] == "{" else tomllib.loads(text)
    except (DecodeError, ValueError, RecursionError):
        return frozenset()
    return frozenset(value) if isinstance(value, dict) else frozenset()


SHIPPED = Path(__file__).resolve().parents[2] / "deployments" / "policies"
POLICY_BYTES = 1 << 20
LEARN = "prelaunch fleet baseline learn REPORT... --out FILE"


def options_from(here: Path, options: Mapping[str, object]) -> dict[str, object]:
    """A launcher's options; a relative path of a file (`*_file`) is one from the gate file's folder, as every other path in it. In
    lists {here} is that folder, as in the training's command.
    """

    def located(key: str, value: object) -> object:
        if isinstance(value, str):
            return str(here / Path(value).expanduser()) if value and key.endswith("_file") else value
        return [item.replace("{here}", str(here)) for item in value] if isinstance(value, tuple) else value

    return {key: located(key, value) for key, value in options.items()}


def is_near(path: Path, here: Path) -> bool:
    """Whether both lie in one folder of gate files, policies and schemas, which may be moved together."""
    return path.parent.parent in (here, here.parent)


def _copies(path: Path, here: Path) -> Iterator[Path]:
    """Where `prelaunch site examples` puts a copy of a shipped file, seen from the folder of a gate file: beside it first."""
    if path.is_relative_to(SHIPPED.parent):
        inner = path.relative_to(SHIPPED.parent)
        yield here.parent / inner
        yield from (folder / SHIPPED.parent.name / inner for folder in (here, *here.parents))


def copy_of(path: Path, here: Path) -> Path:
    """The user's copy of a shipped file; without one the file itself."""
    return next((copy for copy in _copies(path, here) if copy.is_file()), path)


def reference(path: Path, here: Path) -> str:
    """How a file in `here` names another one: relative where both are moved together, else from the root."""
    path = path.expanduser().absolute()
    copy = copy_of(path, here)
    together = copy in _copies(path, here) or is_near(copy, here) or copy.is_relative_to(here)
    return os.path.relpath(copy, here) if together else str(copy)


def read_policy(path: Path) -> Policy:
    """The policy in a TOML or JSON file. Raises InputError, also for a floor above what a type's parts can do."""
    data = _bytes_of(path, POLICY_BYTES, "Name another policy file.")
    try:
        return _policy(data, path.suffix.lower() == ".json")
    except DecodeError as error:
        document = document_kind(data)
        if document and document != "a policy":
            raise InputError(path, f"it is {document}, not a policy. Name another file.") from error
        raise InputError(path, error.reason, error.path, error.nearest) from error
    except (ValueError, RecursionError) as error:
        raise InputError(path, f"it is not valid TOML ({error})"[:300]) from error


def policies_in(folder: Path) -> tuple[str, ...]:
    """The names of the policy files of a folder; none if it cannot be read."""
    try:
        paths = sorted(path for path in folder.glob("*.toml") if path.is_file())
        return tuple(path.name for path in paths if document_kind(path.read_bytes()) == "a policy")
    except OSError:
        return ()


def default_policy(instance_type: str, declared: Declared | None = None) -> tuple[Path, Policy]:
    """The shipped policy that was written for this type, the first by name; `declared` may describe an own one. Raises InputError."""
    instance_types: list[str] = []
    shipped: list[str] = []
    for path in sorted(SHIPPED.glob("*.toml")):
        policy = read_policy(path)
        types = policy.instance_types
        if builtin().are_for(types, declared) if declared is not None else instance_type in types:
            return path, policy
        instance_types += policy.instance_types
        shipped.append(f"{path.name} is for {types_text(policy.instance_types, instance_type)}")
    message = f"no shipped policy was written for {instance_type:.64}: {'; '.join(shipped)}. Give one with --policy."
    raise InputError(SHIPPED, message, "instance_types", nearest(instance_type, instance_types))


@functools.lru_cache(maxsize=32)  # a policy cannot be changed, and reading the largest takes 0.03 s
def _policy(data: bytes, is_json: bool) -> Policy:
    if len(data) > POLICY_BYTES:
        raise DecodeError(f"more than the {POLICY_BYTES} bytes that are read")
    policy = load(parse_json(data, POLICY_BYTES) if is_json else tomllib.loads(data.decode("utf-8")))
    facts = builtin()
    for path, reason in impossible(policy, facts, facts.expected.rooflines):
        raise DecodeError(f"{reason}: no healthy node would pass", path)
    return policy


def read_baseline(path: Path) -> Baseline:
    """The baseline in a file. Raises InputError."""
    data = _bytes_of(path, BASELINE_BYTES, f"Make one: {LEARN}.")
    try:
        return load_baseline(data)
    except DecodeError as error:
        document = document_kind(data)
        if document not in ("", "a baseline"):
            raise InputError(path, f"it is {document}, not a baseline. Learn one: {LEARN}.") from error
        raise InputError(path, f"it is not a baseline: {error.reason}.", error.path, error.nearest) from error


def _bytes_of(path: Path, most: int, remedy: str) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(most + 1)
    except OSError as error:
        raise InputError(path, f"it cannot be read ({error.strerror}). {remedy}") from error
