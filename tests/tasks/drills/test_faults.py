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
from pathlib import Path

import pytest

from checks.probes.kernel import xid as xid_check
from checks.probes.kernel.log_lines import Now
from checks.probes.kernel.log_source import Reader, read_file
from tasks.drills import drive
from tasks.drills.drive import NodeCommands, commands_for, passed
from tasks.drills.faults import BUCKET, DRILLS, Drill, DrillFault, DrillRefused, FaultOptions
from tests.waiting import until

HERE = NodeCommands()
SLEEP = (sys.executable, "-c", "import time; time.sleep(600)")


def fault(drill: Drill, options: FaultOptions, commands: NodeCommands = HERE) -> DrillFault:
    """The fault, made of what this machine says."""
    return drill.make(options, commands.run(drill.probe(options))[1])


def succeeds(words: tuple[str, ...], commands: NodeCommands = HERE) -> bool:
    """Whether a command of a fault ends well, as it runs on a node."""
    return commands.run(words)[0]


def output(words: tuple[str, ...], commands: NodeCommands = HERE) -> str:
    """What a command prints."""
    return commands.run(words)[1]


def options(**more: object) -> FaultOptions:
    """For node n2."""
    return FaultOptions("n2", **more)  # type: ignore[arg-type]


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


def becomes(pid: int, letter: str) -> bool:
    """Whether a process gets into this state soon: a signal takes effect a moment after it was sent."""
    return until(lambda: state(pid) == letter)


def seen_in(path: Path) -> list[str]:
    """What kernel.xid finds in a log."""
    reader = Reader(xid_check.find, Now(time.monotonic(), time.time(), 0.0), 86400.0)
    return [event.line.message for event in read_file(path, reader, vouched=True).recent]


@pytest.mark.parametrize("code", [74, 73])
def test_an_xid_in_a_file_is_one_that_our_check_finds_and_is_removed(tmp_path: Path, code: int) -> None:
    """With a current date; the lines around it stay, also those that a program appends meanwhile."""
    log = tmp_path / "messages"
    first = time.strftime("%b %d %H:%M:%S n2 kernel: usb 1-1: new device\n")
    log.write_text(first)
    made = fault(DRILLS[f"xid-{code}"], options(kernel_log=str(log)))
    with log.open("a") as appended:
        assert succeeds(made.inject)
        (message,) = seen_in(log)
        assert message.startswith(f"NVRM: Xid (PCI:0000:b9:00): {code}, ")
        appended.write("Nov 25 12:00:01 n2 sshd[1]: hello\n")
    size = log.stat().st_size

    assert succeeds(made.undo) and succeeds(made.undo)
    lines = log.read_text().splitlines()
    assert (first.rstrip(), size, 3) == (lines[0], log.stat().st_size, len(lines))
    assert "NVRM" not in log.read_text()
    assert "hello" in lines[2]


def test_a_log_that_was_not_there_is_removed(tmp_path: Path) -> None:
    """Unless somebody else wrote to it meanwhile."""
    log = tmp_path / "messages"
    made = fault(DRILLS["xid-74"], options(kernel_log=str(log)))
    assert (True, True, False) == (succeeds(made.inject), succeeds(made.undo), log.exists())
    assert succeeds(made.inject)
    with log.open("a") as appended:
        appended.write("another line\n")

    assert succeeds(made.undo)
    assert "another line" == log.read_text().splitlines()[1]


def test_an_xid_in_the_ring_buffer_says_that_it_stays() -> None:
    """And how a gate passes over it. Nothing is written there by this test."""
    made = DRILLS["xid-74"].make(options(), "Nov 25 12:00:00\nn2\nthere\nwritable\n")

    assert ("/dev/kmsg", ("true",)) == (made.inject[4], made.undo)
    assert made.inject[5].startswith("NVRM: Xid (PCI:0000:b9:00): 74, ")
    assert "until the node restarts" in made.stays
    assert "checks.skip" in made.stays


def test_a_process_is_frozen_and_goes_on() -> None:
    """By its number and start time; twice is no error."""
    with process(*SLEEP) as child:
        path = Path(f"/tmp/prelaunch-drill-test-{child.pid}")
        path.write_text(f"{child.pid}\n")
        try:
            made = fault(DRILLS["frozen-process"], options(pid_file=str(path)))
            assert (True, True) == (succeeds(made.inject), becomes(child.pid, "T"))
            assert (True, True, True) == (succeeds(made.undo), succeeds(made.undo), becomes(child.pid, "S"))
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
            assert not succeeds(words)
        assert becomes(child.pid, "S")


def test_a_killed_daemon_is_started_again(tmp_path: Path) -> None:
    """Unless somebody else has done so."""
    path, started = tmp_path / "pid", tmp_path / "started"
    script = f"echo $$ >{path}; echo x >>{started}; exec sleep 600"
    child = subprocess.Popen(("sh", "-c", script), start_new_session=True)
    until(lambda: path.exists() and path.read_text().strip())
    daemon = options(pid_file=str(path), process="sleep", start=("sh", "-c", script))
    made = fault(DRILLS["killed-daemon"], daemon)
    try:
        assert succeeds(made.undo) and succeeds(made.inject)
        assert -signal.SIGKILL == child.wait(60)
        assert succeeds(made.undo)
        assert (2, True) == (len(started.read_text().split()), becomes(int(path.read_text()), "S"))
        assert succeeds(made.undo)
        assert 2 == len(started.read_text().split())
    finally:
        os.kill(int(path.read_text()), signal.SIGKILL)


