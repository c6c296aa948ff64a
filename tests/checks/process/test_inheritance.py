"""A process that was started with closed streams, with SIGCHLD ignored, or with a full disk behind stderr, is as any other."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from checks import cli
from checks.process import inheritance
from checks.process.isolate import Output, piped
from container.agent import allocation
from container.agent import cli as agent_cli
from flows.cli import main as prelaunch

ROOT = Path(__file__).parents[3]
TOOL = """
import signal, sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
from checks.process import inheritance, tool
inheritance.restore_defaults()
print(tool.run(["sh", "-c", "exit 7"], 20).code)
"""
BLOCKED = """
import os, signal
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
from checks.process import inheritance
inheritance.restore_defaults()
os.kill(os.getpid(), signal.SIGTERM)
"""
SIGNALLED = """
import argparse, signal, sys
from checks import cli
def measures(arguments):
    signal.raise_signal(signal.SIGUSR1)
    signal.raise_signal(signal.SIGUSR2)
    return 0
sys.exit(cli.execute(argparse.Namespace(verb=measures)))
"""
STREAMS = """
import os, sys
from checks.process import inheritance
inheritance.restore_defaults()
with open(sys.argv[1], "w") as file:
    print("to stdout", flush=True)
    print("to stderr", file=sys.stderr, flush=True)
    os.write(file.fileno(), b"the file")
"""

LISTING = "from checks.process.stderr import say; say('x'); say('y'); print('the result')"


def run(*argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)


def test_a_tool_that_failed_has_failed() -> None:
    """Where SIGCHLD is ignored the kernel keeps no exit code, and Python takes 0 for it."""
    done = run(sys.executable, "-c", TOOL)

    assert "7\n" == done.stdout, done.stderr


def test_a_blocked_signal_arrives() -> None:
    """A program that blocks SIGTERM in the thread that starts others hands this on."""
    done = run(sys.executable, "-c", BLOCKED)

    assert -signal.SIGTERM == done.returncode


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_closed_streams_lead_nowhere(closed: str, tmp_path: Path) -> None:
    """A file that is opened later holds what was written to it alone."""
    file = tmp_path / "file"
    done = run("sh", "-c", f'exec "$@" {closed}', "sh", sys.executable, "-c", STREAMS, str(file))

    assert (0, "the file") == (done.returncode, file.read_text())


def test_a_test_leaves_the_handling_of_signals_to_the_next() -> None:
    """What one ignored, the processes of all later ones would ignore."""
    (conftest,) = (module for name, module in sys.modules.items() if name.endswith("tests.conftest"))
    call = conftest.pytest_runtest_call()
    next(call)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    with pytest.raises(StopIteration):
        next(call)

    assert before is signal.getsignal(signal.SIGINT)


def test_a_signal_for_the_training_does_not_end_the_checks() -> None:
    """Slurm sends it to every process of a step, whether the training has begun or not."""
    done = run(sys.executable, "-c", SIGNALLED)

    assert 0 == done.returncode, done.stderr


@pytest.mark.parametrize(
    "main",
    [cli.main, prelaunch.main, agent_cli.main, allocation.main],
    ids=["checks", "prelaunch", "agent", "one file"],
)
def test_every_program_sets_right_what_it_inherits(
    main: Callable[[list[str]], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything else: also a container's first process has a parent."""

    class Called(BaseException):
        pass

    def called() -> None:
        raise Called

    monkeypatch.setattr(inheritance, "restore_defaults", called)

    with pytest.raises(Called):
        main(["check", "--no-such-option"])


def test_a_full_disk_behind_stderr_changes_no_exit_code() -> None:
    """Python's own answer would be 1, which reads as no-go."""
    with open("/dev/full", "wb") as full:
        ended = subprocess.run((sys.executable, "-c", LISTING), stdout=subprocess.PIPE, stderr=full)

    assert (0, b"the result\n") == (ended.returncode, ended.stdout)


def test_a_copy_that_cannot_be_written_does_not_stop_the_writer() -> None:
    """The ranks' output is shown as it comes; where nobody can read it, it is drained and kept all the same."""
    argv = (sys.executable, "-c", "print('x' * 500000); print('y' * 500000)")
    child = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    closed = os.fdopen(os.open("/dev/full", os.O_WRONLY), "wb", buffering=0)
    output = Output(piped(child), closed)

    assert child.wait(60) == 0
    assert len(output.text(5.0)) == 1_000_002
    closed.close()


def test_an_error_of_the_checks_themselves_is_cannot_tell(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not Python's exit code 1, which would say that the node is broken."""

    def stumble(*given: object) -> int:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("checks.runner.single_node.run", stumble)
    monkeypatch.delenv("TORCHELASTIC_RUN_ID", raising=False)

    assert cli.main(["run", "--instance-type", "cpu", "--out", str(tmp_path / "report.json")]) == 3
    assert "can't start new thread" in capsys.readouterr().err
