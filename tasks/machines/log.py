"""Machines that nobody changes: every act is refused with the command that a person would type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tasks.machines.base import ActRefused, Machine, Machines, Mark, Retest, Rung, Settled


class LogMachines:
    """`engine` has the commands of the machines' engine and is never asked anything; None where there is none."""

    name = "log"
    rungs: frozenset[Rung] = frozenset()
    fence_is = Rung.FENCE

    def __init__(self, engine: Machines | None) -> None:
        self.engine = engine

    def by_name(self) -> Mapping[str, Machine]:
        """Nothing is known of any machine."""
        return {}

    def fence(self, node: str, mark: Mark) -> str:
        """Always refused."""
        raise self._refusal(Rung.FENCE, node, mark)

    def act(self, rung: Rung, node: str, mark: Mark, gpus: Sequence[int] = ()) -> str:
        """Always refused."""
        raise self._refusal(rung, node, mark, gpus)

    def settled(self, rung: Rung, before: Machine, now: Machine) -> Settled:
        """No act was ever requested."""
        return Settled.FAILED

    def open_retest(self, node: str, partners: Sequence[str], mark: Mark) -> Retest:
        """Always refused."""
        raise self._refusal(Rung.RECHECK, node, mark)

    def close_retest(self, node: str, mark: Mark) -> None:
        """There is none."""

    def free(self, node: str, mark: Mark) -> str:
        """Always refused."""
        raise self._refusal(Rung.RETURN, node, mark)

    def command(self, rung: Rung, node: str, mark: Mark, gpus: Sequence[int] = ()) -> str:
        """The engine's."""
        return self.engine.command(rung, node, mark, gpus) if self.engine is not None else ""

    def shell(self, machine: Machine) -> str:
        """The engine's."""
        return self.engine.shell(machine) if self.engine is not None else ""

    def _refusal(self, rung: Rung, node: str, mark: Mark, gpus: Sequence[int] = ()) -> ActRefused:
        line = self.command(rung, node, mark, gpus)
        where = f" on {self.engine.name}" if self.engine is not None else ""
        typed = f"Type: {line}" if line else f"There is no command for it{where}."
        return ActRefused(f'machines = "log" changes nothing, so {node} stays as it is ({rung}). {typed}')
