"""The hosts that decide for all others, over real sockets, and what a host does if one of them lies or is gone."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from checks import bundle as bundles
from checks.bundle import Pass, PassedNode
from checks.documents.decode import decode
from checks.documents.report import NodeReport, dump, dump_plain
from checks.exchange.exchange import ExchangeError, Responder
from checks.exchange.secret_key import Access
from checks.model import Answer, Node
from checks.roster import Member, Roster
from checks.runner import barrier
from checks.runner.barrier import NodeBarrier
from checks.runner.deadline import NEVER, Deadline
from checks.runner.in_job import judges
from checks.runner.in_job.judges import JudgeDecision, Panel
from checks.runner.node_context import NodeContext
from checks.runner.node_run import barrier_of
from tests.checks.runner.test_barrier import node_contexts
from tests.sample_reports import POLICY, WHEN, answered, healthy

NODES = 5
JUDGES = (0, 1, 3)
MEMBERS = tuple(Member(f"node-{rank}", "127.0.0.1", rank + 1) for rank in range(500))


def report_of(node_context: NodeContext) -> bytes:
    """A report of this node without any observation."""
    bundle, plan = node_context.bundle, bundles.plan_of(node_context.bundle)[1]
    node = Node(
        node_context.node,
        node_context.node_rank,
        "attempt",
        bundle.catalogue,
        True,
        {"host": node_context.node},
    )
    return dump_plain(NodeReport(1, bundle.gate_id, WHEN, bundle.profile, bundle.declared, plan, node, ()))


Lie = Callable[[JudgeDecision], "JudgeDecision | bytes | None"]


class Liar(Panel):
    """A judge that publishes something else than it decided, or nothing."""

    lie: Lie

    def publish(self, decision: bytes) -> None:
        """The lie."""
        if (lie := self.lie(decode(JudgeDecision, json.loads(decision)))) is not None:
            super().publish(lie if isinstance(lie, bytes) else dump_plain(lie))


class TwoFaced(Responder):
    """It shows its decision to the first host that asks, and another one to all others."""

    def get_all(self, keys: Sequence[str], wait_s: float, alike: str | None = None) -> list[str | None]:
        """As a responder does, but for the decision."""
        notes = super().get_all(keys, wait_s, alike)
        if keys[0].startswith("decision/") and notes[0]:
            decision = decode(JudgeDecision, json.loads(judges.unpacked(notes[0])))
            self.shown = getattr(self, "shown", 0) + 1
            return [judges.packed(dump_plain(other_machine(decision)))] if self.shown > 1 else notes
        return notes


class Job:
    """The hosts of one job, each in a thread. `lies` are those of a judge, `gone` are hosts that ended before the decision."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.monkeypatch, self.deadline = folder, monkeypatch, NEVER
        self.lies, self.gone, self.merged = dict[int, Lie](), set[int](), list[str]()
        self.responders = dict[int, type[Responder]]()

    def _host(self, node_context: NodeContext, stack: ExitStack) -> Callable[[], JudgeDecision | str]:
        rank, member = node_context.node_rank, node_context.roster.members[node_context.node_rank]
        responder = self.responders.get(rank, Responder)(node_context.access, node_context.bundle.catalogue)
        stack.callback(responder.close)
        panel = (Liar if rank in self.lies else Panel)(node_context, barrier_of(node_context, responder))
        if isinstance(panel, Liar):
            panel.lie = self.lies[rank]
        if rank not in self.gone:
            responder.listen(member.address, member.probe_port)

        def run() -> JudgeDecision | str:
            own = report_of(node_context)
            if rank in self.gone:
                return "gone"
            try:
                panel.hand_over(own)
                if panel.is_judge:
                    panel.decide("attempt", own, WHEN)
                    self.merged.append(panel.node)
                return panel.follow(own)
            except Exception:
                responder.close()  # as the end of its process would
                raise

        return run

    def run(self, answer: Answer = Answer.GO) -> list[JudgeDecision | str]:
        """What each host follows, where the verdict has this answer."""
        self.monkeypatch.setattr(judges, "decide", lambda *_, **__: answered(answer))
        contexts = node_contexts(self.folder, 2.0 if self.gone else 20.0, NODES)
        with ExitStack() as stack, ThreadPoolExecutor(NODES) as pool:
            hosts = [self._host(replace(each, deadline=self.deadline), stack) for each in contexts]
            return list(pool.map(lambda host: host(), hosts))


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Job:
    """Five hosts, three of which decide."""
    return Job(tmp_path, monkeypatch)


