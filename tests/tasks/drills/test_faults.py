"""Every fault is made and undone on this machine: in files, file systems, processes and a network namespace of the test's own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from checks.probes.kernel import xid as xid_check
from checks.probes.kernel.log_lines import Now
from checks.probes.kernel.log_source import Reader, read_file
from tasks.drills.catalog import CATALOG, DRILLS, list_text
from tasks.drills.model import NOT_YET, Drill, DrillRefused, Fault, FaultOptions, NodeUnreachable
from tasks.drills.node_commands import NodeCommands, Ran, commands_for, environment_of, is_this_machine
from tasks.drills.resource_faults import BUCKET

HERE = NodeCommands()
SLEEP = (sys.executable, "-c", "import time; time.sleep(600)")


def fault(drill: Drill, options: FaultOptions, commands: NodeCommands = HERE) -> Fault:
    """The fault, made of what this machine says."""
    return drill.fault.make(options, commands.run(drill.fault.probe(options), 20).out)


def run(words: tuple[str, ...], commands: NodeCommands = HERE) -> Ran:
    """A command of a fault, as it runs on a node."""
    return commands.run(words, 30)


def options(**more: object) -> FaultOptions:
    """For node n2."""
    return FaultOptions("d1", "n2", **more)  # type: ignore[arg-type]


@contextmanager
def process(*argv: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process that the test owns."""
    child = subprocess.Popen(argv, start_new_session=True)
    try:
        yield child
    finally:
        os.kill(child.pid, signal.SIGKILL)
        child.wait()


def state(pid: int) -> str:
    """The kernel's letter."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def becomes(pid: int, *letters: str) -> bool:
    """Whether a process gets into one of these states soon: a signal takes effect a moment after it was sent."""
    deadline = time.monotonic() + 60
    while state(pid) not in letters and time.monotonic() < deadline:
        time.sleep(0.01)
    return state(pid) in letters


def seen_in(path: Path) -> list[str]:
    """What kernel.xid finds in a log."""
    reader = Reader(xid_check.find, Now(time.monotonic(), time.time(), 0.0), 86400.0)
    return [event.line.message for event in read_file(path, reader, vouched=True).recent]


@pytest.mark.parametrize("code", [79, 74, 73])
def test_an_xid_in_a_file_is_one_that_our_check_finds_and_is_taken_out_again(
    tmp_path: Path, code: int
) -> None:
    """With a current date; the lines around it stay, also those that a program appends meanwhile."""
    log = tmp_path / "messages"
    first = time.strftime("%b %d %H:%M:%S n2 kernel: usb 1-1: new device\n")
    log.write_text(first)
    made = fault(DRILLS[f"xid-{code}"], options(kernel_log=str(log)))
    with log.open("a") as appended:
        assert 0 == run(made.inject).code
        (message,) = seen_in(log)
        assert message.startswith(f"NVRM: Xid (PCI:0000:b9:00): {code}, ")
        appended.write("Nov 25 12:00:01 n2 sshd[1]: hello\n")
    size = log.stat().st_size

    assert (0, 0) == (run(made.undo).code, run(made.undo).code)
    lines = log.read_text().splitlines()
    assert (first.rstrip(), size, 3) == (lines[0], log.stat().st_size, len(lines))
    assert "NVRM" not in log.read_text()
    assert "hello" in lines[2]


def test_a_log_that_was_not_there_is_removed(tmp_path: Path) -> None:
    """Unless somebody else wrote to it meanwhile."""
    log = tmp_path / "messages"
    made = fault(DRILLS["xid-79"], options(kernel_log=str(log)))
    assert (0, 0, False) == (run(made.inject).code, run(made.undo).code, log.exists())
    assert 0 == run(made.inject).code
    with log.open("a") as appended:
        appended.write("another line\n")

    assert 0 == run(made.undo).code
    assert "another line" == log.read_text().splitlines()[1]


def test_an_xid_in_the_ring_buffer_says_that_it_stays() -> None:
    """And how a gate passes over it. Nothing is written there by this test."""
    made = DRILLS["xid-79"].fault.make(options(), "Nov 25 12:00:00\nn2\nthere\nwritable\n")

    assert ("/dev/kmsg", ("true",)) == (made.inject[4], made.undo)
    assert made.inject[5].startswith("NVRM: Xid (PCI:0000:b9:00): 79, ")
    assert "until the node restarts" in made.stays
    assert "checks.skip" in made.stays


def test_dcgm_gets_its_value_each_second_for_a_gpu_that_is_named() -> None:
    """dcgmi's own default is GPU 1. It was never run."""
    made = DRILLS["dcgm-xid"].fault.make(options(), "")

    assert ["dcgmi", "test", "--inject", "--gpuid", "0", "-f", "230", "-v", "79"] == list(made.inject)
    assert (1.0, ("true",)) == (made.repeat_s, made.undo)
    assert "never run" in list_text()


