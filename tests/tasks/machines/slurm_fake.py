"""A Slurm of a few nodes that keeps states, reasons and marks as the back end of Slurm promises. It is a fake, and runs no Slurm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from tasks.machines.base import (
    ActRefused,
    EngineSilent,
    Holder,
    Machine,
    Mark,
    Retest,
    Rung,
    Service,
    Settled,
)

BOOTED = 1_764_000_100.0


@dataclass
class FakeSlurm:
    """`acts` are the acts that it was asked for. `silent` makes it answer nothing."""

    nodes: dict[str, Machine]
    name: str = "slurm"
    rungs: frozenset[Rung] = frozenset({Rung.RESET})
    fence_is: Rung = Rung.FENCE
    silent: bool = False
    acts: list[tuple[object, ...]] = field(default_factory=list)

    @classmethod
    def of(cls, *hosts: str) -> FakeSlurm:
        """These nodes, which all serve."""
        return cls({host: Machine(host, Service.SERVING, words="idle", booted_at=BOOTED) for host in hosts})

    def change(self, node: str, **values: object) -> None:
        """Change what Slurm shows of a node."""
        self.nodes[node] = replace(self.nodes[node], **values)  # type: ignore[arg-type]

    def drained_by(self, node: str, who: str) -> None:
        """Somebody else drains it."""
        self.change(
            node, service=Service.OUT, holder=Holder.OTHER, who=who, mark=None, words=f"drained {who}"
        )

    def look(self) -> Mapping[str, Machine]:
        if self.silent:
            raise EngineSilent("slurmctld does not answer. Start it.")
        return dict(self.nodes)

    def fence(self, node: str, mark: Mark) -> str:
        self.acts.append((Rung.FENCE, node, mark))
        self.change(node, service=Service.OUT, holder=Holder.PRELAUNCH, mark=mark, words=f"drained {mark}")
        return f"drained {mark}"

    def act(self, rung: Rung, node: str, mark: Mark, gpus: Sequence[int] = ()) -> str:
        self.acts.append((rung, node, mark, tuple(gpus)))
        return "the GPU was reset"

    def settled(self, rung: Rung, before: Machine, now: Machine) -> Settled:
        self.acts.append(("settled", rung))
        return Settled.DONE

    def open_retest(self, node: str, partners: Sequence[str], mark: Mark) -> Retest:
        self._marked(node, mark)
        self.acts.append(("open", node, tuple(partners)))
        return Retest((node, *partners), {"reservation": "prelaunch"})

    def close_retest(self, node: str, mark: Mark) -> None:
        self.acts.append(("close", node))

    def free(self, node: str, mark: Mark) -> str:
        self._marked(node, mark)
        self.acts.append((Rung.RETURN, node))
        self.change(node, service=Service.SERVING, holder=Holder.NOBODY, mark=None, words="idle")
        return "idle"

    def command(self, rung: Rung, node: str, mark: Mark, gpus: Sequence[int] = ()) -> str:
        return f"slurm {rung} {node}"

    def shell(self, machine: Machine) -> str:
        return ""

    def _marked(self, node: str, mark: Mark) -> None:
        if self.nodes[node].mark != mark:
            raise ActRefused(f"{node} does not bear {mark}.")


class FailingSlurm(FakeSlurm):
    """The same with the state `fail`."""

    def fail_with(self, node: str, reason: str, mark: Mark) -> str:
        self._marked(node, mark)
        self.acts.append(("fail", node, reason))
        self.change(node, holder=Holder.OTHER, who="HyperPod", mark=None, words=f"fail {reason}")
        return f"fail {reason}"
