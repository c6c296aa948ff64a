"""Trees of real processes that do all they can to outlive their end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from checks.process.tree import alive, end_marked, end_tree, how_it_ended, start_ticks, with_pdeathsig
from tests.waiting import until

ROOT = Path(__file__).resolve().parents[3]
DEADLINE_S = 60.0

SLEEP = "import time; time.sleep(300)"
DEAF = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); open({told!r}, 'w'); time.sleep(300)"
)
# A grandchild in a session of its own whose parents are gone, as a daemon makes itself.
DAEMON = """
import os, sys, time
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
open({told!r}, 'w').write(str(os.getpid())); time.sleep(300)
"""
TELL_AND_SLEEP = "import os, time; open({told!r}, 'w').write(str(os.getpid())); time.sleep(300)"
# Answers SIGTERM with a new daemon, and is gone.
HYDRA = """
import os, signal, time
def heads(*_):
    if os.fork() == 0:
        os.setsid()
        open({told!r}, 'a').write(f'{{os.getpid()}}\\n'); time.sleep(300)
    os._exit(0)
signal.signal(signal.SIGTERM, heads)
open({told!r}, 'w').close(); time.sleep(300)
"""


def told(path: Path) -> list[int]:
    """The pids that a process wrote."""
    until(lambda: path.exists() and path.read_text().strip())
    return [int(word) for word in path.read_text().split()]


def dead(pid: int) -> bool:
    """Gone, or a zombie."""
    return not alive(pid, start_ticks(pid))


def shown_as_zombie(pid: int) -> bool:
    """Whether /proc does."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


@pytest.fixture
def child() -> Iterator[Callable[[str], subprocess.Popen[bytes]]]:
    """Starts a Python in a session of its own for some code, and ends what a failed test leaves of them."""
    started: list[subprocess.Popen[bytes]] = []

    def start(code: str) -> subprocess.Popen[bytes]:
        started.append(subprocess.Popen((sys.executable, "-S", "-c", code), start_new_session=True))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()


Child = Callable[[str], subprocess.Popen[bytes]]


def as_subreaper(code: str) -> str:
    """What a subreaper of its own prints: the test's process stays as it is."""
    begin = "import os, sys, time, subprocess\nfrom checks.process.tree import *\nbecome_subreaper()\n"
    argv = (sys.executable, "-c", begin + code)
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (7, "ended with exit code 7"),
        (-11, "was ended by SIGSEGV"),
        (-9, "was ended by SIGKILL (out of memory, or somebody ended it)"),
        (-99, "was ended by signal 99"),
    ],
)
def test_an_end_is_said_with_the_name_of_its_signal(code: int, said: str) -> None:
    """Nobody knows the numbers by heart."""
    assert said == how_it_ended(code)


def test_a_child_that_ended_is_not_alive_before_it_is_reaped(child: Child) -> None:
    """A zombie is dead, though /proc still has it."""
    process = child("")
    until(lambda: shown_as_zombie(process.pid))
    ticks = start_ticks(process.pid)

    assert (ticks is not None, alive(process.pid, ticks)) == (True, False)


def test_a_number_used_again_is_not_the_same_process(child: Child) -> None:
    """The start time tells them apart."""
    process = child(SLEEP)
    ticks = start_ticks(process.pid)

    assert ticks is not None
    assert (alive(process.pid, ticks), alive(process.pid, ticks - 1)) == (True, False)


def test_a_process_whose_main_thread_ended_is_alive(child: Child) -> None:
    """The kernel shows it as a zombie while another thread goes on."""
    code = (
        "import ctypes, threading, time\n"
        "threading.Thread(target=time.sleep, args=(300,)).start()\n"
        "ctypes.CDLL(None).syscall({exit}, 0)"
    ).format(exit=60 if os.uname().machine == "x86_64" else 93)
    process = child(code)
    until(lambda: shown_as_zombie(process.pid))

    assert alive(process.pid, start_ticks(process.pid))
    assert end_tree(process.pid, 0.0) == ()


@pytest.mark.parametrize("stopped", [False, True])
def test_ending_leaves_the_exit_status_to_its_owner(child: Child, stopped: bool) -> None:
    """Subprocess would read a status that another took as success. A stopped process is alive, and gets its chance to answer: SIGTERM
    alone would wait for a SIGCONT that nobody sends.
    """
    process = child(SLEEP)
    if stopped:
        process.send_signal(signal.SIGSTOP)

    assert alive(process.pid, start_ticks(process.pid))
    assert end_tree(process.pid, DEADLINE_S) == ()
    assert process.wait(DEADLINE_S) == -signal.SIGTERM


def test_sigkill_ends_what_ignores_sigterm(child: Child, tmp_path: Path) -> None:
    """After the grace."""
    process = child(DEAF.format(told=str(tmp_path / "up")))
    until((tmp_path / "up").exists)
    begun = time.monotonic()

    assert end_tree(process.pid, 0.3) == ()
    assert process.wait(DEADLINE_S) == -signal.SIGKILL
    assert 0.3 <= time.monotonic() - begun


def test_a_grandchild_in_another_session_is_ended(child: Child, tmp_path: Path) -> None:
    """It is found by its parents, not by its session."""
    grandchild = f"import os, time\nos.setsid()\n{TELL_AND_SLEEP.format(told=str(tmp_path / 'pid'))}"
    process = child(f"import subprocess, sys; subprocess.run([sys.executable, '-c', {grandchild!r}])")
    (pid,) = told(tmp_path / "pid")

    assert end_tree(process.pid, 0.0) == ()
    assert dead(pid)


