"""The token on a machine of a warm pool: left by the check, shown by the next job, given by nobody else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from checks import bundle as bundles
from checks.bundle import Pass, PassedNode
from checks.model import SCHEMA_VERSION
from container.agent.machine import pool_token
from tests.container.agents import GATE, Ended, fake_python, make_bundle, make_root, run
from tests.programs import executable

VARIABLE = "SAGEMAKER_MANAGED_WARMPOOL_CACHE_DIRECTORY"


def checked(root: Path, python: Path, *options: str, **environment: str) -> str:
    """The token in the identity that a check of this machine reports, "" for none."""
    ended = run(root, "check", *options, python=python, **environment)
    assert 0 == ended.code
    return ended.merged.nodes[0].identity.get("pool_token", "")


def trained(root: Path, tmp_path: Path, gate_id: str = GATE, **environment: str) -> tuple[Ended, str]:
    """A job on the pool, and what its checks and command found in their environment."""
    node = PassedNode("algo-1", 0, {"pool_token": "whatever"})
    made = Pass(SCHEMA_VERSION, gate_id, "digest", "now", (node,))
    (tmp_path / "pass.json").write_bytes(bundles.dump(made))
    command = ("--", "sh", "-c", "echo token=$PRELAUNCH_POOL_TOKEN.")
    words = ("gate", "--confirm", str(tmp_path / "pass.json"), "--pooled", *command)
    ended = run(root, *words, python=fake_python(tmp_path), **environment)
    return ended, ended.log.partition("token=")[2].partition(".")[0]


def test_the_next_job_on_the_machine_shows_the_token_that_the_check_left(tmp_path: Path) -> None:
    """In the folder that the pool keeps; the check's report holds the same."""
    root = make_root(tmp_path, make_bundle())
    given = {VARIABLE: str(tmp_path / "cache")}
    left = checked(root, fake_python(tmp_path), "--keep", **given)
    ended, shown = trained(root, tmp_path, **given)

    assert (0, 32, left) == (ended.code, len(left), shown)
    assert left == (tmp_path / "cache" / "prelaunch" / GATE).read_text()


def test_without_keep_nothing_is_left_and_nothing_claimed(tmp_path: Path) -> None:
    """Nor is a token believed that came with the job's environment: every host would show it."""
    root = make_root(tmp_path, make_bundle())
    given = {VARIABLE: str(tmp_path / "cache"), "PRELAUNCH_POOL_TOKEN": "a" * 32}

    assert ("", False) == (checked(root, fake_python(tmp_path), **given), (tmp_path / "cache").exists())


@pytest.mark.parametrize("data", [b"", b"short", b"\xff" * 32, b"A" * 32, b"a" * 33])
def test_pool_token_is_empty_for_a_damaged_file(tmp_path: Path, data: bytes) -> None:
    """A file that was cut, or another program's."""
    (tmp_path / "prelaunch").mkdir()
    (tmp_path / "prelaunch" / GATE).write_bytes(data)

    assert "" == pool_token.find(tmp_path, GATE)


def test_the_gate_is_told_that_it_is_pooled(tmp_path: Path) -> None:
    """Only with a pass: without one nothing was proven."""
    root = make_root(tmp_path, make_bundle())
    script = f"#!/bin/sh\nprintf '%s\\n' \"$@\" > {tmp_path}/words\nexit 3\n"
    python = executable(tmp_path / "python", script)
    (tmp_path / "pass.json").write_bytes(b"{}")
    told = []
    for confirm in (("--confirm", str(tmp_path / "pass.json")), ()):
        run(root, "gate", *confirm, "--pooled", "--ask-s", "600", "--", "true", python=python)
        told.append((tmp_path / "words").read_text().split("\n"))

    passed_on = [("--pooled" in words, float(words[words.index("--ask-s") + 1])) for words in told]
    assert [(True, 600.0), (False, 600.0)] == passed_on, json.dumps(told)


@pytest.mark.parametrize("writable", [True, False])
def test_a_folder_that_cannot_be_written_proves_nothing_later(tmp_path: Path, writable: bool) -> None:
    """Without the variable it is SageMaker's own folder, where that exists. The check goes on: the next job checks again in place."""
    root, cache = make_root(tmp_path, make_bundle()), tmp_path / "cache"
    own = root / "sagemaker" / "warmpoolcache"
    own.mkdir(parents=True)
    cache.write_text("a file")
    left = checked(root, fake_python(tmp_path), "--keep", **({} if writable else {VARIABLE: str(cache)}))

    assert left == ((own / "prelaunch" / GATE).read_text() if writable else "")


@pytest.mark.parametrize(("gate_id", "shown"), [(GATE, ""), ("earlier", "b" * 32)])
def test_the_token_is_of_the_gate_that_proved_the_machines(tmp_path: Path, gate_id: str, shown: str) -> None:
    """A machine that came into the pool later has none, or that of another gate's check, whatever the job's environment says."""
    root = make_root(tmp_path, make_bundle())
    (tmp_path / "cache" / "prelaunch").mkdir(parents=True)
    (tmp_path / "cache" / "prelaunch" / "earlier").write_text("b" * 32)
    given = {VARIABLE: str(tmp_path / "cache"), "PRELAUNCH_POOL_TOKEN": "a" * 32}

    assert shown == trained(root, tmp_path, gate_id, **given)[1]
