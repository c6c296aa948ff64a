"""What scontrol says of the partitions, and whether a batch script can ever start in one of them. Pure.

Slurm takes a job that its partition would never start, and lets it wait for ever (slurm.conf(5), EnforcePartLimits=NO).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tasks.launchers.base import PreflightCheck
from tasks.launchers.preflight import no_capacity, unseen, wrong

UP = "UP"
WAIT = "Wait until it is UP (scontrol show partition), or name another partition in [cluster.options]."
FIELD = re.compile(r"(\w+)=(\S*)")
# sinfo(1), "NODE STATE CODES": no job starts on such a node until somebody, or Slurm, returns it to service.
OUT_OF_SERVICE = re.compile(r"(down|drain|fail|inval|maint|perfctrs|unknown)", re.IGNORECASE)
# `sbatch --test-only`: "Job 4 to start at ... on nodes n0 in partition gpu".
CHOSEN = re.compile(r"\bin partition (\S+)\s*$")
# sbatch(1), --time: minutes, minutes:seconds, hours:minutes:seconds, days-hours, days-hours:minutes, days-hours:minutes:seconds
TIME = re.compile(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?")


@dataclass(frozen=True)
class Partition:
    """One partition. `max_minutes` is None where it sets no limit; `most_nodes` of one job, None where scontrol does not say."""

    name: str
    state: str
    max_minutes: float | None
    most_nodes: int | None = None
    default: bool = False


def partitions_of(text: str) -> Mapping[str, Partition]:
    """The lines of `scontrol show partition --oneliner` by name; what cannot be read is left out."""
    rows = (dict(FIELD.findall(line)) for line in text.splitlines())
    return {
        row["PartitionName"]: Partition(
            row["PartitionName"],
            row["State"],
            minutes_of(row.get("MaxTime", "")),
            _most_nodes(row),
            row.get("Default") == "YES",
        )
        for row in rows
        if row.get("PartitionName") and row.get("State")
    }


def _most_nodes(row: Mapping[str, str]) -> int | None:
    """MaxNodes is UNLIMITED where the partition sets no limit of its own below TotalNodes. Dynamic nodes that have not registered are
    in no TotalNodes, so that 0 is no limit.
    """
    counts = [int(row[key]) for key in ("TotalNodes", "MaxNodes") if row.get(key, "").isdecimal()]
    return min(filter(None, counts), default=None)


def minutes_of(text: str) -> float | None:
    """A time limit as Slurm writes it; None for UNLIMITED, and for what is none."""
    found = TIME.fullmatch(text)
    if found is None:
        return None
    days, first, second, third = (int(part or 0) for part in found.groups())
    if found[1] is not None:
        return days * 1440.0 + first * 60 + second + third / 60
    if found[4] is not None:
        return first * 60.0 + second + third / 60
    return first + second / 60


def shortage(said: str, needed: int) -> str:
    """How few nodes are in service, from the lines of `sinfo -N -o "%N %T"`; "" if enough are, or if the cluster has not so many.

    A node that is down or drained comes back; for a job that needs more nodes than there are, it is of no use to wait.
    """
    states = dict(line.split(" ", 1) for line in said.splitlines() if " " in line)
    serving = [state for state in states.values() if not OUT_OF_SERVICE.match(state)]
    if not len(serving) < needed <= len(states):
        return ""
    return f"{len(serving)} of {len(states)} nodes are in service, {needed} are needed"


def option_of(script: str, long: str, short: str) -> str:
    """The value of an option on the #SBATCH lines of a script, "" if it is on none. The last one counts."""
    words = rf"^#SBATCH\s+(?:.*\s)?(?:--{long}[=\s]\s*|-{short}\s*)(\S+)"
    found = re.findall(words, script, re.MULTILINE)
    return str(found[-1]) if found else ""


def obstacles(
    job: str, nodes: int, script: str, said: str, known: Mapping[str, Partition], qos: bool
) -> Iterator[PreflightCheck]:
    """Why the job would wait for ever, although `sbatch --test-only` took its script and `said` where it would run.

    Of several partitions one is enough. With `qos` the limits may be others (sacctmgr(1), PartitionTimeLimit, PartitionMaxNodes).
    """
    chosen = CHOSEN.search(said)
    default = ",".join(one.name for one in known.values() if one.default)
    names = option_of(script, "partition", "p") or (chosen[1] if chosen else default)
    partitions = [known[name] for name in names.split(",") if name in known]
    minutes = minutes_of(option_of(script, "time", "t"))
    found = [list(_of(job, nodes, minutes, partition, qos)) for partition in partitions]
    if all(found):
        yield from (check for checks in found for check in checks)


def _of(
    job: str, nodes: int, minutes: float | None, partition: Partition, qos: bool
) -> Iterator[PreflightCheck]:
    if partition.state != UP:
        said = f"its state is {partition.state}, and no job starts in it"
        yield no_capacity(f"partition {partition.name}", said, WAIT)
    unless = ", unless the QOS sets a limit of its own" if qos else ""
    line = unseen if qos else wrong
    most = partition.most_nodes
    if most is not None and nodes > most:
        yield line(
            f"nodes of {job}",
            f"it needs {nodes}, and a job gets at most {most} in partition {partition.name}: it would wait for ever{unless}",
            f"Lower nodes in [cluster.declared] to {most}, or name another partition in [cluster.options].",
        )
    limit = partition.max_minutes
    if minutes is not None and limit is not None and minutes > limit:
        yield line(
            f"time limit of {job}",
            f"it is {minutes:g} minutes, and MaxTime of partition {partition.name} is {limit:g} minutes: the job would wait for ever"
            + unless,
            "Lower max_runtime_minutes in [checks] and [training], or name another partition in [cluster.options].",
        )
