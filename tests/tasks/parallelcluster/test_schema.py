"""aws-parallelcluster itself, in an environment of its own: its schema, and --help of its commands. AWS is never asked."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from tasks.parallelcluster.template import cluster_commands
from tasks.parallelcluster.validation import TESTED, Validation, pcluster_python, validated
from tests.tasks.parallelcluster.clusters import VARIABLES, configuration

pytestmark = pytest.mark.needs("pcluster")
PACKAGE = f"aws-parallelcluster {TESTED}"


def answer(text: str) -> Validation:
    """Of the real package."""
    return validated(text, "ml-cluster", pcluster_python(os.environ))


@pytest.mark.parametrize("instance", ["p5.48xlarge", "g5.xlarge"])
def test_the_schema_accepts_what_is_written(instance: str) -> None:
    """With EFA and without."""
    assert Validation(PACKAGE) == answer(configuration(INSTANCE=instance))


def test_the_schema_refuses_a_key_that_it_does_not_have() -> None:
    """A document of another version: the path and the words are ParallelCluster's."""
    found = answer(
        configuration().replace("ubuntu2204", "centos9").replace("\nMonitoring:", "\nMonitorings:")
    )

    assert PACKAGE == found.package
    assert any(line.startswith("Image.Os: Must be one of: ") for line in found.refused)
    assert "Monitorings: Unknown field." in found.refused


@pytest.mark.parametrize("verb", ["create-cluster", "list-clusters", "describe-cluster", "ssh"])
def test_the_commands_are_those_of_its_help(verb: str) -> None:
    """Every option that is printed; `-i` of `pcluster ssh` is one of ssh, which gets what pcluster does not know."""
    help_text = subprocess.run(
        ("pcluster", verb, "--help"), capture_output=True, text=True, check=True
    ).stdout
    lines = cluster_commands("ml-cluster", Path("c.yaml"), VARIABLES).splitlines()
    printed = [words for line in lines for words in re.findall(rf"pcluster {verb} ([^|\n]*)", line)]
    options = {word for words in printed for word in shlex.split(words) if re.match("--?[a-z]", word)}

    assert printed
    assert set() == {
        option for option in options if not re.search(rf"(^|[\s\[]){option}[\s,\]]", help_text)
    } - {"-i"}
    assert ("-i" in options) == (verb == "ssh") == ("appended to the end of the ssh command" in help_text)
