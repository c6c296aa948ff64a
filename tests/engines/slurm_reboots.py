"""A cluster whose nodes can be rebooted: their slurmd starts again, with another boot time and another boot id.

All nodes share one kernel. So each has a file of its own in place of /proc/sys/kernel/random/boot_id, which only its processes see.
"""

from __future__ import annotations

import uuid

from tests.engines.slurm_cluster import SlurmCluster

# slurmd(8): -b reports the node as rebooted when the daemon starts. A killed slurmd leaves its port at once.
REBOOTS = """\
node=$(hostname)
cat /proc/sys/kernel/random/uuid >{folder}/boot_id/$node
pid=$(cat {folder}/slurmd-$node.pid)
setsid /bin/sh -c "kill -9 $pid; while kill -0 $pid; do sleep 0.05; done; cd {folder}; exec slurmd -N $node -c -b" \\
    </dev/null >/dev/null 2>&1 &
"""


class RebootingCluster(SlurmCluster):
    """Its RebootProgram is the hook "reboot"; a node that has not registered again after `resume_s` counts as failed."""

    resume_s = 8

    def configuration(self) -> str:
        """slurm.conf with a RebootProgram."""
        more = f"RebootProgram={self.folder}/reboot\nResumeTimeout={self.resume_s}\nSuspendTimeout=5\n"
        return super().configuration() + more

    def before_slurmctld(self) -> None:
        """Make what the nodes have in place of the kernel's boot id, and the RebootProgram."""
        (self.folder / "boot_id").mkdir()
        for node in self.nodes:
            (self.folder / "boot_id" / node).write_text(f"{uuid.uuid4()}\n")
        self.reboots()

    def reboots(self) -> None:
        """From now on the RebootProgram reboots the node on which it runs."""
        conf = f"export SLURM_CONF={self.folder}/slurm.conf\n"
        self.hook("reboot", conf + REBOOTS.format(folder=self.folder))

    def boot_id(self, node: str) -> str:
        """The boot id that processes of a node see."""
        return (self.folder / "boot_id" / node).read_text().strip()

    def _start(self, index: int, host: str, *argv: str, other: bool = True) -> None:
        own = f"mount --bind {self.folder}/boot_id/{host} /proc/sys/kernel/random/boot_id"
        bind = ("/bin/sh", "-ec", f'{own}; exec "$@"', "boot") if host in self.nodes else ()
        super()._start(index, host, *bind, *argv, other=other)
