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
    records = (dict(FIELD.findall(line)) for line in text.splitlines())
    return {
        record["PartitionName"]: Partition(
            record["PartitionName"],
            record["State"],
            minutes_of(record.get("MaxTime", "")),
            _most_nodes(record),
            record.get("Default") == "YES",
        )
        for record in records
        if record.get("PartitionName") and record.get("State")
    }


def _most_nodes(record: Mapping[str, str]) -> int | None:
    """MaxNodes is UNLIMITED where the partition sets no limit of its own below TotalNodes. Dynamic nodes that have not registered are
    in no TotalNodes, so that 0 is no limit.
    """
    counts = [int(record[key]) for key in ("TotalNodes", "MaxNodes") if record.get(key, "").isdecimal()]
    return min(filter(None, counts), default=None)


def minutes_of(text: str) -> float | None:
    """A time limit as Slurm writes it; None for UNLIMITED, and for what is none."""
    match = TIME.fullmatch(text)
    if match is None:
        return None
    days, first, second, third = (int(number or 0) for number in match.groups())
    if match[1] is not None:
        return days * 1440.0 + first * 60 + second + third / 60
    return first * 60.0 + second + third / 60 if match[4] is not None else first + second / 60


def shortage(lines: str, needed: int) -> str:
    """How few nodes are in service, from the lines of `sinfo -N -o "%N %T"`; "" if enough are, or if the cluster has not so many.

    A node that is down or drained comes back; for a job that needs more nodes than there are, it is of no use to wait.
    """
    states = dict(line.split(" ", 1) for line in lines.splitlines() if " " in line)
    serving = [state for state in states.values() if not OUT_OF_SERVICE.match(state)]
    if not len(serving) < needed <= len(states):
        return ""
    return f"{len(serving)} of {len(states)} nodes are in service, {needed} are needed"


def option_of(script: str, long: str, short: str) -> str:
    """The value of an option on the #SBATCH lines of a script, "" if it is on none. The last one counts."""
    pattern = rf"^#SBATCH\s+(?:.*\s)?(?:--{long}[=\s]\s*|-{short}\s*)(\S+)"
    values = re.findall(pattern, script, re.MULTILINE)
    return str(values[-1]) if values else ""


def obstacles(
    job: str, nodes: int, script: str, answer: str, available: Mapping[str, Partition], qos: bool
) -> Iterator[PreflightCheck]:
    """Why the job would wait for ever, although `sbatch --test-only` took its script and `said` where it would run.

    Of several partitions one is enough. With `qos` the limits may be others (sacctmgr(1), PartitionTimeLimit, PartitionMaxNodes).
    """
    chosen = CHOSEN.search(answer)
    default = ",".join(entry.name for entry in available.values() if entry.default)
    names = option_of(script, "partition", "p") or (chosen[1] if chosen else default)
    partitions = [available[name] for name in names.split(",") if name in available]
    minutes = minutes_of(option_of(script, "time", "t"))
    problems = [list(_limits(job, nodes, minutes, partition, qos)) for partition in partitions]
    if all(problems):
        yield from (check for checks in problems for check in checks)


def _limits(
    job: str, nodes: int, minutes: float | None, partition: Partition, qos: bool
) -> Iterator[PreflightCheck]:
    if partition.state != UP:
        message = f"its state is {partition.state}, and no job starts in it"
        yield no_capacity(f"partition {partition.name}", message, WAIT)
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
