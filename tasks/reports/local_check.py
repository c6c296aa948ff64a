"""Checks this node now, without a gate, an engine or another node.

Each check gets one line as it finishes, with the policy's result so far. The verdict comes at the end.
"""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path

from checks import bundle as bundles
from checks import model
from checks.command_line import InputError
from checks.documents.nearest import nearest
from checks.documents.report import load
from checks.facts.builtin import builtin
from checks.facts.instances import Facts
from checks.judge.not_measured import not_measured
from checks.judge.rules import apply
from checks.judge.rules.values import RuleContext
from checks.judge.verdict import decide
from checks.model_details import Unmeasured
from checks.policy import CheckPolicy, Policy
from checks.runner import single_node
from tasks.render.views.nodes import State, finding_state
from tasks.text.inert import one_line

COLOURS = {State.PASS: "32", State.WARN: "33", State.UNKNOWN: "35", State.FAIL: "31"}
PRODUCT_NAME = Path("/sys/class/dmi/id/product_name")


class ProgressPrinter:
    """Called with each observation; of a check on ranks it says one line when the last rank has reported."""

    def __init__(
        self,
        plan: Sequence[model.Planned],
        declared: model.Declared,
        policy: Policy,
        facts: Facts,
        say: Callable[[str], None],
        colour: bool = False,
    ) -> None:
        counts = {model.Scope.NODE: 1, model.Scope.RANK: declared.ranks_per_node, model.Scope.CLUSTER: 1}
        self._left = {planned.check: counts[planned.scope] for planned in plan if planned.skip is None}
        self._total, self._done = len(self._left), 0
        self._rows: dict[str, list[model.Observation]] = {}
        self._declared, self._policy, self._facts = declared, policy, facts
        self._say, self._colour = say, colour

    def __call__(self, observation: model.Observation) -> None:
        """Take one observation."""
        results = self._rows.setdefault(observation.check, [])
        results.append(observation)
        if len(results) == self._left.get(observation.check, 1):
            self._tick(observation.check, results)

    def finish(self) -> None:
        """Print the checks of which not every rank reported."""
        for check, wanted in self._left.items():
            results = self._rows.get(check, [])
            if len(results) < wanted:
                self._line(State.UNKNOWN, check, results, f"{len(results)} of {wanted} reported")

    def _tick(self, check: str, results: list[model.Observation]) -> None:
        findings = [finding for result in results for finding in self._findings(result)]
        worst = max(findings, key=finding_state, default=None)
        state = max([State.PASS, *map(finding_state, findings)])
        self._line(state, check, results, worst.message if worst else "")

    def _findings(self, result: model.Observation) -> list[model.Finding]:
        """The findings about the row by itself; comparisons of ranks or nodes wait for the verdict."""
        line = self._policy.checks.get(result.check, CheckPolicy())
        name = self._declared.instance_type
        if result.outcome is model.Outcome.MEASURED:
            instance, absent = self._facts.instances.get(name), self._facts.absent(name, result.check)
            context = RuleContext(instance, absent, self._declared, self._facts)
            return list(apply.apply(result.check, line, (result,), 1, context))
        level = model.Level.WARN if line.accepts(result.skip) or not line.required else model.Level.FAIL
        reason = f"{result.skip.value}: {result.reason}" if result.skip else result.reason
        return [not_measured(result.check, result.subject, Unmeasured("", reason), level)]

    def _line(self, state: State, check: str, results: list[model.Observation], reason: str) -> None:
        self._done += 1
        mark = f"\x1b[{COLOURS[state]}m{state.sign}\x1b[0m" if self._colour else state.sign
        seconds = max((result.seconds for result in results), default=0.0)
        on = f" ({len(results)} ranks)" if len(results) > 1 else ""
        head = f"{mark} {self._done:>2}/{self._total} {check:<24} {seconds:6.1f} s{on}"
        self._say(f"{head}  {one_line(reason, 160)}".rstrip())


def undeclared_error(product_name: Path = PRODUCT_NAME) -> InputError:
    """The error if nobody declared what this machine is. The firmware's name for it (EC2's types, on Nitro) is only a hint."""
    try:
        product = product_name.read_text(errors="replace").strip()
    except OSError:
        product = ""
    # A name of another form, such as a desktop's, is near to none. A known name is the nearest to itself.
    near = nearest(product, list(builtin().instances)) if "." in product else None
    hint = f" Its firmware calls it {product!r:.64}." if product else ""
    message = (
        "name the instance type that this machine should be, such as cpu or p5.48xlarge: without it missing parts "
        f"cannot be found.{hint}"
    )
    return InputError("--instance-type", message, "", near)


def check_node(
    declared: model.Declared,
    profile: model.Profile,
    policy: Policy,
    say: Callable[[str], None],
    colour: bool,
    write: Callable[[bytes], None],
    raised: tuple[str, ...] = (),
) -> tuple[model.Report, model.Verdict]:
    """Run the checks that the declaration plans, `say` a line for each as it ends, `write` the report, and judge it. `raised` are the
    numbers of `--option` that the policy has already.
    """
    name = f"node-{uuid.uuid4().hex[:8]}"
    bundle = bundles.make(name, declared, profile, policy, builtin(), raised=raised)
    facts = builtin().merged(declared)
    ticks = ProgressPrinter(
        bundles.plan_of(bundle)[1], declared, policy.for_machines(declared), facts, say, colour
    )
    with tempfile.TemporaryDirectory(prefix="prelaunch-") as folder:
        data = single_node.checked(bundle, Path(folder), ticks, settles=True)
    ticks.finish()
    write(data)
    report = load(data)
    return report, decide(report, policy, builtin())
