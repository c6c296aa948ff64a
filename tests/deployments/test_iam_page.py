"""The page on setting up an account: its commands are ones that exist, and fill in every policy."""

from __future__ import annotations

import re
import shlex

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


def test_each_policy_has_a_line_in_the_table() -> None:
    """Whom it is for, and when it is needed."""
    rows = " ".join(re.findall(r"^\| (`[^|]*) \|", PAGE, re.MULTILINE))

    assert [] == [p.stem for p in (ROOT / "deployments/iam").glob("*.json") if f"`{p.stem}`" not in rows]


def _plain(name: str) -> str:
    return name.replace("-", "").lower()
