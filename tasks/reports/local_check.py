"""Checks this node now, without a gate, an engine or another node.

Each check gets one line as it finishes, with the policy's result so far. The verdict comes at the end. A person may name the checks
to run: these are judged one by one, and there is neither a verdict nor a report, so that nobody takes a part for a gate.
"""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from checks import bundle as bundles
from checks import catalog
from checks.documents.decode import nearest
from checks.documents.report import load, plain
from checks.exit_codes import Exit
from checks.facts.builtin import builtin
from checks.facts.instances import Facts
from checks.facts.person_options import value_text
from checks.judge.not_measured import not_measured
from checks.judge.rules import apply
from checks.judge.rules.values import RuleContext
from checks.judge.verdict import decide
from checks.model import (
    Cause,
    Declared,
    Finding,
    Level,
    Observation,
    Outcome,
    Planned,
    Profile,
    Report,
    Scope,
    Skip,
    Value,
    Verdict,
)
from checks.model_details import Unmeasured
from checks.policy import CheckPolicy, Policy
from checks.runner import single_node
from tasks.render.findings import gathered
from tasks.render.headline import sentence
from tasks.render.views.nodes import State, finding_state
from tasks.reports.read import InputError
from tasks.text.inert import one_line

COLOURS = {State.PASS: "32", State.WARN: "33", State.UNKNOWN: "35", State.FAIL: "31"}
PRODUCT_NAME = Path("/sys/class/dmi/id/product_name")


class CheckProgress:
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
        """Print the checks of which not every rank reported."""
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
        """The findings about the row by itself; comparisons of ranks or nodes wait for the verdict."""
        line = self._policy.checks.get(row.check, CheckPolicy())
        kind = self._declared.instance_type
        if row.outcome is Outcome.MEASURED:
            instance, absent = self._facts.instances.get(kind), self._facts.absent(kind, row.check)
            known = RuleContext(instance, absent, self._declared, self._facts)
            return list(apply.apply(row.check, line, (row,), 1, known))
        level = Level.WARN if line.accepts(row.skip) or not line.required else Level.FAIL
        why = f"{row.skip.value}: {row.reason}" if row.skip else row.reason
        return [not_measured(row.check, row.subject, Unmeasured("", why), level)]

    def _line(self, state: State, check: str, rows: list[Observation], why: str) -> None:
        self._done += 1
        mark = f"\x1b[{COLOURS[state]}m{state.sign}\x1b[0m" if self._colour else state.sign
        seconds = max((row.seconds for row in rows), default=0.0)
        on = f" ({len(rows)} ranks)" if len(rows) > 1 else ""
        head = f"{mark} {self._done:>2}/{self._total} {check:<24} {seconds:6.1f} s{on}"
        self._say(f"{head}  {one_line(why, 160)}".rstrip())


def undeclared_error(product_name: Path = PRODUCT_NAME) -> InputError:
    """The error if nobody declared what this machine is. The firmware's name for it (EC2's types, on Nitro) is only a hint."""
    try:
        named = product_name.read_text(errors="replace").strip()
    except OSError:
        named = ""
    known = builtin().instances
    near = named if named in known else nearest(named, list(known)) if "." in named else None
    seen = f" Its firmware calls it {named!r:.64}." if named else ""
    said = (
        "name the instance type that this machine should be, such as cpu or p5.48xlarge: without it missing parts "
        f"cannot be found.{seen}"
    )
    return InputError("--instance-type", said, "", near)


def check_node(
    declared: Declared,
    profile: Profile,
    policy: Policy,
    say: Callable[[str], None],
    colour: bool,
    write: Callable[[bytes], None],
    raised: tuple[str, ...] = (),
) -> tuple[Report, Verdict]:
    """Run the checks that the declaration plans, `say` a line for each as it ends, `write` the report, and judge it. `raised` are the
    numbers of `--option` that the policy has already.
    """
    name = f"node-{uuid.uuid4().hex[:8]}"
    made = bundles.make(name, declared, profile, policy, builtin(), raised=raised)
    facts = builtin().of(declared)
    ticks = CheckProgress(
        bundles.plan_of(made)[1], declared, policy.for_machines(declared), facts, say, colour
    )
    with tempfile.TemporaryDirectory(prefix="prelaunch-") as folder:
        data = single_node.checked(made, Path(folder), ticks, settles=True)
    ticks.finish()
    write(data)
    report = load(data)
    return report, decide(report, policy, builtin())