def test_session_without_its_leader_is_ended(child: Child, tmp_path: Path) -> None:
    """An orphan that kept the session is found by it."""
    process = child(f"import os\nif os.fork() == 0: {TELL_AND_SLEEP.format(told=str(tmp_path / 'pid'))}")
    (pid,) = told(tmp_path / "pid")
    process.wait(DEADLINE_S)

    assert end_tree(process.pid, 0.0) == ()
    assert dead(pid)


def test_a_stranger_is_left_alone(child: Child) -> None:
    """A number that is not below this process, or that started at another time, is not what was meant."""
    mine, ticks = child(SLEEP), start_ticks(os.getpid())
    end_tree(mine.pid, 0.0, started=ticks)
    end_tree(os.getppid(), 0.0)

    assert mine.poll() is None
    assert alive(os.getppid(), start_ticks(os.getppid()))


def test_siblings_are_left_alone(child: Child) -> None:
    """One check's end is not another's."""
    mine, other = child(SLEEP), child(SLEEP)
    end_tree(mine.pid, 0.0)

    assert (mine.wait(DEADLINE_S), other.poll()) == (-signal.SIGKILL, None)


def test_a_subreaper_ends_daemons(tmp_path: Path) -> None:
    """Their parents are gone and their session is their own: they fell to the subreaper."""
    path = tmp_path / "pid"
    code = DAEMON.format(told=str(path))
    said = as_subreaper(
        f"subprocess.run([sys.executable, '-c', {code!r}])\n"
        f"while not os.path.exists({str(path)!r}) or not open({str(path)!r}).read(): time.sleep(0.01)\n"
        "print(end_children(0.0), reap() != {}, os.listdir(f'/proc/{os.getpid()}/task').__len__())"
    )

    assert said == "() True 1"
    assert dead(told(path)[0])


def test_process_forked_on_sigterm_is_found_and_ended(tmp_path: Path) -> None:
    """What answers SIGTERM with a daemon of its own leaves it to the subreaper, which looks again."""
    path = tmp_path / "pids"
    said = as_subreaper(
        f"child = subprocess.Popen([sys.executable, '-c', {HYDRA.format(told=str(path))!r}])\n"
        f"while not os.path.exists({str(path)!r}): time.sleep(0.01)\n"
        "print(end_children(1.0), child.wait())"
    )

    assert said == "() 0"
    assert all(dead(pid) for pid in told(path))


def test_an_interrupt_while_it_ends_processes_leaves_none_stopped(
    child: Child, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as a second Ctrl-C, between the stop and the kill: what is stopped never ends by itself."""
    process = child(SLEEP)

    def interrupted(_: float) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("checks.process.tree.time.sleep", interrupted)
        end_tree(process.pid, 0.0)

    assert -signal.SIGKILL == process.wait(DEADLINE_S)


def test_processes_that_fork_all_the_time_are_ended() -> None:
    """All are frozen before the first is killed, so no child is born unseen."""
    # Where this test is killed, nobody could end them: they end by themselves.
    forker = (
        "import os, time\nends = time.monotonic() + 20\n"
        "while time.monotonic() < ends:\n    if os.fork(): os._exit(0)\n    os.setsid()\n"
    )
    said = as_subreaper(
        f"children = [subprocess.Popen([sys.executable, '-S', '-c', {forker!r}]) for _ in range(3)]\n"
        "time.sleep(0.3)\n"
        "print(end_children(0.0)); reap()\n"
        "print(open(f'/proc/{os.getpid()}/task/{os.getpid()}/children').read().split())"
    )

    assert said == "()\n[]"


def test_a_mark_in_the_environment_finds_what_has_no_parents(tmp_path: Path) -> None:
    """The last resort where every process that knew of it was killed."""
    path, mark = tmp_path / "pid", f"{os.getpid()}-{time.monotonic_ns()}"
    code = DAEMON.format(told=str(path))
    subprocess.run((sys.executable, "-c", code), env={**os.environ, "PRELAUNCH_MARK": mark}, check=True)
    (pid,) = told(path)

    assert end_marked("PRELAUNCH_MARK", mark + "0", 0.0) == ()
    assert not dead(pid)
    assert end_marked("PRELAUNCH_MARK", mark, 0.0) == ()
    assert dead(pid)


@pytest.mark.parametrize("way", ["call", "wrapper"])
def test_a_child_dies_with_its_parent_even_when_that_is_killed(tmp_path: Path, way: str) -> None:
    """SIGKILL lets nobody clean up; the kernel does it."""
    path = tmp_path / "pid"
    sleeper = TELL_AND_SLEEP.format(told=str(path))
    if way == "call":
        sleeper = f"from checks.process.tree import die_with_parent; die_with_parent(); {sleeper}"
        argv = f"[sys.executable, '-c', {sleeper!r}]"
    else:
        argv = f"with_pdeathsig([sys.executable, '-c', {sleeper!r}])"
    code = f"import subprocess, sys\nfrom checks.process.tree import *\nsubprocess.run({argv})"
    parent = subprocess.Popen((sys.executable, "-c", code), cwd=ROOT)
    (pid,) = told(path)
    parent.kill()
    parent.wait()

    until(lambda: dead(pid))


def test_the_wrapper_becomes_its_command() -> None:
    """Same process, same output, same exit code, same environment."""
    argv = with_pdeathsig((sys.executable, "-c", "import os, sys; print(os.environ['X']); sys.exit(7)"))
    done = subprocess.run(argv, env={**os.environ, "X": "y"}, capture_output=True, text=True)

    assert (done.returncode, done.stdout) == (7, "y\n")
