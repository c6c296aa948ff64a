"""Who holds something, and whether that process is alive: found in /proc on the same machine, and by time from another machine."""

from __future__ import annotations

import dataclasses
import os
import socket
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from checks.process import tree


@dataclass(frozen=True)
class Owner:
    """A process. `machine_id` is boot id and process namespace: only within it does a pid mean anything."""

    host: str
    machine: str
    pid: int
    start_ticks: int
    flow_run_id: str = ""

    def is_me(self, other: Owner) -> bool:
        """Whether the other is this process, before it knew its flow run or in the same one."""
        same = dataclasses.replace(self, flow_run_id="") == dataclasses.replace(other, flow_run_id="")
        return same and (not self.flow_run_id or self.flow_run_id == other.flow_run_id)


def this_process(flow_run_id: str = "") -> Owner:
    """The owner that this process is."""
    pid = os.getpid()
    return Owner(socket.gethostname(), machine_id(), pid, tree.start_ticks(pid) or 0, flow_run_id)


def machine_id() -> str:
    """The boot id and the process namespace of this process."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{boot} {os.readlink('/proc/self/ns/pid')}"


def is_dead(owner: Owner, expires_at: float, now: float) -> bool:
    """Whether the owner is certainly gone. On another machine, or hidden, only an expired lock proves it."""
    if owner.machine == machine_id() and not _is_hidden(owner.pid):
        return not tree.alive(owner.pid, owner.start_ticks)
    return now > expires_at


def _is_hidden(pid: int) -> bool:
    """Whether the kernel has this process, and /proc does not show it: it is another user's (hidepid)."""
    with suppress(OSError):
        os.getpriority(os.PRIO_PROCESS, pid)
        return not os.access(f"/proc/{pid}/stat", os.R_OK)
    return False
