"""What a page shows in addition to a verdict: where the machines are, what the verdict is based on, what such machines should reach,
and the trend of this cluster's last gates, oldest first (pure).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache
from typing import Any

from checks.documents.columns import by_check
from checks.facts.instances import Facts
from checks.facts.own_machine import short_text
from checks.judge.cost.cost import Cost
from checks.judge.culprits.readings import decoded
from checks.judge.ledger import LedgerEntry, ledger
from checks.judge.rules.wording import subjects_text
from checks.model import ANSWER_WORDS, CLUSTER, LINK, Action, Answer, Cause, Level, Report, Verdict, node_of
from checks.model_details import Images
from checks.policy import Policy
from tasks.render import remedy_commands
from tasks.render.findings import Group, remedy_of
from tasks.render.headline import run_lines
from tasks.render.remedy_commands import NOWHERE, STRENGTH, RemedyContext, commands, runs_on_node
from tasks.render.views.suspects import DecodedMatrix, of_readings
from tasks.text.tables import counted


class EndMark(StrEnum):
    """How a gate ended, where that is less than its verdict let it do; the value is the first word about it."""

    TRAINING_FAILED = "TRAINING FAILED"
    NOT_LAUNCHED = "NOT LAUNCHED"
    NO_CAPACITY = "NO CAPACITY"
    CANCELLED = "CANCELLED"
    REJECTED = "REJECTED"


@dataclass(frozen=True)
class PastGate:
    """One gate of the cluster. `when` is UTC, ISO 8601; `is_this` marks the page's own. `link` leads to its page, "" if none does.
    `end` is how it ended where the answer alone would mislead, None otherwise and while nobody knows.
    """

    gate_id: str
    when: str
    answer: Answer
    finding: str
    is_this: bool = False
    link: str = ""
    end: EndMark | None = None

    @property
    def label(self) -> str:
        """What people read of it first: how it ended, or else its answer."""
        return self.end.value if self.end is not None else ANSWER_WORDS[self.answer]


@dataclass(frozen=True)
class GateHistory:
    """`problems` say what could not be read: a short strip must not look like a short history.

    `worse` are lines about the numbers that get worse.

    `changed` are lines about what is another one since the last GO. `fleet` leads to the page about all nodes of the cluster, "" if
    there is none.
    """

    gates: tuple[PastGate, ...] = ()
    hidden: int = 0
    worse: tuple[str, ...] = ()
    reports: int = 0
    problems: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    fleet: str = ""

    def ended(self, end: EndMark | None) -> GateHistory:
        """The returned history says of the page's own gate how it ended."""
        gates = (replace(gate, end=end) if gate.is_this else gate for gate in self.gates)
        return replace(self, gates=tuple(gates))

    @property
    def previous(self) -> PastGate | None:
        """The gate before the page's own."""
        return next((gate for gate in reversed(self.gates) if not gate.is_this), None)

    @property
    def summary(self) -> str:
        """Such as "12 gates, 9 go, 1 no-go, 1 cannot tell, 1 training failed"."""
        by_label = Counter(gate.label.lower() for gate in self.gates)
        labels = (*ANSWER_WORDS.values(), *(mark.value for mark in EndMark))
        counts = {label.lower(): by_label[label.lower()] for label in labels}
        texts = [f"{count} {label}" for label, count in counts.items() if count]
        return ", ".join([counted(len(self.gates), "gate"), *texts])


TYPED_SUBJECTS = 3
INVENTORY = "gpu.inventory"
# The longest command with the longest names of a node and a job: one that is cut does something else.
COMMAND = 1000


class DecodedMatrices(Sequence[DecodedMatrix]):
    """The matrices of a report, decoded when a page first asks for one: of many nodes that takes as long as the verdict."""

    def __init__(self, report: Report, policy: Policy, facts: Facts) -> None:
        self._decode = cache(lambda: of_readings(decoded(report, policy, facts)))

    def __len__(self) -> int:
        return len(self._decode())

    def __getitem__(self, index: Any) -> Any:
        return self._decode()[index]


