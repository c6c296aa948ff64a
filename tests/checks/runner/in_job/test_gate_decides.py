"""No host starts the command unless every host has the same pass. Notes are exchanged in this process."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import Mock

import pytest

from checks import bundle as bundles
from checks import cli
from checks.bundle import Pass, PassedNode
from checks.documents import open_findings
from checks.documents.answer import AnswerWord, GateAnswer
from checks.documents.open_findings import OpenFindings
from checks.documents.report import MERGED_FILE, NodeReport, digest, dump_plain
from checks.exchange.secret_key import Access
from checks.exit_codes import Exit
from checks.facts.builtin import builtin
from checks.judge.verdict import unreadable
from checks.model import Answer, Declared, Level, Report, Verdict
from checks.probes.host import system
from checks.process import machine_state
from checks.roster import Member, Roster
from checks.runner.deadline import WRITE_S, Deadline
from checks.runner.in_job import job_gate, judges
from checks.runner.in_job.hold import Refusal
from checks.runner.journal import ReportWriteError
from checks.runner.node_context import NodeContext
from tests.checks.judge.open_findings.test_prior_findings import an_open
from tests.sample_reports import POLICY, WHEN, answered, healthy

HERE = {"host": "h", "boot_id": "b", "gpu_uuids": "", "driver": "", "pool_token": "t0"}
THERE = {**HERE, "host": "h1", "boot_id": "b1", "pool_token": "t1"}
FINDING = unreadable("cut off", POLICY, builtin(), b"").findings[0]


@dataclass
class FakeBoard:
    """The notes of a gate. `others` are those of the other nodes, where the own pass token is OWN; `refused` are those that the first
    node does not take (key -> why), `objections` what others say at a barrier.
    """

    others: Mapping[str, str] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)
    objections: Mapping[str, str] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    first: Member | None = None
    waits_s: float = 0.0

    def put(self, key: str, value: str, deadline: float) -> str:
        """Take a note."""
        self.said.append(key)
        self.notes[key] = value
        return self.refused.get(key, "")

    def get(self, key: str, deadline: float) -> str | None:
        """A note, without waiting."""
        self.asked.append(key)
        found = self.notes.get(key) or self.others.get(key)
        own = key.partition("/")[0] + "/"
        return (
            next(text for name, text in self.notes.items() if name.startswith(own)) if found == OWN else found
        )

    def kept_by(self, member: Member) -> FakeBoard:
        """One board for all."""
        return self

    def get_all(self, keys: Sequence[str], deadline: float, alike: str | None = None) -> list[str | None]:
        """Several notes, without waiting."""
        return [self.get(key, deadline) for key in keys]

    def await_note(self, key: str, member: Member, patience_s: float, last: float) -> str | None:
        """A note, without waiting."""
        return self.get(key, last)

    def arrivals(self, barrier: str, alike: str, deadline: float, last: float) -> dict[str, str | None]:
        """The notes of both nodes, without waiting."""
        self.waits_s = last - time.monotonic()
        return {name: self.get(f"{barrier}/{name}", last) for name in ("node-0", "node-1")}

    def agree(self, barrier: str, objection: str, *times: float) -> str:
        """What the nodes conclude."""
        return objection or self.objections.get(barrier, "")

    def linger(self, seconds: float) -> None:
        """Wait for nobody."""
        self.waits_s = seconds
        self.said.append("linger")


OWN = "the same"
AGREED = {
    "digest/node-1": OWN, "pass/node-1": OWN, "seen/node-1": "ok", "pass/node-0": OWN, "seen/node-0": "ok",
}  # fmt: skip


class Place:
    """A node of two, and what its gate did."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, rank: int = 0) -> None:
        self.folder, self.out = folder, folder / "out"
        self.board, self.events = FakeBoard(AGREED), list[str | bool]()
        self.verdict: Verdict | None = None
        self.report: Report | None = None
        self.broken: Exception | None = None
        declared = Declared("cpu", 2, 0, 1, ("node-0", "node-1"))
        bundle = bundles.make("g", declared, healthy().profile, POLICY, builtin())
        members = (Member("node-0", "127.0.0.1", 1), Member("node-1", "127.0.0.1", 2))
        access = cast(Access, None)
        self.node_context = NodeContext(
            bundle, folder, Roster(members, 3, "lo"), folder, f"node-{rank}", rank, folder, (), (), access, b"a key",
            folder / "exchange.key",
        )  # fmt: skip
        node = replace(healthy().nodes[rank], measured_at="")
        self.own = NodeReport(1, "g", WHEN, bundle.profile, declared, bundles.plan_of(bundle)[1], node, ())
        responder = SimpleNamespace(close=lambda: self.events.append("closed"))
        monkeypatch.setattr(job_gate, "barrier_of", lambda *ignored: self.board)
        monkeypatch.setattr(job_gate, "open_responder", lambda node_context: responder)
        monkeypatch.setattr(job_gate, "run_beside", self._run)
        monkeypatch.setattr(judges, "decide", self._decide)
        log, adopts = self.events.append, {True: "adopts", False: "adopts no more"}
        monkeypatch.setattr(job_gate, "end_left", lambda node_context: log("ended"))
        monkeypatch.setattr(job_gate, "become_subreaper", lambda adopt=True: log(adopts[adopt]))
        monkeypatch.setattr(system, "identity_of_node", lambda: HERE)

    def _run(self, *ignored: object) -> Any:
        if self.broken is not None:
            raise self.broken
        self.events.append("checked")
        return SimpleNamespace(data=dump_plain(self.own), report=self.own)

    def _decide(self, report: Report, *ignored: object, report_digest: str) -> Verdict:
        self.report = report
        return cast(Verdict, self.verdict)

    def passed(self, *identities: Mapping[str, str]) -> Path:
        """A pass for machines of these identities."""
        given = enumerate(identities or (HERE, THERE))
        nodes = tuple(PassedNode(f"node-{at}", at, found) for at, found in given)
        path = self.folder / "pass.json"
        path.write_bytes(bundles.dump(Pass(1, "g", "d" * 64, "2026-11-21T08:00:00Z", nodes, "")))
        return path

    @property
    def missing(self) -> list[str]:
        """The nodes whose reports could not be read or were not there, as the judged report says it."""
        assert self.report is not None
        return [line.partition(":")[0] for line in self.report.collection]

    def run(self, confirm: Path | None = None, pooled: bool = False, ask_s: float = 0.0) -> Any:
        """The gate of this node."""
        return job_gate.gate(self.node_context, "attempt", self.out, confirm, pooled, ask_s)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """The first node."""
    return Place(tmp_path, monkeypatch)


