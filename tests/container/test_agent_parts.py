"""The agent's pure parts, and the private folders of agents: what a killed process left is removed by the next agent."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from unittest.mock import Mock

import pytest

from checks.exit_codes import Exit
from container.agent import host_work, settings
from container.agent.files import s3, scratch
from container.agent.files.mirror import Mirror
from container.agent.sagemaker import ResourceError, parse_resources
from container.agent.settings import SettingsError, Verb
from tasks.launchers.node_code import code_archive, start_script
from tests.tasks.parameters import spread
from tests.waiting import until

OLD = time.time() - 3600
AGENT = "from container.agent.files import scratch; print(scratch.make(), flush=True); input()"


def resources(**changed: object) -> str:
    """resourceconfig.json of two hosts."""
    return json.dumps({"current_host": "algo-2", "hosts": ["algo-1", "algo-2"], **changed})


def test_hosts_are_in_one_order_everywhere() -> None:
    """By number: the order in the file differs from host to host, and algo-10 comes after algo-9. Keys that AWS adds do no harm."""
    hosts = ["algo-10", "algo-2", "algo-1"]
    found = parse_resources(resources(hosts=hosts, network_interface_name="eth0", topology=None, x={"y": 1}))

    assert ("algo-1", "algo-2", "algo-10") == found.hosts
    assert ("algo-2", "eth0") == (found.current, found.interface)


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
    spread(
        ("COMMAND", ("train.py", "[]", "[1]")),
        ("OBSERVE", ("perhaps",)),
        ("PORT", ("0", "99999")),
        ("JOIN_S", ("-1", "nan")),
        ("GRACE_S", ("soon",)),
    ),
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

    assert "" == Mirror(source, str(target)).close(10.0)
    assert [target / "nodes" / "a.json"] == [path for path in target.rglob("*") if path.is_file()]


def test_a_mirror_copies_before_the_end(tmp_path: Path) -> None:
    """A node that dies has left what it knew."""
    (tmp_path / "source").mkdir()
    mirror = Mirror(tmp_path / "source", str(tmp_path / "target"))
    (tmp_path / "source" / "report").write_text("so far")
    until((tmp_path / "target" / "report").exists)

    assert "" == mirror.close(10.0)


def printed(code: str) -> str:
    """What a process that runs this code prints."""
    root = Path(__file__).parents[2]
    return subprocess.run((sys.executable, "-c", code), stdout=subprocess.PIPE, text=True, cwd=root).stdout


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

    assert "137\n" == printed(code)


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

    assert "saved\ntrained\n0 0\n" == printed(code)


@pytest.mark.parametrize(("has_verdict", "code"), [(True, Exit.GO), (False, Exit.CANNOT_TELL)])
def test_an_exit_code_without_a_verdict_is_no_go(tmp_path: Path, has_verdict: bool, code: Exit) -> None:
    """Whatever ended with 0 in place of the checks has measured nothing."""
    if has_verdict:
        (tmp_path / "verdicts").mkdir()
        (tmp_path / "verdicts" / "node-0.json").write_text("{}")

    assert code == host_work._after_gate(0, tmp_path, "node-0", Verb.CHECK, started=False).code


def test_checks_that_answered_once_are_not_overdue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A training may empty its folder, and a shared folder may fail for a moment; checks that never answered are overdue."""
    answers, seen = [tmp_path / "started"], list[Path]()
    answers[0].touch()
    host_work._is_overdue(answers, 0.0, seen)
    answers[0].unlink()
    late = [host_work._is_overdue(answers, 0.0, before) for before in (seen, [])]
    monkeypatch.setattr(Path, "exists", Mock(side_effect=OSError(errno.ESTALE, "Stale file handle")))

    assert [False, True, False] == [*late, host_work._is_overdue(answers, 0.0, [])]


def test_arguments_come_before_the_environment() -> None:
    """The nearest to the caller wins; an empty one is none."""
    given = {"PRELAUNCH_BUNDLE": "environment", "PRELAUNCH_UPLOAD": "environment", "PRELAUNCH_CONFIRM": ""}
    found = settings.make(Path("/opt/ml"), {"bundle": "argument", "upload": None}, given)

    assert ("argument", "environment", "") == (found.bundle, found.upload, found.confirm)


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The machine's folder for temporary files."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def age(folder: Path) -> Path:
    """As if it had been made an hour ago."""
    os.utime(folder, (OLD, OLD))
    return folder


def test_scratch_cleanup_removes_the_folder_of_a_dead_agent_only(temporary: Path) -> None:
    """While it lives its folder stays, however old it is."""
    child = subprocess.Popen(
        (sys.executable, "-c", AGENT), env={**os.environ, "TMPDIR": str(temporary)},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert child.stdout is not None
    with child:
        folder = age(Path(child.stdout.readline().strip()))
        scratch.remove_abandoned()
        alive = folder.is_dir()
        child.kill()
        child.communicate()
    scratch.remove_abandoned()

    assert (alive, folder.exists()) == (True, False)


def test_the_unpacked_code_is_held_as_long_as_its_agent_lives(temporary: Path) -> None:
    """start.sh unpacks it, and the process that it becomes holds it."""
    (temporary / "prelaunch.tar.gz").write_bytes(code_archive())
    (temporary / "start.sh").write_bytes(start_script())
    os.mkfifo(temporary / "bundle")  # nobody writes it, so that the agent waits
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    given = {"PATH": path, "TMPDIR": str(temporary), "PRELAUNCH_ROOT": str(temporary / "root")}
    words = ("/bin/sh", str(temporary / "start.sh"), "check", "--bundle", str(temporary / "bundle"))
    with subprocess.Popen(words, env=given, start_new_session=True, stderr=subprocess.DEVNULL) as child:
        until(lambda: list(temporary.glob("prelaunch-agent.*")))
        folders = [age(one) for one in temporary.glob("prelaunch-*.*") if one.is_dir()]
        scratch.remove_abandoned()
        alive = [one.is_dir() for one in folders]
        os.killpg(child.pid, signal.SIGKILL)
    scratch.remove_abandoned()

    assert sorted(one.name.partition(".")[0] for one in folders) == ["prelaunch-agent", "prelaunch-code"]
    assert (alive, [one.exists() for one in folders]) == ([True, True], [False, False])


def test_scratch_cleanup_keeps_new_folders_files_and_link_targets(temporary: Path) -> None:
    """What was made a moment ago, another version's folder, a file, and what a link leads to."""
    (temporary / "else").mkdir()
    (temporary / "else" / "mine").touch()
    kept = [temporary / f"prelaunch-agent{end}" for end in (".new", "-old", ".file")]
    new, other, file = kept
    new.mkdir()
    other.mkdir()
    file.touch()
    age(other)
    age(file)
    (temporary / "prelaunch-agent.link").symlink_to(temporary / "else")
    os.utime(temporary / "prelaunch-agent.link", (OLD, OLD), follow_symlinks=False)
    scratch.remove_abandoned()

    assert all(one.exists() for one in kept) and (temporary / "else" / "mine").exists()


def test_a_folder_that_ends_with_its_agent_leaves_nothing(temporary: Path) -> None:
    """And is held until then."""
    folder = age(scratch.make())
    scratch.remove_abandoned()
    held = folder.is_dir()
    scratch.remove(folder)

    assert (held, list(temporary.iterdir())) == (True, [])
