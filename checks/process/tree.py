"""Ends processes for certain, including those that ignore SIGTERM, are stopped, or moved to another session.

A process is identified by its number and its start time, so that a number that is used again is never mistaken for it. A zombie
counts as dead. Linux only: /proc and prctl. The exit status of a direct child is never taken from its owner: only orphans that
became children of this process while it ended a tree are reaped (subprocess reads a lost status as 0).
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

PR_SET_PDEATHSIG = 1  # linux/prctl.h
PR_SET_CHILD_SUBREAPER = 36
DEAD = "ZXx"
HELD = "TtDZXx"
POLL_S = 0.01
FREEZE_S = 2.0
CHASE_S = 0.005
QUIET_LOOKS = 2
KILL_S = 10.0

Members = dict[int, int]


def how_it_ended(code: int) -> str:
    """ "ended with exit code 7", "was ended by SIGKILL" of a return code as subprocess gives it."""
    if code >= 0:
        return f"ended with exit code {code}"
    names = {number.value: number.name for number in signal.Signals}
    hint = " (out of memory, or somebody ended it)" if code == -signal.SIGKILL else ""
    return f"was ended by {names.get(-code, f'signal {-code}')}{hint}"


@dataclass(frozen=True)
class Process:
    """One process in /proc: `started` is in clock ticks since boot, `state` is the kernel's letter."""

    pid: int
    parent: int
    session: int
    state: str
    started: int


def become_subreaper(adopt: bool = True) -> None:
    """Makes orphans below this process its own children, in whatever session they are, or stops doing so.

    It stays in effect across exec. Raises OSError.
    """
    _prctl(PR_SET_CHILD_SUBREAPER, int(adopt))


def die_with_parent(parent: int | None = None, number: int = signal.SIGKILL) -> None:
    """Makes the kernel send `number` to this process when its parent ends.

    Give the parent's pid if the parent may have ended already. For the kernel the parent is the *thread* that forked: start such
    children from a thread that continues to run. It stays in effect across exec, not across fork.
    """
    _prctl(PR_SET_PDEATHSIG, number)
    if parent is not None and os.getppid() != parent:
        os.kill(os.getpid(), number)


def as_started(own: Mapping[str, str]) -> dict[str, str]:
    """The result is the process's environment without what Python added: LC_CTYPE, where the locale is C (PEP 538)."""
    try:
        with open("/proc/self/environ", "rb") as file:
            has_locale = any(entry.startswith(b"LC_CTYPE=") for entry in file.read().split(b"\0"))
    except OSError:
        has_locale = True
    return {name: value for name, value in own.items() if has_locale or name != "LC_CTYPE"}


def with_pdeathsig(argv: Sequence[str], number: int = signal.SIGKILL) -> tuple[str, ...]:
    """`argv` behind a small program that calls die_with_parent and becomes `argv`: needs no preexec_fn."""
    return (sys.executable, "-I", "-S", os.path.abspath(__file__), f"{os.getpid()}", f"{number:d}", *argv)


def start_ticks(pid: int) -> int | None:
    """When the process started, in ticks since boot; None if there is no such process (a zombie still has one)."""
    process = _read(pid)
    return process.started if process else None


def alive(pid: int, started: int | None) -> bool:
    """Whether the process that started at that time still runs. A stopped process is alive, a zombie is not."""
    process = _read(pid)
    return process is not None and process.started == started and _runs(process)


def reap() -> dict[int, int]:
    """The exit codes (or minus the signals) by pid of all ended children. It must not be used together with subprocess's waits."""
    codes: dict[int, int] = {}
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return codes
        if pid == 0:
            return codes
        codes[pid] = os.waitstatus_to_exitcode(status)


