"""Whatever is not an answer of ParallelCluster's schema leaves the configuration not validated."""

from __future__ import annotations

import shlex
import stat
import sys
from pathlib import Path

import pytest

from tasks.parallelcluster import validation
from tasks.parallelcluster.validation import Validation, pcluster_python, validated

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


def program(path: Path, script: str) -> Path:
    """A program of /bin/sh."""
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def python_with(folder: Path, schema: str | None) -> Path:
    """A Python with a ParallelCluster 4.0.0 whose schema is this."""
    files = {**BOTOCORE, **({} if schema is None else {SCHEMA: schema})}
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return program(folder / "python", f'PYTHONPATH={folder} exec {shlex.quote(sys.executable)} -S "$@"')


def answer(folder: Path, schema: str | None) -> Validation:
    """Of that Python."""
    return validated("Region: x\n", "ml-cluster", python_with(folder, schema))


def test_without_parallelcluster_nothing_is_validated() -> None:
    """And the remedy is said."""
    found = validated("", "ml-cluster", None)

    assert ("", True) == (found.package, "Install aws-parallelcluster" in found.unknown)


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("exit 7", "exit code 7"),
        ("echo boom >&2; exit 1", "boom"),
        ("echo '{'", "no answer"),
        ("echo '{}'", "no answer"),
        ("echo '[]'", "no answer"),
        ('echo \'{"package": "3.16.1", "refused": [1]}\'', "no answer"),
        ("echo '{\"refused\": []}'", "no answer"),
        ('echo \'{"package": "3.16.1", "refused": []}\'; exit 1', "exit code 1"),
        ("kill -9 $$", "no answer"),
    ],
)
def test_what_is_no_answer_validates_nothing(tmp_path: Path, script: str, why: str) -> None:
    """A process that fails, is killed, or prints something else."""
    found = validated("", "ml-cluster", program(tmp_path / "python", script))

    assert ("", True) == (found.package, why in found.unknown), found


def test_a_validation_that_hangs_ends_at_its_deadline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With everything that it started."""
    monkeypatch.setattr(validation, "VALIDATION_S", 1)
    found = validated("", "ml-cluster", program(tmp_path / "python", "sleep 600 & sleep 600"))

    assert ("", True) == (found.package, "did not answer within 1 s" in found.unknown)


def test_a_python_without_the_package_validates_nothing(tmp_path: Path) -> None:
    """It was named, so it is said that it lacks the package."""
    python = program(tmp_path / "python", f'exec {shlex.quote(sys.executable)} -S "$@"')
    found = validated("", "ml-cluster", python)

    assert ("", True) == (found.package, "aws-parallelcluster is not installed" in found.unknown)


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

    assert ("", True) == (found.package, why in found.unknown), found


LOADS = "from marshmallow import ValidationError\nclass ClusterSchema:\n    def __init__(self, cluster_name): pass\n"


def test_what_the_schema_refuses_is_said_in_its_words(tmp_path: Path) -> None:
    """With the path of each key."""
    refusal = "{'Scheduling': {'SlurmQueues': {0: {'Efa': ['Unknown field.']}}}, '_schema': ['Too new.']}"
    found = answer(tmp_path, f"{LOADS}    def load(self, text): raise ValidationError({refusal})\n")

    refused = ("Scheduling.SlurmQueues.0.Efa: Unknown field.", "Too new.")
    assert Validation("aws-parallelcluster 4.0.0", refused) == found


CALLS = """
        import socket
        from botocore.client import BaseClient
        for call in (BaseClient()._make_api_call, lambda: socket.create_connection(('127.0.0.1', 9))):
            try:
                call()
            except Exception:
                continue
            raise AssertionError('AWS was called')
"""


def test_what_the_schema_accepts_is_validated_and_asks_nobody(tmp_path: Path) -> None:
    """Each call of AWS and each connection fails; noise on stdout is no part of the answer."""
    found = answer(tmp_path, f"{LOADS}    def load(self, text):\n        print('noise'){CALLS}")

    assert Validation("aws-parallelcluster 4.0.0") == found


def test_the_python_beside_the_pcluster_on_path_is_used(tmp_path: Path) -> None:
    """Also through a link; without one the schema is not asked."""
    path = {"PATH": str(tmp_path)}
    assert pcluster_python(path) is None
    (tmp_path / "venv").mkdir()
    (tmp_path / "pcluster").symlink_to(program(tmp_path / "venv" / "pcluster", "exit 0"))
    assert pcluster_python(path) is None
    assert program(tmp_path / "venv" / "python", "exit 0") == pcluster_python(path)
