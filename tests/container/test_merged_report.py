"""One answer for all hosts of a container's job: the first host merges, the others ask it, and nobody waits for ever."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from checks import bundle as bundles
from checks.documents.report import load
from checks.exchange.authentication import Op
from checks.exchange.exchange import ExchangeError
from checks.exit_codes import Exit
from checks.roster import Member
from container.agent import merged_report
from container.agent.hosts.roll_call import AttemptMembers, ContainerStart, RollCallResponder
from container.agent.merged_report import NAME, Answer, Attempt, Settlement, answer_of
from tests.container.agents import make_bundle
from tests.exchanges import access
from tests.sample_reports import healthy, verdict_of, wrong_sums

NAMES, TOKEN = ("algo-1", "algo-2"), "abcdef12"
LATE = "cannot_tell: the reports of all hosts did not come together"


@dataclass
class Peer:
    """How the other host answers: `said` are the answers to requests for the verdict, one after the other, the last for ever."""

    said: list[dict[str, object] | ExchangeError] = field(default_factory=lambda: [{}])
    asked: list[tuple[Op, str]] = field(default_factory=list)

    def ask(
        self, member: Member, access: object, op: Op, patience_s: float, **more: Any
    ) -> dict[str, object]:
        """Answer like `checks.exchange.exchange.ask`."""
        self.asked.append((op, more.get("key", "")))
        if op is Op.PUT:
            return {"ok": True}
        said = self.said.pop(0) if len(self.said) > 1 else self.said[0]
        if isinstance(said, ExchangeError):
            raise said
        return said


GONE, SLOW = ExchangeError("refused", refused=True), ExchangeError("no answer")


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing waits for long."""
    monkeypatch.setattr(merged_report, "POLL_S", 0.01)
    monkeypatch.setattr(merged_report, "LINGER_S", 0.3)


@pytest.fixture
def peer(monkeypatch: pytest.MonkeyPatch) -> Peer:
    """The other host."""
    made = Peer()
    monkeypatch.setattr(merged_report, "ask", made.ask)
    return made


def attempt(folder: Path, node: str = NAMES[0], alone: str = "", called: tuple[str, ...] = NAMES) -> Attempt:
    """The attempt as a host sees it; `called` answered the roll call."""
    bundle = bundles.load(make_bundle(nodes=2))
    bundle = dataclasses.replace(
        bundle, declared=dataclasses.replace(bundle.declared, node_names=NAMES), network_s=0.5, stage_s=0.5
    )
    members = tuple(Member(name, "127.0.0.1", 1) for name in called)
    responder = RollCallResponder(access(node), "catalogue")
    joined = AttemptMembers({name: ContainerStart("1", "127.0.0.1") for name in called}, alone)
    return Attempt(bundle, TOKEN, node, NAMES, members, responder, access(node), joined, folder)


def note(name: str, last_words: str = "") -> str:
    """What a host delivers."""
    return json.dumps({"report": f"not the report of {name}", "last_words": last_words})


def settled(one: Attempt, last_words: str = "", until: Callable[[], bool] | None = None) -> Answer:
    """The answer of this host, whose checks ended."""
    settlement = Settlement(one)
    settlement.finish(last_words)
    return settlement.wait(until or (lambda: False))


def collection(path: Path) -> list[str]:
    """What the merged report says of what it lacks."""
    return list(load(path.read_bytes()).collection)


def test_the_first_host_judges_what_all_delivered(
    tmp_path: Path, peer: Peer, capsys: pytest.CaptureFixture[str]
) -> None:
    """The report, the answer for the others, and a line of the log say the same."""
    one = attempt(tmp_path)
    one.responder.put(f"{TOKEN}/report/algo-2", note("algo-2"))
    found = settled(one)

    assert Exit.CANNOT_TELL == found.code
    assert {"code": 3, "said": found.said} == json.loads(one.responder.notes[f"{TOKEN}/verdict"])
    assert (tmp_path / NAME).read_bytes() == (tmp_path / TOKEN / NAME).read_bytes()
    assert {
        "gate_id": one.bundle.gate_id,
        "attempt": TOKEN,
        "exit_code": 3,
        "said": found.said,
    } == json.loads(capsys.readouterr().out.removeprefix("PRELAUNCH_VERDICT "))
    assert collection(tmp_path / NAME)[0].startswith("algo-2: its report cannot be read: ")
    assert "algo-1: it delivered no report" in collection(tmp_path / NAME)


def test_a_host_that_is_gone_is_not_waited_for(tmp_path: Path, peer: Peer) -> None:
    """Nothing listens on its port any more: the report says that it delivered nothing."""
    peer.said = [GONE]
    found = settled(attempt(tmp_path), "killed by signal 9")

    assert Exit.CANNOT_TELL == found.code
    assert ["algo-1: killed by signal 9", "algo-2: it delivered no report"] == collection(tmp_path / NAME)
    assert 3 <= len(peer.asked) <= 4


