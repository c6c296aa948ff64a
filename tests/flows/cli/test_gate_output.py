"""What a gate that was interrupted prints, and what it opened: its jobs were ended only if they were, and each thing opens once."""

from __future__ import annotations

import argparse
import builtins
import json
import signal
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from checks.documents.report import dump_plain
from checks.facts import builtin
from checks.facts.provenance import table_bytes
from flows.cli.gate import _failed, _show
from flows.cli.gate_output import interrupted, show
from flows.cli.main import main
from flows.cli.output import annotate_end, write_remedy
from flows.cli.prefect_server import HEARTBEAT, QUIET
from tasks.gate.context import open_gate_context
from tasks.gate.lease.lease import LauncherAddress, Lease
from tasks.gate.lease.owner import this_process
from tasks.gate.outcome import Decision, Ending, GateOutcome, JudgedReport, Training
from tasks.gate.progress import LiveProgress, Progress
from tasks.gate_file.request import GateRequest
from tasks.launchers.base import JobState
from tasks.notifiers.base import Status
from tasks.notifiers.deliver import means_of
from tasks.notifiers.registry import notifier_for
from tasks.orchestration.foreground import TIME_IS_UP, release_signals
from tasks.orchestration.server.server import StateUnusable
from tasks.paging.live import STOPPED
from tasks.render.context import NO_CONTEXT
from tasks.store.layout import lease_key, outcome_key, report_key
from tests.fakes.slack.server import slack_server
from tests.flows.cli.conftest import Captured
from tests.flows.gates import write_gate
from tests.flows.pools import fake_gate
from tests.sample_reports import POLICY, healthy, verdict_of, wrong_sums

pytestmark = pytest.mark.usefixtures("engine")
_SEEN: list[Counter[Path]] = []
FACTS = Path(builtin.__file__).parent


def typed_words(**more: object) -> argparse.Namespace:
    """What was typed, and no file."""
    nothing = dict.fromkeys(("junit", "summary", "html", "logs"))
    return argparse.Namespace(**{**nothing, "format": "json", "timeout_minutes": 0.5, **more})


CAUSE = "KeyError: 'x'"


def failed_training(detail: str = "logs: /x") -> GateOutcome:
    """A gate that let its training start, which then failed."""
    judged = JudgedReport(healthy(), verdict_of(healthy()))
    training = Training("g-1-train-1", JobState.FAILED, detail, CAUSE)
    return GateOutcome("g-1", Ending.JOB_FAILED, Decision.LAUNCHED, judged, training, CAUSE)


LEFT = "job g-1-check-1 could not be ended; its own time limit will end it: slurmctld does not answer"


@pytest.mark.parametrize(
    ("number", "left", "code", "said"),
    [
        (signal.SIGTERM, "", 143, "cancelled by SIGTERM; no job had been started"),
        (signal.SIGTERM, f"{LEFT}.", 143, f"cancelled by SIGTERM; {LEFT}"),
        (TIME_IS_UP, "", 3, "its time was up (0.5 minutes); no job had been started"),
        (signal.SIGINT, "", 130, "cancelled by SIGINT; no job had been started"),
        (0, "", 130, "cancelled in Prefect; no job had been started"),
    ],
)
def test_an_end_says_what_ended_it_and_what_was_not_ended(
    tmp_path: Path, capsys: Captured, number: int, left: str, code: int, said: str
) -> None:
    """Never that all jobs were ended, beside a notification that one was not. A time limit is no signal, and its exit code is that of
    a gate that cannot tell.
    """
    context = open_gate_context(GateRequest(gate_file=str(write_gate(tmp_path, fake=False))))
    shown, summary = LiveProgress(None), tmp_path / "summary.md"
    if left:
        shown.progress(Progress("end", left, unended=True))

    assert code == interrupted(typed_words(summary=summary), "g-1", number, context, shown)
    assert f"CANCELLED test: {said}" == json.loads(capsys.readouterr().out)["first_line"]
    assert summary.read_text().startswith("# CANCELLED test\n") and said in summary.read_text()