def other_machine(decision: JudgeDecision) -> JudgeDecision:
    """The decision about another machine under the first name."""
    assert decision.proven is not None
    first, *others = decision.proven.nodes
    nodes = (replace(first, identity={"host": "another"}), *others)
    return replace(decision, proven=replace(decision.proven, nodes=nodes))


def refusal(decision: JudgeDecision) -> JudgeDecision:
    """The same hosts, refused."""
    return replace(decision, verdict=answered(Answer.NO_GO), proven=None)


def leave(decision: JudgeDecision) -> JudgeDecision:
    """The same hosts, with a pass that nobody may have."""
    proven = Pass(1, "board", "d", WHEN, tuple(PassedNode(f"node-{rank}", rank, {}) for rank in range(NODES)))
    return replace(decision, verdict=answered(Answer.GO), proven=proven)


def started(decisions: Sequence[JudgeDecision | str]) -> list[int]:
    """The ranks of the hosts that may start."""
    return [rank for rank, each in enumerate(decisions) if isinstance(each, JudgeDecision) and each.proven]


def test_three_hosts_decide_and_all_follow_one_decision(job: Job) -> None:
    """The others merge and judge nothing. The pass names all machines."""
    decisions = job.run()
    first = decisions[0]

    assert {f"node-{rank}" for rank in JUDGES} == set(job.merged)
    assert isinstance(first, JudgeDecision) and [first] * NODES == decisions
    assert first.proven and [f"node-{rank}" for rank in range(NODES)] == [
        node.name for node in first.proven.nodes
    ]


@pytest.mark.parametrize(
    ("lies", "answer", "reason"),
    [
        ({0: refusal}, Answer.GO, "node-0 and node-1 decided differently"),
        ({1: leave}, Answer.NO_GO, "node-0 and node-1 decided differently"),
        ({3: other_machine}, Answer.GO, "node-3 and node-0 decided differently"),
        ({3: lambda _: b"{"}, Answer.GO, "node-3 published no decision that can be read"),
    ],
)
def test_a_judge_that_lies_starts_nobody(
    job: Job, lies: Mapping[int, Lie], answer: Answer, reason: str
) -> None:
    """Whichever way it lies, and whichever judge a host asks first."""
    job.lies = dict(lies)
    decisions = job.run(answer)

    assert [] == started(decisions)
    assert any(isinstance(each, str) and each.startswith(reason) for each in decisions), decisions


def test_a_host_whose_report_was_changed_refuses_for_all(job: Job) -> None:
    """Even if all judges agree: without its pass token no host starts."""
    job.lies = dict.fromkeys(JUDGES, lambda each: replace(each, reports={**each.reports, "node-4": "0" * 64}))
    decisions = job.run()

    assert [0, 1, 2, 3] == started(decisions)
    assert str(decisions[4]).endswith("decided about another report of node-4")


def test_a_judge_with_two_decisions_starts_none_that_got_the_second(job: Job) -> None:
    """Its digest is that of one of them."""
    job.responders[1] = TwoFaced
    decisions = job.run()

    assert len(started(decisions)) < NODES
    assert "node-0 and node-1 decided differently" in decisions


def test_without_a_judge_nobody_starts_and_a_refusal_has_its_reason(job: Job) -> None:
    """A judge that is gone is named if the others would start; a refusal needs one judge."""
    job.gone = {3}
    go, refused = job.run(), job.run(Answer.NO_GO)

    assert ["node-3 published no decision in time"] * 4 == [each for each in go if each != "gone"]
    assert [Answer.NO_GO] * 4 == [each.verdict.answer for each in refused if isinstance(each, JudgeDecision)]


