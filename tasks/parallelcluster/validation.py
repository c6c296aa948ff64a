"""Asks aws-parallelcluster's own schema about a configuration, in a process of its own, without a call to AWS.

InterpreterError     the Python that the operator named is none
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from checks.check import CheckError
from checks.documents.decode import parse_json
from checks.process.tool import ToolResult, run
from checks.value_types import DecodeError

OPTION, VARIABLE = "--pcluster-python", "PRELAUNCH_PCLUSTER_PYTHON"
VALIDATION_S = 60.0
TESTED = "3.16.1"
INSTALLATION = (
    f"Install aws-parallelcluster (tested: {TESTED}) into an environment of its own, and name its Python with {OPTION} or {VARIABLE}, "
    "or have its `pcluster` on PATH."
)
PROGRAM = Path(__file__).with_name("schema_process.py")
MOST_TEXT = 1 << 20


class InterpreterError(Exception):
    """The option or the variable names no program. The message says which."""


class State(StrEnum):
    """What is known about a configuration."""

    PASSED = "passed"
    REFUSED = "refused"
    NOT_VALIDATED = "not_validated"


@dataclass(frozen=True)
class Validation:
    """`package` is what validated, "" for nothing; `problems` are why it was refused, or why nothing validated it.

    `warnings` and `unasked` are about ParallelCluster's rules beyond the schema: what they remark, and those that ask AWS, which
    were not run. `passed` is how many passed; None where this version's rules could not be run at all.
    """

    state: State
    package: str = ""
    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    unasked: tuple[str, ...] = ()
    passed: int | None = None


def pcluster_python(option: str, environment: Mapping[str, str]) -> str | None:
    """The Python of aws-parallelcluster: as named, or that of the `pcluster` on PATH, or None. Raises InterpreterError."""
    for name, value in ((OPTION, option), (VARIABLE, environment.get(VARIABLE, ""))):
        if value:
            found = shutil.which(value, path=environment.get("PATH", os.defpath))
            if found is None:
                raise InterpreterError(
                    f"{name} is {ascii(value)[:80]}, which is no program that can be started."
                )
            return os.path.abspath(found)
    path = environment.get("PATH", os.defpath)
    script = shutil.which("pcluster", path=path)
    return _interpreter_of(Path(script), path) if script else None


def validated(
    text: str, cluster_name: str, python: str | None, deadline_s: float = VALIDATION_S
) -> Validation:
    """The schema's answer. Whatever is not an answer, also after the deadline, is NOT_VALIDATED."""
    if python is None:
        return _unvalidated(f"there is no aws-parallelcluster here. {INSTALLATION}")
    with tempfile.TemporaryDirectory(prefix="prelaunch-cluster-") as folder:
        file = Path(folder) / "cluster.yaml"
        file.write_text(text, encoding="utf-8")
        try:
            result = run(
                (python, str(PROGRAM), str(file), cluster_name),
                deadline_s,
                {"PYTHONPATH": "", "PYTHONDONTWRITEBYTECODE": "1"},
            )
        except CheckError as error:
            return _unvalidated(str(error))
    if result.code is None:
        return _unvalidated(f"{python} did not answer within {deadline_s:g} s")
    return _answer(result, python)


def _interpreter_of(script: Path, path: str) -> str | None:
    """What the first line of a script of pip names; a path with spaces is in the second line."""
    try:
        with script.open("rb") as file:
            first, second = (file.readline(1000).decode("utf-8", "replace") for _ in range(2))
        if not first.startswith("#!"):
            return None
        words = shlex.split(first[2:])
        if words and words[0] == "/bin/sh" and "exec" in second:
            words = shlex.split(second.replace("'''exec'", "", 1))
        if words and Path(words[0]).name == "env":
            words = [shutil.which(words[-1], path=path) or ""]
    except (OSError, ValueError):
        return None
    return words[0] if words and re.match("python|pypy", Path(words[0]).name) else None


def _answer(result: ToolResult, python: str) -> Validation:
    ended = f"{python} ended with exit code {result.code} and no answer"
    complaint = result.stderr.strip().rpartition("\n")[2]
    try:
        document = parse_json(result.stdout, MOST_TEXT) if result.whole and result.code == 0 else None
    except DecodeError:
        document = None
    if not isinstance(document, Mapping):
        return _unvalidated(f"{ended}: {complaint}" if complaint else ended)
    version = document.get("package")
    package = f"aws-parallelcluster {version}" if isinstance(version, str) else ""
    schema, unknown = _texts(document.get("schema")), document.get("unknown")
    if schema is None or not package:
        return _unvalidated(unknown if isinstance(unknown, str) else ended, package)
    if schema:
        return Validation(State.REFUSED, package, schema)
    return _with_rules(package, document.get("rules"))


def _with_rules(package: str, rules: object) -> Validation:
    """The schema accepts the configuration; a rule may still refuse it."""
    if not isinstance(rules, Mapping):
        return Validation(State.PASSED, package)
    errors, warnings, unasked, passed = (
        _texts(rules.get(name)) or () for name in ("error", "warning", "unasked", "passed")
    )
    state = State.REFUSED if errors else State.PASSED
    return Validation(state, package, errors, warnings, tuple(dict.fromkeys(unasked)), len(passed))


def _texts(value: object) -> tuple[str, ...] | None:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        return None
    return tuple(value)


def _unvalidated(reason: str, package: str = "") -> Validation:
    return Validation(State.NOT_VALIDATED, package, (reason,))
