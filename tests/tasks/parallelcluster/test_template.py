"""A template and its variables become a configuration, or are refused by name; and the commands for it."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tasks.parallelcluster.template import PATTERNS, TEMPLATE, TemplateError, cluster_commands, filled
from tests.tasks.parallelcluster.clusters import SHA256, VARIABLES, configuration

TEXTS = st.text(st.characters(codec=None), max_size=20)
HOSTILE = (
    'a"\nIam: {}', "a: b", "'", "\\", "{{7*7}}", "$(reboot)", "`reboot`", "a\u2028b", "a\x85b", "\ud800", "!!python/object:x",
    "&a", "*a", "a #b", "- a", "null", "0x10", "1e3", "on", "a\x00b", "../../x", "a';reboot;'", "${AWS_REGION}",
)  # fmt: skip


def problems(environment: dict[str, str], template: str = "") -> tuple[str, ...]:
    """What is refused; () if nothing is."""
    try:
        filled(template or TEMPLATE.read_text(), environment, SHA256)
    except TemplateError as error:
        return error.problems
    return ()


def parsed(text: str) -> Any:
    """As ParallelCluster reads it."""
    return yaml.safe_load(text)


def shape(value: object) -> object:
    """The structure without the texts."""
    if isinstance(value, dict):
        return {key: shape(inner) for key, inner in value.items()}
    return [shape(inner) for inner in value] if isinstance(value, list) else type(value).__name__


@pytest.mark.parametrize("name", VARIABLES)
@pytest.mark.parametrize(("value", "state"), [(None, "is not set"), ("", "is empty")])
def test_an_unset_or_empty_variable_is_refused_by_its_name(name: str, value: str | None, state: str) -> None:
    """Whatever it is for."""
    environment = {**VARIABLES, name: value}
    (found,) = problems({key: text for key, text in environment.items() if text is not None})

    assert found.startswith(f"{name} {state}: ")


def test_template_reports_all_missing_variables_at_once() -> None:
    """Nobody wants to set eight variables one by one. A variable that a template does not use is not needed."""
    assert sorted(PATTERNS) == [line.split()[0] for line in problems({})]
    assert () == problems({"AWS_REGION": "us-west-2"}, "Region: ${AWS_REGION}\n")


@pytest.mark.parametrize(
    ("name", "value", "hint"),
    [
        ("KEY_PAIR_NAME", "my-key.pem", "without .pem"),
        ("KEY_PAIR_NAME", "<your keypair name without .pem>", "not the name of an EC2 key pair"),
        ("KEY_PAIR_NAME", "my-key ", "not the name of an EC2 key pair"),
        ("KEY_PAIR_NAME", "a\nOs: x", "not the name of an EC2 key pair"),
        ("CAPACITY_RESERVATION_ID", "cr-<YOUR CRID>", "delete its lines"),
        ("CAPACITY_RESERVATION_ID", "NA", "delete its lines"),
        ("CAPACITY_RESERVATION_ID", "cr-0123456789abcdef0\n", "not the id of a reservation"),
        ("INSTANCE", "ml.p5.48xlarge", "not an instance type of EC2"),
        ("INSTANCE", "p5.48xlrge", "Did you mean 'p5.48xlarge'?"),
        ("INSTANCE", "cpu", "not an instance type of EC2"),
        ("INSTANCE", "p6e-gb200.36xlarge", "ARM processors"),
        ("NUM_INSTANCES", "0", "from 1 to 1000"),
        ("NUM_INSTANCES", "04", "from 1 to 1000"),
        ("NUM_INSTANCES", "1001", "from 1 to 1000"),
        ("NUM_INSTANCES", "٤", "from 1 to 1000"),
        ("NUM_INSTANCES", "4 # five", "from 1 to 1000"),
        ("AMPREMOTEWRITEURL", "https://aps-workspaces.us-west-2.amazonaws.com/workspaces/ws-xxxxxxxx/api/v1/remote_write",
         "not the remote write URL"),
        ("AMPREMOTEWRITEURL", VARIABLES["AMPREMOTEWRITEURL"].replace("us-west-2", "eu-west-1"), "AWS_REGION is us-west-2"),
        ("AWS_REGION", "us-west-2; reboot", "not a region of AWS"),
        ("SCRIPTS_BUCKET", "s3://my-bucket", "not a bucket in S3"),
        ("SUBNET_ID", "subnet-1, subnet-2", "not the id of a subnet"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_refused_by_the_name_of_its_variable(name: str, value: str, hint: str) -> None:
    """Placeholders of guides, spaces, other scripts' digits, and what would end a scalar of YAML or a word of a shell."""
    found = problems({**VARIABLES, name: value})

    assert found
    assert found[0].startswith(name)
    assert hint in found[0]
    assert all(line.isascii() and "\n" not in line for line in found)


