"""Errors about the form of a value show the right one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tasks.gate.context import open_gate_context
from tasks.gate_file.read import GateFileError, read_gate_file
from tasks.gate_file.references import PolicyError, read_policy
from tasks.gate_file.request import GateRequest
from tests.flows.gates import write_gate


@pytest.mark.parametrize(
    ("old", "new", "form"),
    [
        ("nodes = 2", 'nodes = "2"', "expected a whole number, found text '2'. Write nodes = 2"),
        ("nodes = 2", 'nodes = "two"', "Write for example nodes = 1"),
        ('profile = "quick"', 'profile = "quick"\nskip = "disk.io"', 'Write skip = ["disk.io"]'),
        (
            'profile = "quick"',
            'profile = "quick"\ntimeouts_s = ["disk.io"]',
            "expected a table, found a list. Write [checks.timeouts_s] on a line of its own and its keys below it, such as "
            '"disk.io" = 1.5',
        ),
        ("[policy]", '[checks.timeouts_s]\n"disk.io" = "60"\n[policy]', 'Write "disk.io" = 60.0'),
        ('name = "test"', 'name = ["test"]', 'Write name = "test"'),
        ('name = "test"', 'name = "test"\nmlflow = "https://x"', "Write [mlflow] on a line of its own"),
        ("[policy]", '[approval]\noverriders = "xoxb-secret"\n[policy]', 'Write overriders = ["text"]'),
    ],
)
def test_a_gate_file_is_answered_with_the_right_form(tmp_path: Path, old: str, new: str, form: str) -> None:
    """With the operator's own value where it fits, and never with what may be a secret."""
    path = write_gate(tmp_path)
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(GateFileError) as caught:
        read_gate_file(path)

    assert form in str(caught.value) and "xoxb" not in str(caught.value)


@pytest.mark.parametrize(
    ("line", "form"),
    [
        ('exclude = ["n1"]', "expected text, found the list ['n1']. Write exclude = \"n1\""),
        ('exclude = ["n1", "n2"]', 'Write exclude = "n1,n2"'),
        ('requeue = "true"', "Write requeue = true"),
        ('container_env = "A"', 'Write container_env = ["A"]'),
    ],
)
def test_so_are_options_of_a_launcher(tmp_path: Path, line: str, form: str) -> None:
    """Of Slurm, here."""
    path = write_gate(tmp_path, launcher="slurm", options=line)
    with pytest.raises(GateFileError) as caught:
        open_gate_context(GateRequest(gate_file=str(path)))

    assert form in str(caught.value)


@pytest.mark.parametrize(
    ("line", "form"),
    [
        (
            'checks = ["disk.io"]',
            'Write [checks."disk.io"] on a line of its own and its keys below it, such as required = true',
        ),
        ('[checks."disk.io"]\nprofiles = "deep"', 'Write profiles = ["deep"]'),
        ('[checks."disk.io"]\nrequired = "false"', "Write required = false"),
        ('[checks."disk.io"]\nvalid_for = "24"', "Write valid_for = 24.0"),
        ('[checks]\n"disk.io" = 5', 'Write [checks."disk.io"] on a line of its own'),
    ],
)
def test_so_are_policies(tmp_path: Path, line: str, form: str) -> None:
    """A check's entry is a table of its own."""
    path = tmp_path / "policy.toml"
    head = 'name = "p"\ninstance_types = ["cpu"]\non_warn = "go"\nmax_unfit_fraction = 0.2\n'
    path.write_text(f"{head}{line}\n")
    with pytest.raises(PolicyError) as caught:
        read_policy(path)

    assert form in caught.value.message


@pytest.mark.parametrize(
    ("assignment", "said"),
    [
        (
            "cluster.declared.nodes=two",
            "expected a whole number, found text 'two'. Write --set cluster.declared.nodes=1.",
        ),
        (
            "nodes=two",
            "cluster.declared.nodes takes a whole number: --set cluster.declared.nodes=1. Did you mean",
        ),
        ("cluster.nodes=2", "--set cluster.declared.nodes=2"),
        ("mode=observe", "Did you mean 'policy.mode'?"),
        ("checks.skip=a", """Write --set 'checks.skip=["a"]'."""),
        ("checks.skip=[1]", """Write --set 'checks.skip=["text"]'."""),
        ("token=xoxb-secret", "unknown key. Did you mean 'notify.slack.token'?"),
    ],
)
def test_a_value_of_the_command_line_is_answered_with_the_form_of_its_own(
    tmp_path: Path, assignment: str, said: str
) -> None:
    """A key in another table than its own leads there, and nothing that may be a secret is repeated."""
    with pytest.raises(GateFileError) as caught:
        read_gate_file(write_gate(tmp_path), [assignment])

    assert said in str(caught.value) and "xoxb" not in str(caught.value)
