"""`prelaunch repair drill`: exit codes, rejections, and what real signals leave behind."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from flows.cli import drill as drill_command
from flows.cli.main import main
from tasks.machines.base import Machine, ServiceState
from tasks.store.folder import FolderStore
from tests.fakes.machines import PlayedMachines, serving
from tests.flows.cli.conftest import Captured
from tests.flows.cli.test_fleet import gate_file
from tests.tasks.drills.test_faults import link, process

ROOT = Path(__file__).parents[3]


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    """A gate file with a store of its own, and a kernel log beside it."""
    (tmp_path / "messages").write_text("Nov 25 12:00:00 n2 kernel: Linux version 6.1\n")
    return Path(gate_file(tmp_path, FolderStore(tmp_path / "store"), "local"))


@pytest.fixture
def machines(monkeypatch: pytest.MonkeyPatch) -> PlayedMachines:
    """A cluster with a node that serves."""
    played = serving("n2")
    monkeypatch.setattr(drill_command, "machines_of", lambda gate: played)
    return played


def words(gate: Path, *more: str, name: str = "xid-74") -> list[str]:
    """The command line of a drill."""
    node = ("--node", "n2", "--kernel-log", str(gate.parent / "messages"))
    return ["repair", "drill", name, str(gate), *node, *more]


@pytest.mark.usefixtures("machines")
def test_a_fault_that_was_made_and_is_undone_is_a_success(gate: Path, capsys: Captured) -> None:
    """What undoes the fault is printed before it is made; the handlers of signals are as before."""
    before = signal.getsignal(signal.SIGHUP), signal.getsignal(signal.SIGINT)

    assert 0 == main(words(gate, "--keep", "0.01"))
    printed = capsys.readouterr().err
    assert printed.index("undoes the fault") < printed.index("The fault was made on n2")
    assert "NVRM" not in (gate.parent / "messages").read_text()
    assert before == (signal.getsignal(signal.SIGHUP), signal.getsignal(signal.SIGINT))


@pytest.mark.parametrize(
    "more", [{"jobs": ("17",)}, {"service": ServiceState.OUT}, {"service": ServiceState.UNKNOWN}], ids=str
)
def test_a_node_in_use_is_rejected(gate: Path, machines: PlayedMachines, more: dict[str, object]) -> None:
    """With exit code 2, and nothing was written."""
    machines.shown["n2"] = replace(Machine("n2", ServiceState.SERVING), **more)  # type: ignore[arg-type]

    assert 2 == main(words(gate))
    assert "NVRM" not in (gate.parent / "messages").read_text()


@pytest.mark.parametrize(
    "line",
    [
        ["repair", "drill"],
        ["repair", "drill", "xid-80", "gate.toml", "--node", "n2"],
        ["repair", "drill", "xid-74"],
        ["repair", "drill", "xid-74", "none.toml", "--node", "n2"],
        ["repair", "drill", "xid-74", "gate.toml", "--node", "../n2"],
        ["repair", "drill", "xid-74", "gate.toml", "--node", "n2", "--through", "ip 'netns"],
        ["repair", "drill", "xid-74", "gate.toml", "--node", "n2", "--keep", "nan"],
    ],
    ids=" ".join,
)
@pytest.mark.usefixtures("machines")
def test_a_wrong_command_line_is_rejected(
    gate: Path, line: list[str], monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    """With exit code 2 and one line that says why."""
    monkeypatch.chdir(gate.parent)

    assert 2 == main(line)
    shown = capsys.readouterr()
    assert not shown.out
    assert "prelaunch:" in shown.err


# The command in a process of its own, with machines that are played.
CHILD = """
import sys
from flows.cli import drill, main
from tests.fakes.machines import serving
drill.machines_of = lambda gate: serving("n2")
sys.exit(main.main(sys.argv[1:]))
"""


@pytest.mark.root
@pytest.mark.needs("ip", "tc")
@pytest.mark.parametrize("seed", range(3))  # each fault once
def test_a_random_interruption_leaves_nothing(gate: Path, seed: int) -> None:
    """No qdisc, line or frozen process, whenever it comes; a second signal changes nothing."""
    chance = random.Random(seed)
    folder = gate.parent
    with ExitStack() as stack:
        there, pid = stack.enter_context(link()), stack.enter_context(process("sleep", "600")).pid
        (folder / "pid").write_text(f"{pid}\n")
        faults = {
            "shaped-link": ("--interface", "d0", "--through", " ".join(there.prefix)),
            "frozen-process": ("--pid-file", str(folder / "pid")),
            "xid-74": (),
        }
        drill = list(faults)[seed % len(faults)]
        argv = (sys.executable, "-c", CHILD, *words(gate, *faults[drill], name=drill))
        child = subprocess.Popen(argv, cwd=ROOT, stderr=subprocess.PIPE, text=True)
        assert child.stderr is not None
        until = chance.choice(("undoes the fault", "The fault was made"))
        while until not in (line := child.stderr.readline()):
            assert line, child.wait()
        time.sleep(chance.random() * 0.1)
        number = chance.choice((signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
        child.send_signal(number)
        if chance.random() < 0.5:
            child.send_signal(signal.SIGINT)
        _, printed = child.communicate()

        assert child.returncode in (0, 130, 143), printed
        assert "The fault is undone." in printed
        shown, queues = there.run(("tc", "qdisc", "show"))
        assert shown and "tbf" not in queues
        assert Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "S"
        assert "NVRM" not in (folder / "messages").read_text()
