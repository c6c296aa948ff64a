"""The hooks of a site on a real cluster: a prolog that lets a job run or keeps it from a node, and a health check that may drain."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.checks.runner.test_slurm_hooks import broken_policy
from tests.engines.slurm_cluster import SlurmCluster
from tests.waiting import until

pytestmark = [pytest.mark.root, pytest.mark.timeout(180)]
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def slurm_again(slurm: SlurmCluster) -> Iterator[SlurmCluster]:
    """The cluster, whose nodes and prolog are as before afterwards."""
    yield slurm
    slurm.hook("prolog")
    slurm.hook("healthcheck")
    slurm.health_checks_every(60)
    slurm.run("scancel", "--user=root", check=False)
    for node in slurm.nodes:
        slurm.run("scontrol", "update", f"nodename={node}", "state=resume", check=False)


def reason(slurm: SlurmCluster, node: str) -> str:
    """Why Slurm gives a node no jobs, "none" where it does."""
    return slurm.run("sinfo", "-h", "-n", node, "-p", "gpu", "-o", "%E").strip()


def test_a_prolog_lets_jobs_run_on_nodes_that_pass(slurm_again: SlurmCluster, tmp_path: Path) -> None:
    """On the node that fails the job is held, and Slurm drains the node; nothing ran there."""
    slurm, ran = slurm_again, tmp_path / "ran"
    check = f"cd '{ROOT}'; exec '{sys.executable}' -m checks prolog --instance-type cpu"
    broken = f'[ "$(hostname)" != n1 ] || set -- --policy {broken_policy(tmp_path)}'
    slurm.hook("prolog", f'{broken}\n{check} "$@"')
    words = (
        "--parsable",
        "--chdir=/",
        "--output=/dev/null",
        "--requeue",
        "--wrap",
        f"echo >{ran}-$SLURMD_NODENAME",
    )
    good = slurm.run("sbatch", "-w", "n0", *words).strip()
    bad = slurm.run("sbatch", "-w", "n1", *words).strip()

    def states() -> list[str]:
        question = ("squeue", "-h", "-t", "all", "-o", "%T %r", "-j")
        return [slurm.run(*question, job).strip() for job in (good, bad)]

    until(lambda: states()[0].startswith("COMPLETED") and "held" in states()[1])
    until(lambda: reason(slurm, "n1") != "none")

    assert states()[1] == "PENDING launch failed requeued held"
    assert (reason(slurm, "n0"), reason(slurm, "n1")) == ("none", "Prolog error")
    assert [path.name for path in tmp_path.glob("ran*")] == ["ran-n0"]


def test_slurmd_runs_a_health_check_that_drains_its_node(slurm_again: SlurmCluster, tmp_path: Path) -> None:
    """With almost no variables; the reason names the check. Slurm may drain n1 again for its prolog, a while later."""
    slurm, policy = slurm_again, broken_policy(tmp_path)
    check = f"'{sys.executable}' -m checks healthcheck --instance-type cpu --policy {policy} --drain"
    slurm.hook(
        "healthcheck",
        f"""[ "$SLURMD_NODENAME" = n2 ] && mkdir {tmp_path}/once || exit 0
        cd '{ROOT}'; export SLURM_CONF={slurm.folder}/slurm.conf; unset PATH
        exec {check}""",
    )
    slurm.health_checks_every(1)
    until(lambda: reason(slurm, "n2") != "none")

    assert reason(slurm, "n2").startswith("prelaunch: CONFIGURATION: system.resources: number of CPUs is ")