def test_the_machines_that_passed_start_without_a_check(place: Place) -> None:
    """Once every host published an equal pass token and confirmed that it saw all; the node is left as it was found."""
    path, notes = place.passed(), place.board.notes

    assert path == place.run(path)
    assert (digest(path.read_bytes()), "ok") == (notes["pass/node-0"], notes["seen/node-0"])
    assert ["adopts", "closed", "ended", "adopts no more"] == place.events
    assert "seen/node-1" in place.board.asked


@pytest.mark.parametrize(
    ("others", "refused", "reason"),
    [
        ({**AGREED, "pass/node-1": "another"}, {}, "node-1: its pass token differs from this node's"),
        ({"seen/node-1": "ok"}, {}, "node-1: it published no pass token in time"),
        ({"pass/node-1": OWN}, {}, "node-1: it did not confirm every pass token in time"),
        (AGREED, {"pass/node-0": "no room"}, "no room"),
        (AGREED, {"seen/node-0": "no room"}, "no room"),
    ],
)
def test_no_host_starts_alone(
    place: Place, others: Mapping[str, str], refused: Mapping[str, str], reason: str
) -> None:
    """Another pass token, none, or one that was not seen by all: nobody can tell, and it is said of whom."""
    place.board = FakeBoard(others, refused)
    found = place.run(place.passed())

    assert isinstance(found, Refusal)
    assert (Exit.CANNOT_TELL, True) == (found.code, found.reason.endswith(reason))
    assert found.reason.startswith("cannot_tell: ")


