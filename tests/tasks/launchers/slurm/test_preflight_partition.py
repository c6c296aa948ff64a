"""What the preflight says of a partition that does not exist or is too small, and of a controller that gives no answer."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tasks.launchers.base import PreflightResult
from tasks.launchers.slurm import commands, preflight
from tasks.launchers.slurm.commands import SlurmReply
from tasks.launchers.slurm.options import SlurmOptions
from tasks.launchers.slurm.partition import partitions_of
from tests.tasks.launchers.slurm.answers import HOUR, Look
from tests.tasks.launchers.slurm.test_batch_script import plan
from tests.tasks.launchers.slurm.test_preflight import WRONG


def test_a_job_that_its_partition_cannot_hold_does_not_wait(look: Look) -> None:
    """srun of Slurm 24.11 says "Requested nodes are busy" of nine nodes in a partition of four."""
    refused = "allocation failure: Requested nodes are busy"
    found = look(replace(HOUR, nodes=9), refused=refused)

    assert found["nodes of gate-1-train-1"].result is WRONG


@pytest.mark.parametrize(("qos", "result"), [("", WRONG), ("big", PreflightResult.UNSEEN)])
def test_more_nodes_than_a_partition_has_are_wrong_where_slurm_takes_the_job(
    look: Look, qos: str, result: PreflightResult
) -> None:
    """Slurm lets such a job wait for ever (PartitionNodeLimit), unless a QOS allows more."""
    found = look(replace(HOUR, nodes=5), SlurmOptions(qos=qos))

    assert found["nodes of gate-1-train-1"].result is result
    assert "it needs 5, and a job gets at most 4 in partition gpu" in found["nodes of gate-1-train-1"].text


def test_a_controller_that_gives_no_answer_is_said_as_that(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Nothing else could be looked at, and the line says where to run it instead."""
    monkeypatch.setattr(
        commands, "run", lambda *argv, timeout_s=0.0: SlurmReply(1, "", "Unable to contact slurm controller")
    )
    (line,) = preflight.check((plan(HOUR, SlurmOptions()),), SlurmOptions(), tmp_path)

    assert (line.result, line.unreachable) == (PreflightResult.UNSEEN, True)
    assert "Unable to contact" in line.message and "login node" in line.remedy


def test_a_partition_whose_nodes_register_later_has_no_count_yet() -> None:
    """Slurm counts dynamic nodes once they are there (slurm.conf(5), dynamic nodes); a limit of its own counts at once."""
    row = "PartitionName=cloud Default=YES MaxNodes={} State=UP TotalNodes=0\n"

    assert partitions_of(row.format("UNLIMITED"))["cloud"].most_nodes is None
    assert partitions_of(row.format("2"))["cloud"].most_nodes == 2
