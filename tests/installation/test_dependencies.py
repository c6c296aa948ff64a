"""What pyproject.toml declares, against what the product imports."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from importlib.util import find_spec

from tests.architecture import tree
from tests.architecture.tree import ROOT

# Each is a part of what boto3 and pydantic promise to their users, in the one version that they take.
PARTS = {"botocore", "urllib3", "pydantic_core"}
OURS = {"checks", "container", "flows", "tasks", "prelaunch"}


def imported() -> set[str]:
    """The top-level modules that the product imports and that are neither its own nor the standard library's."""
    found: set[str] = set()
    for node in (
        node for source in tree.sources("checks", "container", "flows", "tasks") for node in source.nodes
    ):
        if isinstance(node, ast.Import):
            found.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
    return found - OURS - PARTS - set(sys.stdlib_module_names)


def declared() -> set[str]:
    """The names of the distributions in the dependencies and in the extras that a user installs."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    lines = [
        *project["dependencies"],
        *(line for name in extras if name not in ("test", "dev", "docs") for line in extras[name]),
    ]
    return {re.split(r"[\[<>=~! ]", line)[0].lower() for line in lines}


def test_imported_packages_are_declared_dependencies() -> None:
    """A module that only another dependency brings can disappear with it."""
    owners = packages_distributions()
    missing = {
        name: owners.get(name)
        for name in imported()
        if not {owner.lower().replace("_", "-") for owner in owners.get(name, [name])} & declared()
    }

    assert {} == missing


def test_no_installed_package_slows_every_start_of_prefect() -> None:
    """Where rfc3987-syntax is installed, Prefect imports jsonschema for a second longer, because that builds a grammar."""
    assert find_spec("rfc3987_syntax") is None
