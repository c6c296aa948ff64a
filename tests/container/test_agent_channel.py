"""The agent as a launcher's input channel gives it to an image that has none, and containers that start again."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from container.agent.files import s3
from container.agent.files.mirror import Mirror
from tasks.launchers.node_code import code_archive, start_script
from tests.container.agents import Ended, make_bundle, make_root


def channel_root(tmp_path: Path) -> Path:
    """An /opt/ml whose input channel has the code beside the bundle."""
    root = make_root(tmp_path, make_bundle())
    (root / "input" / "data" / "prelaunch" / "prelaunch.tar.gz").write_bytes(code_archive())
    (root / "input" / "data" / "prelaunch" / "start.sh").write_bytes(start_script())
    return root


def start(root: Path, arguments: Sequence[str], working: str = "/", **environment: str) -> Ended:
    """What SageMaker runs, in a container that knows nothing of us."""
    inherited = {
        key: value for key, value in os.environ.items() if not key.startswith(("PRELAUNCH_", "PYTHON"))
    }
    path = f"{root}-bin:{inherited['PATH']}"
    given = {
        **inherited,
        "PRELAUNCH_ROOT": str(root),
        "PATH": path,
        "TMPDIR": str(root.parent),
        **environment,
    }
    argv = ("/bin/sh", str(root / "input" / "data" / "prelaunch" / "start.sh"), *arguments)
    ended = subprocess.run(argv, cwd=working, env=given, capture_output=True, text=True)
    print(ended.stdout, ended.stderr)
    return Ended(ended.returncode, root, ended.stdout + ended.stderr)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The same, with an interpreter for the image."""
    made = channel_root(tmp_path)
    image = Path(f"{made}-bin")
    image.mkdir()
    (image / "python3").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    (image / "python3").chmod(stat.S_IRWXU)
    return made


def test_packages_of_the_image_do_not_stand_before_the_checks(tmp_path: Path, root: Path) -> None:
    """A training may have a checks/ where it works: agent and checks stand elsewhere, and know where the command works."""
    working, python = tmp_path / "working", tmp_path / "python"
    for name in ("checks", "container"):
        (working / name).mkdir(parents=True)
        (working / name / "__init__.py").write_text("raise SystemExit('somebody else')\n")
    python.write_text('#!/bin/sh\necho "checks in $PWD, then $PRELAUNCH_WORKING_FOLDER."; exit 7\n')
    python.chmod(stat.S_IRWXU)
    ended = start(root, ("gate", "--", "true"), str(working), PRELAUNCH_PYTHON=str(python))

    assert (7, False) == (ended.code, "somebody else" in ended.log)
    assert f", then {working}." in ended.log and f"checks in {working}" not in ended.log


def test_boto3_of_our_image_is_found_beside_and_where_the_image_has_it() -> None:
    """Code that came by the channel lies elsewhere than the libraries of the image."""
    assert {Path("/opt/prelaunch/lib"), Path(s3.__file__).parents[3] / "lib"} == set(s3.LIBRARIES)


def test_mirror_copies_files_again_after_throttling(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Throttled to the end: the last copies are tried again for as long as there is time."""
    taken: dict[str, bytes] = {}
    failing = [True] * 6

    def put(url: str, data: bytes) -> None:
        if failing:
            failing.pop()
            raise s3.S3Error("SlowDown")
        taken[url] = data

    monkeypatch.setattr("container.agent.files.mirror.s3.put", put)
    (tmp_path / "nodes").mkdir()
    (tmp_path / "nodes" / "algo-1.json").write_bytes(b"a report")
    problem = Mirror(tmp_path, "s3://bucket/reports").close(20.0)

    assert ("", {"s3://bucket/reports/nodes/algo-1.json": b"a report"}) == (problem, taken)


def test_mirror_does_not_retry_a_refused_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No permission comes of waiting; the machines cost money meanwhile."""
    asked = []

    def put(url: str, data: bytes) -> None:
        asked.append(url)
        raise s3.S3Refused("AccessDenied")

    monkeypatch.setattr("container.agent.files.mirror.s3.put", put)
    (tmp_path / "report").write_bytes(b"a report")
    mirror = Mirror(tmp_path, "s3://bucket/reports")

    assert ("report: AccessDenied", 1) == (mirror.close(20.0), len(asked))
