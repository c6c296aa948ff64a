"""The configuration says what the gate needs, whatever the values are."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from tasks.parallelcluster.document import Value, cluster_document, cluster_yaml, yaml_text
from tasks.parallelcluster.settings import INPUTS, Part, SettingsError, cluster_settings
from tests.tasks.parallelcluster.clusters import OPTIONS, SHA256, VARIABLES, cluster

TEXTS = st.text(st.characters(codec=None), max_size=20)
SCALARS = TEXTS | st.booleans() | st.integers()
DOCUMENTS = st.dictionaries(
    TEXTS,
    st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3)),
    max_size=4,
)  # fmt: skip
HOSTILE = (
    'a"\nIam: {}', "a: b", "'", "\\", "{{7*7}}", "$(reboot)", "`reboot`", "a\u2028b", "a\x85b", "\ud800", "!!python/object:x",
    "&a", "*a", "a #b", "- a", "null", "0x10", "1e3", "on", "a\x00b", "../../x", "a';reboot;'",
)  # fmt: skip


def parsed(text: str) -> Any:
    """As ParallelCluster reads it."""
    return yaml.safe_load(text)


def shape(value: object) -> object:
    """The structure without the texts."""
    if isinstance(value, dict):
        return {key: shape(inner) for key, inner in value.items()}
    return [shape(inner) for inner in value] if isinstance(value, list) else type(value).__name__


def plain(value: Value) -> object:
    """With lists and dicts alone."""
    if isinstance(value, Mapping):
        return {key: plain(inner) for key, inner in value.items()}
    return value if isinstance(value, str | bool | int) else [plain(inner) for inner in value]


@given(DOCUMENTS)
@example({"no": "no", "Os": {}, "a": [[], [["x"]], {}, {"b": [1]}], "": ""})
def test_every_document_is_read_as_it_was_written(document: dict[str, Value]) -> None:
    """Keys and texts of any characters, empty ones too, at any depth."""
    assert document == (parsed(yaml_text(document)) or {})


@given(st.data())
def test_no_value_changes_the_structure(data: st.DataObject) -> None:
    """It is refused by its name, or the parsed configuration is the intended one, in the shape of a harmless cluster's."""
    item = data.draw(st.sampled_from([item for item in INPUTS if item.field not in ("fsx", "scripts")]))
    accepted = st.from_regex(item.pattern, fullmatch=True)
    value = data.draw(st.sampled_from(HOSTILE) | TEXTS | accepted)
    environment = {key: text for key, text in VARIABLES.items() if key != item.variable}
    whole = {
        **OPTIONS,
        "fsx": "1200",
        "ami": "ami-01234567",
        "placement_group": "a",
        "data_repository": "s3://b-1",
    }
    harmless = cluster_settings(whole, VARIABLES)
    try:
        settings = cluster_settings({**whole, item.field: value}, environment)
    except SettingsError as error:
        assert any(item.option in problem or item.name in problem for problem in error.problems)
        return
    found = parsed(cluster_yaml(settings, SHA256))

    assert plain(cluster_document(settings, SHA256)) == found
    assert shape(parsed(cluster_yaml(harmless, SHA256))) == shape(found)


@given(st.sampled_from(("fsx", "scripts")), st.sampled_from(HOSTILE) | TEXTS)
def test_no_option_that_adds_keys_adds_others(field: str, value: str) -> None:
    """A folder for scripts, and a file system."""
    try:
        settings = cluster_settings({**OPTIONS, field: value}, VARIABLES)
    except SettingsError:
        return

    assert plain(cluster_document(settings, SHA256)) == parsed(cluster_yaml(settings, SHA256))


def test_the_cluster_is_ready_for_a_gate() -> None:
    """Static nodes with EFA in their reservation, a prolog on all nodes of a job, Session Manager, and logs that stay."""
    document = parsed(cluster_yaml(cluster(), SHA256))
    (queue,) = document["Scheduling"]["SlurmQueues"]
    (resource,) = queue["ComputeResources"]
    head = document["HeadNode"]

    assert {
        "Name": "p5-48xlarge", "InstanceType": "p5.48xlarge", "MinCount": 4, "MaxCount": 4, "Efa": {"Enabled": True},
        "CapacityReservationTarget": {"CapacityReservationId": "cr-0123456789abcdef0"},
    } == resource  # fmt: skip
    assert {"Enabled": False} == queue["Networking"]["PlacementGroup"]
    assert [{"PrologFlags": "Alloc"}] == document["Scheduling"]["SlurmSettings"]["CustomSlurmSettings"]
    for node, role in ((head, "head"), (queue, "compute")):
        (script,) = node["CustomActions"]["OnNodeConfigured"]["Sequence"]
        assert ("s3://my-bucket/prelaunch/install.sh", role) == (script["Script"], script["Args"][0])
        assert [{"BucketName": "my-bucket", "KeyName": "prelaunch/*"}] == node["Iam"]["S3Access"]
        assert any(
            policy["Policy"].endswith("SSMManagedInstanceCore")
            for policy in node["Iam"]["AdditionalIamPolicies"]
        )
    assert (
        VARIABLES["AMPREMOTEWRITEURL"] == head["CustomActions"]["OnNodeConfigured"]["Sequence"][0]["Args"][-1]
    )
    assert "my-key" == head["Ssh"]["KeyName"]
    assert "Retain" == document["Monitoring"]["Logs"]["CloudWatch"]["DeletionPolicy"]


