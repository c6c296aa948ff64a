"""What a gate would do, for people: checks, stages with time and cost, notifications, and what would be submitted (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from checks.bundle import plan_of
from checks.culprit.patterns.medians import LEAST_SLOWNESS
from checks.facts.prices import Price
from checks.judge.rules.wording import percent
from checks.model import ANSWER_WORDS, Answer, Planned, Scope
from checks.policy import RANKS_IN_PAIRS, SENSITIVE_TO, SLOW_RATIO
from tasks.gate.context import GateContext
from tasks.gate.forecast import Forecast, PlacementCost, StageForecast
from tasks.gate_file.placeholders import examples_of
from tasks.gate_file.starter import unchanged_keys
from tasks.launchers.base import Plan, PreflightCheck, PreflightResult, Work
from tasks.launchers.preflight import for_people
from tasks.notifiers.base import Audience
from tasks.paging.notifier_secrets import notifier_reach
from tasks.store.open import absolute, is_remote
from tasks.text.inert import one_line
from tasks.text.tables import counted

HOUR_S = 3600.0
SHOWN_WARNINGS, SHOWN_NODES = 2, 8
# What a job is for.
PURPOSES = {
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


def plan_text(
    context: GateContext,
    estimate: Forecast,
    plans: Sequence[Plan],
    lines: Sequence[PreflightCheck],
    environment: Mapping[str, str],
    verbose: bool,
) -> str:
    """The answer in at most twelve lines; verbose: what is tested, what is wrong, then a section for each of the rest."""
    _, planned = plan_of(context.bundle("plan"))
    head = [_summary(context, planned), *_obstacles(lines, None if verbose else SHOWN_WARNINGS)]
    store = one_line(f"{context.address}{relative_note(context)}", 400)
    if not verbose:
        answer = {**_answer(context, estimate, plans, lines, environment), "Results": store}
        page = [*head, *(f"{name + ':':<10}{one_line(text, 400)}" for name, text in answer.items() if text)]
        more = "--verbose shows every check, cost and condition"
        return "\n".join([*page, f"Nothing was started. {more}; --format shell prints the requests.", ""])
    region = f" ({estimate.price.where})" if estimate.price is not None and estimate.price.where else ""
    sections: dict[str, Iterable[str]] = {
        "Example values to replace: until then the gate is rejected, or notifies nobody": [
            example.text for example in examples_of(context.gate, environment)
        ],
        "Values of the shipped example to replace or to confirm": _unchanged(context, environment),
        f"Checks, profile {context.gate.checks.profile.value}": _checks(context, planned),
        "Stages: estimates, not measurements of this cluster": [
            _stage(estimate, stage) for stage in estimate.stages
        ],
        f"Cost before the training{region}": [
            *(_cost(estimate, cost) for cost in estimate.placements if cost.chosen),
            _price(estimate),
        ],
        "Notifications": _notified(context, environment),
        "Jobs": map(_job, plans),
        "Looked at before the start": [f"{RESULTS[line.result]}: {line.text}" for line in for_people(lines)],
    }
    page = [*head, f"Results are kept in {store}."]
    for title, entries in sections.items():
        if indented := [f"  {one_line(entry, 4000)}" for entry in entries]:
            page += ["", title, *indented]
    page += ["", "Nothing was started. --format shell prints the requests, --format json everything."]
    return "\n".join(page) + "\n"


def _answer(
    context: GateContext,
    estimate: Forecast,
    plans: Sequence[Plan],
    lines: Sequence[PreflightCheck],
    environment: Mapping[str, str],
) -> dict[str, str]:
    """The rows of the short answer by name; "" for a row that is left out."""
    examples, unchanged = len(examples_of(context.gate, environment)), len(_unchanged(context, environment))
    unseen = sum(line.result is PreflightResult.UNSEEN for line in lines)
    wrong, placements = len(_stopping(lines)) - 1, [cost for cost in estimate.placements if cost.chosen]
    tasks = (
        f"correct {counted(wrong, 'more condition')} that would stop the gate" * (wrong > 0),
        f"replace {counted(examples, 'example value')}" * bool(examples),
        f"confirm {counted(unchanged, 'value')} of the shipped example" * bool(unchanged),
    )
    once = ", if the checks run once"
    todo, listed = "; ".join(filter(None, tasks)), " (--verbose lists them)"
    oncall, owner = (_reach(context, environment, side) for side in (Audience.ONCALL, Audience.OWNER))
    notified = oncall if oncall == owner else f"broken hardware: {oncall}; everything else: {owner}"
    return {
        "Time": "; ".join(_length(stage) for stage in estimate.stages if stage.billed),
        "Cost": "; ".join(
            f"{_bounds(estimate, cost)}, before the training{once * bool(cost.again)}" for cost in placements
        ),
        "Jobs": ", ".join(plan.job.name for plan in plans),
        "Notified": notified,
        "To do": todo and todo + listed,
        "Unknown": f"{counted(unseen, 'condition')} could not be looked at{listed}" * bool(unseen),
    }


def _unchanged(context: GateContext, environment: Mapping[str, str]) -> list[str]:
    """The keys that still have the values of the shipped example, beside those that cannot be anybody's own."""
    examples = {example.key.partition("[")[0] for example in examples_of(context.gate, environment)}
    keys = unchanged_keys(context.gate.text) if context.gate.cluster.launcher != "local" else ()
    return [key for key in keys if key not in examples]