@pytest.mark.parametrize("template", ["", "a: [", "- a\n", "text"])
def test_template_of_another_kind_is_refused(template: str) -> None:
    """A file of another kind."""
    with pytest.raises(TemplateError, match="the template is no"):
        filled(template, VARIABLES, SHA256)


@given(st.data())
def test_no_value_changes_the_structure(data: st.DataObject) -> None:
    """It is refused by its name, or the parsed configuration has the shape of a harmless cluster's."""
    name = data.draw(st.sampled_from([*PATTERNS, "OWN"]))
    template = f"{TEMPLATE.read_text()}Tags:\n- Key: own\n  Value: '${{OWN}}'\n"
    accepted = st.from_regex(PATTERNS[name][0], fullmatch=True) if name in PATTERNS else TEXTS
    environment = {**VARIABLES, "OWN": "x", name: data.draw(st.sampled_from(HOSTILE) | TEXTS | accepted)}
    try:
        found = filled(template, environment, SHA256)
    except TemplateError as error:
        assert any(name in problem for problem in error.problems)
        return

    assert shape(parsed(configuration(template, OWN="x"))) == shape(parsed(found))
    assert environment["OWN"] == parsed(found)["Tags"][0]["Value"]


def test_the_cluster_is_ready_for_a_gate() -> None:
    """Static nodes with EFA in their reservation, a prolog on all nodes of a job, Session Manager, and logs that stay."""
    document = parsed(configuration())
    (queue,) = document["Scheduling"]["SlurmQueues"]
    (resource,) = queue["ComputeResources"]
    head = document["HeadNode"]

    assert {
        "Name": "nodes", "InstanceType": "p5.48xlarge", "MinCount": 4, "MaxCount": 4, "Efa": {"Enabled": True},
        "CapacityReservationTarget": {"CapacityReservationId": "cr-0123456789abcdef0"},
    } == resource  # fmt: skip
    assert {"Enabled": False} == queue["Networking"]["PlacementGroup"]
    assert [{"PrologFlags": "Alloc"}] == document["Scheduling"]["SlurmSettings"]["CustomSlurmSettings"]
    for node, role, more in ((head, "head", [VARIABLES["AMPREMOTEWRITEURL"]]), (queue, "compute", [])):
        (script,) = node["CustomActions"]["OnNodeConfigured"]["Sequence"]
        arguments = [role, "us-west-2", "s3://my-bucket/prelaunch", SHA256, "p5.48xlarge", *more]
        assert ("s3://my-bucket/prelaunch/install.sh", arguments) == (script["Script"], script["Args"])
        assert [{"BucketName": "my-bucket", "KeyName": "prelaunch/*"}] == node["Iam"]["S3Access"]
        policies = [one["Policy"] for one in node["Iam"]["AdditionalIamPolicies"]]
        assert any(policy.endswith("SSMManagedInstanceCore") for policy in policies)
    assert "my-key" == head["Ssh"]["KeyName"]
    assert "Retain" == document["Monitoring"]["Logs"]["CloudWatch"]["DeletionPolicy"]
    (small,) = parsed(configuration(INSTANCE="g5.xlarge"))["Scheduling"]["SlurmQueues"]
    assert {"Enabled": False} == small["ComputeResources"][0]["Efa"]


def test_the_cluster_is_created_from_the_file() -> None:
    """First as a dry run; each word is one for a shell, and a name that begins with a hyphen is no option."""
    script = cluster_commands("ml-cluster", Path("a b.yaml"), VARIABLES)
    create = "pcluster create-cluster -n ml-cluster -c 'a b.yaml' -r us-west-2"

    assert f"\n{create} --dryrun true\n" in script
    assert f"\n{create} --rollback-on-failure false\n" in script
    assert "\npcluster list-clusters -r us-west-2\n" in script
    assert " -c ./-x.yaml " in cluster_commands("ml-cluster", Path("-x.yaml"), VARIABLES)


def test_the_login_is_session_manager_and_ssh_with_a_key_pair() -> None:
    """The shell expands the folder of the keys, and nothing of the key's name."""
    script = cluster_commands("ml-cluster", Path("c.yaml"), {**VARIABLES, "KEY_PAIR_NAME": "my (key)"})

    assert '\naws ssm start-session --region us-west-2 --target "$(pcluster describe-cluster ' in script
    assert "\npcluster ssh -n ml-cluster -r us-west-2 -i ~/.ssh/'my (key).pem'\n" in script


def test_upload_command_copies_the_files_that_nodes_install() -> None:
    """Three files, two of which are shipped."""
    upload = cluster_commands("ml-cluster", Path("c.yaml"), VARIABLES).splitlines()[1]
    copies = [shlex.split(part) for part in upload.split(" && ")][1:]

    names = [Path(copy[3]).name for copy in copies]
    assert ["install.sh", "prelaunch-watch.service", "prelaunch.pyz"] == names
    assert {"s3://my-bucket/prelaunch/"} == {copy[4] for copy in copies}
    assert all(Path(copy[3]).is_file() for copy in copies[:2])
