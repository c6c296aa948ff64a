"""What Slurm's commands answer, for tests that need no Slurm: a runner that keeps nodes and reservations. It is a fake.

It has the states that tests/engines/test_slurm_machines.py saw of 22.05, and those of 24.11 where `keeps_reason` is set.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tasks.launchers.slurm.commands import SlurmReply
from tasks.machines.base import Mark
from tasks.machines.slurm import SlurmMachineOptions, SlurmMachines
from tasks.machines.slurm_commands import reservation_name

Pause = Callable[[float], None]
DAY, BOOTED = "2026-11-25", "12:43:38"
OK = SlurmReply(0, "", "")
MARK = Mark("gate-7f3a", "gpu.ecc")
NAME = reservation_name("gate-7f3a", "n1")
RESUME = ("scontrol", "update", "nodename=n1", "state=resume")


@dataclass
class FakeNode:
    """A node of the fake."""

    flags: list[str] = field(default_factory=lambda: ["IDLE"])
    reason: str = ""
    booted: str = BOOTED


@dataclass
class SlurmAnswers:
    """`argvs` are the commands that change something, in order. `refuse` are answers for a command that begins so."""

    nodes: dict[str, FakeNode] = field(default_factory=lambda: {f"n{at}": FakeNode() for at in range(3)})
    reservations: dict[str, str] = field(default_factory=dict)
    jobs: dict[str, str] = field(default_factory=dict)
    program: str = "/sbin/reboot"
    keeps_reason: bool = False
    argvs: list[tuple[str, ...]] = field(default_factory=list)
    refuse: dict[tuple[str, ...], SlurmReply | Exception] = field(default_factory=dict)
    asked: int = 0

    def __call__(self, *argv: str, timeout_s: float = 60.0) -> SlurmReply:
        """Answer one command."""
        for begins, answer in self.refuse.items():
            if argv[: len(begins)] == begins:
                self.argvs.append(argv)
                if isinstance(answer, Exception):
                    raise answer
                return answer
        if argv[0] == "squeue":
            return SlurmReply(0, "".join(f"{job}|{node}\n" for job, node in self.jobs.items()), "")
        if argv[1] == "show":
            self.asked += 1
            tables = {"node": self._nodes, "reservation": self._reservations, "config": self._config}
            return SlurmReply(0, tables[argv[2]](), "")
        self.argvs.append(argv)
        if argv[0] == "srun":
            return OK
        words = dict(word.partition("=")[::2] for word in argv if "=" in word)
        do = {"update": self._update, "create": self._create, "delete": self._delete, "reboot": self._reboot}
        return do[argv[1]](words, argv)

    def state(self, node: str) -> str:
        """State and reason of a node."""
        one = self.nodes[node]
        return f"{'+'.join(one.flags)} {one.reason}".strip()

    def _nodes(self) -> str:
        lines = []
        for name, one in self.nodes.items():
            reason = f" Reason={one.reason} [root@{DAY}T13:00:00]" if one.reason else ""
            lines.append(f"NodeName={name} State={'+'.join(one.flags)} BootTime={DAY}T{one.booted}{reason}\n")
        return "".join(lines)

    def _reservations(self) -> str:
        return "".join(self.reservations.values()) or "No reservations in the system\n"

    def _config(self) -> str:
        return f"RebootProgram           = {self.program}\n"

    def _update(self, words: dict[str, str], argv: tuple[str, ...]) -> SlurmReply:
        node, state = self.nodes[words["nodename"]], words.get("state", "")
        if state == "resume" and node.flags == ["IDLE"]:
            return SlurmReply(1, "", "slurm_update error: Invalid node state specified")
        if reason := words.get("reason"):
            node.reason = reason
        if state == "resume":
            node.flags = ["IDLE"]
            node.reason = node.reason if self.keeps_reason else ""
        elif state:
            node.flags = [*(flag for flag in node.flags if flag not in ("DRAIN", "FAIL")), state.upper()]
        return OK

    def _create(self, words: dict[str, str], argv: tuple[str, ...]) -> SlurmReply:
        name = words["ReservationName"]
        self.reservations[name] = (
            f"ReservationName={name} Nodes={words['Nodes']} Flags={words['Flags']},SPEC_NODES Users={words['Users']} State=ACTIVE\n"
        )
        return SlurmReply(0, f"Reservation created: {name}\n", "")

    def _delete(self, words: dict[str, str], argv: tuple[str, ...]) -> SlurmReply:
        del self.reservations[words["ReservationName"]]
        return OK

    def _reboot(self, words: dict[str, str], argv: tuple[str, ...]) -> SlurmReply:
        self.nodes[argv[-1]].flags += ["REBOOT_REQUESTED"]
        return OK


def fenced(**values: object) -> SlurmAnswers:
    """A Slurm whose n1 we have drained."""
    answers = SlurmAnswers(**values)  # type: ignore[arg-type]
    answers.nodes["n1"] = FakeNode(["IDLE", "DRAIN"], str(MARK))
    return answers


def machines(
    answers: SlurmAnswers, hyperpod: bool = False, pause: Pause = lambda _: None, **values: Any
) -> SlurmMachines:
    """The back end over it."""
    return SlurmMachines(SlurmMachineOptions(**values), answers, Path("/nonexistent"), pause, hyperpod)
