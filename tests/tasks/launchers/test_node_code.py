"""The checks as an input channel carries them, and the script that starts them in an image without them."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

from checks import catalog
from checks.facts.builtin import builtin
from container.agent import allocation
from tasks.launchers import node_code
from tasks.launchers.base import LaunchError
from tasks.launchers.node_code import code_archive, node_zipapp, packed, start_script, vendored
from tests.programs import executable


@pytest.fixture
def channel(tmp_path: Path) -> Path:
    """The input channel of a container."""
    folder = tmp_path / "opt" / "ml" / "input" / "data" / "prelaunch"
    folder.mkdir(parents=True)
    (folder / "prelaunch.tar.gz").write_bytes(code_archive())
    (folder / "start.sh").write_bytes(start_script())
    return folder


def begin(channel: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """start.sh as SageMaker runs it, with nothing of this test's environment but the path."""
    argv = ("/bin/sh", str(channel / "start.sh"), *words)
    return ran(*argv, folder=channel, environment=surroundings(channel, **environment))


def ran(*argv: str, folder: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """How a program ended, and what it printed."""
    return subprocess.run(argv, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def surroundings(channel: Path, **environment: str) -> dict[str, str]:
    """A container's environment."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    own = {"PRELAUNCH_ROOT": str(channel.parents[2]), "PRELAUNCH_STATE": os.environ["PRELAUNCH_STATE"]}
    return {"PATH": path, "TMPDIR": str(channel), **own, **environment}


def failure(channel: Path) -> str:
    """What SageMaker would show as the reason."""
    return (channel.parents[2] / "output" / "failure").read_text()


def bare_path(folder: Path, *tools: str) -> Path:
    """A PATH with these tools of this machine alone."""
    folder.mkdir()
    for name in tools:
        (folder / name).symlink_to(str(shutil.which(name)))
    return folder


def unpack(folder: Path) -> None:
    """Put the archive's files there. Python 3.11.2 has no filters; 3.12 warns where none is chosen."""
    with tarfile.open(fileobj=io.BytesIO(code_archive())) as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(folder)


def test_the_archive_is_small_and_the_same_again(tmp_path: Path) -> None:
    """A retry writes the bytes that are there already, from another folder and at another time, too."""
    unpack(tmp_path)
    (tmp_path / "checks" / "__pycache__").mkdir()
    (tmp_path / "checks" / "__pycache__" / "left.py").write_text("")
    (tmp_path / "checks" / "gate.py~").write_text("")

    assert (packed(tmp_path, vendored()) == code_archive(), len(code_archive()) < 2 << 20) == (True, True)


def test_the_archive_holds_what_a_node_runs_and_nothing_else() -> None:
    """checks/ and the agent, without tests, caches, owners or times."""
    with tarfile.open(fileobj=io.BytesIO(code_archive())) as archive:
        members = archive.getmembers()
    names = [member.name for member in members]

    assert names == sorted(names)
    assert {member.mtime for member in members} | {member.uid for member in members} == {0}
    assert {name.split("/")[0] for name in names} == {"checks", "container", "lib"}
    assert [name for name in names if "__pycache__" in name or "test" in name.split("/")[1]] == []
    libraries = sorted(name.split("/")[-1] for name in names if name.startswith("lib/"))
    assert ["METADATA", "pynvml.py"] == libraries
    root = node_code.ROOT
    ours = [path for folder in node_code.FOLDERS for path in (root / folder).rglob("*") if path.is_file()]
    sources = {path.relative_to(root).as_posix() for path in ours if "__pycache__" not in path.parts}
    assert sources | {"container/__init__.py"} <= set(names)


def test_archive_has_the_digests_of_the_gate(tmp_path: Path) -> None:
    """Those of facts and catalogue, wherever it is unpacked: a node refuses a bundle with others."""
    unpack(tmp_path)
    code = (
        "import checks, json; from checks import catalog; from checks.facts.builtin import builtin; "
        "print(json.dumps([checks.__file__, builtin().digest, catalog.digest(catalog.CATALOG)]))"
    )
    environment, argv = {**os.environ, "PYTHONPATH": str(tmp_path)}, (sys.executable, "-c", code)
    path, *digests = json.loads(subprocess.check_output(argv, cwd=tmp_path, env=environment))

    assert Path(path).is_relative_to(tmp_path)
    assert digests == [builtin().digest, catalog.digest(catalog.CATALOG)]


def test_the_script_becomes_the_agent(channel: Path) -> None:
    """With its arguments, from what it unpacked, and before whatever the image has on its path."""
    done = begin(channel, "checks", "list", "--format", "json", PYTHONPATH="/nowhere")

    assert (done.returncode, done.stderr) == (0, "")
    names = [check.name for check in (*catalog.CATALOG, *catalog.WATCH_ONLY)]
    assert [row["name"] for row in json.loads(done.stdout)] == names


def test_an_image_without_python_is_refused(channel: Path, tmp_path: Path) -> None:
    """With the remedy, where SageMaker shows it; nothing was started."""
    done = begin(channel, "check", PATH=str(bare_path(tmp_path / "bin", "dirname", "mkdir")))

    assert done.returncode == 2
    assert failure(channel).startswith("this image has no Python >= 3.10")


def test_an_old_python_is_passed_over_and_arguments_reach_the_agent(channel: Path, tmp_path: Path) -> None:
    """The next one that is new enough is taken, PRELAUNCH_PYTHON here; spaces, quotes and stars are no shell's business."""
    folder = bare_path(tmp_path / "bin", "dirname", "mkdir")
    executable(folder / "python3", "#!/bin/sh\nexit 1\n")
    words = ("gate", "--bundle", "no * 'bundle", "--", "train")

    assert begin(channel, *words, PATH=str(folder), PRELAUNCH_PYTHON=sys.executable).returncode == 2
    assert "no * 'bundle" in failure(channel)


def test_an_archive_that_is_cut_is_refused(channel: Path) -> None:
    """Half of the checks are none."""
    archive = channel / "prelaunch.tar.gz"
    archive.write_bytes(archive.read_bytes()[:100_000])

    assert begin(channel, "check").returncode == 2
    assert failure(channel).startswith("the checks could not be unpacked")


def test_a_signal_reaches_the_agent(channel: Path) -> None:
    """SageMaker tells the first process of a container: no shell may stand in between."""
    script = '#!/bin/sh\ncase "$*" in *container.agent*) echo "$$"; exec sleep 60;; *) echo x;; esac\n'
    executable(channel / "python3", script)
    with subprocess.Popen(
        ("/bin/sh", str(channel / "start.sh"), "check"),
        env=surroundings(channel, PATH=f"{channel}:{os.environ['PATH']}"),
        stdout=subprocess.PIPE,
        text=True,
    ) as started:
        try:
            assert started.stdout is not None
            assert int(started.stdout.readline()) == started.pid
            started.send_signal(signal.SIGTERM)

            assert started.wait(60) == -signal.SIGTERM
        finally:
            started.kill()


def test_the_module_that_images_lack_is_the_pinned_one() -> None:
    """One version in the channel, in the image and in this repository, with its licence."""
    root = node_code.ROOT
    (pinned,) = re.findall(r"^nvidia-ml-py==(\S+)$", (root / "constraints.txt").read_text(), re.MULTILINE)
    (about,) = [data.decode() for name, data in vendored().items() if name.endswith("METADATA")]

    assert f"\nVersion: {pinned}\n" in about and "BSD" in about
    assert f"nvidia-ml-py=={pinned} --hash=" in (root / "container" / "requirements.txt").read_text()


def test_the_channel_brings_pynvml_to_an_image_without_a_usable_one(tmp_path: Path) -> None:
    """The checks find it beside the image's own, which is too old, in a process of the image's Python; a training does not."""
    unpack(tmp_path / "code")
    (tmp_path / "image").mkdir()
    (tmp_path / "image" / "pynvml.py").write_text("nvmlInit = None\n")
    asked = (
        "from checks import image_requirements; found = image_requirements.load('pynvml'); "
        "found.nvmlDeviceGetRepairStatus; print(found.__file__)"
    )
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": f"{tmp_path / 'code'}:{tmp_path / 'image'}"}
    codes = (asked, "import pynvml; pynvml.nvmlDeviceGetRepairStatus")
    python = (sys.executable, "-S", "-c")
    done, training = (ran(*python, code, folder=tmp_path, environment=environment) for code in codes)

    assert done.stdout.strip() == str(tmp_path / "code" / "lib" / "pynvml.py"), done.stderr
    assert training.returncode


def test_an_installation_without_the_module_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The nodes would only say so after they were paid for."""
    monkeypatch.setattr(node_code, "VENDORED", "no-such-distribution")
    with pytest.raises(LaunchError, match="is not installed here"):
        vendored()


def test_the_file_for_nodes_is_the_same_each_time() -> None:
    """The same sources give the same digest, on any day and with any zlib; it holds what the archive holds, and its entry point."""
    first = node_zipapp()
    node_code.node_zipapp.cache_clear()
    with (
        zipfile.ZipFile(io.BytesIO(first)) as packed_file,
        tarfile.open(fileobj=io.BytesIO(code_archive())) as archive,
    ):
        members = packed_file.infolist()
        names = set(archive.getnames()) | {"__main__.py"}

    assert node_zipapp() == first and first.startswith(b"#!/usr/bin/env python3\n")
    assert {member.filename for member in members} == names
    assert {member.date_time for member in members} == {(1980, 1, 1, 0, 0, 0)}
    assert {member.compress_type for member in members} == {zipfile.ZIP_STORED}


def test_the_file_for_nodes_runs_where_nothing_is_installed(tmp_path: Path) -> None:
    """With Python's own library alone; nothing of it is left, and a node without PyTorch says so."""
    (tmp_path / "tmp").mkdir()
    path = tmp_path / "prelaunch.pyz"
    path.write_bytes(node_zipapp())
    venv.create(tmp_path / "bare")
    argv = (str(tmp_path / "bare" / "bin" / "python"), str(path), "check", "--instance-type", "cpu")
    own = {"PRELAUNCH_ROSTER": "of another gate", "PRELAUNCH_STATE": os.environ["PRELAUNCH_STATE"]}
    environment = {"PATH": os.environ["PATH"], "TMPDIR": str(tmp_path / "tmp"), **own}
    done = ran(*argv, folder=tmp_path, environment=environment)
    (folder,) = tmp_path.glob("prelaunch-check-*")

    assert done.returncode == 3 and "CANNOT TELL: 1 of 1 nodes" in done.stdout, done.stderr
    assert "has no module torch. Install it there" in done.stdout
    assert "--exclude" not in done.stdout
    assert (folder / "out" / "health_check_metrics.json").is_file()
    assert not (folder / "in" / "exchange.key").exists()
    assert folder.stat().st_mode & 0o077 == 0
    assert list((tmp_path / "tmp").iterdir()) == []


def test_node_zipapp_rejects_a_check_without_an_instance_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a sentence, before anything is checked or written."""
    monkeypatch.chdir(tmp_path)
    message = "the instance type of this machine is not given. Give --instance-type, such as cpu."

    assert allocation.main(("check",)) == 2
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
