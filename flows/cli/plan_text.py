"""What a gate would do, as tables for people: checks, stages with time and cost, notifications, and what would be submitted (pure)."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from checks.bundle import plan_of
from checks.model import ANSWER_WORDS, Answer, Planned, Scope, Skip
from tasks.gate.context import GateContext
from tasks.gate.forecast import Forecast, PlacementCost, StageForecast
from tasks.gate_file.placeholders import examples_of
from tasks.launchers.base import Plan, PreflightCheck, PreflightResult, Work
from tasks.notifiers.base import Audience
from tasks.paging.preflight import notifier_reach
from tasks.render.terminal import text_console
from tasks.store.open import absolute, is_remote
from tasks.text.inert import one_line
from tasks.text.tables import counted

if TYPE_CHECKING:
    from rich.console import Console

HOUR_S = 3600.0
# What a job is for.
WORDS = {
    Work.COMMAND: "command",
    Work.CHECK: "health checks",
    Work.CONFIRM: "training, after each node has proven to be a machine that passed",
    Work.GATE: "health checks, then the training on the same machines",
}
RESULTS = {
    PreflightResult.OK: "ok",
    PreflightResult.WARNING: "WARNING",
    PreflightResult.WRONG: "WRONG",
    PreflightResult.NO_CAPACITY: "NO CAPACITY",
    PreflightResult.UNSEEN: "not looked at",
}
Rows = Sequence[tuple[str, ...]]


def plan_text(
    setting: GateContext,
    made: Forecast,
    plans: Sequence[Plan],
    lines: Sequence[PreflightCheck],
    environment: Mapping[str, str],
    width: int = 100,
    colour: bool = False,
) -> str:
    """The page, `width` columns wide; the first line is the summary."""
    out = io.StringIO()
    _, planned = plan_of(setting.bundle("plan"))
    console = text_console(out, width, colour)
    _print(console, _summary(setting, planned), "bold")
    for line in lines:
        if line.result in (PreflightResult.WRONG, PreflightResult.NO_CAPACITY):
            _print(console, f"This gate would not start: {line.text}", "bold red")
            break
    else:
        for line in [one for one in lines if one.unreachable][:1]:
            _print(console, f"The engine could not be asked: {line.text}", "bold yellow")
    for line in [one for one in lines if one.result is PreflightResult.WARNING]:
        _print(console, f"WARNING: {line.text}", "bold yellow")
    _print(console, _store(setting))
    examples = [one.text for one in examples_of(setting.gate, environment)]
    _list(console, "Still an example: the gate fails, or notifies nobody, until it is yours", examples)
    profile = setting.gate.checks.profile.value
    _table(console, f"Checks, profile {profile}", ("where", "checks"), list(_checks(setting, planned)))
    head: tuple[str, ...] = ("stage", "expected", "limit", "cost expected", "cost at most")
    _table(console, "Stages: estimates, not measurements of this cluster", head, list(_stages(made)))
    region = f" ({made.price_region})" if made.price_region else ""
    _table(
        console, f"Cost before the training, by placement{region}", ("placement", "expected", "at most", "of which idle"),
        [_placement(one) for one in made.placements],
    )  # fmt: skip
    head = ("what happened", "who", "notified through")
    _table(console, "Notifications", head, list(_notified(setting, environment)))
    head = ("job", "what it is", "what is submitted")
    _table(console, "Jobs", head, [_job(plan) for plan in plans])
    if lines:
        rows = [(RESULTS[line.result], line.text) for line in lines]
        _table(console, "Looked at before the start", ("result", "what"), rows)
    _list(console, "Not known", made.unknown)
    _list(console, "Price", [_price(made)])
    console.print()
    _print(console, "Nothing was started. --format shell prints the requests, --format json everything.")
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def _print(console: Console, line: str, style: str = "") -> None:
    from rich.text import Text

    console.print(Text(one_line(line, 1200), style=style), soft_wrap=True)


def _table(console: Console, title: str, head: tuple[str, ...], rows: Rows) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE, pad_edge=False, show_edge=False)
    for name in head:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*(Text(one_line(cell, 4000)) for cell in row))
    console.print()
    console.print(Text(title, style="bold"))
    console.print(table)


def _list(console: Console, title: str, lines: Sequence[str]) -> None:
    from rich.text import Text

    if not lines:
        return
    console.print()
    _print(console, title, "bold")
    for line in lines:
        for part in textwrap.wrap(
            one_line(line, 1200),
            console.width - 2,
            initial_indent="- ",
            subsequent_indent="  ",
            break_on_hyphens=False,
        ):
            console.print(Text(part), soft_wrap=True)


def _summary(setting: GateContext, planned: Sequence[Planned]) -> str:
    gate, declared = setting.gate, setting.declared
    gpus = f", {declared.gpus_per_node} GPUs each" if declared.gpus_per_node else ""
    running = sum(1 for one in planned if one.skip is None and one.check not in gate.checks.skip)
    return (
        f"Plan of gate {gate.name}: {running} checks on {counted(declared.nodes, 'node')} of {declared.instance_type}{gpus}, "
        f"{counted(declared.ranks, 'rank')}; launcher {gate.cluster.launcher}, placement {setting.launcher.placement.value}, "
        f"policy {setting.policy.name}"
    )


def _store(setting: GateContext) -> str:
    """Where results are kept; a relative path says relative to what."""
    return f"Results are kept in {setting.address}{relative_note(setting)}."


def relative_note(setting: GateContext) -> str:
    """What a relative [store] path is relative to; "" for an absolute one, a remote store, and another store than the file's."""
    path = setting.gate.store.path
    if is_remote(path) or Path(path).expanduser().is_absolute() or setting.address != absolute(path):
        return ""
    return f" ([store] path {path!r} is relative to the folder where the command runs)"


