"""What the checks of a cluster make of srun's answers, which are written here as Slurm 22.05 and enroot 3.4 give them."""

from __future__ import annotations

from collections.abc import Callable
from unittest.mock import Mock

import pytest

from tasks.launchers.base import EngineUnavailable
from tasks.launchers.slurm import cluster_checks, commands
from tasks.launchers.slurm.cluster_checks import ClusterCheck, SlurmOutcome
from tasks.launchers.slurm.commands import SlurmReply

BUSY = SlurmReply(1, "", "srun: error: Unable to allocate resources: Requested nodes are busy")
BOTH = SlurmReply(0, "prelaunch-node n1 host-1\nprelaunch-node n0 host-0\n", "")
ONE = SlurmReply(1, "prelaunch-node n0 host-0\n", "srun: error: n1: task 1: Exited with exit code 1")
VERSIONS = SlurmReply(0, "prelaunch-node n0 3.4.1\nprelaunch-node n1 3.4.1\n", "")
WITHOUT = SlurmReply(0, "prelaunch-node n0 3.4.1\nprelaunch-node n1 \n", "")
HELP = SlurmReply(0, "  -N, --nodes=N\n", "")
PYXIS = SlurmReply(0, "  --container-image=[USER@][REGISTRY#]IMAGE\n", "")
PULL = SlurmReply(1, "", "slurmstepd: error: pyxis: failed to import docker image")


def found(
    monkeypatch: pytest.MonkeyPatch, name: str, answer: Callable[[tuple[str, ...]], SlurmReply]
) -> ClusterCheck:
    """The line of one check, where srun answers so."""
    monkeypatch.setattr(commands, "run", lambda *argv, timeout_s=0.0: answer(argv))
    (line,) = cluster_checks.run_checks((name,), 2, ("--partition=gpu",))
    return line


@pytest.mark.parametrize(
    ("name", "answer", "outcome", "says"),
    [
        ("srun", BOTH, SlurmOutcome.WORKS, "n0, n1 answered"),
        ("srun", ONE, SlurmOutcome.FAILS, "only n0 of 2 nodes answered: srun: error: n1"),
        ("srun", BUSY, SlurmOutcome.UNSEEN, "no node could be asked: srun: error: Unable to allocate"),
        ("enroot", VERSIONS, SlurmOutcome.WORKS, "version 3.4.1 on n0, n1"),
        ("enroot", WITHOUT, SlurmOutcome.MISSING, "enroot: not installed: it is not on the PATH of n1."),
        ("enroot", BUSY, SlurmOutcome.UNSEEN, "no node could be asked"),
    ],
)
def test_node_answer_decides_the_outcome_of_a_cluster_check(
    monkeypatch: pytest.MonkeyPatch, name: str, answer: SlurmReply, outcome: SlurmOutcome, says: str
) -> None:
    """What is not there is not broken, and a node that is busy says nothing."""
    line = found(monkeypatch, name, lambda argv: answer)

    assert (line.outcome, says in line.text) == (outcome, True), line.text


@pytest.mark.parametrize(
    ("options", "pulled", "outcome", "says"),
    [
        (HELP, BOTH, SlurmOutcome.MISSING, "pyxis: not installed: srun has no option --container-image here"),
        (PYXIS, BOTH, SlurmOutcome.WORKS, "docker://ubuntu:22.04 started on n0, n1"),
        (PYXIS, PULL, SlurmOutcome.FAILS, "docker://ubuntu:22.04 did not start on n0, n1: slurmstepd: error: pyxis"),
        (PYXIS, ONE, SlurmOutcome.FAILS, "did not start on n1"),
        (PYXIS, BUSY, SlurmOutcome.UNSEEN, "no node could be asked"),
    ],
)  # fmt: skip
def test_a_container_is_started_where_srun_has_pyxis(
    monkeypatch: pytest.MonkeyPatch, options: SlurmReply, pulled: SlurmReply, outcome: SlurmOutcome, says: str
) -> None:
    """A container that does not start on nodes that answer is a fault of pyxis, enroot or the registry."""

    def answer(argv: tuple[str, ...]) -> SlurmReply:
        if argv == ("srun", "--help"):
            return options
        assert argv[:2] == ("srun", "--nodes=2") and "--partition=gpu" in argv
        if "--container-image=docker://ubuntu:22.04" not in argv:
            return BUSY if pulled is BUSY else BOTH
        assert "--nodelist=n1,n0" in argv
        return pulled

    line = found(monkeypatch, "pyxis", answer)

    assert (line.outcome, says in line.text) == (outcome, True), line.text


def test_a_silent_slurm_is_not_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each check says so, and none of them is a fault."""
    silent = Mock(side_effect=EngineUnavailable("srun did not answer within 60 s."))
    line = found(monkeypatch, "srun", silent)

    assert line.text == "srun: could not be seen: srun did not answer within 60 s"