@contextmanager
def link() -> Iterator[NodeCommands]:
    """A network namespace with an interface."""
    name = f"pd{uuid.uuid4().hex[:6]}"
    try:
        pair = ("type", "veth", "peer", "name", "d1")
        subprocess.run(("ip", "netns", "add", name), check=True)
        subprocess.run(("ip", "-n", name, "link", "add", "d0", *pair), check=True)
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
        show = ("tc", "qdisc", "show", "dev", "d0")
        before = output(show, there)
        made = fault(drill, asked, there)
        assert succeeds(made.undo, there) and succeeds(made.inject, there)
        assert "tbf 7d11: root" in (shown := output(show, there))
        assert "rate 3Mbit" in shown
        with pytest.raises(DrillRefused, match="could not restore"):
            fault(drill, asked, there)
        assert succeeds(made.undo, there) and succeeds(made.undo, there)
        assert before == output(show, there)
        others = ("tc", "qdisc", "add", "dev", "d0", "root", "handle", "1:", "tbf", "rate", "1mbit", *BUCKET)
        assert succeeds(others, there) and succeeds(made.undo, there)
        assert "tbf 1:" in output(show, there)
        with pytest.raises(DrillRefused, match="default route"):
            fault(drill, options(), there)


@pytest.mark.parametrize(
    ("name", "more", "said"),
    [
        ("xid-74", {}, "Nov 25 12:00:00\nn2\nthere\nno\n"),
        ("xid-74", {}, "Permission denied\n"),
        ("frozen-process", {}, ""),
        ("frozen-process", {}, "1 S 5\n"),
        ("frozen-process", {}, "77 T 5\n"),
        ("frozen-process", {}, "77 S 5\n78 S 6\n"),
        ("killed-daemon", {}, "77 S 5\n"),
        ("shaped-link", {}, "device \n"),
        ("shaped-link", {}, "device eth0\nqdisc htb 1: root refcnt 2\n"),
        ("shaped-link", {}, "device eth0\n"),
        ("shaped-link", {"rate": "1 mbit; reboot"}, "device eth0\nqdisc noqueue 0: root refcnt 2\n"),
    ],
)
def test_drill_is_refused_for_unexpected_output_of_the_node(
    name: str, more: dict[str, object], said: str
) -> None:
    """Before anything is changed."""
    with pytest.raises(DrillRefused):
        DRILLS[name].make(options(**more), said)


def test_names_are_never_read_as_code(tmp_path: Path) -> None:
    """Whatever a folder or a file is called."""
    trap = tmp_path / "trap"
    evil = tmp_path / f"a'; touch {trap.name}; $(touch {trap.name}) \n`touch {trap.name}`"
    made = fault(DRILLS["xid-74"], options(kernel_log=str(evil)))

    assert succeeds(made.inject) and succeeds(made.undo)
    assert [] == list(tmp_path.iterdir())


def test_a_node_is_reached_by_a_prefix_by_ssh_or_not_at_all() -> None:
    """ssh joins words for the shell of the node, so they are quoted for it."""
    words = ("sh", "-c", "echo $1; true", "x")

    assert words == commands_for("n2", "", here=True).argv(words)
    ssh = commands_for("n2", "", here=False).argv(words)
    assert ("ssh", "n2", "sh -c 'echo $1; true' x") == (ssh[0], ssh[-2], ssh[-1])
    within = commands_for("n2", "ip netns exec 'a b'", False).argv(words)
    assert ("ip", "netns", "exec", "a b", *words) == within
    assert "sh -c 'echo $1; true' x" == commands_for("n2", "/usr/bin/ssh -p 22 h", False).argv(words)[-1]
    with pytest.raises(ValueError, match="quotation"):
        commands_for("n2", "ip 'netns", False)


def test_a_command_that_does_not_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """With what it started, and a program that is none is named."""
    monkeypatch.setattr(drive, "COMMAND_S", 0.2)
    ended = HERE.run(("sh", "-c", "sleep 600 & wait"))
    assert (False, "the command did not end within 0.2 s, or was silent") == ended
    well, complaint = NodeCommands(("no-such-program",)).run(("true",))
    assert (well, "no-such-program" in complaint) == (False, True)


def test_secrets_of_the_operator_stay_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """A prefix such as srun hands on what it has."""
    monkeypatch.setenv("PREFECT_API_KEY", "secret")
    handed = passed({"PATH": "/bin", "HOME": "/", "PREFECT_API_KEY": "x"})
    assert ["HOME=/", "PATH=/bin:/usr/local/sbin:/usr/sbin:/sbin"] == sorted(handed)
    assert "PREFECT_API_KEY" not in output(("env",))