def test_the_file_says_that_a_drained_node_is_replaced() -> None:
    """Whoever drains a node reads this file, or nothing."""
    text = cluster_yaml(cluster(), SHA256)

    assert "drained and idle" in text.partition("Region:")[0]


def test_a_cluster_without_its_parts_has_none_of_their_keys() -> None:
    """Then ParallelCluster's own GPU check is the only one before a job, and a placement group keeps the nodes together."""
    document = parsed(cluster_yaml(cluster(without=frozenset(Part)), SHA256))
    (queue,) = document["Scheduling"]["SlurmQueues"]

    assert {"Ssh", "CustomActions"}.isdisjoint(document["HeadNode"])
    assert "CustomActions" not in queue
    assert "SlurmSettings" not in document["Scheduling"]
    assert "CapacityReservationTarget" not in queue["ComputeResources"][0]
    assert ({"Enabled": True}, {"Gpu": {"Enabled": True}}) == (
        queue["Networking"]["PlacementGroup"],
        queue["HealthChecks"],
    )


@pytest.mark.parametrize(
    ("options", "efa", "placement", "partition"),
    [
        ({"instance_type": "g5.xlarge"}, False, {"Enabled": False}, "aws"),
        ({"instance_type": "trn1.32xlarge", "placement_group": "pg-1"}, True, {"Enabled": True, "Name": "pg-1"}, "aws"),
        ({"region": "us-gov-west-1", "remote_write": VARIABLES["AMPREMOTEWRITEURL"].replace("us-west-2", "us-gov-west-1")},
         True, {"Enabled": False}, "aws-us-gov"),
        ({"region": "cn-north-1", "remote_write": VARIABLES["AMPREMOTEWRITEURL"].replace("us-west-2", "cn-north-1")},
         True, {"Enabled": False}, "aws-cn"),
    ],
)  # fmt: skip
def test_the_network_follows_from_the_instance_type_and_the_region(
    options: dict[str, str], efa: bool, placement: dict[str, object], partition: str
) -> None:
    """EFA is enabled where the type has it."""
    document = parsed(cluster_yaml(cluster(options), SHA256))
    (queue,) = document["Scheduling"]["SlurmQueues"]

    assert (efa, placement) == (
        queue["ComputeResources"][0]["Efa"]["Enabled"],
        queue["Networking"]["PlacementGroup"],
    )
    assert queue["Iam"]["AdditionalIamPolicies"][0]["Policy"].startswith(f"arn:{partition}:iam::aws:policy/")


def test_a_new_file_system_is_associated_with_the_bucket_and_stays() -> None:
    """What is deleted in the file system is not deleted in the bucket."""
    document = parsed(cluster_yaml(cluster(fsx="1200", data_repository="s3://my-bucket/data"), SHA256))
    (storage,) = document["SharedStorage"]
    settings = storage["FsxLustreSettings"]
    (association,) = settings["DataRepositoryAssociations"]

    assert ("/fsx", 1200, "Retain") == (
        storage["MountDir"],
        settings["StorageCapacity"],
        settings["DeletionPolicy"],
    )
    assert ("s3://my-bucket/data", ["NEW", "CHANGED"]) == (
        association["DataRepositoryPath"], association["AutoExportPolicy"],
    )  # fmt: skip


def test_the_policy_of_one_workspace_replaces_that_of_all() -> None:
    """AWS's own policy admits every workspace of the account."""
    policy = "arn:aws:iam::123456789012:policy/write"
    document = parsed(cluster_yaml(cluster(write_policy=policy), SHA256))
    policies = [entry["Policy"] for entry in document["HeadNode"]["Iam"]["AdditionalIamPolicies"]]

    assert ["arn:aws:iam::aws:policy/AmazonSSMManagedInstanceCore", policy] == policies


def test_a_file_system_that_exists_is_only_named() -> None:
    """ParallelCluster refuses every other key beside its id."""
    document = parsed(cluster_yaml(cluster(fsx="fs-0123456789abcdef0"), SHA256))

    assert {"FileSystemId": "fs-0123456789abcdef0"} == document["SharedStorage"][0]["FsxLustreSettings"]


def test_the_scripts_are_those_that_are_shipped() -> None:
    """The configuration names no file that nobody has."""
    shipped = Path(__file__).parents[3] / "deployments"

    assert (shipped / "parallelcluster" / "install.sh").is_file()
    assert (shipped / "monitoring" / "prelaunch-watch.service").is_file()