@dataclass(frozen=True)
class VerdictContext:
    """Every part may be empty. `notes` are lines below the headline, such as another tool's own verdict; `cost` is for who decides.

    `first_line` is the first line about the gate's end, if it says more than the verdict: who overrode it, for example. `failed` says
    what failed although the verdict let it go on, such as the training.
    `end` is how it ended then, None where the verdict says it.
    `retry` is the command that tries again without the nodes that failed, "" where nobody can.
    `may_start`: the gate has not ended, and starts the training next. `training` says that it was not started; "" if it was, where
    none was to be, and while nobody knows.
    `doubts` are what was known before the checks and may explain the findings; `said` has them, too.
    `own_decision` says what the gate itself decided about a report that is judged again, where that differs; it follows the answer.
    `measured` says how long before the verdict the nodes were measured; "" where that is usual.
    `images` are those of the gate: one that uses an earlier PASS trains in its own.
    `facts` are those that it was judged by, None where they are not known.
    `past` is None if nobody looked for earlier gates. `shown` is every matrix of who measured whom, decoded.
    """

    site: RemedyContext = NOWHERE
    ledger: tuple[LedgerEntry, ...] = ()
    notes: tuple[str, ...] = ()
    cost: Cost | None = None
    facts: Facts | None = None
    past: GateHistory | None = None
    matrices: Sequence[DecodedMatrix] = ()
    first_line: str = ""
    failed: str = ""
    end: EndMark | None = None
    may_start: bool = False
    training: str = ""
    measured: str = ""
    images: Images | None = None
    own_decision: str = ""
    doubts: tuple[str, ...] = ()
    retry: str = ""

    @property
    def about_training(self) -> str:
        """What is known of the training when the page is written, "" for nothing."""
        return self.training or ("The training may start now." if self.may_start else "")

    @property
    def below(self) -> tuple[str, ...]:
        """The lines below the findings."""
        return (f"To try without the failed nodes: {self.retry}",) if self.retry else ()


NO_CONTEXT = VerdictContext()


def verdict_context(
    report: Report,
    policy: Policy,
    verdict: Verdict,
    launcher: str = "",
    job: str = "",
    notes: tuple[str, ...] = (),
    cost: Cost | None = None,
    facts: Facts | None = None,
) -> VerdictContext:
    """The context of a report, with the policy and facts that it was judged with. Without a launcher there are no commands."""
    engine_names = {node.name: node.identity.get("engine_node", "") for node in report.nodes}
    engine_nodes = {node: engine for node, engine in engine_names.items() if engine}
    declared = report.declared
    gpus = _gpus_of_ranks(report, {node_of(finding.subject) for finding in verdict.findings})
    model, machine = declared.instance_type, short_text(declared)
    table = by_check(report.observations).get(INVENTORY)
    drivers = {value for value in (table.column("driver") if table is not None else ()) if value}
    driver = [
        f"driver {', '.join(map(str, each))}" for each in drivers if isinstance(each, tuple) and any(each)
    ]
    shared = (*run_lines(report), *(driver if len(drivers) == 1 else ()))
    site = RemedyContext(launcher, model, job, engine_nodes, machine, gpus, shared)
    matrices = DecodedMatrices(report, policy, facts) if facts is not None else ()
    return VerdictContext(site, ledger(report, policy, verdict), notes, cost, facts, matrices=matrices)


def _gpus_of_ranks(report: Report, nodes: Collection[str]) -> dict[str, str]:
    """The label of the GPU of each rank of these nodes, where there is one for each and the inventory names them all."""
    declared, labels = report.declared, dict[str, str]()
    table = by_check(report.observations).get(INVENTORY) if declared.gpus_per_node else None
    if table is None or declared.ranks_per_node != declared.gpus_per_node:
        return {}
    labels_by_node = dict(zip(table.columns.subjects, table.column("gpus"), strict=True))
    for node in report.nodes:
        gpus = labels_by_node.get(node.name) if node.name in nodes else None
        if isinstance(gpus, tuple) and len(gpus) == declared.gpus_per_node:
            first = node.rank * declared.ranks_per_node
            labels |= {f"{node.name}/rank-{first + local}": str(gpu) for local, gpu in enumerate(gpus)}
    return labels