def test_a_process_is_frozen_and_goes_on() -> None:
    """By its number and start time; twice is no error."""
    with process(*SLEEP) as child:
        path = Path(f"/tmp/prelaunch-drill-test-{child.pid}")
        path.write_text(f"{child.pid}\n")
        try:
            made = fault(DRILLS["frozen-process"], options(pid_file=str(path)))
            assert (0, True) == (run(made.inject).code, becomes(child.pid, "T"))
            assert (0, 0, True) == (run(made.undo).code, run(made.undo).code, becomes(child.pid, "S"))
        finally:
            path.unlink()


def test_a_process_that_is_another_gets_no_signal(tmp_path: Path) -> None:
    """Its number was used again."""
    with process(*SLEEP) as child:
        path = tmp_path / "pid"
        path.write_text(f"{child.pid}\n")
        for name in ("frozen-process", "killed-daemon"):
            made = fault(DRILLS[name], options(pid_file=str(path), start=("true",)))
            words = tuple("1" if word == made.inject[5] else word for word in made.inject)
            assert run(words).code
        assert becomes(child.pid, "S")


def test_the_checks_own_processes_of_one_node_are_frozen() -> None:
    """Those of another node on the same machine go on; before there is one, nothing happens."""
    name = f"n{uuid.uuid4().hex[:6]}"
    made = fault(DRILLS["frozen-process"], replace(options(), node=name, process="checks"))
    assert (NOT_YET, 0) == (run(made.inject).code, run(made.undo).code)
    words = (*SLEEP, "-m checks run")
    with (
        process("env", f"PRELAUNCH_NODE={name}", *words) as ours,
        process("env", "PRELAUNCH_NODE=x", *words) as other,
    ):
        deadline = time.monotonic() + 60
        while (code := run(made.inject).code) == NOT_YET:
            assert time.monotonic() < deadline
        assert (0, True, True) == (code, becomes(ours.pid, "T"), becomes(other.pid, "S"))
        assert (0, True) == (run(made.undo).code, becomes(ours.pid, "S"))


def test_a_killed_daemon_is_started_again(tmp_path: Path) -> None:
    """Unless somebody else has done so."""
    path, started = tmp_path / "pid", tmp_path / "started"
    script = f"echo $$ >{path}; echo x >>{started}; exec sleep 600"
    child = subprocess.Popen(("sh", "-c", script), start_new_session=True)
    while not (path.exists() and path.read_text().strip()):
        time.sleep(0.01)
    daemon = options(pid_file=str(path), process="sleep", start=("sh", "-c", script))
    made = fault(DRILLS["killed-daemon"], daemon)
    try:
        assert (0, 0) == (run(made.undo).code, run(made.inject).code)
        assert -signal.SIGKILL == child.wait(60)
        assert 0 == run(made.undo).code
        assert (2, True) == (len(started.read_text().split()), becomes(int(path.read_text()), "S"))
        assert 0 == run(made.undo).code
        assert 2 == len(started.read_text().split())
    finally:
        os.kill(int(path.read_text()), signal.SIGKILL)


@pytest.mark.root
def test_a_file_system_is_filled_and_emptied(tmp_path: Path) -> None:
    """To what is to be left; a full one is refused."""
    folder = tmp_path / "disk"
    folder.mkdir()
    subprocess.run(("mount", "-t", "tmpfs", "-o", "size=16m", "none", str(folder)), check=True)
    try:
        made = fault(DRILLS["full-disk"], options(folder=str(folder), leave_mib=4))
        free = os.statvfs(folder).f_bavail
        assert 0 == run(made.inject).code
        left = os.statvfs(folder)
        assert 3.5 < left.f_bavail * left.f_frsize / 2**20 < 4.5
        with pytest.raises(DrillRefused, match="KiB left already"):
            fault(DRILLS["full-disk"], options(folder=str(folder), leave_mib=8))
        assert (0, 0) == (run(made.undo).code, run(made.undo).code)
        assert (free, []) == (os.statvfs(folder).f_bavail, list(folder.iterdir()))
    finally:
        subprocess.run(("umount", str(folder)), check=True)


@contextmanager
def link() -> Iterator[NodeCommands]:
    """A network namespace with an interface."""
    name = f"pd{uuid.uuid4().hex[:6]}"
    try:
        subprocess.run(("ip", "netns", "add", name), check=True)
        subprocess.run(
            ("ip", "-n", name, "link", "add", "d0", "type", "veth", "peer", "name", "d1"), check=True
        )
        subprocess.run(("ip", "-n", name, "link", "set", "d0", "up"), check=True)
        yield NodeCommands(("ip", "netns", "exec", name))
    finally:
        subprocess.run(("ip", "netns", "del", name), check=False, capture_output=True)