def test_another_host_does_not_wait_for_the_last_confirmations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the first keeps the notes, and leaves last."""
    place = Place(tmp_path, monkeypatch, rank=1)
    place.board = FakeBoard({"pass/node-0": OWN})

    path = place.passed(THERE, HERE)

    assert path == place.run(path)


ELSEWHERE: dict[str, tuple[object, ...]] = {
    "this one differs": (({**HERE, "boot_id": "another"}, THERE), {}, False, {}),
    "another differs": ((HERE, THERE), {"confirmed": "node-1: boot_id was b1"}, False, {}),
    "not of the pool": ((THERE, THERE), {}, True, {}),
    "claimed twice": ((HERE, THERE), {}, True, {"claim/node-1": "node-0"}),
    "claimed by nobody": ((HERE, THERE), {}, True, {}),
    "another saw it": ((HERE, THERE), {"each its own": "node-1 and node-0 both"}, True, {"claim/node-1": "node-1"}),
}  # fmt: skip


@pytest.mark.parametrize(("identities", "objections", "pooled", "others"), ELSEWHERE.values(), ids=ELSEWHERE)
def test_other_machines_are_checked_again(
    place: Place, identities: Any, objections: Mapping[str, str], pooled: bool, others: Mapping[str, str]
) -> None:
    """One that differs is enough: then all of them check."""
    place.board = FakeBoard({**AGREED, **others}, objections=objections)
    place.verdict = answered(Answer.GO)

    assert isinstance(place.run(place.passed(*identities), pooled), Path)
    assert "checked" in place.events


def test_pool_of_other_names_starts_without_a_check(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each host is another machine of the pass, and the command's --pooled says so."""
    place.board = FakeBoard({**AGREED, "claim/node-1": "node-0"})
    monkeypatch.setattr(cli, "_node_context", lambda arguments: place.node_context)
    confirm = ("--confirm", str(place.passed(THERE, HERE)), "--pooled")

    assert Exit.GO == cli.main(["gate", "--bundle", "b.json", "--out", str(place.out), *confirm])
    assert "checked" not in place.events and place.board.notes["claim/node-0"] == "node-1"


@pytest.mark.parametrize(
    ("answer", "code"),
    [(Answer.NO_GO, Exit.NO_GO), (Answer.ASK, Exit.NO_GO), (Answer.CANNOT_TELL, Exit.CANNOT_TELL)],
)
def test_anything_but_a_go_starts_nothing(place: Place, answer: Answer, code: Exit) -> None:
    """The first finding is the reason; peers may still be testing this host, so it lingers; no pass is left."""
    place.verdict = answered(answer, FINDING)
    found = place.run()

    said = f"{answer.value}: {FINDING.subject}: {FINDING.check}: {FINDING.message}"
    assert Refusal(code, said) == found
    assert "linger" in place.board.said and not (place.out / "attempt/passes").exists()
    assert (place.out / "attempt/verdicts/node-0.json").exists()


def test_a_go_leaves_a_pass_and_starts(place: Place) -> None:
    """The reports of all hosts were judged; a host without one is missing from the report."""
    place.verdict = answered(Answer.GO)
    place.board = FakeBoard({**AGREED, "report/node-1": "not a report"})

    assert place.out / "attempt/passes/node-0.json" == place.run()
    assert (["node-1"], False) == (place.missing, "linger" in place.board.said)
    assert dump_plain(place.own) == judges.unpacked(place.board.notes["report/node-0"])


def test_without_a_report_of_another_host_the_others_are_judged(place: Place) -> None:
    """What is missing is for the judge to say."""
    place.verdict = answered(Answer.CANNOT_TELL)

    assert Refusal(Exit.CANNOT_TELL, "cannot_tell") == place.run()
    assert place.report and ["node-0"] == [node.name for node in place.report.nodes]