def _summary(context: GateContext, planned: Sequence[Planned]) -> str:
    gate, declared = context.gate, context.declared
    gpus = f", {declared.gpus_per_node} GPUs each" if declared.gpus_per_node else ""
    spares = f" ({counted(declared.spares, 'spare')}, so the checks may run twice)" if declared.spares else ""
    running = sum(1 for entry in planned if entry.skip is None and entry.check not in gate.checks.skip)
    summary = (
        f"Plan of gate {gate.name}: {running} checks on {counted(declared.nodes, 'node')}{spares} of {declared.instance_type}{gpus}, "
        f"{counted(declared.ranks, 'rank')}; launcher {gate.cluster.launcher}, placement {context.launcher.placement.value}, "
        f"policy {context.policy.name}"
    )
    return one_line(summary, 1200)


def _stopping(lines: Sequence[PreflightCheck]) -> list[PreflightCheck]:
    return [line for line in lines if line.result in (PreflightResult.WRONG, PreflightResult.NO_CAPACITY)]


def _obstacles(lines: Sequence[PreflightCheck], limit: int | None) -> Iterator[str]:
    """What would stop the gate, or else the engine that gave no answer; then the warnings, at most `limit` of them."""
    stopping = _stopping(lines)
    unreachable = [check for check in lines if check.unreachable]
    if stopping:
        yield f"This gate would not start: {one_line(stopping[0].text, 1200)}"
    elif unreachable:
        yield f"The engine could not be asked: {one_line(unreachable[0].text, 1200)}"
    warnings = [line for line in lines if line.result is PreflightResult.WARNING]
    texts = [f"WARNING: {one_line(line.text, 1200)}" for line in warnings[:limit]]
    if more := len(warnings) - len(texts):
        texts[-1] += f" (and {more} more)"
    yield from texts


def relative_note(context: GateContext) -> str:
    """What a relative [store] path is relative to; "" for an absolute one, a remote store, and another store than the file's."""
    path = context.gate.store.path
    if is_remote(path) or Path(path).expanduser().is_absolute() or context.address != absolute(path):
        return ""
    return " ([store] path is relative to the folder where the command runs)"


def _checks(context: GateContext, planned: Sequence[Planned]) -> Iterator[str]:
    """What runs where, then what does not run and why; a check that the policy does not require is marked."""
    declared = context.declared
    names = ", ".join(declared.node_names[:4]) + (", ..." if len(declared.node_names) > 4 else "")
    where = {
        Scope.NODE: f"every node ({declared.nodes}{f': {names}' if names else ''})",
        Scope.RANK: f"every rank ({declared.ranks}, {declared.ranks_per_node} per node)",
        Scope.CLUSTER: "once per cluster",
    }
    skipped = context.gate.checks.skip
    groups: dict[str, list[str]] = {title: [] for title in where.values()}
    if skipped:
        groups["not run: left out by the gate file (a warning in every verdict)"] = list(skipped)
    for entry in planned:
        if entry.check not in skipped:
            title = where[entry.scope] if entry.skip is None else f"not run: {entry.skip.value}"
            groups.setdefault(title, []).append(_marked(context, entry))
    yield from (f"{title}: {', '.join(checks)}" for title, checks in groups.items() if checks)
    for check in sorted({entry.check for entry in planned if entry.skip is None} - set(skipped)):
        if check in RANKS_IN_PAIRS and check in context.policy.checks:
            yield _sensitivity(check, context.policy.checks[check].options)


