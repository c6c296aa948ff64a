"""What a cluster of AWS ParallelCluster is made from: variables and options, each validated by its own pattern (pure).

SettingsError     one or more of them are unset, empty, wrong or contradict each other; the message has one line for each
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from checks.documents.decode import nearest
from checks.facts.builtin import builtin
from checks.facts.instances import Instance

MOST_NODES = 1000
# Graviton and Grace. The head node, its image and its programs are described for x86-64.
ARM = ("g5g.", "p6e-")
# Graviton's letter follows the generation: m7g, c7gn, im4gn. Of other makers no type has it there.
ARM_HEAD = re.compile(r"(a1|[a-z]+[0-9]+[a-z]*g[a-z]*)\..*")
BUCKET = r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]"
# The smallest file system that PERSISTENT_2 offers on SSD, and the step above it (Amazon FSx, CreateFileSystem).
FSX_LEAST_GIB, FSX_STEP_GIB = 1200, 2400


class Part(StrEnum):
    """A part that a cluster may lack, if the operator says so."""

    KEY_PAIR = "key-pair"
    RESERVATION = "reservation"
    MONITORING = "monitoring"
    SCRIPTS = "scripts"


@dataclass(frozen=True)
class Input:
    """A value that is given by an option, or by an environment variable. `part` is what the cluster lacks without it."""

    option: str
    variable: str
    pattern: str
    meaning: str
    part: Part | None = None
    default: str | None = None

    @property
    def field(self) -> str:
        """The name of the option in Python."""
        return self.option.removeprefix("--").replace("-", "_")

    @property
    def name(self) -> str:
        """What an operator calls it."""
        return self.variable or self.option


# No pattern admits a quote, a backslash, a line break or a character that is not ASCII.
INPUTS = (
    Input("--key-pair", "KEY_PAIR_NAME", r"(?!.*\.pem$)[A-Za-z0-9]([A-Za-z0-9 ._@+=:()#-]{0,253}[A-Za-z0-9._@+=:()#-])?",
          "the name of an EC2 key pair, without .pem", Part.KEY_PAIR),
    Input("--reservation", "CAPACITY_RESERVATION_ID", r"cr-([0-9a-f]{8}|[0-9a-f]{17})",
          "the id of a capacity reservation, such as cr-0123456789abcdef0", Part.RESERVATION),
    Input("--instance-type", "INSTANCE", r"[a-z][a-z0-9-]{1,20}\.[a-z0-9-]{2,20}", "an instance type of EC2, such as p5.48xlarge"),
    Input("--nodes", "NUM_INSTANCES", r"[1-9][0-9]{0,3}", f"a number of nodes from 1 to {MOST_NODES}"),
    Input("--remote-write", "AMPREMOTEWRITEURL",
          r"https://aps-workspaces(-fips)?\.(?P<region>[a-z0-9-]+)\.amazonaws\.com(\.cn)?/workspaces/ws-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
          r"/api/v1/remote_write",
          "the remote write URL of a workspace of Amazon Managed Prometheus", Part.MONITORING),
    Input("--region", "AWS_REGION", r"[a-z]{2}(-gov)?-[a-z]+-[1-9]", "a region of AWS, such as us-west-2"),
    Input("--subnet", "", r"subnet-([0-9a-f]{8}|[0-9a-f]{17})", "the id of the compute nodes' subnet"),
    Input("--head-subnet", "", r"subnet-([0-9a-f]{8}|[0-9a-f]{17})", "the id of a subnet", default=""),
    Input("--scripts", "", BUCKET + r"(/[A-Za-z0-9][A-Za-z0-9._-]*)*",
          "a folder in S3 for the scripts of the nodes, such as s3://my-bucket/prelaunch", Part.SCRIPTS),
    Input("--name", "", r"[A-Za-z][A-Za-z0-9-]{0,59}", "a name of at most 60 letters, digits and hyphens", default="ml-cluster"),
    # The Python of the others (Amazon Linux 2023, RHEL 9) is 3.9, with which the checks of the prolog do not run.
    Input("--os", "", r"ubuntu2204|ubuntu2404", "ubuntu2204 or ubuntu2404", default="ubuntu2204"),
    Input("--ami", "", r"ami-([0-9a-f]{8}|[0-9a-f]{17})", "the id of an image made for ParallelCluster", default=""),
    Input("--head-instance-type", "", r"[a-z][a-z0-9-]{1,20}\.[a-z0-9-]{2,20}", "an instance type of EC2", default="m5.2xlarge"),
    Input("--placement-group", "", r"[A-Za-z0-9][A-Za-z0-9._-]{0,254}", "the name of a placement group that exists", default=""),
    Input("--fsx", "", r"fs-[0-9a-f]{17}|[1-9][0-9]{3,6}",
          "the id of a file system of FSx for Lustre, or the size of a new one in GiB", default=""),
    Input("--write-policy", "", r"arn:aws(-cn|-us-gov)?:iam::([0-9]{12}|aws):policy/[A-Za-z0-9+=,.@_/-]{1,128}",
          "the ARN of the policy with which the head node writes to the workspace, such as WritePolicyArn of our stack", default=""),
    Input("--data-repository", "", BUCKET + r"(/[A-Za-z0-9][A-Za-z0-9._-]*)*/?",
          "a bucket or a folder in S3, such as s3://my-bucket/data", default=""),
)  # fmt: skip


@dataclass(frozen=True)
class ClusterSettings:
    """A cluster that can be described. "" stands for what it lacks; `fsx_gib` is 0 for a file system that exists, or none."""

    key_pair: str
    reservation: str
    instance_type: str
    instance: Instance
    nodes: int
    remote_write: str
    write_policy: str
    region: str
    subnet: str
    head_subnet: str
    scripts: str
    name: str
    os: str
    ami: str
    head_instance_type: str
    placement_group: str
    fsx_id: str
    fsx_gib: int
    data_repository: str
    capacity_block: bool


class SettingsError(Exception):
    """The cluster cannot be described. `problems` has one sentence for each value, which begins with its name."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


