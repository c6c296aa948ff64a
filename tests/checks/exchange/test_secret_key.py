"""The key of the exchange: who needs it, what is said where it is missing, and that nothing of it is left for the training."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from checks import cli
from checks.exchange import secret_key
from checks.exchange.secret_key import Service
from checks.process.free_ports import free_port
from checks.roster import Member, Roster
from checks.runner.node_context import open_node_context, write_node_context
from checks.runner.node_run import open_responder
from tests.checks.runner.test_barrier import node_contexts
from tests.survival.world import ROOT, World

# Becomes the command, as a gate does after a go; the command says what it finds.
START = """
import os, sys
from pathlib import Path
from checks.runner.in_job import job_gate; from checks.exchange import secret_key as exchangekey
from checks.runner.node_context import open_node_context
folder = Path(sys.argv[1])
node_context = open_node_context(folder / "bundle.json", folder / "roster.json", "node-0", folder / "node-0")
job_gate.start(node_context, "attempt", folder / "out", sys.argv[2:], None)
"""
SAYS = (
    "import json, os, sys; fd = sys.argv[1]; "
    "print(json.dumps([dict(os.environ), os.read(int(fd), 99).hex() if fd else os.listdir('/proc/self/fd')]))"
)


def test_the_remedy_makes_a_key(tmp_path: Path) -> None:
    """What the message says can be typed."""
    subprocess.run(("sh", "-c", secret_key.BY_HAND), cwd=tmp_path, check=True)

    assert secret_key.SECRET_BYTES == len(secret_key.load(tmp_path / secret_key.FILE, 2).data)


def test_a_key_may_lie_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the variable says."""
    one, _ = node_contexts(tmp_path, 5)
    (tmp_path / secret_key.FILE).rename(tmp_path / "elsewhere")
    monkeypatch.setenv(secret_key.VARIABLE, str(tmp_path / "elsewhere"))
    again = open_node_context(one.bundle_path, one.roster_path, "node-0", tmp_path / "node-0")

    assert (one.access, tmp_path / "elsewhere") == (again.access, again.key_path)


def test_single_node_needs_no_key_and_opens_no_port(tmp_path: Path) -> None:
    """It speaks with nobody."""
    port = free_port()
    roster = Roster((Member("node-0", "127.0.0.1", port),), free_port(), "lo")
    node_context = write_node_context(tmp_path, World(1, 1).bundle("alone"), roster, "node-0")
    responder = open_responder(node_context)
    try:
        listening = subprocess.run(("ss", "-Hltn", f"sport = :{port}"), capture_output=True, text=True).stdout
    finally:
        responder.close()

    assert "" == listening


def becomes(folder: Path, *command: str) -> list[object]:
    """What a command finds that a gate becomes after a go."""
    node_contexts(folder, 5)
    argv = (sys.executable, "-c", START, str(folder), *command)
    environment = {**os.environ, secret_key.VARIABLE: str(folder / secret_key.FILE)}
    ended = subprocess.run(argv, cwd=ROOT, env=environment, stdout=subprocess.PIPE, check=True)
    found: list[object] = json.loads(ended.stdout)
    return found


def test_a_training_finds_nothing_of_the_key(tmp_path: Path) -> None:
    """Neither the file, nor the variable that names it, nor an open descriptor."""
    environment, descriptors = becomes(tmp_path, sys.executable, "-c", SAYS, "")

    assert isinstance(environment, dict) and secret_key.VARIABLE not in environment
    assert not (tmp_path / secret_key.FILE).exists()
    assert isinstance(descriptors, list) and {"0", "1", "2"} >= set(descriptors) - {"3"}


def test_a_command_of_ours_gets_a_key_of_its_own_by_a_descriptor(tmp_path: Path) -> None:
    """checks.runner.mpi.launch speaks between nodes: not under the checks' key, and not by argv or environment."""
    one, _ = node_contexts(tmp_path, 5)
    environment, key = becomes(tmp_path, sys.executable, "-c", SAYS, "{key_fd}")

    assert isinstance(key, str) and secret_key.SECRET_BYTES == len(bytes.fromhex(key))
    assert key not in json.dumps(environment)
    assert key not in (one.access.key.hex(), one.mpi_key.hex())  # each `becomes` makes a job of its own


def test_a_key_that_could_not_be_removed_is_refused_before_the_checks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder that is mounted read-only: the training would find it."""
    path = tmp_path / secret_key.FILE
    secret_key.require_removable(path)
    secret_key.write(path, secret_key.make())
    secret_key.require_removable(path)
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(secret_key.KeyUnavailable, match="Mount it writable"):
        secret_key.require_removable(path)


@pytest.mark.parametrize("content", [b"", b"ab" * 31, b"ab" * 33, b"xy" * 32, b"ab" * 32 + b"\nmore"])
def test_secret_key_rejects_bad_content_without_repeating_it(tmp_path: Path, content: bytes) -> None:
    """A message goes into logs."""
    path = tmp_path / secret_key.FILE
    path.write_bytes(content)
    with pytest.raises(secret_key.KeyUnavailable) as raised:
        secret_key.load(path, 2)

    assert "not a key of 64 hexadecimal digits" in str(raised.value)
    assert not content or content.decode() not in str(raised.value)


@pytest.mark.parametrize("is_folder", [False, True])
def test_several_nodes_without_a_key_are_refused_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], is_folder: bool
) -> None:
    """There is none, or a folder in its place: nothing is checked, and no command starts."""
    node_contexts(tmp_path, 5)
    (tmp_path / secret_key.FILE).unlink()
    if is_folder:
        (tmp_path / secret_key.FILE).mkdir()
    monkeypatch.setenv("PRELAUNCH_ROSTER", str(tmp_path / "roster.json"))
    monkeypatch.setenv("PRELAUNCH_NODE", "node-0")
    words = ("--bundle", str(tmp_path / "bundle.json"), "--out", str(tmp_path / "out"))
    for verb in (("run", *words), ("gate", *words, "--", "touch", str(tmp_path / "trained"))):
        code, said = cli.main([*verb]), capsys.readouterr().err

        assert (2, False, False) == (code, (tmp_path / "out").exists(), (tmp_path / "trained").exists())
        assert f"the key with which 2 nodes communicate cannot be read: {tmp_path / secret_key.FILE}" in said
        assert secret_key.BY_HAND in said and "Traceback" not in said


def test_a_key_file_is_its_owners_alone_and_a_key_is_never_printed(tmp_path: Path) -> None:
    """The file is never written over. What an agent accepts, checks do not, nor another gate."""
    path = tmp_path / secret_key.FILE
    secret_key.write(path, secret_key.make())

    assert 0o600 == path.stat().st_mode & 0o777
    with pytest.raises(FileExistsError):
        secret_key.write(path, secret_key.make())
    secret = secret_key.load(path, 2)
    said = f"{secret} {secret.access(Service.AGENT, 'g', 'n')}"
    assert secret.data.hex() not in said and repr(secret.data) not in said
    keys = {secret.access(service, gate, "n").key for service in Service for gate in ("a", "b")}
    assert 6 == len(keys | {secret.data}) - 1
