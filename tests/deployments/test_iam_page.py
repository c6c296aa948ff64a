"""The page on setting up an account: its commands are ones that exist, and fill in every policy."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path

import botocore.session
import pytest

from tests.architecture.tree import ROOT

PAGE = (ROOT / "docs/sagemaker.md").read_text()
BLOCKS = re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL)
LINES = [line for block in BLOCKS for line in block.splitlines()]
AWS = [found for line in LINES for found in re.findall(r"aws (?!s3 )[a-z0-9-]+ [a-z-]+ .*?(?=\)$|$)", line)]
EVERYWHERE = {"region", "query", "output"}


@pytest.mark.parametrize("command", AWS, ids=lambda command: " ".join(command.split()[1:3]))
def test_a_command_of_aws(command: str) -> None:
    """Service, operation and options as botocore's own models have them; what is required is given."""
    words = shlex.split(re.sub(r"\$\{?\w+\}?", "x", command))
    model = botocore.session.get_session().get_service_model(words[1])
    names = {_plain(name): name for name in model.operation_names}
    shape = model.operation_model(names[_plain(words[2])]).input_shape
    given = {_plain(word[2:]) for word in words if word.startswith("--")} - EVERYWHERE

    assert set() == given - {_plain(name) for name in shape.members}
    assert set() == {_plain(name) for name in shape.required_members} - given


def test_the_names_that_are_chosen_fill_every_policy(tmp_path: Path) -> None:
    """Done by a shell as it is written there."""
    names = next(block for block in BLOCKS if "export ACCOUNT" in block)
    fill = next(block for block in BLOCKS if "sed -e" in block)
    (tmp_path / "deployments").symlink_to(ROOT / "deployments")
    script = f"set -euo pipefail\n{names}{fill}"

    subprocess.run(("bash", "-c", script), cwd=tmp_path, check=True, env={"PATH": os.environ["PATH"]})
    made = {path.name: path.read_text() for path in (tmp_path / "filled").iterdir()}

    assert {path.name for path in (ROOT / "deployments/iam").glob("*.json")} == set(made)
    assert [] == [name for name, text in made.items() if "@" in text]


def test_each_policy_has_a_line_in_the_table() -> None:
    """Whom it is for, and when it is needed."""
    rows = " ".join(re.findall(r"^\| (`[^|]*) \|", PAGE, re.MULTILINE))

    assert [] == [p.stem for p in (ROOT / "deployments/iam").glob("*.json") if f"`{p.stem}`" not in rows]


def test_every_file_that_is_named_is_there() -> None:
    """Gate files and scripts."""
    named = set(re.findall(r"(?:deployments/gates/|`)(sagemaker-[\w-]+\.toml)", PAGE))

    assert [] == [name for name in sorted(named) if not (ROOT / "deployments/gates" / name).is_file()]
    assert len(named) > 3


def _plain(name: str) -> str:
    return name.replace("-", "").lower()