def test_prefect_is_imported_by_no_abandoned_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where Python ends while such a thread imports it aborts, and the exit code says nothing."""
    context = open_gate_context(GateRequest(gate_file=str(write_gate(tmp_path, fake=False))))
    threads, real = dict[str, threading.Thread](), builtins.__import__

    def noted(name: str, *given: Any) -> object:
        threads[name] = threading.current_thread()
        return real(name, *given)

    monkeypatch.setattr(builtins, "__import__", noted)
    interrupted(typed_words(), "g-1", TIME_IS_UP, context, LiveProgress(None))

    assert threads["tasks.page"] is threading.current_thread()


@pytest.mark.parametrize("taken", [True, False])
def test_the_message_of_a_cancelled_gate_says_what_is_kept(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch, taken: bool
) -> None:
    """The sentence of the terminal, in the message that showed the progress, and nobody is called; a gate that another run has
    adopted goes on in that message, and that run keeps how it ends. A lock of this process that could not be released is no other's.
    """
    with slack_server() as slack:
        slack.channel("gates")
        monkeypatch.setenv("SLACK_BOT_TOKEN", slack.token)
        path = write_gate(tmp_path, fake=False)
        notify = f'[notify]\norder = ["slack"]\nowner = ["slack"]\n[notify.slack]\nchannel = "#gates"\napi_url = "{slack.url}"\n'
        path.write_text(f"{path.read_text()}\n{notify}")
        context = open_gate_context(GateRequest(gate_file=str(path)))
        status = Status("g-1", "test", "test", "stopped", STOPPED, 0, 0, 42.0)
        notifier_for("slack", context.gate.notify, means_of(context.store)).show(status)
        owner = this_process()
        held = Lease(
            1, "test", "g-1", 1, "d", "g.toml", True, LauncherAddress("local", {}, "/nonexistent"),
            replace(owner, pid=owner.pid + 1) if taken else owner, 0.0, 0.0, 1e12,
        )  # fmt: skip
        context.store.put(lease_key("test"), dump_plain(held))
        shown = LiveProgress(None)
        training = Training("g-1-train-1", JobState.CANCELLED)
        ended = replace(failed_training(), ending=Ending.CANCELLED, training=training, reason="")
        shown.outcome = ended
        context.store.put(report_key("g-1"), b"{}")
        interrupted(typed_words(), "g-1", signal.SIGTERM, context, shown)
        said = json.loads(capsys.readouterr().out)["first_line"]
        message = slack.only()

    line = "cancelled by SIGTERM after the verdict GO; the training that it had started was ended"
    assert said.endswith(line)
    assert (context.store.get(outcome_key("g-1")) is None) is taken
    assert (message.text == said) is not taken
    assert (message.text == "stopped test, 42 s") is taken
    assert taken or "report: " in message.shown
    assert not any(reply.broadcast for reply in slack.thread(message))


@pytest.mark.parametrize(
    ("ending", "state"), [(Ending.JOB_FAILED, JobState.FAILED), (Ending.VERDICT, JobState.RUNNING)]
)
def test_gate_output_gives_the_cause_of_a_failed_training_once(
    capsys: Captured, ending: Ending, state: JobState
) -> None:
    """In the first line; below it what else is known, and what to do."""
    failed = ending is Ending.JOB_FAILED
    training = Training("g-1-train-1", state, "logs: /x", CAUSE if failed else "")
    outcome = replace(failed_training(), ending=ending, training=training, reason=training.cause or "GO")
    show(typed_words(format="text"), "test", outcome)

    out, err = capsys.readouterr()
    assert (f"TRAINING FAILED test: {CAUSE}\n" in out) is failed
    assert "Decision: launched\n" in out
    assert (out.count(CAUSE), err) == (int(failed), "")
    assert 1 == out.count("logs: /x") and f"Training: g-1-train-1 {state.value} (logs: /x)" in out
    assert ("No node is blamed, because the checks had passed. Read the training's log" in out) is failed


def test_a_wrong_script_is_rejected_at_its_line(tmp_path: Path, capsys: Captured) -> None:
    """As any other mistake of the gate file, on every channel, although it was found only by the preflight."""
    path = write_gate(tmp_path, fake=False)
    context = open_gate_context(GateRequest(gate_file=str(path)))
    line = path.read_text().splitlines().index("[training]") + 2
    why = "training script: it is not there"
    outcome = GateOutcome("", Ending.REJECTED, None, None, None, why, key="training.command")
    arguments = typed_words(file=str(path), junit=tmp_path / "j.xml", summary=tmp_path / "s.md")

    assert 2 == _show(arguments, context, outcome)
    out, err = capsys.readouterr()
    error = json.loads(out)["error"]
    assert (str(path), "training.command", line) == (error["file"], error["path"], error["line"])
    assert f"{path}, line {line}: training.command: training script: it is not there." in err
    assert f'file="{path}" line="{line}"' in (tmp_path / "j.xml").read_text()
    assert f"line {line}" in (tmp_path / "s.md").read_text()


def test_gate_writes_its_first_remedy_as_one_inert_line_to_stderr(capsys: Captured) -> None:
    """One line of the worst finding, inert whatever it says."""
    report = wrong_sums(healthy(), "node-1/rank-3")
    verdict = verdict_of(report, POLICY)
    write_remedy(verdict, NO_CONTEXT)
    hostile = replace(verdict, findings=(replace(verdict.findings[0], remedy="a\n::error::b\x1b[31m"),))
    write_remedy(hostile, NO_CONTEXT)
    first, second, *more = capsys.readouterr().err.splitlines()

    assert first.startswith("prelaunch: Do: Do not train on")
    assert second.startswith("prelaunch: Do: a") and "\x1b" not in second
    assert [] == more


@pytest.mark.parametrize(
    ("code", "clean", "word"),
    [
        (0, True, ""),
        (0, False, "::warning "),
        (1, False, "::error "),
        (3, False, "::error "),
        (4, True, "::error "),
        (143, True, "::error "),
    ],
)
def test_github_shows_every_end_that_somebody_has_to_look_at(
    monkeypatch: pytest.MonkeyPatch, capsys: Captured, code: int, clean: bool, word: str
) -> None:
    """A clean GO has no annotation, and nothing has one elsewhere."""
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    annotate_end("NO-GO a: b", code, clean=clean)
    elsewhere = capsys.readouterr().err
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    annotate_end("NO-GO a: b", code, clean=clean)
    lines = capsys.readouterr().err.splitlines()

    assert "" == elsewhere
    assert (1 if word else 0) == len(lines) and all(line.startswith(word) for line in lines)


@pytest.mark.parametrize("asked", [True, False])
def test_a_training_that_failed_leads_to_the_file_with_its_logs(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch, asked: bool
) -> None:
    """If one was asked for: in the summary and in the annotation, because the paths of a runner are gone with it."""
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    logs, summary = tmp_path / "logs.txt" if asked else None, tmp_path / "s.md"
    show(typed_words(summary=summary, logs=logs), "test", failed_training())

    said = "The ends of its logs are in logs.txt, beside the summary."
    err = capsys.readouterr().err
    assert (said in summary.read_text()) is (f"%0A{said}" in err) is asked
    assert 1 == err.count(CAUSE)


def test_a_store_without_space_for_a_server_is_rejected(tmp_path: Path, capsys: Captured) -> None:
    """It is a store that cannot be written: nothing lacks machines, and the same again helps nobody."""
    context = open_gate_context(GateRequest(gate_file=str(write_gate(tmp_path, fake=False))))
    arguments = typed_words(file="gate.toml")
    full = StateUnusable("/store/prefect is full. Free space there.")

    assert 2 == _failed(arguments, context, "g-1", full, None, LiveProgress(None))
    assert "store" == json.loads(capsys.readouterr().out)["error"]["kind"]
    with pytest.raises(ValueError, match="ours"):
        _failed(arguments, context, "g-1", ValueError("an error of ours"), None, LiveProgress(None))


def _hook(event: str, arguments: tuple[object, ...]) -> None:
    if event == "open" and _SEEN and isinstance(arguments[0], str):
        _SEEN[-1][Path(arguments[0])] += 1


@contextmanager
def openings() -> Iterator[Counter[Path]]:
    """How often this process opens each file for the time of the block."""
    if not _SEEN:
        sys.addaudithook(_hook)
    _SEEN.append(Counter())
    try:
        yield _SEEN[-1]
    finally:
        _SEEN.append(Counter())


@pytest.mark.usefixtures("prefect_backend")
def test_a_gate_of_the_command_line_opens_each_of_its_files_once(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command opens gate file, policy, topology and facts; the run's name and the flow use what it has read."""
    (tmp_path / "topology.conf").write_text("SwitchName=leaf Nodes=node-[0-1]\n", encoding="utf-8")
    path = fake_gate(tmp_path, cluster='topology = "topology.conf"')
    builtin.builtin.cache_clear()
    table_bytes.cache_clear()
    for key, value in {**QUIET, **HEARTBEAT}.items():
        monkeypatch.setenv(key, value)  # the command sets them for good
    heeded = signal.getsignal(signal.SIGTERM)
    try:
        with openings() as seen:
            code = main(["gate", str(path), "--check-only", "--format", "json"])
    finally:
        release_signals()
        signal.signal(signal.SIGTERM, heeded)

    written = capsys.readouterr()
    assert 0 == code, written.err
    assert "go" == json.loads(written.out)["verdict"]["answer"]
    own = {file.name: count for file, count in seen.items() if file.parent == tmp_path and file.suffix}
    assert {"gate.toml": 1, "policy.toml": 1, "topology.conf": 1} == own
    facts = {file: count for file, count in seen.items() if file.parent == FACTS and file.suffix == ".json"}
    assert dict.fromkeys(FACTS.glob("*.json"), 1) == facts