@pytest.mark.root
@pytest.mark.needs("ip", "tc")
def test_a_link_is_shaped_and_healed() -> None:
    """The default queueing discipline is there again; somebody else's is never touched."""
    with link() as there:
        drill, asked = DRILLS["shaped-link"], options(interface="d0", rate="3mbit")
        before = run(("tc", "qdisc", "show", "dev", "d0"), there).out
        made = fault(drill, asked, there)
        assert (0, 0) == (run(made.undo, there).code, run(made.inject, there).code)
        assert "tbf 7d11: root" in (shown := run(("tc", "qdisc", "show", "dev", "d0"), there).out)
        assert "rate 3Mbit" in shown
        with pytest.raises(DrillRefused, match="could not restore"):
            fault(drill, asked, there)
        assert (0, 0) == (run(made.undo, there).code, run(made.undo, there).code)
        assert before == run(("tc", "qdisc", "show", "dev", "d0"), there).out
        others = ("tc", "qdisc", "add", "dev", "d0", "root", "handle", "1:", "tbf", "rate", "1mbit", *BUCKET)
        assert (0, 0) == (run(others, there).code, run(made.undo, there).code)
        assert "tbf 1:" in run(("tc", "qdisc", "show", "dev", "d0"), there).out
        with pytest.raises(DrillRefused, match="default route"):
            fault(drill, options(), there)


@pytest.mark.parametrize(
    ("name", "more", "said"),
    [
        ("xid-79", {"pci": "b9; reboot"}, ""),
        ("xid-79", {}, "Nov 25 12:00:00\nn2\nthere\nno\n"),
        ("xid-79", {}, "Permission denied\n"),
        ("frozen-process", {}, ""),
        ("frozen-process", {}, "1 S 5\n"),
        ("frozen-process", {}, "77 T 5\n"),
        ("frozen-process", {}, "77 S 5\n78 S 6\n"),
        ("killed-daemon", {}, "77 S 5\n"),
        ("killed-daemon", {"process": "checks"}, "77 S 5\nunit\n"),
        ("shaped-link", {}, "device \n"),
        ("shaped-link", {}, "device eth0\nqdisc htb 1: root refcnt 2\n"),
        ("shaped-link", {}, "device eth0\n"),
        ("shaped-link", {"rate": "1 mbit; reboot"}, "device eth0\nqdisc noqueue 0: root refcnt 2\n"),
        ("full-disk", {"folder": "/x"}, "df: /x: No such file\n"),
        ("full-disk", {"folder": "/x"}, "writable\ntmpfs 9 8 1 99% /x\n"),
    ],
)
def test_what_a_node_says_can_refuse_a_drill(name: str, more: dict[str, object], said: str) -> None:
    """Before anything is changed."""
    with pytest.raises(DrillRefused):
        DRILLS[name].fault.make(options(**more), said)


def test_a_folder_must_be_named() -> None:
    """No drill chooses one by itself."""
    with pytest.raises(DrillRefused, match="--folder"):
        DRILLS["full-disk"].fault.probe(options())


def test_names_are_never_read_as_code(tmp_path: Path) -> None:
    """Whatever a folder or a file is called."""
    trap = tmp_path / "trap"
    evil = tmp_path / f"a'; touch {trap.name}; $(touch {trap.name}) \n`touch {trap.name}`"
    made = fault(DRILLS["xid-79"], options(kernel_log=str(evil)))

    assert (0, 0) == (run(made.inject).code, run(made.undo).code)
    assert [] == list(tmp_path.iterdir())


def test_a_node_is_reached_by_a_prefix_by_ssh_or_not_at_all() -> None:
    """ssh joins words for the shell of the node, so they are quoted for it."""
    words = ("sh", "-c", "echo $1; true", "x")

    assert words == commands_for("n2", "", here=True).argv(words)
    ssh = commands_for("n2", "", here=False).argv(words)
    assert ("ssh", "n2", "sh -c 'echo $1; true' x") == (ssh[0], ssh[-2], ssh[-1])
    assert ("ip", "netns", "exec", "a b", *words) == commands_for("n2", "ip netns exec 'a b'", False).argv(
        words
    )
    assert "sh -c 'echo $1; true' x" == commands_for("n2", "/usr/bin/ssh -p 22 h", False).argv(words)[-1]
    assert is_this_machine(os.uname().nodename)
    with pytest.raises(ValueError, match="quotation"):
        commands_for("n2", "ip 'netns", False)


def test_a_command_that_does_not_end_is_ended() -> None:
    """With what it started, and a program that is none is said."""
    with pytest.raises(NodeUnreachable, match="did not end"):
        HERE.run(("sh", "-c", "sleep 600 & wait"), 0.2)
    with pytest.raises(NodeUnreachable, match="cannot be started"):
        NodeCommands(("no-such-program",)).run(("true",), 1)


def test_secrets_of_the_operator_stay_here() -> None:
    """A prefix such as srun hands on what it has."""
    assert {"PATH", "HOME"} == set(environment_of({"PATH": "/bin", "HOME": "/", "PREFECT_API_KEY": "x"}))


def test_every_drill_says_what_follows() -> None:
    """Its name is unique, and each has a detection."""
    assert len(CATALOG) == len(DRILLS)
    assert all("detected" in drill.expects for drill in CATALOG)
