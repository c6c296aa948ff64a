"""The process that forks checks: what it starts behaves as a Python of its own would."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from checks.process.fork_server import Child, ForkServer
from checks.process.tree import alive, end_tree, start_ticks
from tests.waiting import until

ROOT = Path(__file__).parents[3]
HERE = "tests.checks.process.test_fork_server"


PREPARED: list[str] = []


def prepare() -> None:
    """What the server does once."""
    PREPARED.append("once")


def main(words: list[str]) -> int:
    """What the forks run: one line of Python, which sees the words behind it."""
    exec(words[0], {"words": words[1:], "prepared": PREPARED})
    return 0


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ForkServer]:
    """A server of this module, which it finds by the current folder alone."""
    monkeypatch.chdir(ROOT)
    with contextlib.closing(ForkServer(HERE)) as made:
        yield made


def begun(server: ForkServer, *words: str) -> Child:
    return server.start(words, 15.0)


def said(child: Child) -> str:
    """All that it prints until its end."""
    assert child.stdout is not None
    with child.stdout as pipe:
        return pipe.read().decode()


def ended(child: Child) -> int:
    """Its return code, once it has closed its output."""
    said(child)
    return child.wait(60)


def test_a_fork_has_a_session_one_pipe_and_no_input(server: ForkServer) -> None:
    """No open file of the server or of another fork reaches it."""
    waiting = begun(server, "import time; time.sleep(600)")
    open_files = "sorted(os.listdir('/proc/self/fd'))"
    code = f"import os, sys; print(words, prepared, os.getsid(0) == os.getpid(), {open_files}); print(sys.stdin.read())"
    child = begun(server, code, "a word")
    text = said(child)

    assert child.wait(60) == child.poll() == child.returncode == 0
    assert text == "['a word'] ['once'] True ['0', '1', '2', '3']\n\n"  # 3 is the folder that is read
    assert waiting.poll() is None
    assert end_tree(waiting.pid, 0.0) == ()
    assert ended(waiting) == -signal.SIGKILL


def test_forked_child_ends_as_a_python_process_does(server: ForkServer) -> None:
    """Exit codes, signals, tracebacks, what it registered for its end, and its threads."""
    for code, how, printed in (
        ("raise SystemExit(7)", 7, ""),
        ("raise SystemExit('no such check')", 1, "no such check\n"),
        ("raise ValueError('a defect')", 1, "ValueError: a defect\n"),
        ("import os; os.kill(os.getpid(), 9)", -9, ""),
        ("import atexit; atexit.register(print, 'at its end')", 0, "at its end\n"),
        ("import threading as t; t.Timer(0.1, lambda: print('its thread')).start()", 0, "its thread\n"),
    ):
        child = begun(server, code)
        text = said(child)

        assert child.wait(60) == how, code
        assert text.endswith(printed) and bool(text) == bool(printed)


def test_fork_server_wait_for_a_running_child_ends_at_its_timeout(server: ForkServer) -> None:
    """And others start and end meanwhile."""
    child = begun(server, "import time; time.sleep(600)")
    with pytest.raises(subprocess.TimeoutExpired):
        child.wait(0.05)

    assert ended(begun(server, "")) == 0
    assert end_tree(child.pid, 0.0) == ()
    assert ended(child) == -signal.SIGKILL


def test_forked_child_ends_with_the_server(server: ForkServer) -> None:
    """`checks.runner.isolated_child` asks the kernel for that, and the kernel does it also where the server is killed."""
    code = "from checks.process import tree; tree.die_with_parent(); print('ready', flush=True); import time; time.sleep(600)"
    child = begun(server, code)
    assert child.stdout is not None and child.stdout.read(6) == b"ready\n"
    ticks = start_ticks(child.pid)
    server.close()
    child.stdout.close()

    until(lambda: not alive(child.pid, ticks))


def test_fork_server_that_was_killed_is_replaced_by_a_new_python(server: ForkServer) -> None:
    """A check that ends it, or a machine without memory, costs no other check."""
    assert ended(begun(server, "")) == 0
    assert server._server is not None
    server._server.kill()
    server._server.wait()
    code = "import sys; print('still measured')"
    child = begun(server, code)

    assert isinstance(child, subprocess.Popen)
    assert said(child) == "still measured\n"
    assert child.wait(60) == 0


def test_a_module_that_cannot_be_imported_is_named_by_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server ends, and the Python that is started in its place says why."""
    monkeypatch.chdir(ROOT)
    with contextlib.closing(ForkServer("checks.no_such_module")) as server:
        child = begun(server, "a")
        assert "No module named checks.no_such_module" in said(child)
        assert child.wait(60) == 1


def test_a_server_that_hangs_is_not_waited_for_forever(server: ForkServer) -> None:
    """What it forks after all, nobody runs: it is ended."""
    assert ended(begun(server, "")) == 0
    assert server._server is not None
    os.kill(server._server.pid, signal.SIGSTOP)
    late = "import os, pathlib, time; time.sleep(0.5); pathlib.Path(words[0]).touch()"
    with pytest.raises(TimeoutError, match="does not answer"):
        server.start((late, "late"), 0.1)
    os.kill(server._server.pid, signal.SIGCONT)

    assert ended(begun(server, "import time; time.sleep(0.7)")) == 0
    assert not (ROOT / "late").exists()


def test_many_at_once(server: ForkServer) -> None:
    """Each has its own answer."""
    children = [begun(server, f"raise SystemExit({number})") for number in range(40)]

    assert [ended(child) for child in children] == list(range(40))


def test_fork_server_leaves_no_open_file(server: ForkServer) -> None:
    """In the process that starts checks, however many it started."""
    assert ended(begun(server, "")) == 0
    before = len(os.listdir("/proc/self/fd"))
    assert [0] * 5 == [ended(begun(server, "")) for _ in range(5)]
    assert len(os.listdir("/proc/self/fd")) == before


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
