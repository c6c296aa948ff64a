"""The agent's pure parts."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from checks.exit_codes import Exit
from container.agent import host_work, settings
from container.agent.files import s3
from container.agent.files.mirror import Mirror
from container.agent.sagemaker import ResourceError, parse_resources
from container.agent.settings import SettingsError, Verb


def resources(**changed: object) -> str:
    """resourceconfig.json of two hosts."""
    return json.dumps({"current_host": "algo-2", "hosts": ["algo-1", "algo-2"], **changed})


def test_hosts_are_in_one_order_everywhere() -> None:
    """By number: the order in the file differs from host to host, and algo-10 comes after algo-9. Keys that AWS adds do no harm."""
    hosts = ["algo-10", "algo-2", "algo-1"]
    found = parse_resources(resources(hosts=hosts, network_interface_name="eth0", topology=None, x={"y": 1}))

    assert (("algo-1", "algo-2", "algo-10"), "algo-2", "eth0") == (
        found.hosts,
        found.current,
        found.interface,
    )


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "{}"]
    + [
        resources(hosts=hosts)
        for hosts in ([], "algo-2", ["algo-1"], ["algo-2", "algo-2"], ["algo-2", "a b"], [1])
    ]
    + [resources(current_host=None)],
)
def test_a_resource_file_that_does_not_name_the_hosts_is_refused(text: str) -> None:
    """Half a list would make half a job look whole."""
    with pytest.raises(ResourceError):
        parse_resources(text)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("COMMAND", "train.py"),
        ("COMMAND", "[]"),
        ("COMMAND", "[1]"),
        ("OBSERVE", "perhaps"),
        ("PORT", "0"),
        ("PORT", "99999"),
        ("JOIN_S", "-1"),
        ("JOIN_S", "nan"),
        ("GRACE_S", "soon"),
    ],
)
def test_a_setting_that_cannot_be_meant_is_refused(name: str, value: str) -> None:
    """By its name."""
    with pytest.raises(SettingsError, match=f"PRELAUNCH_{name}"):
        settings.make(Path("/opt/ml"), {}, {f"PRELAUNCH_{name}": value})


@pytest.mark.parametrize("url", ["s3://", "s3:///key", "https://bucket/key"])
def test_a_place_that_is_no_bucket_is_refused(url: str) -> None:
    """Before anything is asked."""
    with pytest.raises(s3.S3Error):
        s3.split(url)


def test_a_mirror_copies_whole_files_and_follows_nothing(tmp_path: Path) -> None:
    """A link could show a secret, a FIFO would stop it, and what begins with a dot is half written."""
    source, target = tmp_path / "source", tmp_path / "target"
    (source / "nodes").mkdir(parents=True)
    (source / "nodes" / "a.json").write_text("whole")
    (source / "nodes" / ".a.json.tmp").write_text("ha")
    (source / "link").symlink_to("/etc/passwd")
    os.mkfifo(source / "fifo")
    problem = Mirror(source, str(target)).close(10.0)

    assert ("", ["nodes/a.json"]) == (
        problem,
        [str(path.relative_to(target)) for path in target.rglob("*") if path.is_file()],
    )


def test_a_mirror_copies_before_the_end(tmp_path: Path) -> None:
    """A node that dies has left what it knew."""
    (tmp_path / "source").mkdir()
    mirror = Mirror(tmp_path / "source", str(tmp_path / "target"))
    (tmp_path / "source" / "report").write_text("so far")
    deadline = time.monotonic() + 60.0
    while not (tmp_path / "target" / "report").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    copied = (tmp_path / "target" / "report").exists()

    assert (True, "") == (copied, mirror.close(10.0))


def test_a_child_that_stands_still_is_ended_when_it_is_overdue() -> None:
    """A runner that was stopped answers no signal, and nobody asked for its end: its agent does, once it is late."""
    code = (
        "import os, time\n"
        "from container.agent import supervisor\n"
        "from container.agent.supervisor import Signals\n"
        "begun = time.monotonic()\n"
        "late = lambda: time.monotonic() - begun > 0.5\n"
        "stopped = ('sh', '-c', 'kill -STOP $$; sleep 600')\n"
        "print(supervisor.run(stopped, os.environ, Signals(), 600.0, overdue=late))\n"
    )
    root = Path(__file__).parents[2]
    done = subprocess.run((sys.executable, "-c", code), capture_output=True, text=True, cwd=root)

    assert "137\n" == done.stdout, done.stderr


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGUSR2])
def test_a_signal_for_the_training_does_not_end_its_agent(number: int) -> None:
    """Slurm sends it to every process of a step, for a training that saves its state and goes on."""
    code = (
        "import os\n"
        "from container.agent import supervisor\n"
        "signals = supervisor.Signals()\n"
        "signals.install()\n"
        f"told = ('sh', '-c', 'trap \"echo saved\" {number:d}; kill -{number:d} $PPID $$; sleep 0.3; echo trained')\n"
        "print(supervisor.run(told, os.environ, signals, 600.0), signals.number)\n"
    )
    root = Path(__file__).parents[2]
    done = subprocess.run((sys.executable, "-c", code), capture_output=True, text=True, cwd=root)

    assert "saved\ntrained\n0 0\n" == done.stdout, done.stderr


@pytest.mark.parametrize(("has_verdict", "code"), [(True, Exit.GO), (False, Exit.CANNOT_TELL)])
def test_an_exit_code_without_a_verdict_is_no_go(tmp_path: Path, has_verdict: bool, code: Exit) -> None:
    """Whatever ended with 0 in place of the checks has measured nothing."""
    if has_verdict:
        (tmp_path / "verdicts").mkdir()
        (tmp_path / "verdicts" / "node-0.json").write_text("{}")

    assert code == host_work._after_gate(0, tmp_path, "node-0", Verb.CHECK).code


def test_arguments_come_before_the_environment() -> None:
    """The nearest to the caller wins; an empty one is none."""
    environment = {
        "PRELAUNCH_BUNDLE": "environment",
        "PRELAUNCH_UPLOAD": "environment",
        "PRELAUNCH_CONFIRM": "",
    }
    found = settings.make(Path("/opt/ml"), {"bundle": "argument", "upload": None}, environment)

    assert ("argument", "environment", "") == (found.bundle, found.upload, found.confirm)
