"""The configuration of a cluster of AWS ParallelCluster: a template whose variables come from the environment (pure).

TemplateError     variables are unset, empty or wrong, or the template is none; the message has one line for each
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from checks.documents.nearest import nearest
from checks.facts.builtin import builtin

SHIPPED = Path(__file__).parents[2] / "deployments"
TEMPLATE = SHIPPED / "parallelcluster" / "cluster.yaml"
VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
SUBNET = r"subnet-([0-9a-f]{8}|[0-9a-f]{17})"
# No pattern admits a quote, a backslash, a line break or a character that is not ASCII.
PATTERNS = {
    "KEY_PAIR_NAME": (
        r"(?!.*\.pem$)[A-Za-z0-9]([A-Za-z0-9 ._@+=:()#-]{0,253}[A-Za-z0-9._@+=:()#-])?", "the name of an EC2 key pair, without .pem",
    ),
    "CAPACITY_RESERVATION_ID": (
        r"cr-([0-9a-f]{8}|[0-9a-f]{17})", "the id of a reservation; without one, delete its lines from a copy of the template",
    ),
    "INSTANCE": (r"[a-z][a-z0-9-]{1,20}\.[a-z0-9-]{2,20}", "an instance type of EC2, such as p5.48xlarge"),
    "NUM_INSTANCES": (r"[1-9][0-9]{0,2}|1000", "a number of nodes from 1 to 1000"),
    "AMPREMOTEWRITEURL": (
        r"https://aps-workspaces(-fips)?\.(?P<region>[a-z0-9-]+)\.amazonaws\.com(\.cn)?/workspaces/ws-[0-9a-f]{8}(-[0-9a-f]{4}){3}-"
        r"[0-9a-f]{12}/api/v1/remote_write", "the remote write URL of a workspace of Amazon Managed Prometheus",
    ),
    "AWS_REGION": (r"[a-z]{2}(-gov)?-[a-z]+-[1-9]", "a region of AWS, such as us-west-2"),
    "SUBNET_ID": (SUBNET, "the id of a subnet"),
    "SCRIPTS_BUCKET": (r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]", "a bucket in S3 for what the nodes install"),
}  # fmt: skip
# Graviton and Grace. The head node, its image and its programs are described for x86-64.
ARM = ("g5g.", "p6e-")


class TemplateError(Exception):
    """The configuration cannot be written. `problems` has one sentence for each variable, which begins with its name."""

    def __init__(self, *problems: str) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


def filled(text: str, environment: Mapping[str, str], program_sha256: str) -> str:
    """The template with every variable replaced. A value never changes the structure. Raises TemplateError."""
    import yaml  # 15 ms, for this command alone

    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise TemplateError(f"the template is no YAML: {' '.join(str(error).split())[:300]}") from error
    if not isinstance(document, dict):
        raise TemplateError("the template is no configuration of a cluster.")
    names = sorted(set(VARIABLE.findall(yaml.safe_dump(document, width=1 << 20))))
    facts = builtin().instances.get(environment.get("INSTANCE", ""))
    ours: dict[str, str | bool] = {
        "PROGRAM_SHA256": program_sha256,
        "HAS_EFA": bool(facts and facts.efa_devices),
    }
    problems = [line for name in names if name not in ours for line in _problems(name, environment)]
    url = re.fullmatch(PATTERNS["AMPREMOTEWRITEURL"][0], environment.get("AMPREMOTEWRITEURL", ""))
    region = environment.get("AWS_REGION", "")
    if not problems and "AMPREMOTEWRITEURL" in names and url and region and url["region"] != region:
        problems.append(f"AMPREMOTEWRITEURL is a workspace in {url['region']}, and AWS_REGION is {region}.")
    if problems:
        raise TemplateError(*problems)
    comments = "".join(line for line in text.splitlines(keepends=True) if line.startswith("#"))
    return comments + yaml.safe_dump(_replaced(document, {**environment, **ours}), sort_keys=False, width=120)


def _problems(name: str, environment: Mapping[str, str]) -> list[str]:
    """What is wrong with a variable; [] if nothing is."""
    value = environment.get(name)
    pattern, meaning = PATTERNS.get(name, (r"[ -~]+", "printable text in one line"))
    if not value:
        return [f"{name} {'is not set' if value is None else 'is empty'}: {meaning}."]
    text = ascii(value)[:80]
    if not re.fullmatch(pattern, value):
        return [f"{name} is {text}, which is not {meaning}."]
    if name == "INSTANCE" and value not in builtin().instances:
        near = nearest(value, list(builtin().instances))
        hint = f" Did you mean {near!r}?" if near else " `prelaunch facts` lists all types."
        return [f"{name} is {text}, an instance type that is not known.{hint}"]
    if name == "INSTANCE" and value.startswith(ARM):
        return [f"{name} is {text}, which has ARM processors. The nodes' image is for x86-64."]
    return []


def _replaced(value: Any, values: Mapping[str, str | bool]) -> Any:
    """A part of the document with its variables replaced; a number and a truth value stand alone in their places."""
    if isinstance(value, dict):
        return {key: _replaced(inner, values) for key, inner in value.items()}
    if isinstance(value, list):
        return [_replaced(inner, values) for inner in value]
    if not isinstance(value, str):
        return value
    if value == "${NUM_INSTANCES}":
        return int(values["NUM_INSTANCES"])
    if value == "${HAS_EFA}":
        return values["HAS_EFA"]
    return VARIABLE.sub(lambda match: str(values[match[1]]), value)


def cluster_commands(name: str, file: Path, environment: Mapping[str, str]) -> str:
    """A script for a shell that uploads, asks AWS, creates, follows and logs in: a comment and a line for each."""
    region, cluster = ("-r", environment.get("AWS_REGION", "")), ("-n", name)
    configuration = ("-c", f"./{file}" if str(file).startswith("-") else str(file))
    create = ("pcluster", "create-cluster", *cluster, *configuration, *region)
    describe = shlex.join(
        ("pcluster", "describe-cluster", *cluster, *region, "--query", "headNode.instanceId")
    )
    sources = (
        TEMPLATE.with_name("install.sh"),
        SHIPPED / "monitoring" / "prelaunch-watch.service",
        "prelaunch.pyz",
    )
    folder = f"s3://{environment.get('SCRIPTS_BUCKET', '')}/prelaunch/"
    uploads = [shlex.join(("aws", "s3", "cp", str(source), folder)) for source in sources]
    commands = {
        "upload what the nodes install": " && ".join(["prelaunch node pack --out prelaunch.pyz", *uploads]),
        "ask AWS whether the configuration is right; this creates nothing": shlex.join(
            (*create, "--dryrun", "true")
        ),
        "create the cluster; what a failed creation has made stays, so that you can look at it": shlex.join(
            (*create, "--rollback-on-failure", "false")
        ),
        "follow the creation until clusterStatus is CREATE_COMPLETE": shlex.join(
            ("pcluster", "list-clusters", *region)
        ),
        "log in to the head node with Session Manager, which needs no open port; then: sudo su - ubuntu": (
            f'{shlex.join(("aws", "ssm", "start-session", "--region", region[1], "--target"))} "$({describe} | tr -d \'"\')"'
        ),
    }
    if key := environment.get("KEY_PAIR_NAME"):
        login = shlex.join(("pcluster", "ssh", *cluster, *region))
        commands["or log in with SSH, from where the head node can be reached"] = (
            f"{login} -i ~/.ssh/{shlex.quote(f'{key}.pem')}"
        )
    return "\n".join(f"# {purpose}\n{line}\n" for purpose, line in commands.items())
