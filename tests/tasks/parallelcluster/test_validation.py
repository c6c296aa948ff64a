"""Whatever is not an answer of ParallelCluster's schema leaves the configuration not validated."""

from __future__ import annotations

import shlex
import stat
import sys
from pathlib import Path

import pytest

from tasks.parallelcluster.validation import (
    VARIABLE,
    InterpreterError,
    State,
    Validation,
    pcluster_python,
    validated,
)

# Stand-ins of the three packages that the schema needs, in another version than that which is tested for real.
MARSHMALLOW = """
class ValidationError(Exception):
    def __init__(self, messages):
        self.messages = messages
"""
BOTOCORE = {
    "botocore/__init__.py": "",
    "botocore/client.py": "class BaseClient:\n    def _make_api_call(self):\n        raise AssertionError('AWS was called')\n",
    "botocore/exceptions.py": "class EndpointConnectionError(Exception):\n    def __init__(self, endpoint_url): pass\n",
    "yaml/__init__.py": "def safe_load(text):\n    return text\n",
    "marshmallow/__init__.py": MARSHMALLOW,
    "pcluster/__init__.py": "",
    "pcluster/schemas/__init__.py": "",
    "aws_parallelcluster-4.0.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: aws-parallelcluster\nVersion: 4.0.0\n",
}
SCHEMA = "pcluster/schemas/cluster_schema.py"


def program(path: Path, script: str) -> str:
    """A program of /bin/sh."""
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def python_with(folder: Path, schema: str | None) -> str:
    """A Python with a ParallelCluster 4.0.0 whose schema is this."""
    files = {**BOTOCORE, **({} if schema is None else {SCHEMA: schema})}
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return program(folder / "python", f'PYTHONPATH={folder} exec {shlex.quote(sys.executable)} -S "$@"')


def answer(folder: Path, schema: str | None) -> Validation:
    """Of that Python."""
    return validated("Region: x\n", "ml-cluster", python_with(folder, schema), 20)


def test_without_parallelcluster_nothing_is_validated() -> None:
    """And the remedy is said."""
    found = validated("", "ml-cluster", None)

    assert (State.NOT_VALIDATED, "") == (found.state, found.package)
    assert "--pcluster-python" in found.problems[0]


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("exit 7", "exit code 7"),
        ("echo boom >&2; exit 1", "boom"),
        ("echo '{'", "no answer"),
        ("echo '{}'", "no answer"),
        ("echo '[]'", "no answer"),
        ('echo \'{"package": "3.16.1", "schema": [1], "rules": null}\'', "no answer"),
        ('echo \'{"schema": [], "rules": null}\'', "no answer"),
        ('echo \'{"package": "3.16.1", "schema": [], "rules": null}\'; exit 1', "exit code 1"),
        ("kill -9 $$", "no answer"),
    ],
)
def test_what_is_no_answer_validates_nothing(tmp_path: Path, script: str, why: str) -> None:
    """A process that fails, is killed, or prints something else."""
    found = validated("", "ml-cluster", program(tmp_path / "python", script))

    assert State.NOT_VALIDATED is found.state
    assert why in found.problems[0]


def test_a_validation_that_hangs_ends_at_its_deadline(tmp_path: Path) -> None:
    """With everything that it started."""
    found = validated("", "ml-cluster", program(tmp_path / "python", "sleep 600 & sleep 600"), 1)

    assert (State.NOT_VALIDATED, True) == (found.state, "did not answer within 1 s" in found.problems[0])


def test_a_python_without_the_package_validates_nothing(tmp_path: Path) -> None:
    """It was named, so it is said that it lacks the package."""
    python = program(tmp_path / "python", f'exec {shlex.quote(sys.executable)} -S "$@"')
    found = validated("", "ml-cluster", python)

    assert State.NOT_VALIDATED is found.state
    assert "aws-parallelcluster is not installed" in found.problems[0]


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        (None, "cluster_schema"),
        ("class OtherSchema: pass", "ClusterSchema"),
        ("class ClusterSchema:\n    def __init__(self, name): pass", "cluster_name"),
        (
            "class ClusterSchema:\n    def __init__(self, cluster_name): pass\n    def load(self, text): 1 / 0",
            "division",
        ),
        ("import sys; sys.exit(0)", "no answer"),
    ],
)
def test_a_version_with_another_schema_validates_nothing(
    tmp_path: Path, schema: str | None, why: str
) -> None:
    """What could not be asked has accepted nothing."""
    found = answer(tmp_path, schema)

    assert State.NOT_VALIDATED is found.state
    assert why in found.problems[0]


LOADS = "from marshmallow import ValidationError\nclass ClusterSchema:\n    def __init__(self, cluster_name): pass\n"


