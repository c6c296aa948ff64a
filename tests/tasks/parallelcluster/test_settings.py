"""Variables and options become settings, or are refused by name."""

from __future__ import annotations

import pytest

from tasks.parallelcluster.settings import INPUTS, Part, SettingsError, cluster_settings
from tests.tasks.parallelcluster.clusters import OPTIONS, VARIABLES, cluster

NAMES = [name for name in VARIABLES if name != "AWS_REGION"]


def problems(
    environment: dict[str, str],
    options: dict[str, str | None] | None = None,
    without: frozenset[Part] = frozenset(),
    capacity_block: bool = False,
) -> tuple[str, ...]:
    """What is refused; () if nothing is."""
    try:
        cluster_settings({**OPTIONS, **(options or {})}, environment, without, capacity_block)
    except SettingsError as error:
        return error.problems
    return ()


def test_the_variables_alone_describe_the_cluster() -> None:
    """With a subnet and a folder for scripts, which no variable names."""
    made = cluster()

    assert ("my-key", "cr-0123456789abcdef0", "p5.48xlarge", 4) == (
        made.key_pair, made.reservation, made.instance_type, made.nodes,
    )  # fmt: skip
    assert (32, "ml-cluster", made.subnet) == (made.instance.efa_devices, made.name, made.head_subnet)


@pytest.mark.parametrize("name", VARIABLES)
@pytest.mark.parametrize(("value", "state"), [(None, "is not set"), ("", "is empty")])
def test_a_variable_that_is_unset_or_empty_is_refused_by_its_name(
    name: str, value: str | None, state: str
) -> None:
    """And the option that would do is named."""
    environment = {key: text for key, text in VARIABLES.items() if key != name}
    if value is not None:
        environment[name] = value
    (found,) = problems(environment)

    assert found.startswith(f"{name} {state}: ")
    assert next(item.option for item in INPUTS if item.variable == name) in found


def test_all_problems_are_said_at_once() -> None:
    """Nobody wants to set six variables one by one."""
    found = problems({}, {"subnet": None, "scripts": None})

    assert [*VARIABLES, "--subnet", "--scripts"] == [line.split()[0] for line in found]


@pytest.mark.parametrize("empty", [{}, {"NUM_INSTANCES": ""}])
def test_an_option_counts_where_its_variable_is_unset_or_empty(empty: dict[str, str]) -> None:
    """The option is what the person types now."""
    environment = {**{key: value for key, value in VARIABLES.items() if key != "NUM_INSTANCES"}, **empty}

    assert 8 == cluster_settings({**OPTIONS, "nodes": "8"}, environment).nodes


def test_an_option_that_contradicts_its_variable_is_refused() -> None:
    """Both names and both values are said. Equal ones are no contradiction."""
    (found,) = problems(VARIABLES, {"nodes": "8"})

    assert "--nodes is '8', and NUM_INSTANCES is '4'. Unset one of them." == found
    assert () == problems(VARIABLES, {"nodes": "4"})


@pytest.mark.parametrize(
    ("name", "value", "hint"),
    [
        ("KEY_PAIR_NAME", "my-key.pem", "Remove .pem."),
        ("KEY_PAIR_NAME", "<your keypair name without .pem>", "not the name of an EC2 key pair"),
        ("KEY_PAIR_NAME", "my-key ", "Remove the spaces around it."),
        ("KEY_PAIR_NAME", "a\nOs: x", "not the name of an EC2 key pair"),
        ("CAPACITY_RESERVATION_ID", "cr-<YOUR CRID>", "--without reservation"),
        ("CAPACITY_RESERVATION_ID", "NA", "--without reservation"),
        ("CAPACITY_RESERVATION_ID", "cr-0123456789abcdef0\n", "Remove the spaces around it."),
        ("INSTANCE", "ml.p5.48xlarge", "those of SageMaker"),
        ("INSTANCE", "p5.48xlrge", "Did you mean 'p5.48xlarge'?"),
        ("INSTANCE", "cpu", "not an instance type of EC2"),
        ("INSTANCE", "p6e-gb200.36xlarge", "ARM processors"),
        ("NUM_INSTANCES", "0", "from 1 to 1000"),
        ("NUM_INSTANCES", "04", "from 1 to 1000"),
        ("NUM_INSTANCES", "1001", "more than 1000 nodes"),
        ("NUM_INSTANCES", "٤", "from 1 to 1000"),
        ("NUM_INSTANCES", "4 # five", "from 1 to 1000"),
        ("AMPREMOTEWRITEURL", "https://aps-workspaces.us-west-2.amazonaws.com/workspaces/ws-xxxxxxxx/api/v1/remote_write",
         "--without monitoring"),
        ("AMPREMOTEWRITEURL", VARIABLES["AMPREMOTEWRITEURL"].replace("us-west-2", "eu-west-1"), "AWS_REGION is us-west-2"),
        ("AWS_REGION", "us-west-2; reboot", "not a region of AWS"),
    ],
)  # fmt: skip
def test_a_value_that_is_wrong_is_refused_by_the_name_of_its_variable(
    name: str, value: str, hint: str
) -> None:
    """Placeholders of guides, spaces, other scripts' digits, and what would end a scalar of YAML or a word of a shell."""
    found = problems({**VARIABLES, name: value})

    assert found
    assert found[0].startswith(name)
    assert hint in found[0]
    assert all(line.isascii() and "\n" not in line for line in found)


@pytest.mark.parametrize("part", [Part.KEY_PAIR, Part.RESERVATION, Part.MONITORING])
def test_a_part_that_is_lacking_has_no_variable(part: Part) -> None:
    """A variable that is set all the same contradicts the option."""
    name = next(item.variable for item in INPUTS if item.part is part)
    (found,) = problems(VARIABLES, without=frozenset({part}))

    assert found.startswith(f"{name} is set to ")
    assert f"--without {part.value}" in found
    assert () == problems({**VARIABLES, name: ""}, without=frozenset({part}))


@pytest.mark.parametrize(
    ("options", "block", "without", "name"),
    [
        ({"fsx": "1300"}, False, (), "--fsx"),
        (
            {"fsx": "fs-0123456789abcdef0", "data_repository": "s3://my-bucket"},
            False,
            (),
            "--data-repository",
        ),
        ({"data_repository": "s3://my-bucket"}, False, (), "--data-repository"),
        ({"scripts": "s3://my-bucket/a b"}, False, (), "--scripts"),
        ({"scripts": "s3://my-bucket/../other"}, False, (), "--scripts"),
        ({"name": "0cluster"}, False, (), "--name"),
        ({"os": "alinux2023"}, False, (), "--os"),
        ({"head_instance_type": "m7g.xlarge"}, False, (), "--head-instance-type"),
        ({"head_instance_type": "im4gn.xlarge"}, False, (), "--head-instance-type"),
        ({}, True, (Part.RESERVATION,), "--capacity-block"),
    ],
)
def test_options_that_contradict_each_other_are_refused(
    options: dict[str, str | None], block: bool, without: tuple[Part, ...], name: str
) -> None:
    """By the name of the one to change."""
    environment = {
        key: value for key, value in VARIABLES.items() if not without or key != "CAPACITY_RESERVATION_ID"
    }
    (found,) = problems(environment, options, frozenset(without), block)

    assert found.startswith(f"{name} ")
