"""`python -m checks watch` as a site runs it: a kernel log, real rounds, /metrics over HTTP, kill -9, the file of findings."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from unittest import mock

import pytest
from prometheus_client.parser import text_string_to_metric_families

from checks import cli
from checks.documents import open_findings as documents
from checks.process.free_ports import free_ports
from checks.process.machine_state import FINDINGS
from checks.process.tree import alive, start_ticks
from checks.watch import loop
from tests.waiting import until

ROOT = Path(__file__).parents[3]
# Seed 001's drill: the line of an NVLink fault that calls for another node.
XID_74 = (
    "kernel: NVRM: Xid (PCI:0000:b9:00): 74, pid=<unknown>, name=<unknown>, "
    "NVLink: fatal error detected on link 6(0x10000, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0)"
)
EVERY_S = 1.0


class Watch:
    """A running watch."""

    def __init__(self, state: Path, log: Path, *more: str) -> None:
        self.state, self.log = state, log
        [self.port] = free_ports(1, "127.0.0.1")
        self.environment = {**os.environ, "PRELAUNCH_STATE": str(state), "PRELAUNCH_KERNEL_LOG": str(log)}
        argv = (
            *(sys.executable, "-m", "checks", "watch", "--instance-type", "cpu", "--every", f"{EVERY_S}"),
            *("--listen", f"127.0.0.1:{self.port}", *more),
        )
        self.process = subprocess.Popen(
            argv, cwd=ROOT, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )

    def series(self) -> dict[str, list[tuple[dict[str, str], float]]]:
        """What /metrics serves now, by name; {} if nobody answers."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=60) as answer:
                text = answer.read().decode()
        except (urllib.error.URLError, OSError):
            return {}
        found: dict[str, list[tuple[dict[str, str], float]]] = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                found.setdefault(sample.name, []).append((sample.labels, sample.value))
        return found

    def open_fails(self) -> list[dict[str, str]]:
        """The labels of the open findings about the machine."""
        open_ones = self.series().get("prelaunch_finding_open", [])
        return [
            labels for labels, _ in open_ones if labels["level"] == "FAIL" and labels["cause"] != "EVIDENCE"
        ]

    def rounds(self) -> float:
        """How many rounds have ended."""
        return sum(value for _, value in self.series().get("prelaunch_watch_rounds_total", []))

    def findings(self, *more: str) -> subprocess.CompletedProcess[str]:
        """`checks findings` on the same machine."""
        out, err = io.StringIO(), io.StringIO()
        state = mock.patch.dict(os.environ, {"PRELAUNCH_STATE": str(self.state)})
        with state, redirect_stdout(out), redirect_stderr(err):
            code = cli.main(["findings", *more])
        return subprocess.CompletedProcess((), code, out.getvalue(), err.getvalue())


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A kernel log of a healthy machine."""
    path = tmp_path / "messages"
    path.write_text(f"{stamp()} node-0 kernel: Linux version 6.1.0\n")
    return path


def stamp() -> str:
    """Now, as syslog writes it."""
    return time.strftime("%b %d %H:%M:%S")


@contextmanager
def watching(tmp_path: Path, log: Path, *more: str) -> Iterator[Watch]:
    watch = Watch(tmp_path / "state", log, *more)
    try:
        until(lambda: watch.rounds() >= 1, "the watch makes rounds", 90.0)
        yield watch
    finally:
        with watch.process:
            watch.process.kill()


def test_an_xid_opens_a_finding_that_outlives_the_watch(tmp_path: Path, log: Path) -> None:
    with watching(tmp_path, log) as watch:
        assert [] == watch.open_fails()
        assert 0 == watch.findings().returncode or "EVIDENCE" in watch.findings().stdout
        with log.open("a") as file:
            file.write(f"{stamp()} node-0 {XID_74}\n")
        until(watch.open_fails, "the Xid is found", 90.0)
        [found] = watch.open_fails()
        assert ("kernel.xid", "act", "HARDWARE") == (found["check"], found["metric"], found["cause"])
        assert "0000:b9:00" in found["part"]
        xids = {labels["need"]: value for labels, value in watch.series()["prelaunch_xids"] if value}
        assert {"act": 1} == xids
    # kill -9, a log that was rotated, and another watch: still open, found once.
    log.write_text(f"{stamp()} node-0 kernel: Linux version 6.1.0\n")
    with watching(tmp_path, log) as watch:
        until(lambda: watch.rounds() >= 2, "two more rounds", 90.0)
        assert ["act"] == [found["metric"] for found in watch.open_fails()]
        assert 1 == watch.findings().returncode
        # Nobody closes a finding by deleting the file under a watch.
        (watch.state / FINDINGS).unlink()
        until((watch.state / FINDINGS).exists, "the file is there again", 90.0)
        assert ["act"] == [found["metric"] for found in watch.open_fails()]
        known = documents.load((watch.state / FINDINGS).read_bytes())
        [name] = [one.key.name for one in known.open if one.key.metric == "act"]

        nobody = watch.findings("--close", name)
        wrong = watch.findings("--close", "kernel.xid/act/GPU 99", "--by", "dana")
        closed = watch.findings("--close", name, "--by", "dana: replaced the NVLink bridge")
        assert (2, 2, 0) == (nobody.returncode, wrong.returncode, closed.returncode)
        assert name in wrong.stderr
        until(lambda: not watch.open_fails(), "the watch sees that it is closed", 90.0)
        last = json.loads(watch.findings("--format", "json").stdout)["closed"][-1]
        assert ("person", "dana: replaced the NVLink bridge") == (last["closer"], last["who"])
        # SIGTERM ends it at once, and leaves no process.
        watch.process.terminate()
        said = watch.process.communicate()[0].decode()
        assert 128 + signal.SIGTERM == watch.process.returncode
        assert "Traceback" not in said
    left = subprocess.run(("pgrep", "-f", f"round_child.*{tmp_path}"), stdout=subprocess.PIPE).stdout
    assert b"" == left


def test_a_file_of_findings_that_cannot_be_read_is_not_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PRELAUNCH_STATE", str(tmp_path))
    (tmp_path / FINDINGS).write_text('{"schema_version": 1, "open": [')
    codes = cli.main(["watch", "--instance-type", "cpu"]), cli.main(["findings"])

    assert (2, 3) == codes
    assert str(tmp_path / FINDINGS) in capsys.readouterr().err
    assert '{"schema_version": 1, "open": [' == (tmp_path / FINDINGS).read_text()


def test_the_textfile_is_replaced_and_a_folder_that_is_gone_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for text in (b"a 1\n", b"a 2\n"):
        loop._write(tmp_path, text)
    loop._write(tmp_path / "gone", b"a 3\n")

    assert ["prelaunch.prom"] == os.listdir(tmp_path)
    assert b"a 2\n" == (tmp_path / "prelaunch.prom").read_bytes()
    assert "it is no folder" in capsys.readouterr().err


def test_a_round_that_stands_still_from_its_beginning_ends_with_its_watch(tmp_path: Path, log: Path) -> None:
    """The watch is killed with -9 while its round is stopped, before that has run a line of its own."""
    stopped: dict[int, int | None] = {}
    with watching(tmp_path, log, "--every", "0.5") as watch:
        children = Path(f"/proc/{watch.process.pid}/task/{watch.process.pid}/children")
        ends = time.monotonic() + 60
        while not stopped and time.monotonic() < ends:
            for pid in children.read_text().split():
                with suppress(OSError):
                    # What starts the round has become it.
                    program = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[1:2]  # a zombie has none
                    if any(word.endswith(b"own_packages.py") for word in program):
                        os.kill(int(pid), signal.SIGSTOP)
                        stopped[int(pid)] = start_ticks(int(pid))
        assert stopped, "no round was seen"
        [(round_pid, ticks), *_] = stopped.items()
        watch.process.kill()
        watch.process.wait()
        try:
            until(lambda: not alive(round_pid, ticks), "the round has gone", 90.0)
        finally:
            for left in stopped:
                with suppress(ProcessLookupError):
                    os.kill(left, signal.SIGKILL)


def test_watch_command_rejects_unusable_options_with_exit_code_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(*more: str, state: str = str(tmp_path / "state")) -> str:
        monkeypatch.setenv("PRELAUNCH_STATE", state)
        assert 2 == cli.main(["watch", *more])
        printed = capsys.readouterr()
        assert "" == printed.out
        return printed.err

    assert "--instance-type" in refused()
    assert "cpu" in refused("--instance-type", "cppu")
    assert "--listen" in refused("--instance-type", "cpu", "--listen", "9402", "--rounds", "1")
    assert "PRELAUNCH_STATE" in refused("--instance-type", "cpu", state="/proc/prelaunch")