def cluster_settings(
    options: Mapping[str, str | None],
    environment: Mapping[str, str],
    without: frozenset[Part] = frozenset(),
    capacity_block: bool = False,
) -> ClusterSettings:
    """The settings: an option counts before its variable. Raises SettingsError, which names everything that is wrong."""
    problems: list[str] = []
    values = {
        item.field: _value(item, options.get(item.field), environment, without, problems) for item in INPUTS
    }
    names = {
        item.field: item.option if options.get(item.field) else item.name for item in INPUTS
    }  # as it was given
    instance = _instance(values["instance_type"], names["instance_type"], problems)
    _require_consistent(values, names, capacity_block, problems)
    if problems or instance is None:
        raise SettingsError(problems)
    fsx = values["fsx"]
    return ClusterSettings(
        instance=instance,
        nodes=int(values["nodes"]),
        head_subnet=values["head_subnet"] or values["subnet"],
        fsx_id=fsx if fsx.startswith("fs-") else "",
        fsx_gib=int(fsx) if fsx.isdecimal() else 0,
        capacity_block=capacity_block,
        **{
            name: values[name]
            for name in (
                "key_pair", "reservation", "instance_type", "remote_write", "region", "subnet", "scripts", "name", "os", "ami",
                "head_instance_type", "placement_group", "data_repository", "write_policy",
            )
        },
    )  # fmt: skip


