"""`prelaunch drill`: exit codes, one document, rejections, and what real signals leave behind."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from flows.cli import drill as command
from flows.cli import machines as machines_command
from flows.cli.main import main
from tasks.machines.base import Machine, Service
from tests.fakes.drill_stack import CLUSTER, PlayedStack

ROOT = Path(__file__).parents[3]
GATES = ROOT / "deployments" / "gates"
ALL = ("--expect", "detected,paged,acted,returned", "--poll", "0.01")


class SteppingStack(PlayedStack):
    """A stack that takes a step whenever its gate is asked."""

    def code(self) -> int | None:
        """The exit code of its gate."""
        self.step()
        return self.exit_code


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    """A gate file with a store of its own, and a kernel log beside it."""
    text = (GATES / "local.toml").read_text()
    text = text.replace('path = ".prelaunch"', f'path = "{tmp_path}/store"').replace(
        "../", f"{GATES.parent}/"
    )
    (tmp_path / "gate.toml").write_text(text)
    (tmp_path / "messages").write_text("Nov 25 12:00:00 n2 kernel: Linux version 6.1\n")
    return tmp_path / "gate.toml"


@pytest.fixture
def stack(gate: Path, monkeypatch: pytest.MonkeyPatch) -> SteppingStack:
    """A healthy stack, whose gate the drill starts."""
    log = gate.parent / "messages"
    made = SteppingStack(gate.parent, lambda: "NVRM: Xid" in log.read_text())
    monkeypatch.setattr(machines_command, "machines_of", lambda gate: made.machines)
    monkeypatch.setattr(machines_command, "cluster_of", lambda gate: CLUSTER)
    monkeypatch.setattr(command, "start_gate", lambda argv: made)
    return made


def words(gate: Path, *more: str, name: str = "xid-79") -> list[str]:
    """The command line of a drill."""
    return ["drill", name, str(gate), "--node", "n2", "--kernel-log", str(gate.parent / "messages"), *more]


@pytest.mark.parametrize(
    ("left_out", "code"), [({}, 0), ({"deaf": True}, 1), ({"pages": False}, 1), ({"acts": False}, 1)]
)
def test_the_exit_code_says_whether_everything_happened(
    gate: Path, stack: SteppingStack, left_out: dict[str, bool], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """0 on a healthy stack; 1 where it detects nothing, pages nobody or does nothing."""
    for key, value in left_out.items():
        setattr(stack, key, value)
    limits = ("--page-within", "0.5", "--act-within", "0.5")

    assert code == main(words(gate, *ALL, *limits, "--format", "json"))
    document = json.loads(capsys.readouterr().out)
    assert (code == 0, True, None) == (
        all(one["in_time"] for one in document["milestones"]), document["cleaned_up"], document["error"],
    )  # fmt: skip
    assert "NVRM" not in (gate.parent / "messages").read_text()


def test_a_report_is_text_on_stdout(
    gate: Path, stack: SteppingStack, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the times; what undoes the fault was said on stderr before it was made."""
    assert 0 == main(words(gate, *ALL))
    shown = capsys.readouterr()

    assert "drill xid-79 on n2: everything happened in time" in shown.out
    assert ", back after " in shown.out
    assert shown.err.index("undoes the fault") < shown.err.index("was injected")


def test_what_could_not_be_told_is_no_success(
    gate: Path, stack: SteppingStack, capsys: pytest.CaptureFixture[str]
) -> None:
    """The gate found no machines."""
    stack._gate = lambda: 5  # type: ignore[method-assign]

    assert 3 == main(words(gate, *ALL))
    assert "it is not known whether everything happened in time" in capsys.readouterr().out


@pytest.mark.parametrize(
    "more", [{"jobs": ("17",)}, {"service": Service.OUT}, {"service": Service.UNKNOWN}], ids=str
)
def test_a_node_that_is_not_free_is_rejected(
    gate: Path, stack: SteppingStack, more: dict[str, object], capsys: pytest.CaptureFixture[str]
) -> None:
    """With exit code 2, and nothing was written."""
    stack.machines.shown["n2"] = replace(Machine("n2", Service.SERVING), **more)  # type: ignore[arg-type]

    assert 2 == main(words(gate))
    assert not capsys.readouterr().out
    assert "NVRM" not in (gate.parent / "messages").read_text()


