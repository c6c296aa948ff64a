"""The commands that change nodes and reservations of Slurm. Pure; nothing else in this package changes anything in Slurm.

deployments/slurm has the permissions for exactly these commands. Sources: scontrol(1) and srun(1) of Slurm 22.05 and 24.11;
nvidia-smi(1).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Mapping, Sequence

from tasks.machines.base import ActRefused, Mark, Rung
from tasks.machines.slurm_nodes import NO_REASON

Argv = tuple[str, ...]
# One check's name follows the gate's id. Neither has a character that scontrol or sudoers could read otherwise.
MARK = r"prelaunch: [A-Za-z0-9_][A-Za-z0-9._-]*( [A-Za-z0-9._-]+)?"
NODE = r"[A-Za-z0-9][A-Za-z0-9._-]*"
EVERY_NODE = "ALL"
RESERVATION = re.compile(r"prelaunch-([A-Za-z0-9_][A-Za-z0-9._-]*)-([0-9a-f]{12})")
RESERVATION_FLAGS = ("MAINT", "IGNORE_JOBS")
# HyperPod compares whole reasons, and ignores all others without a word (Amazon SageMaker AI developer guide, "Manually replace or
# reboot a node").
HYPERPOD_REASONS: Mapping[Rung, str] = {Rung.REBOOT: "Action:Reboot", Rung.REPLACE: "Action:Replace"}
# A reset takes seconds; the node is free, so that srun does not wait for it.
RESET_WAIT_S, RESET_MINUTES = 60, 5


def drain(node: str, mark: Mark) -> Argv:
    """Let no new job start on a node; jobs that run go on."""
    return ("scontrol", "update", f"nodename={_name(node)}", "state=drain", f"reason={reason_of(mark)}")


def resume(node: str) -> Argv:
    """Let jobs start on a node again, where no reservation forbids it."""
    return ("scontrol", "update", f"nodename={_name(node)}", "state=resume")


def clear_reason(node: str) -> Argv:
    """Write over the reason that 24.11 leaves on a node until a job starts there. An empty one is ignored, so it is sinfo's word."""
    return ("scontrol", "update", f"nodename={_name(node)}", f"reason={NO_REASON}")


def fail(node: str, rung: Rung) -> Argv:
    """Hand a node over to HyperPod, which reboots or replaces it once no job runs there."""
    return ("scontrol", "update", f"nodename={_name(node)}", "state=fail", f"reason={HYPERPOD_REASONS[rung]}")


def reboot(node: str, mark: Mark) -> Argv:
    """Reboot a node once no job runs there. With nextstate=RESUME Slurm would let jobs start on it unchecked."""
    return ("scontrol", "reboot", "ASAP", "nextstate=DOWN", f"reason={reason_of(mark)}", _name(node))


def reserve(name: str, nodes: Collection[str], user: str) -> Argv:
    """Let jobs of one user, and no others, start on nodes, from now on until the reservation is deleted."""
    return (
        "scontrol", "create", "reservation", f"ReservationName={name}", "StartTime=now", "Duration=UNLIMITED", f"Users={user}",
        f"Nodes={','.join(sorted(map(_name, nodes)))}", f"Flags={','.join(RESERVATION_FLAGS)}",
    )  # fmt: skip


def unreserve(name: str) -> Argv:
    """Delete a reservation. Slurm refuses it while a job runs there."""
    return ("scontrol", "delete", f"ReservationName={name}")


def reset(name: str, node: str, gpus: Sequence[int]) -> Argv:
    """Reset GPUs of a node, as a job in a reservation. nvidia-smi refuses a GPU that a process uses."""
    return (
        "srun", f"--reservation={name}", f"--nodelist={_name(node)}", "--nodes=1", "--ntasks=1", "--exclusive",
        f"--immediate={RESET_WAIT_S}", f"--time={RESET_MINUTES}", "--export=PATH",
        "nvidia-smi", "--gpu-reset", "-i", ",".join(map(str, gpus)),
    )  # fmt: skip


def reservation_name(gate_id: str, node: str) -> str:
    """The reservation of a node that a gate condemned: it names the gate, and a digest of the gate and the node."""
    return f"prelaunch-{gate_id}-{_digest(gate_id, node)}"


def gate_of(name: str, node: str) -> str:
    """The gate for which a reservation of that name is the node's; "" if it is another node's, or none of ours."""
    match = RESERVATION.fullmatch(name)
    return match[1] if match and match[2] == _digest(match[1], node) else ""


def is_ours(name: str) -> bool:
    """Whether a reservation has a name such as ours."""
    return RESERVATION.fullmatch(name) is not None


def reason_of(mark: Mark) -> str:
    """The reason for a mark. Raises ActRefused for one that scontrol could read otherwise."""
    text = str(mark).strip()
    if not re.fullmatch(MARK, text):
        message = f"{text!r:.120} cannot be a reason in Slurm. Gates and checks have letters, digits and . _ - in their names."
        raise ActRefused(message)
    return text


def _name(node: str) -> str:
    """The name of one node, which scontrol cannot take for a list. Raises ActRefused."""
    if not re.fullmatch(NODE, node) or node.upper() == EVERY_NODE:
        raise ActRefused(f"{node!r:.80} is not the name of one node of Slurm.")
    return node


def _digest(gate_id: str, node: str) -> str:
    return hashlib.sha256(f"{gate_id}\n{node}".encode()).hexdigest()[:12]