def test_a_judge_that_never_decides_is_waited_for_until_the_deadline(job: Job) -> None:
    """It answers, so that nothing else ends the wait."""
    job.lies, job.deadline = {3: lambda _: None}, Deadline(0.5, time.monotonic())
    assert [] == started(job.run())


LEFT = ("node-0", "node-1", "node-2", "node-4")


@pytest.mark.parametrize(
    ("answer", "gone", "lies", "reason"),
    [
        (Answer.GO, (), {}, ""),
        (Answer.NO_GO, (3,), {}, ""),
        (Answer.NO_GO, (), {1: lambda each: replace(each, chosen=LEFT[1:])}, "node-0 and node-1 decided differently"),
        (Answer.NO_GO, (), {0: lambda each: replace(each, chosen=())}, "node-0 and node-1 decided differently"),
    ],
    ids=["all pass", "a judge is gone", "one chooses others", "one chooses nobody"],
)  # fmt: skip
def test_all_judges_that_are_there_choose_the_same_hosts(
    job: Job, answer: Answer, gone: tuple[int, ...], lies: Mapping[int, Lie], reason: str
) -> None:
    """The pass has the chosen ones alone. A judge may be the host that broke; one that lies ends the job, so that it has no choice."""
    job.monkeypatch.setattr(judges, "choose", lambda *_: LEFT)
    job.gone, job.lies = set(gone), dict(lies)
    decisions = [each for rank, each in enumerate(job.run(answer)) if rank not in gone]

    assert {reason} <= {*map(str, decisions)} if reason else {LEFT} == {_chosen(each) for each in decisions}
    assert not reason or len({_chosen(each) for each in decisions} - {()}) < 2
    if answer is Answer.GO:
        assert [0, 1, 2, 3, 4] == started(decisions)
        assert all(_passed(each) == LEFT for each in decisions)


def _chosen(decision: JudgeDecision | str) -> tuple[str, ...]:
    return decision.chosen if isinstance(decision, JudgeDecision) else ()


def _passed(decision: JudgeDecision | str) -> tuple[str, ...]:
    assert isinstance(decision, JudgeDecision) and decision.proven
    return tuple(node.name for node in decision.proven.nodes)


@pytest.mark.parametrize(
    ("nodes", "number", "ranks"),
    [(1, 3, [0]), (2, 3, [0, 1]), (3, 2, [0, 1]), (400, 3, [0, 133, 266]), (4, 9, [0, 1, 2, 3])],
)
def test_judges_are_spread_over_the_hosts(nodes: int, number: int, ranks: list[int]) -> None:
    assert [MEMBERS[rank] for rank in ranks] == judges.judges_of(MEMBERS[:nodes], number)


def test_reports_that_are_there_are_read_although_hosts_are_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even when the time for them is up; no host is asked for ever. A report is sent small."""
    report, dead = dump(healthy(64)), {"node-5", *(f"node-{rank}" for rank in range(65, 130))}
    access, hellos = Access(b"k" * 32, "node-1"), list[str]()
    responder = Responder(access, "")
    for member in MEMBERS:
        if member.name not in dead:
            responder.put_of(member.name, f"report/{member.name}", judges.packed(report))

    def ask(member: Member, *_: object) -> dict[str, Any]:
        hellos.append(member.name)
        raise ExchangeError("timed out")

    monkeypatch.setattr(barrier, "ask", ask)
    bundle = SimpleNamespace(network_s=0.3, stage_s=0.1, policy=POLICY)
    node_context = SimpleNamespace(
        bundle=bundle, roster=Roster(MEMBERS, 999, "lo"), node="node-1", node_rank=1, deadline=NEVER
    )
    board = NodeBarrier(node_context.roster, access, 0.3, responder)
    reports = Panel(cast(Any, node_context), board)._reports()

    assert {member.name for member in MEMBERS} - dead - {"node-1"} == reports.keys()
    assert {report} == set(reports.values()) and len(judges.packed(report)) < len(report) / 5
    assert set(hellos) <= dead and len(hellos) < 20
