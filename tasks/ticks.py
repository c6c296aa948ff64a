"""One line a check as it finishes, with what the policy says of it so far. The verdict comes at the end."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from checks import rules
from checks.facts.table import Facts
from checks.model import Cause, Declared, Finding, Level, Observation, Outcome, Planned, Scope
from checks.policy import CheckPolicy, Policy
from tasks.render.clean import one_line
from tasks.render.matrix import State, finding_state

COLOURS = {State.PASS: "32", State.WARN: "33", State.UNKNOWN: "35", State.FAIL: "31"}


class Ticks:
    """Called with each observation; of a check on ranks it says one line when the last rank has reported."""

    def __init__(
        self,
        plan: Sequence[Planned],
        declared: Declared,
        policy: Policy,
        facts: Facts,
        say: Callable[[str], None],
        colour: bool = False,
    ) -> None:
        counts = {Scope.NODE: 1, Scope.RANK: declared.ranks_per_node, Scope.CLUSTER: 1}
        self._left = {planned.check: counts[planned.scope] for planned in plan if planned.skip is None}
        self._total, self._done = len(self._left), 0
        self._rows: dict[str, list[Observation]] = {}
        self._declared, self._policy, self._facts = declared, policy, facts
        self._say, self._colour = say, colour

    def __call__(self, row: Observation) -> None:
        """Take one observation."""
        rows = self._rows.setdefault(row.check, [])
        rows.append(row)
        if len(rows) == self._left.get(row.check, 1):
            self._tick(row.check, rows)

    def finish(self) -> None:
        """Say what was never whole."""
        for check, wanted in self._left.items():
            rows = self._rows.get(check, [])
            if len(rows) < wanted:
                self._line(State.UNKNOWN, check, rows, f"{len(rows)} of {wanted} reported")

    def _tick(self, check: str, rows: list[Observation]) -> None:
        said = [finding for row in rows for finding in self._of(row)]
        worst = max(said, key=finding_state, default=None)
        state = max([State.PASS, *map(finding_state, said)])
        self._line(state, check, rows, worst.message if worst else "")

    def _of(self, row: Observation) -> list[Finding]:
        """What is said of the row by itself; what compares ranks or nodes waits for the verdict."""
        line = self._policy.checks.get(row.check, CheckPolicy())
        kind = self._declared.instance_type
        if row.outcome is Outcome.MEASURED:
            known = rules.Known(self._facts.instances.get(kind), self._facts.absent(kind, row.check))
            return list(rules.apply(row.check, line, (row,), 1, known))
        level = Level.WARN if line.accepts(row.skip) or not line.required else Level.FAIL
        why = f"{row.skip.value}: {row.reason}" if row.skip else row.reason
        return [Finding(level, Cause.EVIDENCE, row.check, row.subject, f"not measured: {why}")]

    def _line(self, state: State, check: str, rows: list[Observation], why: str) -> None:
        self._done += 1
        mark = f"\x1b[{COLOURS[state]}m{state.sign}\x1b[0m" if self._colour else state.sign
        seconds = max((row.seconds for row in rows), default=0.0)
        on = f" ({len(rows)} ranks)" if len(rows) > 1 else ""
        head = f"{mark} {self._done:>2}/{self._total} {check:<24} {seconds:6.1f} s{on}"
        self._say(f"{head}  {one_line(why, 160)}".rstrip())