def test_what_the_schema_refuses_is_said_in_its_words(tmp_path: Path) -> None:
    """With the path of each key."""
    refusal = "{'Scheduling': {'SlurmQueues': {0: {'Efa': ['Unknown field.']}}}, '_schema': ['Too new.']}"
    found = answer(tmp_path, f"{LOADS}    def load(self, text): raise ValidationError({refusal})\n")

    assert Validation(
        State.REFUSED, "aws-parallelcluster 4.0.0", ("Scheduling.SlurmQueues.0.Efa: Unknown field.", "Too new."),
    ) == found  # fmt: skip


def test_a_version_whose_rules_are_elsewhere_is_validated_by_its_schema(tmp_path: Path) -> None:
    """And says that the rules were not run; noise on stdout is no part of the answer."""
    found = answer(
        tmp_path, f"{LOADS}    def load(self, text):\n        print('noise')\n        return object()\n"
    )

    assert Validation(State.PASSED, "aws-parallelcluster 4.0.0") == found


RULES = """
import enum, socket, boto
class Level(enum.Enum):
    ERROR = 1
    WARNING = 2
class Result:
    def __init__(self, level, message):
        self.level, self.message = level, message
class Rule:
    def execute(self):
        return self.results()
class Passes(Rule):
    def results(self): return []
class Refuses(Rule):
    def results(self): return [Result(Level.ERROR, 'Prolog is denied')]
class Warns(Rule):
    def results(self): return [Result(Level.WARNING, 'costs more')]
class Connects(Rule):
    def results(self):
        try:
            socket.create_connection(('127.0.0.1', 9))
        except Exception:
            return [Result(Level.ERROR, 'no network')]
class Calls(Rule):
    def results(self):
        try:
            boto.BaseClient()._make_api_call()
        except Exception:
            return [Result(Level.ERROR, 'no credentials')]
class Resource:
    def __init__(self, *rules):
        self.rules, self._validators = rules, []
    def _nested_resources(self): return []
    def _register_validators(self, context): self._validators += [(rule, {}) for rule in self.rules]
"""


@pytest.mark.parametrize(("more", "state"), [("", State.PASSED), (", Refuses", State.REFUSED)])
def test_rules_that_need_aws_are_counted_and_the_others_decide(
    tmp_path: Path, more: str, state: State
) -> None:
    """A rule that takes a failed connection for an answer does not get to see one."""
    (tmp_path / "boto.py").write_text("from botocore.client import BaseClient\n")
    load = f"    def load(self, text): return Resource(Passes, Warns, Connects, Calls{more})\n"
    found = answer(tmp_path, f"{RULES}{LOADS}{load}")

    assert (state, 1, ("Warns: costs more",), ("Connects", "Calls")) == (
        found.state, found.passed, found.warnings, found.unasked,
    )  # fmt: skip
    assert ("Refuses: Prolog is denied",) * bool(more) == found.problems


@pytest.mark.parametrize(
    ("folder", "lines"),
    [
        ("plain", "#!{python}"),
        ("with space", '#!/bin/sh\n\'\'\'exec\' "{python}" "$0" "$@"'),
        ("with space", "#!/usr/bin/env python"),
    ],
    ids=["pip", "a long path", "env"],
)
def test_the_python_of_the_pcluster_on_path_is_found(tmp_path: Path, folder: str, lines: str) -> None:
    """Whatever an installer writes into its first lines."""
    python, script = tmp_path / folder / "python", tmp_path / "bin" / "pcluster"
    for path in (python, script):
        path.parent.mkdir()
    program(python, "exit 0")
    script.write_text(f"{lines.format(python=python)}\nimport sys\n")
    script.chmod(0o755)

    assert str(python) == pcluster_python("", {"PATH": f"{script.parent}:{python.parent}:/usr/bin:/bin"})


@pytest.mark.parametrize("content", [b"\x7fELF\x02", b"", b"#!/bin/bash\nexec x\n", b"#!'\n", b"#!\n"])
def test_a_pcluster_that_is_no_python_script_has_none(tmp_path: Path, content: bytes) -> None:
    """Then the operator has to name the Python."""
    script = tmp_path / "pcluster"
    script.write_bytes(content)
    script.chmod(0o755)

    assert pcluster_python("", {"PATH": str(tmp_path)}) is None


def test_the_option_counts_before_the_variable_and_that_before_the_path(tmp_path: Path) -> None:
    """Relative names and names on PATH are taken as well; a name without a program is refused."""
    first, second = program(tmp_path / "first", "exit 0"), program(tmp_path / "second", "exit 0")
    environment = {VARIABLE: "second", "PATH": str(tmp_path)}

    assert first == pcluster_python(first, environment)
    assert second == pcluster_python("", environment)
    assert pcluster_python("", {"PATH": str(tmp_path)}) is None
    with pytest.raises(InterpreterError, match="--pcluster-python"):
        pcluster_python("/nowhere/python", environment)
    with pytest.raises(InterpreterError, match=VARIABLE):
        pcluster_python("", {VARIABLE: str(tmp_path), "PATH": ""})
