"""Machines of an engine that a test plays: it shows what the test says, and takes fences and returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from tasks.machines.base import EngineSilent, Holder, Machine, Mark, Retest, Rung, ServiceState, Settled


@dataclass
class PlayedMachines:
    """`shown` is what the engine shows; with `silent` it does not answer."""

    shown: dict[str, Machine] = field(default_factory=dict)
    silent: bool = False
    looks: int = 0
    name: str = "played"
    rungs: frozenset[Rung] = frozenset((Rung.REBOOT,))
    fence_is: Rung = Rung.FENCE

    def by_name(self) -> Mapping[str, Machine]:
        """What the test says."""
        self.looks += 1
        if self.silent:
            raise EngineSilent("the played engine does not answer. Start it.")
        return dict(self.shown)

    def fence(self, node: str, mark: Mark) -> str:
        """Take the machine out of service."""
        ours = replace(self.shown[node], holder=Holder.PRELAUNCH, mark=mark)
        self.shown[node] = replace(ours, service=ServiceState.OUT, status=f"out: {mark}")
        return "fenced"

    def act(self, rung: Rung, node: str, mark: Mark, gpus: Sequence[int] = ()) -> str:
        """It is taken."""
        return "taken"

    def settled(self, rung: Rung, before: Machine, now: Machine) -> Settled:
        """At once."""
        return Settled.DONE

    def open_retest(self, node: str, partners: Sequence[str], mark: Mark) -> Retest:
        """On the node."""
        return Retest((node, *partners))

    def close_retest(self, node: str, mark: Mark) -> None:
        """Nothing to do."""

    def free(self, node: str, mark: Mark) -> str:
        """Return the machine to service."""
        self.shown[node] = Machine(node, ServiceState.SERVING, status="idle")
        return "freed"

    def command(self, rung: Rung, node: str, mark: Mark, gpus: Sequence[int] = ()) -> str:
        """A command with that name."""
        return f"played {rung} {node}"

    def shell(self, machine: Machine) -> str:
        """A command with that name."""
        return f"shell {machine.node}"


def serving(*nodes: str) -> PlayedMachines:
    """Machines of these names that serve and run nothing."""
    return PlayedMachines({node: Machine(node, ServiceState.SERVING, status="idle") for node in nodes})
