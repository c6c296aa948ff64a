"""aws-parallelcluster itself, in an environment of its own: its schema and rules, and --help of its commands. AWS is never asked."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from tasks.parallelcluster.commands import cluster_commands
from tasks.parallelcluster.document import cluster_document, cluster_yaml, yaml_text
from tasks.parallelcluster.settings import ClusterSettings, Part
from tasks.parallelcluster.validation import TESTED, State, Validation, pcluster_python, validated
from tests.tasks.parallelcluster.clusters import SHA256, cluster

pytestmark = pytest.mark.needs("pcluster")
PACKAGE = f"aws-parallelcluster {TESTED}"
EVERYTHING = {
    "fsx": "2400",
    "data_repository": "s3://my-bucket/data",
    "ami": "ami-0123456789abcdef0",
    "os": "ubuntu2404",
}
CLUSTERS = {
    "all variables": cluster(),
    "a new file system": cluster(EVERYTHING),
    "a file system that exists": cluster(fsx="fs-0123456789abcdef0", placement_group="pg-1"),
    "a capacity block": cluster(capacity_block=True, head_subnet="subnet-01234567"),
    "nothing but nodes": cluster(without=frozenset(Part), instance_type="g5.xlarge", nodes="1"),
}


def answer(text: str) -> Validation:
    """Of the real package."""
    return validated(text, "ml-cluster", pcluster_python("", os.environ))


@pytest.mark.parametrize("settings", CLUSTERS.values(), ids=CLUSTERS)
def test_the_schema_accepts_what_is_written(settings: ClusterSettings) -> None:
    """So do its rules that need no answer of AWS; most of them are about names, storage and Slurm's settings."""
    found = answer(cluster_yaml(settings, SHA256))

    assert (State.PASSED, PACKAGE, ()) == (found.state, found.package, found.problems)
    assert found.passed is not None
    assert found.passed > 20
    assert "InstanceTypeValidator" in found.unasked


def test_the_schema_refuses_a_key_that_it_does_not_have() -> None:
    """A document of another version: the path and the words are ParallelCluster's."""
    document = {
        **cluster_document(cluster(), SHA256),
        "Monitorings": {"Level": 9},
        "Image": {"Os": "centos9"},
    }
    found = answer(yaml_text(document))

    assert (State.REFUSED, PACKAGE) == (found.state, found.package)
    assert any(line.startswith("Image.Os: Must be one of: ") for line in found.problems)
    assert "Monitorings: Unknown field." in found.problems


def test_the_rules_refuse_a_prolog_among_the_settings_of_slurm() -> None:
    """This is why the prolog is in a folder; the schema alone accepts it."""
    text = cluster_yaml(cluster(), SHA256).replace("PrologFlags: Alloc", "Prolog: /opt/prolog")
    assert "Prolog: /opt/prolog" in text
    found = answer(text)

    assert State.REFUSED is found.state
    assert any("is not allowed: Prolog" in line for line in found.problems)


@pytest.mark.parametrize("verb", ["create-cluster", "list-clusters", "describe-cluster", "ssh"])
def test_the_commands_are_those_of_its_help(verb: str) -> None:
    """Every option that is printed; `-i` of `pcluster ssh` is one of ssh, which gets what pcluster does not know."""
    help_text = subprocess.run(
        ("pcluster", verb, "--help"), capture_output=True, text=True, check=True, timeout=60
    ).stdout
    lines = [command.line for command in cluster_commands(cluster(EVERYTHING), Path("c.yaml"), False)]
    printed = [words for line in lines for words in re.findall(rf"pcluster {verb} ([^|\n]*)", line)]
    options = {word for words in printed for word in shlex.split(words) if re.match("--?[a-z]", word)}

    assert printed
    assert set() == {
        option for option in options if not re.search(rf"(^|[\s\[]){option}[\s,\]]", help_text)
    } - {"-i"}
    assert ("-i" in options) == (verb == "ssh") == ("appended to the end of the ssh command" in help_text)
