"""The commands that a person types to make the cluster, to follow it and to log in (pure)."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

from tasks.parallelcluster.document import INSTALLER, PROGRAM, WATCH_UNIT
from tasks.parallelcluster.settings import ClusterSettings

SHIPPED = Path(__file__).parents[2] / "deployments"


@dataclass(frozen=True)
class Command:
    """A line for a shell, and what it is for."""

    purpose: str
    line: str


def cluster_commands(
    settings: ClusterSettings, file: Path, rollback_on_failure: bool | None = None
) -> tuple[Command, ...]:
    """In the order in which they are typed. None leaves the decision about a failed creation to ParallelCluster (it rolls back)."""
    region, name = ("-r", settings.region), ("-n", settings.name)
    configuration = ("-c", f"./{file}" if str(file).startswith("-") else str(file))
    rollback = (
        () if rollback_on_failure is None else ("--rollback-on-failure", str(rollback_on_failure).lower())
    )
    create = ("pcluster", "create-cluster", *name, *configuration, *region)
    head = f"$({_line('pcluster', 'describe-cluster', *name, *region, '--query', 'headNode.instanceId')} | tr -d '\"')"
    found = [
        *_uploads(settings),
        Command(
            "ask AWS whether the configuration is right; this creates nothing",
            _line(*create, "--dryrun", "true"),
        ),
        Command("create the cluster", _line(*create, *rollback)),
        Command(
            "follow the creation until clusterStatus is CREATE_COMPLETE",
            _line("pcluster", "list-clusters", *region),
        ),
        Command(
            "log in to the head node with Session Manager, which needs no open port; then: sudo su - ubuntu",
            f'{_line("aws", "ssm", "start-session", "--region", settings.region, "--target")} "{head}"',
        ),
    ]
    if settings.key_pair:
        key = f"~/.ssh/{shlex.quote(f'{settings.key_pair}.pem')}"
        found.append(
            Command(
                "or log in with SSH, from where the head node can be reached",
                f"{_line('pcluster', 'ssh', *name, *region)} -i {key}",
            )
        )
    return tuple(found)


def _uploads(settings: ClusterSettings) -> list[Command]:
    if not settings.scripts:
        return []
    sources = (
        str(SHIPPED / "parallelcluster" / INSTALLER),
        str(SHIPPED / "monitoring" / WATCH_UNIT),
        PROGRAM,
    )
    lines = [_line("prelaunch", "node", "pack", "--out", PROGRAM)]
    lines += [_line("aws", "s3", "cp", source, f"{settings.scripts}/") for source in sources]
    return [Command("upload what the nodes install", " && ".join(lines))]


def _line(*words: str) -> str:
    return shlex.join(words)