NO_GATE = "PARTIAL CHECK, NO GATE"
UNJUDGED = "it was measured, and no rule of the policy judges it"


class PartResult(StrEnum):
    """What a check that was run alone shows. UNKNOWN: it was not measured, or nobody can tell."""

    PASSED = "passed"
    WARNS = "warns"
    FAILED = "failed"
    UNKNOWN = "cannot tell"


@dataclass(frozen=True)
class NamedCheck:
    """One of the checks that were run alone, with its findings, the worst first, and what it measured on each subject."""

    check: str
    result: PartResult
    findings: tuple[Finding, ...]
    measured: tuple[tuple[str, Mapping[str, Value]], ...] = ()


def named_checks(given: Sequence[str], declared: Declared, profile: Profile) -> tuple[str, ...]:
    """The checks that `--only` names, separated by commas. Raises InputError for one that is unknown, or that is not run here."""
    names = tuple(dict.fromkeys(name.strip() for words in given for name in words.split(",") if name.strip()))
    if not names:
        raise InputError("--only", "it names no check, such as system.clock.")
    plans = {one: {line.check: line.skip for line in _plan(declared, one)} for one in Profile}
    for name in names:
        if name not in plans[profile]:
            near = nearest(name, list(plans[profile]))
            raise InputError("--only", f"{name!r:.80} is not a check.", "", near)
        skip = plans[profile][name]
        others = [one.value for one in Profile if plans[one][name] is None]
        if skip is Skip.NOT_IN_PROFILE and others:
            raise InputError(
                "--only", f"{name} is not in profile {profile.value}. Add --profile {others[0]}."
            )
        if skip is not None:
            raise InputError(
                "--only", f"{name} is not for instance type {declared.instance_type}: {skip.value}."
            )
    return names


def _plan(declared: Declared, profile: Profile) -> tuple[Planned, ...]:
    instance = builtin().of(declared).instances.get(declared.instance_type)
    return catalog.plan(catalog.CATALOG, declared, profile, instance)


def run_part(
    names: Sequence[str],
    declared: Declared,
    profile: Profile,
    policy: Policy,
    say: Callable[[str], None],
    colour: bool,
) -> Report:
    """Run these checks alone, `say` a line for each as it ends. Returns the report of them, which settles no open finding."""
    others = tuple(line.check for line in _plan(declared, profile) if line.check not in names)
    name = f"part-{uuid.uuid4().hex[:8]}"
    made = bundles.make(name, declared, profile, policy, builtin(), skip=others)
    plan = [line for line in bundles.plan_of(made)[1] if line.check in names]
    facts = builtin().of(declared)
    ticks = CheckProgress(plan, declared, policy.for_machines(declared), facts, say, colour)

    def tick(row: Observation) -> None:
        if row.check in names:
            ticks(row)

    with tempfile.TemporaryDirectory(prefix="prelaunch-") as folder:
        report = load(single_node.checked(made, Path(folder), tick))
    ticks.finish()
    rows = tuple(row for row in report.observations if row.check in names)
    return replace(report, plan=tuple(line for line in report.plan if line.check in names), observations=rows)