@pytest.mark.parametrize(
    "line",
    [
        ["drill"],
        ["drill", "xid-80", "gate.toml", "--node", "n2"],
        ["drill", "xid-79"],
        ["drill", "xid-79", "none.toml", "--node", "n2"],
        ["drill", "xid-79", "gate.toml", "--node", "../n2"],
        ["drill", "xid-79", "gate.toml", "--node", "n2", "--through", "ip 'netns"],
        ["drill", "xid-79", "gate.toml", "--node", "n2", "--expect", "mended"],
        ["drill", "xid-79", "gate.toml", "--node", "n2", "--poll", "nan"],
        ["drill", "full-disk", "gate.toml", "--node", "n2"],
        ["drill", "full-disk", "gate.toml", "--node", "n2", "--folder", "relative"],
    ],
    ids=" ".join,
)
def test_a_wrong_command_line_is_rejected(
    gate: Path, stack: SteppingStack, line: list[str], monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """With exit code 2 and one line that says why."""
    monkeypatch.chdir(gate.parent)

    assert 2 == main(line)
    shown = capsys.readouterr()
    assert not shown.out
    assert "prelaunch:" in shown.err


@pytest.mark.parametrize(("overlay", "code"), [("", 2), ("hyperpod", 0)])
def test_xid_73_is_refused_where_it_is_only_a_warning(
    gate: Path, stack: SteppingStack, overlay: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """At once, and not after a gate has said GO. With HyperPod's answers it is a drill like the others."""
    policy = gate.parent / "policy.toml"
    head = '[checks."kernel.xid"]\n'
    text = (GATES.parent / "policies" / "local.toml").read_text()
    assert text.count(head) == 1
    policy.write_text(text.replace(head, head + (f'overlay = "{overlay}"\n' if overlay else "")))
    shipped = f"{GATES.parent}/policies/local.toml"
    assert shipped in gate.read_text()
    gate.write_text(gate.read_text().replace(shipped, str(policy)))
    before = (gate.parent / "messages").read_text()

    assert code == main(words(gate, "--detect-within", "0.2", "--poll", "0.01", name="xid-73"))
    assert (code == 2) == ("only a warning" in capsys.readouterr().err)
    assert code == 0 or before == (gate.parent / "messages").read_text()


def test_the_drills_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    """Without a gate file."""
    assert 0 == main(["drill", "--list"])
    assert {"xid-79", "full-disk"} <= {line.split()[0] for line in capsys.readouterr().out.splitlines()}


def test_signals_are_as_before_after_a_drill(gate: Path, stack: SteppingStack) -> None:
    """The handlers of the drill are its own."""
    before = signal.getsignal(signal.SIGHUP), signal.getsignal(signal.SIGINT)
    main(words(gate, *ALL))

    assert before == (signal.getsignal(signal.SIGHUP), signal.getsignal(signal.SIGINT))


# The command in a process of its own, with machines that are played.
CHILD = """
import sys
from flows.cli import machines, main
from tests.fakes.machines import serving
machines.machines_of = lambda gate: serving("n2")
sys.exit(main.main(sys.argv[1:]))
"""


@contextmanager
def disk(folder: Path) -> Iterator[Path]:
    """A file system of its own."""
    folder.mkdir()
    subprocess.run(("mount", "-t", "tmpfs", "-o", "size=16m", "none", str(folder)), check=True)
    try:
        yield folder
    finally:
        subprocess.run(("umount", str(folder)), check=True)


@contextmanager
def link() -> Iterator[str]:
    """A namespace with an interface."""
    name = f"pd{uuid.uuid4().hex[:6]}"
    try:
        subprocess.run(("ip", "netns", "add", name), check=True)
        veth = ("link", "add", "d0", "type", "veth", "peer", "name", "d1")
        subprocess.run(("ip", "-n", name, *veth), check=True)
        subprocess.run(("ip", "-n", name, "link", "set", "d0", "up"), check=True)
        yield name
    finally:
        subprocess.run(("ip", "netns", "del", name), check=False, capture_output=True)


@contextmanager
def process(file: Path) -> Iterator[int]:
    """A process whose number is in a file."""
    child = subprocess.Popen(("sleep", "600"), start_new_session=True)
    try:
        file.write_text(f"{child.pid}\n")
        yield child.pid
    finally:
        os.kill(child.pid, signal.SIGKILL)
        child.wait()


@pytest.mark.root
@pytest.mark.needs("ip", "tc")
@pytest.mark.parametrize("seed", range(10))
def test_a_random_interruption_leaves_nothing(gate: Path, seed: int) -> None:
    """No qdisc, file or frozen process, whenever it comes; a second signal changes nothing."""
    chance = random.Random(seed)
    folder = gate.parent
    with ExitStack() as stack:
        space, name, pid = (
            stack.enter_context(disk(folder / "disk")), stack.enter_context(link()),
            stack.enter_context(process(folder / "pid")),
        )  # fmt: skip
        faults = {
            "full-disk": ("--folder", str(space)),
            "shaped-link": ("--interface", "d0", "--through", f"ip netns exec {name}"),
            "frozen-process": ("--pid-file", str(folder / "pid")),
            "xid-79": (),
        }
        drill = list(faults)[seed % len(faults)]
        argv = (
            sys.executable,
            "-c",
            CHILD,
            *words(gate, "--watch-only", "--poll", "0.05", *faults[drill], name=drill),
        )
        child = subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert child.stderr is not None
        until = chance.choice(("undoes the fault", "was injected"))
        while until not in (line := child.stderr.readline()):
            assert line, child.wait()
        time.sleep(chance.random() * 0.1)
        number = chance.choice((signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
        child.send_signal(number)
        if chance.random() < 0.5:
            child.send_signal(signal.SIGINT)
        out, _ = child.communicate(timeout=60)

        assert child.returncode in (130, 143), out
        assert "the drill was interrupted" in out
        assert [] == list(space.iterdir())
        shown = subprocess.run(
            ("ip", "netns", "exec", name, "tc", "qdisc", "show"), capture_output=True, text=True, check=True
        )
        assert "tbf" not in shown.stdout
        assert Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "S"
        assert "NVRM" not in (folder / "messages").read_text()
