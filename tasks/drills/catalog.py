"""Every drill: its fault, who has to notice it, and what has to follow."""

from __future__ import annotations

from checks.model import Cause
from checks.policy import Overlay
from tasks.drills.kernel_faults import dcgm_xid, xid
from tasks.drills.model import Drill, Milestone, SeenBy
from tasks.drills.process_faults import FROZEN, KILLED
from tasks.drills.resource_faults import FULL_DISK, SHAPED_LINK

ALL = tuple(Milestone)
DETECTED, PAGED, ACTED, RETURNED = ALL
HARD = (Cause.HARDWARE,)
NETWORK = ("network.", "collective.", "nccl.", "efa.", "training.")

CATALOG = (
    Drill("xid-79", "the kernel log says that a GPU has fallen off the bus", xid(79), ALL, checks=("kernel.",), causes=HARD),
    Drill(
        "xid-74", "the kernel log says that an NVLink has a fatal error", xid(74), (DETECTED, PAGED, ACTED),
        checks=("kernel.xid",), causes=HARD,
        note="NVIDIA's catalogue asks for an inspection, so the node stays out of service; HyperPod replaces it.",
    ),
    Drill(
        "xid-73", "the kernel log has Xid 73, for which HyperPod reboots a node", xid(73), (DETECTED, RETURNED),
        seen_by=SeenBy.ENGINE, checks=("kernel.xid",), causes=HARD, undo_after=DETECTED, overlay=Overlay.HYPERPOD,
        note="Elsewhere it is a warning, and this drill is refused.",
    ),
    Drill(
        "dcgm-xid", "DCGM has Xid 79 of a GPU, injected each second", dcgm_xid(79), ALL,
        checks=("dcgm.", "gpu.xid_events"), causes=HARD, undo_after=ACTED, note="It was never run on a GPU.",
    ),
    Drill(
        "killed-daemon", "slurmd, or another daemon, is killed with SIGKILL", KILLED, (DETECTED, RETURNED),
        seen_by=SeenBy.ENGINE, undo_after=DETECTED,
    ),
    Drill(
        "frozen-process", "a daemon, or the checks' own process, is stopped with SIGSTOP", FROZEN, (DETECTED, RETURNED),
        seen_by=SeenBy.ENGINE, undo_after=DETECTED,
    ),
    Drill(
        "shaped-link", "the node's network is slowed down with a token bucket of tc", SHAPED_LINK, (DETECTED, PAGED),
        checks=NETWORK, causes=HARD, note="EFA and InfiniBand do not pass through tc; only TCP/IP is slowed down.",
    ),
    Drill("full-disk", "a folder's file system has a few MiB left", FULL_DISK, (DETECTED, PAGED)),
)  # fmt: skip
DRILLS = {drill.name: drill for drill in CATALOG}


def list_text() -> str:
    """One line for each drill."""
    lines = []
    for drill in CATALOG:
        after = ", ".join(drill.expects)
        lines.append(
            f"{drill.name:15} {drill.summary}; then: {after}." + (f" {drill.note}" if drill.note else "")
        )
    return "\n".join(lines) + "\n"
