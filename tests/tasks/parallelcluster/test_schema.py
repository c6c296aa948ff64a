"""aws-parallelcluster itself, in an environment of its own: its schema, and --help of its commands. AWS is never asked."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from tasks.parallelcluster.template import cluster_commands
from tests.tasks.parallelcluster.clusters import VARIABLES, configuration

pytestmark = pytest.mark.needs("pcluster")
LOADS = """
import asyncio, sys, yaml
from pcluster.schemas.cluster_schema import ClusterSchema
asyncio.set_event_loop(asyncio.new_event_loop())
ClusterSchema(cluster_name="ml-cluster").load(yaml.safe_load(sys.stdin))
"""


@pytest.mark.parametrize("instance", ["p5.48xlarge", "g5.xlarge"])
def test_the_schema_accepts_what_is_written(instance: str) -> None:
    """With EFA and without."""
    python = Path(str(shutil.which("pcluster"))).resolve().with_name("python")
    nobody = {"AWS_DEFAULT_REGION": "us-east-1", "AWS_EC2_METADATA_DISABLED": "true"}
    text = configuration(INSTANCE=instance)
    subprocess.run((python, "-c", LOADS), input=text, text=True, env=nobody, check=True)


@pytest.mark.parametrize("verb", ["create-cluster", "list-clusters", "describe-cluster", "ssh"])
def test_the_commands_are_those_of_its_help(verb: str) -> None:
    """Every option that is printed; `-i` of `pcluster ssh` is one of ssh, which gets what pcluster does not know."""
    argv = ("pcluster", verb, "--help")
    help_text = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    lines = cluster_commands("ml-cluster", Path("c.yaml"), VARIABLES).splitlines()
    printed = [words for line in lines for words in re.findall(rf"pcluster {verb} ([^|\n]*)", line)]
    options = {word for words in printed for word in shlex.split(words) if re.match("--?[a-z]", word)}

    assert printed
    for option in options - {"-i"}:
        assert re.search(rf"(^|[\s\[]){option}[\s,\]]", help_text), option
    assert ("-i" in options) == (verb == "ssh") == ("appended to the end of the ssh command" in help_text)
