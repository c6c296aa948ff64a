"""What a node says in the preflight: that the training script, or the interface, is not there, or why it cannot be asked at all."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tasks.launchers.base import JobSpec, PreflightResult, Work
from tasks.launchers.slurm import preflight
from tasks.launchers.slurm.options import SlurmOptions
from tasks.launchers.training_script import SUBJECT
from tests.tasks.launchers.slurm.test_preflight import HOUR, SEEN, WRONG, look

BUSY = "srun: error: Unable to allocate resources: Requested nodes are busy"


def training(script: object) -> JobSpec:
    """The training's job."""
    return replace(HOUR, work=Work.CONFIRM, script=str(script))


@pytest.mark.parametrize(("answer", "wrong"), [("script False", True), ("script True", False)])
def test_a_node_says_whether_it_has_the_script(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, answer: str, wrong: bool
) -> None:
    """The node's answer counts, whatever this machine has."""
    found = look(monkeypatch, tmp_path, training("/opt/train.py"), seen=f"{SEEN}{answer}\n")

    assert (SUBJECT in found) is wrong
    if wrong:
        assert found[SUBJECT].result is PreflightResult.WRONG
        assert found[SUBJECT].message == "'/opt/train.py': node n0 has no such file"


def test_without_a_free_node_the_shared_folder_is_looked_at(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Where the gate's own folder lies beside it; of another file system nothing is claimed."""
    there = tmp_path / "train.py"
    missing = look(monkeypatch, tmp_path, training(there), busy=BUSY)
    there.touch()
    present = look(monkeypatch, tmp_path, training(there), busy=BUSY)
    elsewhere = look(monkeypatch, tmp_path, training("/elsewhere/train.py"), busy=BUSY)

    assert missing[SUBJECT].result is PreflightResult.WRONG
    assert SUBJECT not in present and SUBJECT not in elsewhere


def test_the_script_of_a_container_is_the_containers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A node cannot say what an image has."""
    options = SlurmOptions(container_image="/images/a.sqsh")
    found = look(monkeypatch, tmp_path, training("/opt/train.py"), options, busy=BUSY)

    assert SUBJECT not in found


def test_a_folder_of_the_same_name_on_another_file_system_is_not_shared() -> None:
    """A home of this machine's own beside a shared /home/gates: the nodes may have the script, and get their GO."""
    assert preflight._is_shared("/dev/shm/project/train.py", Path("/dev/shm/gates"))
    assert not preflight._is_shared("/dev/project/train.py", Path("/dev/shm/gates"))
    assert not preflight._is_shared("/proc/project/train.py", Path("/dev/shm/gates"))


def test_an_interface_that_a_node_lacks_is_wrong(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Else each collective fails on it, and gloo's error names no setting."""
    seen = SEEN.replace("writes True", "writes True\ninterface False")
    found = look(monkeypatch, tmp_path, seen=seen, options=SlurmOptions(interface="eth77"))["interface"]

    assert (WRONG, "node n0 has no network interface eth77") == (found.result, found.message)
    assert "interface in [cluster.options]" in found.remedy


def test_the_log_of_a_node_whose_prolog_fails_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """`sinfo -R` says only that it failed."""
    found = look(monkeypatch, tmp_path, busy="srun: error: Prolog failure on node n0\nsrun: error: end")

    assert (
        "Prolog failure on node n0; srun: error: end. slurmd's log on that node says why"
        in found["the shared folder"].message
    )
