"""MPI on a real Slurm: `srun --mpi=pmix` starts the processes of an MPI program, and mpirun those of a training, on both nodes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tasks.gate.outcome import Decision
from tests.engines.slurm_cluster import OTHER_ROOT, SlurmCluster
from tests.engines.slurm_gates import jobs_below, slurm_gate
from tests.engines.test_slurm_programs import state_of, submit
from tests.flows.driving import gate_of_few_checks
from tests.programs import executable, python_line

pytestmark = [pytest.mark.root, pytest.mark.long, pytest.mark.timeout(300), pytest.mark.needs("mpirun")]
# Open MPI's own library, without a compiler: each process adds 10 to the power of its rank, over the network.
ALL_REDUCE = Path(__file__).with_name("all_reduce.template").read_text()
RANK = (
    "import os; e = os.environ; "
    "print('rank', e['OMPI_COMM_WORLD_RANK'], 'of', e['OMPI_COMM_WORLD_SIZE'], 'on', e['PRELAUNCH_NODE'], flush=True)"
)


def test_srun_starts_an_mpi_program_through_the_script_of_nccl_tests(
    slurm: SlurmCluster, tmp_path: Path
) -> None:
    """With the plugin that the script chooses by itself: the processes find each other, and one sum is everywhere."""
    program = executable(tmp_path / "all-reduce", ALL_REDUCE.format(first_line=python_line()))
    job = submit(slurm, tmp_path, program, mpi="")
    state = state_of(slurm, job)
    output = tmp_path / f"nccl-all_reduce_perf_{job}.out"

    assert state == "COMPLETED", output.with_suffix(".err").read_text()
    assert sorted(output.read_text().splitlines()) == [
        "0: rank 0 of 2 on n0 has 11",
        "1: rank 1 of 2 on n1 has 11",
    ]


@pytest.mark.skipif(
    OTHER_ROOT in os.environ, reason="mpirun is this machine's, and the libraries are the other Debian's"
)
@pytest.mark.usefixtures("prefect_backend")
def test_mpirun_starts_the_training_of_a_gate(slurm: SlurmCluster, tmp_path: Path) -> None:
    """`distributed = "mpi"`: the first node's mpirun reaches the other node by ssh, although it is inside a job of Slurm."""
    path = slurm_gate(tmp_path / "shared", training=("{python}", "-c", RANK), distributed="mpi")
    outcome = gate_of_few_checks(path)
    (job,) = jobs_below(path).values()
    said = "".join(log.read_text() for log in (job / "logs").iterdir())

    assert (Decision.LAUNCHED, 0) == (outcome.decision, outcome.code), f"{outcome.reason}\n{said[-3000:]}"
    assert sorted(line for line in said.splitlines() if line.startswith("rank ")) == [
        "rank 0 of 2 on n0",
        "rank 1 of 2 on n1",
    ]
    assert slurm.run("squeue", "-h") == ""