def test_a_host_that_is_only_slow_is_waited_for(tmp_path: Path, peer: Peer) -> None:
    """It is asked until the time is up, and one that answers again counts as there."""
    peer.said = [GONE, GONE, {}, GONE, GONE, SLOW]
    settled(attempt(tmp_path))

    assert len(peer.asked) > 8


def test_a_host_that_missed_the_roll_call_is_named(tmp_path: Path, peer: Peer) -> None:
    """It has no part in the attempt."""
    settled(attempt(tmp_path, called=NAMES[:1]), "exit 1")

    assert ["algo-1: exit 1", "algo-2: it did not answer the roll call"] == collection(tmp_path / NAME)


def test_a_host_that_found_itself_alone_leaves_the_jobs_report_to_others(tmp_path: Path, peer: Peer) -> None:
    """Its own report says why."""
    why = "the first host did not answer the roll call: refused"
    settled(attempt(tmp_path, "algo-2", why, NAMES[1:]))

    assert not (tmp_path / NAME).exists()
    assert f"algo-2: {why}" in collection(tmp_path / TOKEN / NAME)


def test_a_report_that_cannot_be_written_is_no_go(tmp_path: Path, peer: Peer) -> None:
    """Nobody can tell, and the others hear it."""
    one = attempt(tmp_path / "file", called=NAMES[:1])
    (tmp_path / "file").write_text("a file where a folder should be")
    found = settled(one)

    assert Exit.CANNOT_TELL == found.code and "cannot be written" in found.said
    assert 3 == json.loads(one.responder.notes[f"{TOKEN}/verdict"])["code"]


def test_another_host_delivers_and_takes_the_first_ones_answer(tmp_path: Path, peer: Peer) -> None:
    """And leaves word that it has seen it."""
    peer.said = [{}, SLOW, {"value": json.dumps({"code": 0, "said": "go"})}]

    assert Answer(0, "go") == settled(attempt(tmp_path, "algo-2"))
    keys = [key for op, key in peer.asked if op is Op.PUT]
    assert [f"{TOKEN}/report/algo-2", f"{TOKEN}/seen/algo-2"] == keys


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "{}",
        '{"code": true, "said": "x"}',
        '{"code": 99, "said": "x"}',
        '{"code": "0", "said": "x"}',
    ],
)
def test_an_answer_that_is_none_is_no_go(tmp_path: Path, peer: Peer, text: str) -> None:
    """Whatever the first host sent."""
    peer.said = [{"value": text}]

    assert Answer(Exit.CANNOT_TELL, LATE) == settled(attempt(tmp_path, "algo-2"))


def test_a_first_host_that_is_gone_is_no_go(tmp_path: Path, peer: Peer) -> None:
    """It is not asked for ever."""
    peer.said = [GONE]

    assert Answer(Exit.CANNOT_TELL, LATE) == settled(attempt(tmp_path, "algo-2"))
    assert 3 == sum(op is Op.GET for op, _ in peer.asked)


def test_the_wait_ends_when_the_agent_is_told_to(tmp_path: Path, peer: Peer) -> None:
    """Without an answer by then nobody can tell."""
    assert Answer(Exit.CANNOT_TELL, LATE) == settled(attempt(tmp_path, "algo-2"), until=lambda: True)


def test_where_the_machines_were_confirmed_nothing_is_merged(tmp_path: Path, peer: Peer) -> None:
    """They were checked by another job: no report of this one may say anything about them."""
    one = attempt(tmp_path)
    started = tmp_path / TOKEN / "started" / "algo-1"
    started.parent.mkdir(parents=True)
    started.touch()
    settled(one)

    assert not (tmp_path / NAME).exists() and not one.responder.notes


def test_a_report_is_delivered_while_the_command_runs(tmp_path: Path, peer: Peer) -> None:
    """The gate's verdict is there: its report grows no more."""
    one = attempt(tmp_path, called=NAMES[:1])
    for name in ("verdicts", "nodes"):
        (tmp_path / TOKEN / name).mkdir(parents=True)
        (tmp_path / TOKEN / name / "algo-1.json").write_text("{}")
    whole: list[bool] = []
    settlement = Settlement(one, lambda: whole.append(True))
    settlement._thread.join(60)

    assert [True] == whole and settlement.answer is not None
    assert "algo-1: its report cannot be read" in collection(tmp_path / NAME)[0]


def test_the_line_of_the_log_names_the_first_finding() -> None:
    """And says so where nothing was found."""
    refused = verdict_of(wrong_sums(healthy(2, 1), "node-1/rank-1"))
    first = refused.findings[0]

    assert Answer(Exit.NO_GO, f"no_go: {first.subject}: {first.check}: {first.message}") == answer_of(refused)
    assert Answer(Exit.GO, "go: nothing was found") == answer_of(verdict_of(healthy(2, 1)))
