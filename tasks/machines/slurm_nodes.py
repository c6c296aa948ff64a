"""What scontrol and squeue print of nodes, reservations and jobs, as values: literal tables. Pure.

The formats of `scontrol show node --oneliner`, `scontrol show reservation --oneliner` and squeue are those of Slurm 22.05 and 24.11.
The words of states are those of src/common/slurm_protocol_defs.c (node_state_base_string, node_state_flag_string) and of sinfo(1), the
signs behind a state are those of sinfo(1), "NODE STATE CODES".

UnreadableNodes         the text is none of these; the message has its beginning
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from checks.documents.hostlist import HostListError, expand
from tasks.machines.base import PREFIX, Mark

# A sign behind a state -> the flag that it stands for.
SIGNS: Mapping[str, str] = {
    "*": "NOT_RESPONDING",
    "~": "POWERED_DOWN",
    "#": "POWERING_UP",
    "!": "POWER_DOWN",
    "%": "POWERING_DOWN",
    "$": "MAINTENANCE",
    "@": "REBOOT_REQUESTED",
    "^": "REBOOT_ISSUED",
    "-": "PLANNED",
}
# One word for a state and a flag -> both.
COMPOUND: Mapping[str, tuple[str, ...]] = {
    "DRAINED": ("IDLE", "DRAIN"),
    "DRAINING": ("MIXED", "DRAIN"),
    "FAILING": ("MIXED", "FAIL"),
    "MAINT": ("IDLE", "MAINTENANCE"),
    "REBOOT": ("REBOOT_REQUESTED",),
    "NO_RESPOND": ("NOT_RESPONDING",),
}
REBOOTING = frozenset(("REBOOT_REQUESTED", "REBOOT_ISSUED"))
# A node with one of these gets no job.
OUT = frozenset(
    (
        "DOWN",
        "ERROR",
        "FUTURE",
        "DRAIN",
        "FAIL",
        "NOT_RESPONDING",
        "INVALID_REG",
        "INVAL",
        "BLOCKED",
        "REBOOT_CANCEL",
    )
)
BUSY = frozenset(("ALLOCATED", "MIXED", "COMPLETING"))
# Slurm starts jobs on a node that it has switched off, and switches it on for them.
HARMLESS = frozenset(
    (
        "IDLE", "CLOUD", "DYNAMIC_NORM", "DYNAMIC_FUTURE", "EXTERNAL", "MAINTENANCE", "RESERVED", "PLANNED", "POWERED_DOWN",
        "POWERING_DOWN", "POWERING_UP", "POWER_DOWN", "POWER_UP", "POWER_DRAIN", "PERFCTRS", "NPC", "RESUME", "UNDRAIN",
    )
)  # fmt: skip
FLAGS = REBOOTING | OUT | BUSY | HARMLESS

# What Slurm appends to a reason (scontrol(1), "reboot").
APPENDED = (" : reboot issued", " : reboot complete", " : reboot timed out")
TIMED_OUT = " : reboot timed out"
# The beginnings of reasons that Slurm itself gives (src/slurmctld/node_mgr.c, job_mgr.c, agent.c; src/slurmd/slurmd/req.c).
OF_SLURM = (
    "Not responding", "Node unexpectedly rebooted", "Prolog error", "Epilog error", "Kill task failed", "Low RealMemory", "Low CPUs",
    "Low TmpDisk", "Low socket*core", "gres/", "Duplicate jobid", "batch job complete failure", "reboot timed out", "Reboot ASAP",
    "reboot requested", "ResumeTimeout reached",
)  # fmt: skip
HYPERPOD = "HyperPod"
# The beginnings of other systems' reasons -> their names. Amazon SageMaker AI developer guide, "Manually replace or reboot a node";
# CoreWeave's documentation of SUNK, "Syncer"; aws-parallelcluster-node, clustermgtd; Soperator, passive checks; mej/nhc.
OF_SYSTEMS: Mapping[str, str] = {
    "Action:": HYPERPOD,
    "k8s:": "CoreWeave SUNK",
    "NVSentinel": "NVSentinel",
    "nvsentinel": "NVSentinel",
    "Static node maintenance": "ParallelCluster",
    "Scheduler health check": "ParallelCluster",
    "slurm-operator:": "Slinky's Slurm operator",
    "[node_problem]": "Soperator",
    "[user_problem]": "Soperator",
    "NHC:": "Node Health Check",
    PREFIX: "Prelaunch's health check",
}
SQUEUE_FORMAT = "%i|%N"
# Jobs that have a node. squeue(1), "JOB STATE CODES".
ON_A_NODE = "RUNNING,SUSPENDED,COMPLETING,CONFIGURING,STOPPED,SIGNALING,STAGE_OUT"
# sinfo(1) writes "none" for a node without a reason.
NO_REASON = "none"
NOTHING = ("", NO_REASON, "(null)", "N/A", "None", "Unknown", "n/a")
_REASON = re.compile(r"(?P<text>.*?) \[(?P<user>[^][@\s]+)@(?P<at>[^][@\s]+)\]")
_INSTANCE_TYPE = re.compile(
    r"(ml\.)?[a-z]+[0-9]+[a-z0-9-]*\.([0-9]*x?large|metal|medium|small|micro|nano)[a-z0-9-]*"
)


class UnreadableNodes(Exception):
    """The text is not what the command prints."""


@dataclass(frozen=True)
class SlurmNode:
    """A node as slurmctld shows it. `flags` are the words of its state, `state` and `reason` are verbatim, times Unix seconds.

    `reason_by` is the user who gave the reason.
    """

    name: str
    state: str
    flags: frozenset[str]
    reason: str = ""
    reason_by: str = ""
    reason_at: float | None = None
    booted_at: float | None = None
    instance_id: str = ""
    instance_type: str = ""

    @property
    def status(self) -> str:
        """State and reason, as Slurm shows them."""
        by = f" [{self.reason_by}]" if self.reason_by else ""
        return f"{self.state} {self.reason}{by}" if self.reason else self.state

    @property
    def mark(self) -> Mark | None:
        """Our mark in the reason."""
        return Mark.read(without_appended(self.reason))


@dataclass(frozen=True)
class Reservation:
    """A reservation as slurmctld shows it."""

    name: str
    nodes: frozenset[str]
    users: str
    flags: frozenset[str]
    state: str

    @property
    def keeps_others_off(self) -> bool:
        """Whether no other job starts on its nodes now, not even one in another reservation."""
        return self.state == "ACTIVE" and "MAINT" in self.flags


def nodes_of(text: str) -> dict[str, SlurmNode]:
    """Every node that `scontrol show node --oneliner` printed, by name. Raises UnreadableNodes."""
    nodes = [_node(line) for line in text.splitlines() if line.strip()]
    return {node.name: node for node in nodes}


def reservations_of(text: str) -> dict[str, Reservation]:
    """Every reservation that `scontrol show reservation --oneliner` printed, by name. Raises UnreadableNodes."""
    lines = [line for line in text.splitlines() if line.strip()]
    if [line.strip() for line in lines] == ["No reservations in the system"]:
        return {}
    return {entry.name: entry for entry in map(_reservation, lines)}


def jobs_of(text: str) -> dict[str, tuple[str, ...]]:
    """The jobs on each node, from squeue with SQUEUE_FORMAT. Raises UnreadableNodes."""
    jobs = defaultdict[str, list[str]](list)
    for line in text.splitlines():
        job, bar, nodes = line.strip().partition("|")
        if not bar:
            raise UnreadableNodes(f"squeue printed {line!r:.80}")
        for node in _names(nodes):
            jobs[node].append(job)
    return {node: tuple(names) for node, names in jobs.items()}


def config_value(text: str, name: str) -> str:
    """A value that `scontrol show config` printed; "" if it is not set. Raises UnreadableNodes if it was not printed at all."""
    match = re.search(rf"(?m)^{name}\s*= ?(.*)$", text)
    if match is None:
        raise UnreadableNodes(f"scontrol show config printed no {name}")
    value = match[1].strip()
    return "" if value in NOTHING else value


def without_appended(text: str) -> str:
    """A reason without what Slurm appended to it."""
    while ended := next((end for end in APPENDED if text.endswith(end)), ""):
        text = text.removesuffix(ended)
    return text


def given_by_slurm(text: str) -> bool:
    """Whether Slurm itself gives such a reason, and no person or other system."""
    return text.startswith(OF_SLURM)


def giver(text: str, user: str) -> str:
    """Who gave a reason that is not ours: a system that is known by its words, or else the user."""
    if given_by_slurm(text):
        return "Slurm"
    system = next((name for begins, name in OF_SYSTEMS.items() if text.startswith(begins)), "")
    return system or (f"user {user}" if user else "somebody")


def flags_of(state: str) -> frozenset[str]:
    """The words of a state with its signs: "DOWN*+DRAIN" is DOWN, NOT_RESPONDING and DRAIN. "ALLOCATED+" also completes a job."""
    flags: set[str] = set()
    if state.endswith("+"):
        flags.add("COMPLETING")
    for token in filter(None, state.upper().split("+")):
        base = token.rstrip("".join(SIGNS))
        flags.update(COMPOUND.get(base, (base,)))
        flags.update(SIGNS[sign] for sign in token[len(base) :])
    return frozenset(flags)


def _node(line: str) -> SlurmNode:
    head, _, tail = line.partition(" Reason=")
    state = _field(head, "State")
    if not line.startswith("NodeName=") or not state:
        raise UnreadableNodes(f"scontrol printed {line.strip()!r:.80} in place of a node")
    match = _REASON.match(tail)
    text = match["text"].strip() if match else tail.strip()
    features = re.split(r"[,&|()\[\]]", _field(head, "ActiveFeatures"))
    of_features = next((feature for feature in features if _INSTANCE_TYPE.fullmatch(feature)), "")
    return SlurmNode(
        _field(line, "NodeName"),
        state,
        flags_of(state),
        "" if text in NOTHING else text,
        match["user"] if match else "",
        _seconds(match["at"]) if match else None,
        _seconds(_field(head, "BootTime")),
        _field(line, "InstanceId"),
        _field(line, "InstanceType") or of_features,
    )


def _reservation(line: str) -> Reservation:
    name, state = _field(line, "ReservationName"), _field(line, "State")
    if not line.startswith("ReservationName=") or not state:
        raise UnreadableNodes(f"scontrol printed {line.strip()!r:.80} in place of a reservation")
    flags = frozenset(_field(line, "Flags").split(","))
    return Reservation(name, frozenset(_names(_field(line, "Nodes"))), _field(line, "Users"), flags, state)


def _field(line: str, name: str) -> str:
    match = re.search(rf"(?:^|\s){name}=(\S*)", line)
    return "" if match is None or match[1] in NOTHING else match[1]


def _names(text: str) -> list[str]:
    try:
        return expand(text) if text not in NOTHING else []
    except HostListError as error:
        raise UnreadableNodes(f"{text!r:.80} is no list of nodes: {error}") from error


def _seconds(text: str) -> float | None:
    """Slurm's time of this machine's zone as Unix seconds; None if it is not known."""
    try:
        return datetime.fromisoformat(text).astimezone().timestamp() if text else None
    except ValueError:
        return None