def end_tree(pid: int, grace_s: float, started: int | None = None, kill_s: float = KILL_S) -> tuple[int, ...]:
    """Sends SIGTERM to the process, its descendants and its session, and SIGKILL after `grace_s`. Returns the processes that remain.

    A process that is blocked in the kernel (state D) survives SIGKILL: it is waited for `kill_s`.

    Without `started` only a process below this one is ended, because another process may have a number that is used again. If it has
    ended already, the remaining processes of the session that it led are ended.
    """
    if started is None:
        table = _table()
        if pid in table and not _below(pid, table):
            return (pid,) if _runs(table[pid]) else ()
        started = table[pid].started if pid in table else -1
    return _end(lambda _: {pid: started}, grace_s, kill_s)


def end_children(grace_s: float, kill_s: float = KILL_S) -> tuple[int, ...]:
    """All processes below this one are ended as in `end_tree`. For a subreaper they are all that it ever started."""

    def children(table: Mapping[int, Process]) -> Members:
        return {process.pid: process.started for process in table.values() if process.parent == os.getpid()}

    return _end(children, grace_s, kill_s, chase=True)


def end_marked(name: str, value: str, grace_s: float) -> tuple[int, ...]:
    """All processes that were started with NAME=VALUE in their environment are ended as in `end_tree`, with everything below them."""
    mark = f"{name}={value}".encode()

    def marked(table: Mapping[int, Process]) -> Members:
        return {pid: process.started for pid, process in table.items() if mark in _environment(pid)}

    return _end(marked, grace_s, KILL_S)


Seed = Callable[[Mapping[int, Process]], Members]


def _end(seed: Seed, grace_s: float, kill_s: float, chase: bool = False) -> tuple[int, ...]:
    table = _table()
    owned = {process.pid for process in table.values() if process.parent == os.getpid()}
    members = _grow(seed(table), table)
    members = _ask(seed, members, time.monotonic() + grace_s) if grace_s > 0 else members
    chaser = _Chase(owned, CHASE_S if chase else 0.0)
    held: dict[int, int] = {}
    try:
        members, left = _kill(seed, members, chaser, kill_s, held)
    except BaseException:
        # A handler of a signal may raise between the stop and the kill, and what is stopped never ends by itself.
        for pid in (*(pid for pid, started in held.items() if alive(pid, started)), *chaser.stopped):
            _signal(pid, signal.SIGKILL)
        raise
    for pid in members.keys() - owned:
        _reap_orphan(pid)
    return left


def _ask(seed: Seed, members: Members, deadline: float) -> Members:
    """Sends SIGTERM to each process once, as it is found. A stopped one is continued so that it can react."""
    signalled: set[tuple[int, int]] = set()
    while True:
        members, running = _members_and_running(seed, members)
        for process in running:
            if (process.pid, process.started) not in signalled:
                signalled.add((process.pid, process.started))
                _signal(process.pid, signal.SIGTERM)
                _signal(process.pid, signal.SIGCONT)
        if not running or time.monotonic() >= deadline:
            return members
        time.sleep(POLL_S)


def _kill(
    seed: Seed, members: Members, chase: _Chase, kill_s: float, held: dict[int, int]
) -> tuple[Members, tuple[int, ...]]:
    """Stops all processes before any is killed: a stopped process cannot start a child that is missed. `held` has what it stopped."""
    begun = time.monotonic()
    quiet = 0
    while True:
        before, caught = members, chase()
        members, running = _members_and_running(seed, members)
        new = members.keys() - before.keys()
        # /proc is not read at one instant: a child may appear in a part of it that was read before. The
        # next pass finds it, or its children.
        quiet = 0 if running or caught or new else quiet + 1
        if quiet == QUIET_LOOKS or time.monotonic() - begun > kill_s:
            pids = tuple(process.pid for process in running)
            return members, pids if quiet else pids or (max(members, default=0),)
        free = [process for process in running if process.state not in HELD or process.pid not in held]
        if free and time.monotonic() - begun < min(FREEZE_S, kill_s / 2):
            for process in free:
                held[process.pid] = process.started
                _signal(process.pid, signal.SIGSTOP)
        else:
            for process in running:
                _signal(process.pid, signal.SIGKILL)
        time.sleep(POLL_S / 5)