def _sensitivity(check: str, options: Mapping[str, float]) -> str:
    """How slow a part has to be to be named: that of nodes and ranks depends on what is measured."""
    of_link = percent(1 - options.get("slow_ratio", SLOW_RATIO))
    text = f"{check} names a link that is at least {of_link} slower than the others, and a node or rank that is at "
    text += f"least {percent(LEAST_SLOWNESS)} slower, or more where noise hides it"
    wanted = {component: options.get(f"detects_slow_{component}") for component in SENSITIVE_TO}
    limits = [
        f"a {component} that is {percent(share)} slower" for component, share in wanted.items() if share
    ]
    return f"{text}; refused if it could not name {' and '.join(limits)}" if limits else text


def _marked(context: GateContext, planned: Planned) -> str:
    entry = context.policy.checks.get(planned.check)
    optional = planned.skip is None and not (entry is not None and entry.required)
    return f"{planned.check} (not required)" if optional else planned.check


def _length(stage: StageForecast) -> str:
    about = "not known"
    if stage.about_s is not None:
        about = f"{'at least' if stage.is_least else 'about'} {_time(stage.about_s)}"
    limit = "no limit" if stage.at_most_s is None else f"at most {_time(stage.at_most_s)}"
    return f"{stage.name}: {about}, {limit}"


def _stage(estimate: Forecast, stage: StageForecast) -> str:
    if not stage.billed or stage.at_most_s is None:
        return _length(stage)
    return f"{_length(stage)} for {_amount(estimate.nodes * stage.at_most_s / HOUR_S, estimate.price)}"


def _bounds(estimate: Forecast, cost: PlacementCost) -> str:
    about = "not known"
    if cost.about_node_hours is not None:
        about = f"{'at least' if cost.is_least else 'about'} {_amount(cost.about_node_hours, estimate.price)}"
    return f"{about}, at most {_amount(cost.at_most_node_hours, estimate.price)}"


def _cost(estimate: Forecast, cost: PlacementCost) -> str:
    price, idle = estimate.price, "no idle time"
    if cost.idle_at_most_node_hours:
        rate = (
            "" if price is None else f", {estimate.nodes * price.usd_per_node_hour / 60:,.2f} USD per minute"
        )
        idle = f"of which idle at most {_amount(cost.idle_at_most_node_hours, price)}{rate}"
    again = f"; {cost.again}" if cost.again else ""
    return f"{cost.placement.value}: {_bounds(estimate, cost)}, {idle}{again}"


def _reach(context: GateContext, environment: Mapping[str, str], side: Audience) -> str:
    return ", then ".join(map(str, notifier_reach(context.gate.notify, side, environment))) or "nobody"


def _notified(context: GateContext, environment: Mapping[str, str]) -> Iterator[str]:
    approval = context.gate.approval
    oncall, owner = (_reach(context, environment, side) for side in (Audience.ONCALL, Audience.OWNER))
    yield f"a node or a link is broken: hardware on-call, through {oncall}"
    yield f"missing evidence, configuration, no machines, or the training failed: owner of the gate, through {owner}"
    if context.asks:
        people = ", ".join(dict.fromkeys((*approval.approvers, *approval.overriders)))
        form = f"by {people} in Slack, or in Prefect's form" if people else "in Prefect's form"
        yield f"the verdict needs approval: owner of the gate, through {owner}; answered {form}"
    yield f"{ANSWER_WORDS[Answer.GO]}: nobody is notified; earlier messages are updated"


def _job(plan: Plan) -> str:
    calls = [f"{call.service} {call.operation}" for call in plan.calls]
    scripts = [process.argv[0] for process in plan.processes if process.script]
    own = [f"{process.kind} {process.node}" for process in plan.processes if process.node]
    more = f" and {len(own) - SHOWN_NODES} more" * (len(own) > SHOWN_NODES)
    names = ", ".join((*calls, *scripts, *own[:SHOWN_NODES]))
    return f"{plan.job.name}: {PURPOSES[plan.job.work]}: {names}{more}"


def _price(estimate: Forecast) -> str:
    if estimate.price is None:
        return "no price is known"
    return f"{estimate.price.usd_per_node_hour:g} USD per node and hour ({estimate.price.provenance})"


def _amount(node_hours: float, price: Price | None) -> str:
    hours = f"{max(node_hours, 0.01):,.2f} node-hours"  # a duration that is not zero
    return hours if price is None else f"{node_hours * price.usd_per_node_hour:,.2f} USD ({hours})"


def _time(seconds: float) -> str:
    """ "17 s", "3.0 min", "120 h"."""
    if seconds < 120:
        return f"{seconds:g} s"
    return f"{seconds / 60:.1f} min" if seconds < 2 * HOUR_S else f"{seconds / HOUR_S:.1f} h"