def judge_part(part: Report, names: Sequence[str], policy: Policy) -> tuple[NamedCheck, ...]:
    """Each of the checks by the policy's rules about it. Pure."""
    alone = replace(policy, checks={name: policy.checks[name] for name in names if name in policy.checks})
    found = [one for one in decide(part, alone, builtin()).findings if one.level is not Level.PASS]
    rows = {name: [row for row in part.observations if row.check == name] for name in names}
    planned = {line.check: line.metrics for line in part.plan}
    made = (
        _named(name, [row.outcome for row in rows[name]], [one for one in found if one.check == name], name in policy.checks)
        for name in names
    )  # fmt: skip
    return tuple(replace(one, measured=_values(rows[one.check], planned.get(one.check, ()))) for one in made)


def _values(
    rows: Sequence[Observation], metrics: Sequence[str]
) -> tuple[tuple[str, Mapping[str, Value]], ...]:
    return tuple(
        (row.subject, {name: row.metrics[name] for name in metrics if row.metrics.get(name) is not None})
        for row in rows if row.outcome is Outcome.MEASURED
    )  # fmt: skip


def _named(name: str, outcomes: Sequence[Outcome], found: Sequence[Finding], is_judged: bool) -> NamedCheck:
    if not is_judged:
        unjudged = Finding(Level.WARN, Cause.EVIDENCE, name, "", UNJUDGED)
        return NamedCheck(name, PartResult.UNKNOWN, (*found, unjudged))
    if any(one.level is Level.FAIL and one.cause is not Cause.EVIDENCE for one in found):
        return NamedCheck(name, PartResult.FAILED, tuple(found))
    whole = bool(outcomes) and all(one is Outcome.MEASURED for one in outcomes)
    if not whole or any(one.cause is Cause.EVIDENCE for one in found):
        return NamedCheck(name, PartResult.UNKNOWN, tuple(found))
    return NamedCheck(name, PartResult.WARNS if found else PartResult.PASSED, tuple(found))


def part_code(results: Sequence[NamedCheck]) -> Exit:
    """NO_GO where one failed; else CANNOT_TELL, because a part is never a GO."""
    failed = any(one.result is PartResult.FAILED for one in results)
    return Exit.NO_GO if failed else Exit.CANNOT_TELL


def part_line(results: Sequence[NamedCheck]) -> str:
    """The first line: that it is no gate, and what was found."""
    bad = [one for one in results if one.result is not PartResult.PASSED]
    passed = f"{len(results) - len(bad)} of {len(results)} checks passed"
    parts = [f"{one.check} {one.result.value}{_why(one)}" for one in bad]
    if len(results) == 1:
        return f"{NO_GATE}: {parts[0] if parts else f'{results[0].check} passed'}"
    return f"{NO_GATE}: {'; '.join((passed, *parts))}"


def _why(one: NamedCheck) -> str:
    return f": {sentence(gathered(one.findings)[0])}" if one.findings else ""


def part_text(results: Sequence[NamedCheck]) -> str:
    """For a terminal: the first line, what it does not prove, and what to do."""
    code = int(part_code(results))
    lines = [part_line(results)]
    lines.append(
        f"Nothing else was measured: this is no GO, proves no machine, and was kept nowhere (exit code {code})."
    )
    for item in (item for one in results for item in gathered(one.findings)):
        lines.append(f"{item.word} {item.cause.value} {item.where}: {one_line(sentence(item), 600)}")
        lines += [f"  do: {one_line(item.remedy, 600)}"] if item.remedy else []
    for one in results:
        for subject, values in one.measured:
            said = ", ".join(f"{name} {value_text(value)}" for name, value in values.items())
            lines.append(f"{one.check} on {one_line(subject, 120)}: {one_line(said, 600)}")
    return "".join(f"{one_line(line, 1200) if at == 0 else line}\n" for at, line in enumerate(lines))


def part_document(results: Sequence[NamedCheck]) -> dict[str, object]:
    """As JSON; no key is ever absent, and there is no answer."""
    checks = [
        {
            "check": one.check,
            "result": one.result.name.lower(),
            "findings": plain(one.findings),
            "measured": {subject: plain(values) for subject, values in one.measured},
        }
        for one in results
    ]
    return {"answer": None, "partial": True, "said": part_line(results), "checks": checks, "error": None}