class _Chase:
    """Stops processes that multiply faster than /proc can be read; the kernel's list of our children is short."""

    def __init__(self, owned: set[int], seconds: float) -> None:
        self._owned, self._seconds = owned, seconds
        self.stopped: set[int] = set()
        self._path = f"/proc/self/task/{os.getpid()}/children"

    def __call__(self) -> bool:
        """Continues until no child was new for `seconds`, at most a hundred times that. Returns whether any was new."""
        begun = last = time.monotonic()
        while (now := time.monotonic()) - last < self._seconds and now - begun < 100 * self._seconds:
            if new := self._children() - self._owned - self.stopped:
                last = now
                for pid in new:
                    _signal(pid, signal.SIGSTOP)
                self.stopped |= new
            self.stopped = {pid for pid in self.stopped if not _reap_orphan(pid)}
        return last > begun

    def _children(self) -> set[int]:
        try:
            with open(self._path) as file:
                return {int(number) for number in file.read().split()}
        except FileNotFoundError:  # a kernel without CONFIG_PROC_CHILDREN
            return set()


def _members_and_running(seed: Seed, members: Members) -> tuple[Members, list[Process]]:
    table = _table()
    members = _grow({**members, **seed(table)}, table)
    return members, [table[pid] for pid in members if pid in table and _runs(table[pid])]


def _grow(seeds: Members, table: Mapping[int, Process]) -> Members:
    """`known`, and all processes that descend from it or are in a session that one of it led; never this process."""
    members = {pid: start for pid, start in seeds.items() if pid not in table or table[pid].started == start}
    me = os.getpid()
    members.pop(me, None)
    while new := {
        process.pid: process.started
        for process in table.values()
        if process.pid not in members
        and process.pid != me
        and (process.parent in members or process.session in members)
    }:
        members.update(new)
    return members


def _below(pid: int, table: Mapping[int, Process]) -> bool:
    while pid in table and pid != os.getpid():
        pid = table[pid].parent
    return pid == os.getpid()


def _table() -> dict[int, Process]:
    processes = (_read(int(name)) for name in os.listdir("/proc") if name.isdigit())
    return {process.pid: process for process in processes if process is not None}


def _read(pid: int) -> Process | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            text = file.read()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The second field is the command's name in brackets, which may itself contain spaces and brackets (proc(5)).
    fields = text.rpartition(b")")[2].split()
    return Process(pid, int(fields[1]), int(fields[3]), fields[0].decode(), int(fields[19]))


def _runs(process: Process) -> bool:
    """Whether the process is not dead. A process whose main thread ended has state Z while its other threads continue."""
    if process.state not in DEAD:
        return True
    try:
        tasks = os.listdir(f"/proc/{process.pid}/task")
    except (FileNotFoundError, ProcessLookupError):
        return False
    states = [_read(int(task)) for task in tasks if int(task) != process.pid]
    return any(task is not None and task.state not in DEAD for task in states)


def _environment(pid: int) -> list[bytes]:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return file.read().split(b"\0")
    except OSError:  # it has ended, or belongs to another user, and must not be ended
        return []


def _signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return  # it has ended, or may not be ended: then it is among those that are reported as remaining


def _reap_orphan(pid: int) -> bool:
    """Whether the process no longer has to be reaped."""
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return True  # another process is its parent


def _prctl(option: int, value: int) -> None:
    import ctypes

    if ctypes.CDLL(None, use_errno=True).prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"prctl({option}): {os.strerror(number)}")


def _main(argv: Sequence[str]) -> None:
    die_with_parent(int(argv[0]), int(argv[1]))
    os.execvpe(argv[2], list(argv[2:]), as_started(os.environ))


if __name__ == "__main__":
    _main(sys.argv[1:])