def test_hosts_hold_while_a_person_decides(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pass bears the approval; a refusal starts nothing. By then the deadline of the checks is over, and counts no more."""
    place.node_context = replace(place.node_context, deadline=Deadline(0.0))
    refusal = Refusal(Exit.NO_GO, "refused by ada")
    approval = GateAnswer(1, "g", "attempt", AnswerWord.LAUNCH, "ada", "the clock", "now")
    monkeypatch.setattr(job_gate, "hold", Mock(side_effect=[refusal, approval]))
    place.verdict = answered(Answer.ASK, FINDING)

    assert refusal == place.run(ask_s=5.0) and place.board.waits_s == job_gate.LINGER_S
    found = place.run(ask_s=5.0)
    assert isinstance(found, Path) and b"ada at now: the clock" in found.read_bytes()
    assert place.board.waits_s > 2 * WRITE_S
    place.verdict = answered(Answer.GO)
    assert isinstance(place.run(), Path) and place.board.waits_s < 1, "where nobody was asked"


@pytest.mark.parametrize(("seen_at", "starts"), [(1e9, True), (4e9, False)])
def test_fault_found_since_the_checks_starts_nothing(
    place: Place, monkeypatch: pytest.MonkeyPatch, seen_at: float, starts: bool
) -> None:
    """Other hosts may have measured for longer, and a person may have taken a day. An older one was judged."""
    monkeypatch.setenv(machine_state.VARIABLE, str(place.folder))
    monkeypatch.setattr(judges, "merge", lambda *ignored: healthy())
    findings = OpenFindings(open=(replace(an_open("kernel.xid", Level.FAIL), seen_at=seen_at),))
    (place.folder / machine_state.FINDINGS).write_bytes(open_findings.dump(findings))
    place.verdict = answered(Answer.GO)

    assert starts is isinstance(place.run(), Path)


@pytest.mark.parametrize("error", [ReportWriteError("the disk is full"), OSError("no such device")])
def test_checks_that_cannot_run_start_nothing(place: Place, error: Exception) -> None:
    """Nobody can tell."""
    place.broken = error

    assert Refusal(Exit.CANNOT_TELL, str(error)) == place.run()


def test_a_verdict_that_cannot_be_written_starts_nothing(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder that is not writable, or a disk that hangs: nobody can tell."""
    place.verdict = answered(Answer.GO)
    place.out.write_text("a file where a folder should be")
    refused = place.run()
    monkeypatch.setattr(job_gate, "limited", limited := Mock(side_effect=TimeoutError("it took longer")))
    hung = place.run()

    assert isinstance(refused, Refusal) and isinstance(hung, Refusal)
    assert (Exit.CANNOT_TELL, Exit.CANNOT_TELL) == (refused.code, hung.code)
    assert hung.reason.startswith("cannot_tell: the verdict (go) cannot be written")
    assert 20 < limited.call_args_list[0].args[0] <= WRITE_S


def test_a_slow_disk_refuses_nobody(place: Place) -> None:
    """A verdict and a pass may take many seconds each on a busy file system: the other hosts wait for both."""
    place.verdict = answered(Answer.GO)

    assert isinstance(place.run(), Path)
    assert place.board.waits_s > 2 * WRITE_S
    assert 2 == len(list(place.out.rglob(MERGED_FILE)))  # the first host keeps the merged report


def test_failure_file_keeps_the_reason_of_a_refusal(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    """In a file; a disk that refuses it leaves the log."""
    path = place.out / "attempt/failure/node-0"
    for folder in (place.out, path):
        job_gate.write_failure(place.node_context, "attempt", folder, Refusal(1, "no"))

    assert "no\n" == path.read_text()
    assert "the failure file cannot be written" in capsys.readouterr().err


@pytest.mark.parametrize("ours", [True, False])
def test_only_a_command_of_ours_gets_a_key(place: Place, monkeypatch: pytest.MonkeyPatch, ours: bool) -> None:
    """Through a descriptor; the training gets its own environment, the placeholders filled in, and no key of the gate."""
    monkeypatch.setattr(os, "execvpe", became := Mock())
    monkeypatch.setenv("PRELAUNCH_EXCHANGE_KEY", "secret")
    place.node_context.key_path.write_bytes(b"secret")
    command = ("run", "{node_rank}/{nodes}", *(("{key_fd}",) if ours else ()))
    job_gate.start(place.node_context, "attempt", place.out, command, place.folder / "pass.json")
    [(program, argv, environment)] = [call.args for call in became.call_args_list]
    made = (program, argv[1], environment["PRELAUNCH_PASS"])

    assert ("run", "0/2", str(place.folder / "pass.json")) == made
    assert "lo" == environment["PRELAUNCH_INTERFACE"] and not place.node_context.key_path.exists()
    if ours:
        assert b"a key" == os.read(int(argv[2]), 100)
        os.close(int(argv[2]))


@pytest.mark.parametrize("observe", [(), ("--observe",)])
def test_checks_alone_end_with_the_code_of_their_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, observe: tuple[str, ...]
) -> None:
    """Observe mode lets a command start; where there is none, nothing turns a refusal into a go."""
    monkeypatch.setattr(cli, "_node_context", lambda arguments: SimpleNamespace(node="node-0"))
    monkeypatch.setattr(job_gate, "gate", lambda *arguments: Refusal(Exit.NO_GO, "no_go: node-1"))

    code = cli.main(["gate", "--bundle", "b.json", "--out", str(tmp_path), *observe])

    assert Exit.NO_GO == code


def test_the_command_works_where_the_container_did(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent runs the checks elsewhere, and no word of it reaches the command; the signals that they ignored do."""
    seen: list[tuple[str, bool, object]] = []
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    (other := place.folder / "w").mkdir()
    monkeypatch.chdir(place.folder)
    monkeypatch.setenv(name := "PRELAUNCH_WORKING_FOLDER", str(other))

    def become(program: str, argv: list[str], environment: dict[str, str]) -> None:
        seen.append((os.getcwd(), name in environment, signal.getsignal(signal.SIGUSR1)))

    monkeypatch.setattr(os, "execvpe", become)
    job_gate.start(place.node_context, "x", Path("out"), ("true",), None)

    assert [(str(other), False, signal.SIG_DFL)] == seen and (place.folder / "out/x/started/node-0").exists()
    assert (place.node_context.scratch / "started").exists()  # for the agent, where no command empties it
