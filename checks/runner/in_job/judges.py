"""The hosts of a job that decide for all of them, and what every host verifies before it follows their decision.

The policy says how many judges there are; they are spread over the roster. Each host hands its report to each judge itself. A judge
merges the reports, decides by the same pure function as the gate, and publishes the decision on its own responder. A host starts only
if the decisions of all judges are equal, byte for byte, and rest on its own report, unchanged. One judge is enough for a refusal.
"""

from __future__ import annotations

import time
import zlib
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from checks.bundle import Pass, pass_of
from checks.documents.columns import measured_by_check
from checks.documents.decode import decode, parse_json
from checks.documents.report import digest, dump, dump_plain
from checks.facts.builtin import builtin
from checks.judge.verdict import decide
from checks.merge import merge
from checks.model import Answer, NodeName, Report, Verdict, node_of
from checks.process.collection import without_collection
from checks.roster import Member
from checks.runner.barrier import NodeBarrier
from checks.runner.deadline import LEAST_S
from checks.runner.in_job.spares import choose
from checks.runner.node_context import NodeContext
from checks.value_types import SPARSE, DecodeError

# After the node's deadline: the reports of all hosts may arrive, then the decisions.
REPORTS_S, DECISIONS_S = 2.0, 3.0
GONE_S = 1.0  # how long a host is waited for once another one is gone: it had the same time
DECISION_BYTES = 1 << 26
STARTS = (Answer.GO, Answer.ASK)


@dataclass(frozen=True)
class JudgeDecision:
    """What a judge publishes: the verdict, and the pass if it lets the machines train.

    `reports` has the SHA-256 of the report of each host that was judged. `nodes` and `subjects` are how many measured each check.
    `chosen` are the hosts that go on where the job has spares: they start if there is a pass, else they are measured again alone.
    """

    verdict: Verdict
    proven: Pass | None
    reports: Mapping[str, str]
    nodes: Mapping[str, int]
    subjects: Mapping[str, int]
    chosen: tuple[NodeName, ...] = field(default=(), metadata=SPARSE)


def judges_of(members: Sequence[Member], number: int) -> list[Member]:
    """The hosts that decide; the first host, which keeps the merged report, is one of them."""
    count = min(number, len(members))
    return [members[index * len(members) // count] for index in range(count)]


class Panel:
    """The judges of a gate, as one of its hosts deals with them."""

    def __init__(self, node_context: NodeContext, barrier: NodeBarrier) -> None:
        self.node, self.bundle = node_context.node, node_context.bundle
        self._barrier, self._deadline = barrier, node_context.deadline
        self._members, self._rank = node_context.roster.members, node_context.node_rank
        self._own = self._members[self._rank]
        self.judges = judges_of(self._members, self.bundle.policy.judges)
        self.is_judge = self._own in self.judges

    def hand_over(self, report: bytes) -> None:
        """The report of this host goes to all judges at the same time, because one of them may be gone."""
        note, until = packed(report), self._deadline.by(self.bundle.network_s, REPORTS_S)
        with ThreadPoolExecutor(len(self.judges)) as pool:
            for judge in self.judges:
                pool.submit(self._barrier.kept_by(judge).put, f"report/{self.node}", note, until)

    @without_collection()
    def decide(self, attempt: str, own: bytes, begun: str) -> tuple[bytes, Verdict]:
        """The merged report, and what this judge decided and published about it."""
        files = {**self._reports(), self.node: own}
        report = merge(self.bundle, attempt, files, begun)
        data = dump(report)
        verdict = decide(report, self.bundle.policy, builtin(), report_digest=digest(data))
        measured = measured_by_check(report.observations)
        subjects = {check: table.columns.subjects for check, table in measured.items()}
        chosen = choose(report, verdict)
        decision = JudgeDecision(
            verdict,
            _pass(report, verdict, chosen),
            {node.name: digest(files[node.name]) for node in report.nodes if node.name in files},
            {check: len(set(map(node_of, names))) for check, names in subjects.items()},
            {check: len(names) for check, names in subjects.items()},
            chosen,
        )
        self.publish(dump_plain(decision))
        return data, verdict

    def publish(self, decision: bytes) -> None:
        """This judge's decision, for all hosts to read."""
        board = self._barrier.kept_by(self._own)
        board.put(f"decision/{self.node}", packed(decision), 0.0)
        board.put(f"digest/{self.node}", digest(decision), 0.0)

    def follow(self, own: bytes) -> JudgeDecision | str:
        """The decision that this host may follow, or why there is none. `own` is the report of this host."""
        start = self._rank % len(self.judges)
        order = [self._own] * self.is_judge + [*self.judges[start:], *self.judges[:start]]
        until = self._deadline.by(2 * (self.bundle.network_s + self.bundle.stage_s), DECISIONS_S)
        notes = ((judge, self._published("decision", judge, until)) for judge in order)
        judge, note = next(((judge, note) for judge, note in notes if note), (order[0], ""))
        data = unpacked(note)
        try:
            decision = decode(JudgeDecision, parse_json(data, DECISION_BYTES))
        except DecodeError as error:
            flaw = f"that can be read: {error}" if note else "in time"
            return f"{judge.name} published no decision {flaw}"
        if decision.proven is None and not decision.chosen:
            return decision
        for other in self.judges:
            published = self._published("digest", other, until)
            if published is None and decision.proven is None:
                continue  # the judge may be the node that broke, and whoever goes on is measured again
            if published is None:
                return f"{other.name} published no decision in time"
            if published != digest(data):
                return f"{other.name} and {judge.name} decided differently"
        if decision.reports.get(self.node) != digest(own):
            return f"{judge.name} decided about another report of {self.node}"
        return decision

    def _published(self, note: str, judge: Member, until: float) -> str | None:
        board, key = self._barrier.kept_by(judge), f"{note}/{judge.name}"
        if judge.name == self.node:
            return board.get(key, 0.0)
        return board.await_note(key, judge, self.bundle.network_s, until)

    def _reports(self) -> dict[str, bytes]:
        """The reports of the other hosts. A host is waited for as long as it answers."""
        patience_s, board = self.bundle.network_s, self._barrier.kept_by(self._own)
        last = self._deadline.by(patience_s + self.bundle.stage_s, REPORTS_S)
        others = [member for member in self._members if member.name != self.node]
        notes = board.get_all(
            [f"report/{member.name}" for member in others],
            max(min(time.monotonic() + patience_s, last), time.monotonic() + LEAST_S),
        )
        reports: dict[str, bytes] = {}
        for member, early in zip(others, notes, strict=True):
            note = early or board.await_note(f"report/{member.name}", member, patience_s, last)
            if note is not None:
                reports[member.name] = unpacked(note)
            else:
                patience_s = GONE_S
        return reports


def _pass(report: Report, verdict: Verdict, chosen: Sequence[str]) -> Pass | None:
    """The pass of the nodes that may start; None if none may."""
    if verdict.answer not in STARTS or (report.declared.spares and not chosen):
        return None
    proven = pass_of(report, verdict)
    return replace(proven, nodes=tuple(node for node in proven.nodes if not chosen or node.name in chosen))


def packed(data: bytes) -> str:
    """The note that holds these bytes."""
    return b64encode(zlib.compress(data)).decode()


def unpacked(note: str) -> bytes:
    """The bytes in a note; none, which is neither a report nor a decision, where it holds none."""
    try:
        return zlib.decompressobj().decompress(b64decode(note), DECISION_BYTES)
    except (ValueError, zlib.error):
        return b""