def _value(
    item: Input,
    option: str | None,
    environment: Mapping[str, str],
    without: frozenset[Part],
    problems: list[str],
) -> str:
    """The value; "" where it is absent or wrong, which `problems` then says."""
    variable = environment.get(item.variable) if item.variable else None
    given = [
        (name, value)
        for name, value in ((item.option, option), (item.variable, variable or None))
        if value is not None
    ]
    if item.part in without:
        problems += [
            f"{name} is set to {_shown(value)}, and --without {item.part.value} says that there is none. Leave one of them out."
            for name, value in given
            if item.part is not None
        ]
        return ""
    if not given:
        if item.default is not None:
            return item.default
        problems.append(_absence(item, variable))
        return ""
    (name, value), *others = given
    for other, different in others:
        if different != value:
            problems.append(
                f"{name} is {_shown(value)}, and {other} is {_shown(different)}. Unset one of them."
            )
            return ""
    if not re.fullmatch(item.pattern, value):
        problems.append(f"{name} is {_shown(value)}, which is not {item.meaning}.{_hint(item, value)}")
        return ""
    return value


def _absence(item: Input, variable: str | None) -> str:
    state = "is empty" if variable == "" else "is not set"
    remedy = f"Set it, or give {item.option}" if item.variable else "Give it"
    choice = f", or --without {item.part.value}" if item.part else ""
    return f"{item.name} {state}: {item.meaning}. {remedy}{choice}."


def _hint(item: Input, value: str) -> str:
    if value != value.strip():
        return " Remove the spaces around it."
    if item.part is Part.KEY_PAIR and value.endswith(".pem"):
        return " Remove .pem."
    if value.startswith("ml."):
        return " The names that begin with ml. are those of SageMaker."
    return f" Without one, give --without {item.part.value}." if item.part else ""


def _instance(name: str, given: str, problems: list[str]) -> Instance | None:
    """The instance type's facts; None if it is unknown, or cannot be a node of the cluster."""
    if not name:
        return None
    table = builtin().instances
    if name not in table:
        near = nearest(name, list(table))
        hint = f" Did you mean {near!r}?" if near else " `prelaunch facts` lists all types."
        problems.append(f"{given} is {_shown(name)}, an instance type that is not known.{hint}")
        return None
    if name.startswith(ARM):
        problems.append(
            f"{given} is {name}, which has ARM processors. This command describes x86-64 clusters."
        )
    return table[name]


def _require_consistent(
    values: Mapping[str, str], names: Mapping[str, str], capacity_block: bool, problems: list[str]
) -> None:
    """What is wrong with values that are right one by one."""
    if values["nodes"] and int(values["nodes"]) > MOST_NODES:
        problems.append(f"{names['nodes']} is {values['nodes']}, more than {MOST_NODES} nodes.")
    workspace = re.fullmatch(_pattern_of("remote_write"), values["remote_write"])
    if workspace and values["region"] and workspace["region"] != values["region"]:
        problems.append(
            f"{names['remote_write']} is a workspace in {workspace['region']}, and {names['region']} is {values['region']}. "
            "Use a workspace in the cluster's region."
        )
    if ARM_HEAD.fullmatch(values["head_instance_type"]):
        problems.append(
            f"--head-instance-type is {values['head_instance_type']}, which has ARM processors, and the compute nodes have x86-64."
        )
    if values["write_policy"] and not values["remote_write"]:
        problems.append("--write-policy needs the workspace that it is about, as AMPREMOTEWRITEURL.")
    if capacity_block and not values["reservation"]:
        problems.append("--capacity-block needs the id of the Capacity Block as CAPACITY_RESERVATION_ID.")
    fsx = values["fsx"]
    if fsx.isdecimal() and int(fsx) != FSX_LEAST_GIB and int(fsx) % FSX_STEP_GIB:
        problems.append(
            f"--fsx is {fsx}. A new file system has {FSX_LEAST_GIB} GiB or a multiple of {FSX_STEP_GIB} GiB."
        )
    if values["data_repository"] and not fsx.isdecimal():
        problems.append(
            "--data-repository needs a new file system: give its size with --fsx. "
            "ParallelCluster makes no association on a file system that exists."
        )


def _pattern_of(field: str) -> str:
    return next(item.pattern for item in INPUTS if item.field == field)


def _shown(value: str) -> str:
    """A value in a message: ASCII, quoted, and short."""
    shown = ascii(value)
    return shown if len(shown) <= 80 else f"{shown[:77]}..."