def _checks(setting: GateContext, planned: Sequence[Planned]) -> Iterator[tuple[str, str]]:
    """What runs where, then what does not run and why; a check that the policy does not require is marked."""
    declared = setting.declared
    names = ", ".join(declared.node_names[:4]) + (", ..." if len(declared.node_names) > 4 else "")
    where = {
        Scope.NODE: f"every node ({declared.nodes}{f': {names}' if names else ''})",
        Scope.RANK: f"every rank ({declared.ranks}, {declared.ranks_per_node} per node)",
        Scope.CLUSTER: "once per cluster",
    }
    skipped = setting.gate.checks.skip
    for scope, place in where.items():
        chosen = [p.check for p in planned if p.scope is scope and p.skip is None and p.check not in skipped]
        if chosen:
            yield place, ", ".join(_marked(setting, name) for name in chosen)
    if skipped:
        yield f"not run: {Skip.GATE_FILE.value} (a warning in every verdict)", ", ".join(skipped)
    reasons: dict[Skip, list[str]] = {}
    for one in planned:
        if one.skip is not None and one.check not in skipped:
            reasons.setdefault(one.skip, []).append(one.check)
    for reason, left in reasons.items():
        yield f"not run: {reason.value}", ", ".join(left)


def _marked(setting: GateContext, name: str) -> str:
    entry = setting.policy.checks.get(name)
    return name if entry is not None and entry.required else f"{name} (not required)"


def _stages(made: Forecast) -> Iterator[tuple[str, ...]]:
    for stage in made.stages:
        yield (
            stage.name,
            _about(stage),
            "none" if stage.at_most_s is None else _time(stage.at_most_s),
            ("at least " if stage.is_least and stage.billed else "") + _cost(made, stage, stage.about_s),
            _cost(made, stage, stage.at_most_s),
        )


def _about(stage: StageForecast) -> str:
    if stage.about_s is None:
        return "not known"
    return f"{'at least' if stage.is_least else 'about'} {_time(stage.about_s)}"


def _cost(made: Forecast, stage: StageForecast, seconds: float | None) -> str:
    if not stage.billed:
        return "-"
    if seconds is None:
        return "not known"
    hours = made.nodes * seconds / HOUR_S
    return _amount(hours, None if made.usd_per_node_hour is None else hours * made.usd_per_node_hour)


def _placement(one: PlacementCost) -> tuple[str, ...]:
    about = "not known"
    if one.about_node_hours is not None:
        word = "at least" if one.is_least else "about"
        about = f"{word} {_amount(one.about_node_hours, one.about_usd)}"
    idle = "nothing"
    if one.idle_at_most_node_hours:
        rate = "" if one.idle_usd_per_minute is None else f", {one.idle_usd_per_minute:,.2f} USD per minute"
        idle = f"at most {_amount(one.idle_at_most_node_hours, one.idle_at_most_usd)}{rate}"
    name = (
        f"{one.placement.value}{' (this gate)' if one.chosen else ''}{f': {one.again}' if one.again else ''}"
    )
    return name, about, _amount(one.at_most_node_hours, one.at_most_usd), idle


def _notified(setting: GateContext, environment: Mapping[str, str]) -> Iterator[tuple[str, ...]]:
    notify, approval = setting.gate.notify, setting.gate.approval
    reach = {
        side: ", then ".join(map(str, notifier_reach(notify, side, environment))) or "nobody"
        for side in Audience
    }
    yield "a node or a link is broken", "hardware on-call", reach[Audience.ONCALL]
    yield (
        "missing evidence, configuration, no machines, or the training failed",
        "owner of the gate",
        reach[Audience.OWNER],
    )
    if setting.asks:
        people = ", ".join(dict.fromkeys((*approval.approvers, *approval.overriders)))
        answered = (
            f"answered by {people} in Slack, or in Prefect's form" if people else "answered in Prefect's form"
        )
        yield "the verdict needs approval", f"owner of the gate; {answered}", reach[Audience.OWNER]
    yield ANSWER_WORDS[Answer.GO], "nobody", "messages that are open are updated"


def _job(plan: Plan) -> tuple[str, ...]:
    calls = [f"{call.service} {call.operation}" for call in plan.calls]
    scripts = [one.argv[0] for one in plan.processes if one.script]
    nodes = [one.node for one in plan.processes if one.node]
    shown = f"{', '.join(nodes[:8])}{', ...' if len(nodes) > 8 else ''}"
    kinds = {"process": "processes", "container": "containers"}
    own = [
        f"{len(nodes):,} {kind if len(nodes) == 1 else several} on this machine, as {shown}"
        for kind, several in kinds.items()
        if kind in {one.kind for one in plan.processes}
    ]
    submitted = ", ".join((*calls, *scripts, *own))
    return plan.job.name, WORDS[plan.job.work], submitted


def _price(made: Forecast) -> str:
    if made.usd_per_node_hour is None:
        return "no price is known"
    source = f" ({made.price_source})" if made.price_source else ""
    return f"{made.usd_per_node_hour:g} USD per node and hour{source}"


def _amount(node_hours: float, usd: float | None) -> str:
    hours = f"{node_hours:,.2f} node-hours"
    return hours if usd is None else f"{usd:,.2f} USD ({hours})"


def _time(seconds: float) -> str:
    """ "17 s", "3.0 min", "120 h"."""
    if seconds < 120:
        return f"{seconds:g} s"
    return f"{seconds / 60:.1f} min" if seconds < 2 * HOUR_S else f"{seconds / HOUR_S:.1f} h"
