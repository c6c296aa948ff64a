"""Values that a gate file still has from an example are found by key and line; somebody's own are not."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest

from tasks.gate_file.placeholders import examples_in, examples_of, require_own_values
from tasks.gate_file.read import GateFileError, read_gate_file

GATES = Path(__file__).parents[3] / "deployments" / "gates"
MINE = {"123456789012": "210987654321", "0123456789abcdef0": "00aa11bb22cc33dd4"}


def found(text: str) -> dict[str, int | None]:
    """Key -> line."""
    return {one.key: one.line for one, _ in examples_in(tomllib.loads(text), text)}


def test_a_shipped_file_has_each_example_at_its_line() -> None:
    """Also those within an array of tables and an inline table; each line has the text that is named."""
    text = (GATES / "sagemaker-p5.toml").read_text()
    lines = text.splitlines()
    examples = [one for one, _ in examples_in(tomllib.loads(text), text)]

    assert {
        "cluster.options.image",
        "cluster.options.role_arn",
        "cluster.options.prefix",
        "cluster.options.subnets[0]",
        "cluster.options.security_group_ids[0]",
        "training.image",
        "training.request.InputDataConfig[0].DataSource.S3DataSource.S3Uri",
        "training.request.CheckpointConfig.S3Uri",
    } == {one.key for one in examples}
    for one in examples:
        assert one.line is not None and one.value in lines[one.line - 1], one
        assert one.remedy


@pytest.mark.parametrize(
    ("line", "key"),
    [
        ('[approval]\napprovers = ["U012AB3CD"]', "approval.approvers[0]"),
        ('[notify.slack]\nmention = ["S0123ABCD"]', "notify.slack.mention[0]"),
        ('[store]\npath = "s3://bucket/prefix"', "store.path"),
        ('[notify]\nmail = "you@example.com"', "notify.mail"),
        ('[x]\npartition = "CHANGE_ME"', "x.partition"),
        ('[x]\nfolder = "/path/to/shared"', "x.folder"),
        ('[x]\nfolder = "/path/to/Prüf stand"', "x.folder"),
        ('[x]\ncommand = ["python", "<your train.py>"]', "x.command[1]"),
        ('[x]\ncommand = ["/fsx/<user>/train.py"]', "x.command[0]"),
        ('[store]\npath = "s3://your-bucket/a"', "store.path"),
        ('[x]\nimage = "registry.local/your_team/train:1"', "x.image"),
        ('[x]\nrole = "arn:aws:iam::111122223333:role/a"', "x.role"),
    ],
)
def test_examples_of_the_pages_are_found(line: str, key: str) -> None:
    """At their line."""
    assert {key: 2} == found(line)


@pytest.mark.parametrize(
    "value",
    [
        "1234567890123",
        "s3://bucket2/x",
        "me@example.company",
        "U012AB3CDE",
        "EXCHANGE_MERGE",
        "/data/path/to/x",
        "python a.py <in >out",
        "cat <in> out",
        "is-this-your-model",
        "yours-truly",
    ],
)
def test_a_value_that_only_looks_like_one_is_left_alone(value: str) -> None:
    """A longer number, another bucket, another domain."""
    assert {} == found(f'[x]\ny = "{value}"')


def test_a_value_of_an_override_has_no_line() -> None:
    """The file does not have it."""
    ((one, _),) = examples_in({"store": {"path": "s3://bucket/a"}}, '[store]\npath = "s3://mine/a"\n')

    assert ("store.path", None) == (one.location, one.line)


def refused(path: Path, environ: Mapping[str, str] | None = None) -> GateFileError | None:
    """The error with which a gate of this file is refused, None for no error."""
    try:
        require_own_values(read_gate_file(path), str(path), environ or {})
    except GateFileError as error:
        return error
    return None


def changed(folder: Path, name: str, *edits: tuple[str, str]) -> Path:
    """A shipped file with these texts replaced, each of which it has."""
    text = (GATES / f"{name}.toml").read_text()
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    path = folder / "gate.toml"
    path.write_text(text)
    return path


@pytest.mark.parametrize("path", sorted(GATES.glob("*.toml")), ids=lambda path: str(path.stem))
def test_a_shipped_file_is_refused_where_an_engine_would_get_what_nobody_owns(path: Path) -> None:
    """At the line of the first such value, with the places of the others; files without any run as they are."""
    text = path.read_text()
    error = refused(path)

    assert ("dkr.ecr" in text) == (error is not None)
    if error is not None:
        assert "cluster.options.image" == error.path and error.line is not None
        assert "123456789012" in text.splitlines()[error.line - 1]
        assert ("training.image (line" in error.message) == ("/training" in text)


@pytest.mark.parametrize("path", sorted(GATES.glob("*.toml")), ids=lambda path: str(path.stem))
def test_a_file_with_values_of_its_own_is_not_refused(path: Path, tmp_path: Path) -> None:
    """And nothing of it is doubted."""
    own = changed(tmp_path, path.stem, *((old, new) for old, new in MINE.items() if old in path.read_text()))

    assert None is refused(own)
    assert () == examples_of(read_gate_file(own), {})


OWN = (
    ("subnet-0123456789abcdef0", "subnet-0a"),
    ("sg-0123456789abcdef0", "sg-0a"),
    ("123456789012.dkr.ecr", "210987654321.dkr.ecr"),
    ("iam::123456789012", "iam::210987654321"),
)


def test_placeholder_that_may_be_real_is_doubted_but_not_refused(tmp_path: Path) -> None:
    """A bucket may have any name, and a command is the training's own."""
    more = ('["{here}', '["--role=arn:aws:iam::123456789012:role/x", "{here}')
    path = changed(tmp_path, "sagemaker-p5", *OWN)
    found = examples_of(read_gate_file(path), {})
    local = changed(tmp_path, "local", more)
    of_local = examples_of(read_gate_file(local), {})

    assert None is refused(path) and None is refused(local)
    assert {"cluster.options.prefix", "training.request.CheckpointConfig.S3Uri"} <= {one.key for one in found}
    assert ["training.command[0]"] == [one.key for one in of_local]


@pytest.mark.parametrize(
    ("index", "key"), list(enumerate(("subnets[0]", "security_group_ids[0]", "image", "role_arn")))
)
def test_each_kind_of_such_a_value_is_enough(tmp_path: Path, index: int, key: str) -> None:
    """With all others replaced."""
    error = refused(changed(tmp_path, "sagemaker-p5", *OWN[:index], *OWN[index + 1 :]))

    assert error is not None and f"cluster.options.{key}" == error.path


@pytest.mark.parametrize("name", ["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_SAGEMAKER"])
def test_placeholder_is_accepted_when_another_service_answers_for_aws(name: str) -> None:
    """A stand-in has whatever accounts it likes. A variable without a value names none."""
    path = GATES / "sagemaker-p5.toml"

    assert () == examples_of(read_gate_file(path), {name: "http://127.0.0.1:5000"})
    assert 8 == len(examples_of(read_gate_file(path), {}))
    assert None is refused(path, {name: "http://127.0.0.1:5000"})
    assert None is not refused(path, {name: ""})