def advice(item: Group, verdict: Verdict, site: RemedyContext) -> tuple[str, tuple[str, ...]]:
    """The remedy, with what its commands do where that is not plain, and the commands."""
    subjects = item.subjects[:TYPED_SUBJECTS]
    if verdict.suspect_policy and item.cause is Cause.HARDWARE:
        shared = "; ".join((*site.shared, f"the policy's entry {item.check}"))
        checked, sound = replace(item, action=Action.INSPECT), replace(verdict, suspect_policy=False)
        lines = commands(checked, subjects[0], sound, site)[1:] if runs_on_node(checked, site) else ()
        purpose = remedy_commands.TEST_OF_ONE if lines else ""
        return f"{remedy_of(item, verdict)} They have in common: {shared}. {purpose}".rstrip(), lines
    matches = [command for subject in subjects for command in commands(item, subject, verdict, site)]
    remedy = _possible(item, verdict, site) if matches else remedy_of(item, verdict)
    is_unknown = item.cause is Cause.EVIDENCE and item.level is Level.FAIL
    nodes = {node_of(subject): None for subject in subjects if LINK not in subject and subject != CLUSTER}
    texts = [site.after, remedy] if remedy else []
    texts += [f"The log of {node}: {site.logs}/{node}.log." for node in nodes if is_unknown and site.logs]
    texts += [remedy_commands.SSH] if matches and runs_on_node(item, site) else []
    texts += [remedy_commands.PURPOSES.get(site.launcher, "")] if matches else []
    return " ".join(filter(None, texts)), tuple(dict.fromkeys(matches))


@dataclass(frozen=True)
class Advised:
    """A group of findings as every renderer shows it: with the remedy and what to type."""

    item: Group
    remedy: str
    commands: tuple[str, ...]


def advised(groups: Sequence[Group], verdict: Verdict, context: VerdictContext) -> tuple[Advised, ...]:
    """The groups with the advice for each. What a finding of the same check says already is not repeated: "Follow the
    remedy for node-1 above.", and nothing at all where that is of the same subjects, or where the finding follows from a silent node.
    """
    results: list[Advised] = []
    remedies: dict[tuple[object, ...], Group] = {}
    failed: list[Group] = []
    site, strongest, above = context.site, dict[str, int](), set[str]()
    typed = [_typed(item, verdict, site) for item in groups]
    for item, by_node in zip(groups, typed, strict=True):
        for node in by_node:
            strongest[node] = max(strongest.get(node, 0), STRENGTH.index(item.action))
    for item, by_node in zip(groups, typed, strict=True):
        remedy, lines = ("", ()) if item.follows else advice(item, verdict, site)
        own = {line for node_lines in by_node.values() for line in node_lines}
        if own and (own <= above or all(strongest[node] > STRENGTH.index(item.action) for node in by_node)):
            # The commands for another finding are for this one, too.
            remedy, lines = _possible(item, verdict, site) or remedy_commands.TYPED, ()
        above |= own if lines else set[str]()
        if item.follows:
            pass
        elif item.cause is Cause.EVIDENCE and (found_bad := _failed_before(item, failed)):
            # What is bad explains what is missing, and its remedy comes first.
            same = set(found_bad.subjects) == set(item.subjects)
            remedy, lines = "" if same else f"Follow the remedy for {found_bad.subject_text} above.", ()
        elif item.cause is not Cause.EVIDENCE and item.level is Level.FAIL:
            failed.append(item)
        # What a warning asks for is said once, whatever its check.
        first = remedies.setdefault((item.checks if item.level is Level.FAIL else (), remedy, lines), item)
        if first is not item and remedy:
            is_same = first.subjects == item.subjects
            remedy, lines = "" if is_same else f"Follow the remedy for {first.subject_text} above.", ()
        ranks = [name for name in item.subjects[:TYPED_SUBJECTS] if name in site.gpus]
        owners = [(site.gpus[name], subjects_text((name,))) for name in ranks]
        gpus = [f"{gpu} is that of {rank} if CUDA counts as NVML does." for gpu, rank in owners]
        results.append(Advised(item, " ".join(filter(None, (*gpus, remedy))), lines))
    return tuple(results)


def _possible(item: Group, verdict: Verdict, site: RemedyContext) -> str:
    """The remedy, "" on machines that nobody can repair."""
    return "" if site.launcher in remedy_commands.IRREPARABLE else remedy_of(item, verdict)


def _typed(item: Group, verdict: Verdict, site: RemedyContext) -> dict[str, tuple[str, ...]]:
    """Node -> what to type for a finding about it, whatever its check."""
    subjects = item.subjects[:TYPED_SUBJECTS] if item.action in STRENGTH else ()
    by_node = {node_of(name): commands(replace(item, check=""), name, verdict, site) for name in subjects}
    return {node: lines for node, lines in by_node.items() if lines}


def _failed_before(item: Group, failed: Sequence[Group]) -> Group | None:
    """The failure of the same check on all these subjects."""
    alike = (g for g in failed if g.checks == item.checks and set(item.subjects) <= set(g.subjects))
    return next(alike, None)
