"""The machines of a gate file of two nodes, as a remediation sees them: a fake of an engine, which repairs nothing."""

from __future__ import annotations

from tasks.machines.base import Holder, Machine, Mark, Retest, Rung, ServiceState


class TwoMachines:
    """node-0 and node-1, which serve, are fenced or are tested. A fake of an engine; it repairs nothing."""

    name = "fake"
    rungs: frozenset[Rung] = frozenset()
    fence_is = Rung.FENCE

    def __init__(self) -> None:
        self.mark: Mark | None = None
        self.testing = False
        self.calls: list[str] = []

    def by_name(self) -> dict[str, Machine]:
        """Both."""
        service = (
            ServiceState.TESTING if self.testing else ServiceState.OUT if self.mark else ServiceState.SERVING
        )
        holder = Holder.PRELAUNCH if self.mark else Holder.NOBODY
        return {
            "node-0": Machine("node-0", ServiceState.SERVING),
            "node-1": Machine("node-1", service, holder, mark=self.mark),
        }

    def fence(self, node: str, mark: Mark) -> str:
        """Fence."""
        self.calls.append(f"fence {node}")
        self.mark = mark
        return "fenced"

    def open_retest(self, node: str, partners: tuple[str, ...], mark: Mark) -> Retest:
        """Test it."""
        self.calls.append(f"open {node} {' '.join(partners)}".strip())
        self.testing = True
        return Retest((node, *partners))

    def close_retest(self, node: str, mark: Mark) -> None:
        """End it."""
        self.testing = False

    def free(self, node: str, mark: Mark) -> str:
        """Return it."""
        self.calls.append(f"free {node}")
        self.mark = None
        return "free"

    def command(self, rung: Rung, node: str, mark: Mark, gpus: tuple[int, ...] = ()) -> str:
        """What a person would type."""
        return f"type-{rung.value} {node}"
