"""What a page shows in addition to a verdict: where the machines are, what the verdict is based on, what a wrong decision costs,
what such machines should reach, and the trend of this cluster's last gates, oldest first (pure).
"""

from __future__ import annotations

from dataclasses import dataclass

from checks.facts.instances import Facts
from checks.facts.own_machine import short_text
from checks.judge.cost.cost import Cost
from checks.judge.culprits.readings import decoded
from checks.judge.ledger import Entry, ledger
from checks.model import ANSWER_WORDS, Answer, Finding, Report, Verdict
from checks.model_details import Images
from checks.policy import Policy
from tasks.render.changes import Changes
from tasks.render.findings import Group, remedy_of
from tasks.render.remedy_commands import NOWHERE, PURPOSES, Place, commands
from tasks.render.views.cost import cost_line, is_worth_showing
from tasks.render.views.expectations import NOTHING_EXPECTED, Expectations, expectations
from tasks.render.views.suspects import DecodedMatrix, of_readings


@dataclass(frozen=True)
class PastGate:
    """One gate of the cluster. `when` is UTC, ISO 8601; `is_this` marks the page's own. `link` leads to its page, "" if none does."""

    gate_id: str
    when: str
    answer: Answer
    finding: str
    is_this: bool = False
    link: str = ""


@dataclass(frozen=True)
class PastNumber:
    """One number over the gates: `spark` for text, `line` and `dots` for a drawing of 240 x 48; `worse`: it degrades."""

    title: str
    said: str
    worse: bool
    spark: str
    line: str
    dots: tuple[tuple[str, str], ...]
    low: str
    high: str


@dataclass(frozen=True)
class Past:
    """`problems` say what could not be read: a short strip must not look like a short history.

    `changes` are those since the last GO; None if there was none, or it could not be read. `fleet` leads to the page about all nodes
    of the cluster, "" if there is none.
    """

    gates: tuple[PastGate, ...] = ()
    hidden: int = 0
    numbers: tuple[PastNumber, ...] = ()
    reports: int = 0
    problems: tuple[str, ...] = ()
    changes: Changes | None = None
    fleet: str = ""

    @property
    def previous(self) -> PastGate | None:
        """The gate before the page's own."""
        return next((gate for gate in reversed(self.gates) if not gate.is_this), None)

    @property
    def said(self) -> str:
        """Such as "12 gates, 9 go, 2 no-go, 1 cannot tell"."""
        counts = {
            word.lower(): sum(gate.answer is answer for gate in self.gates)
            for answer, word in ANSWER_WORDS.items()
        }
        several = "gate" if len(self.gates) == 1 else "gates"
        parts = [f"{count} {word}" for word, count in counts.items() if count]
        return ", ".join([f"{len(self.gates)} {several}", *parts])


TYPED_SUBJECTS = 3
# The longest command with the longest names of a node and a job: one that is cut does something else.
COMMAND = 1000


@dataclass(frozen=True)
class VerdictContext:
    """Every part may be empty. `said` are lines below the headline: the cost, another tool's own verdict.

    `first_line` is the first line about the gate's end, if it says more than the verdict: who overrode it, for example. `failed` says
    what failed although the verdict let it go on, such as the training.
    `training` says that the training was not started; "" if it was, where none was to be, and while nobody knows.
    `own_decision` says what the gate itself decided about a report that is judged again, where that differs; it follows the answer.
    `images` are those of the gate: one that uses an earlier PASS trains in its own.
    `past` is None if nobody looked for earlier gates. `shown` is every matrix of who measured whom, decoded.
    """

    place: Place = NOWHERE
    ledger: tuple[Entry, ...] = ()
    said: tuple[str, ...] = ()
    cost: Cost | None = None
    expected: Expectations = NOTHING_EXPECTED
    past: Past | None = None
    shown: tuple[DecodedMatrix, ...] = ()
    first_line: str = ""
    failed: str = ""
    training: str = ""
    images: Images | None = None
    own_decision: str = ""


NO_CONTEXT = VerdictContext()


def verdict_context(
    report: Report,
    policy: Policy,
    verdict: Verdict,
    launcher: str = "",
    job: str = "",
    said: tuple[str, ...] = (),
    cost: Cost | None = None,
    facts: Facts | None = None,
) -> VerdictContext:
    """The context of a report, with the policy and facts that it was judged with. Without a launcher there are no commands."""
    named = {node.name: node.identity.get("engine_node", "") for node in report.nodes}
    engine_nodes = {node: engine for node, engine in named.items() if engine}
    declared = report.declared
    place = Place(launcher, declared.instance_type, job, engine_nodes, short_text(declared))
    lines = (*said, cost_line(cost)) if cost is not None and is_worth_showing(cost) else said
    expected = expectations(report, policy, facts)
    shown = of_readings(decoded(report, policy, facts)) if facts is not None else ()
    return VerdictContext(place, ledger(report, policy, verdict), lines, cost, expected, shown=shown)


def advice(item: Group, verdict: Verdict, place: Place) -> tuple[str, tuple[str, ...]]:
    """The remedy, with what its commands do where that is not plain, and the commands."""
    commands_typed = typed(item, verdict, place)
    parts = (remedy_of(item, verdict), PURPOSES.get(place.launcher, "") if commands_typed else "")
    return " ".join(part for part in parts if part), commands_typed


def typed(item: Group, verdict: Verdict, place: Place) -> tuple[str, ...]:
    """What to type for the group's first subjects, each command once."""
    evidence = dict(item.evidence)
    found = [
        command
        for subject in item.subjects[:TYPED_SUBJECTS]
        for command in commands(
            Finding(
                item.level, item.cause, item.check, subject, item.message,
                evidence.get(subject, ""), item.remedy, item.action, elements=item.elements,
            ),
            verdict,
            place,
        )
    ]  # fmt: skip
    return tuple(dict.fromkeys(found))
