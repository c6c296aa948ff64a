"""The whole gate on a real Slurm cluster: it trains, or it refuses and names the node, and no secret reaches a job."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tasks.gate.outcome import Decision
from tasks.launchers.base import JobState
from tests.engines.slurm_cluster import SlurmCluster
from tests.engines.slurm_gates import jobs_below, slurm_gate
from tests.flows.driving import gate_of_few_checks, kept

pytestmark = [pytest.mark.root, pytest.mark.timeout(240), pytest.mark.usefixtures("prefect_backend")]
SECRET = "a-secret-of-the-submitter"
SHOW = (
    "import os; print(*(f'{key}={value}' for key, value in os.environ.items()), sep='\\n'); print('trained')"
)


def test_slurm_job_checks_and_trains_without_leaking_a_secret(
    slurm: SlurmCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PREFECT_API_KEY of whoever submits is in no environment, script, log or report, whatever sbatch's own variables ask for."""
    for name in ("PREFECT_API_KEY", "PRELAUNCH_TEST_SECRET", "SBATCH_COMMENT"):
        monkeypatch.setenv(name, SECRET)
    monkeypatch.setenv("SBATCH_EXPORT", "ALL")
    monkeypatch.setenv("SQUEUE_STATES", "SUSPENDED")
    path = slurm_gate(tmp_path / "shared", training=("{python}", "-c", SHOW))
    outcome = gate_of_few_checks(path)
    job = jobs_below(path)["train-1"]
    logs = {log.stem: log.read_text() for log in (job / "logs").iterdir()}

    assert (Decision.LAUNCHED, 0) == (outcome.decision, outcome.code), outcome.reason
    assert list(jobs_below(path)) == ["train-1"]
    assert all("\ntrained\n" in log and "SLURM_JOB_ID=" in log and "PATH=" in log for log in logs.values())
    assert "in_job" == kept(path.parent, outcome, "outcome.json")["placement"]["kind"]
    report = kept(path.parent, outcome, "health_check_metrics.json")
    assert sorted(logs) == sorted(node["name"] for node in report["nodes"])
    files = [file for folder in (tmp_path / "shared", slurm.folder) for file in folder.rglob("*")]
    found = [file for file in files if file.is_file() and SECRET.encode() in file.read_bytes()]
    assert found == []
    assert not (job / "in" / "exchange.key").exists()


@pytest.mark.long
def test_pinned_the_training_gets_the_nodes_that_passed(slurm: SlurmCluster, tmp_path: Path) -> None:
    """Two jobs; the second one asks for the first one's nodes, which confirm that they are the same machines."""
    slurm.run("scontrol", "update", "nodename=n0", "state=drain", "reason=jdoe: not yours")
    try:
        path = slurm_gate(tmp_path / "shared", "pinned")
        outcome = gate_of_few_checks(path)
        reason = slurm.run("sinfo", "-h", "-n", "n0", "-o", "%E")
    finally:
        slurm.run("scontrol", "update", "nodename=n0", "state=resume")
    jobs = jobs_below(path)

    assert (Decision.LAUNCHED, 0) == (outcome.decision, outcome.code), outcome.reason
    assert sorted(jobs) == ["check-1", "train-1"]
    passed = sorted(log.stem for log in (jobs["check-1"] / "logs").iterdir())
    assert len(passed) == 2 and "n0" not in passed
    assert f"--nodelist={','.join(passed)}\n" in (jobs["train-1"] / "job.sbatch").read_text()
    assert sorted(log.stem for log in (jobs["train-1"] / "logs").iterdir()) == passed
    assert "all 2 hosts confirmed" in str(kept(path.parent, outcome, "outcome.json")["placement"]["proof"])
    assert "jdoe: not yours" in reason  # what somebody drained stays drained


@pytest.mark.long
def test_a_spare_trains_in_place_of_a_node_that_failed(slurm: SlurmCluster, tmp_path: Path) -> None:
    """In the same job, which ends well. The training finds the nodes that train in Slurm's own variables."""
    n1 = ("ip", "-n", f"{slurm.name}-1", "link", "set", "eth0", "mtu")
    subprocess.run((*n1, "1200"), check=True)
    try:
        path = slurm_gate(tmp_path / "shared", training=("{python}", "-c", SHOW), nodes=3)
        outcome = gate_of_few_checks(path, "cluster.declared.spares=1")
    finally:
        subprocess.run((*n1, "1500"), check=True)
    (job,) = jobs_below(path).values()
    logs = {log.stem: log.read_text() for log in (job / "logs").iterdir()}

    assert (Decision.LAUNCHED, 0, ["n1"]) == (outcome.decision, outcome.code, [*outcome.left_out]), (
        outcome.reason
    )
    assert ["n0", "n2", "n3"] == sorted(name for name, log in logs.items() if "\ntrained\n" in log)
    for line in (
        "SLURM_NNODES=3",
        "SLURM_NODEID=1",
        "SLURM_JOB_NODELIST=n0,n2,n3",
        "PRELAUNCH_NODELIST=n0,n2,n3",
    ):
        assert f"\n{line}\n" in logs["n2"], line
    assert outcome.training and (JobState.SUCCEEDED, "") == (
        outcome.training.state,
        slurm.run("squeue", "-h"),
    )


@pytest.mark.long
def test_a_spare_that_passed_goes_back_to_slurm(slurm: SlurmCluster, tmp_path: Path) -> None:
    """While the training runs: the job shrinks, and its step goes on."""
    training = ("{python}", "-c", "import time; time.sleep(12); print('trained')")
    outcome = gate_of_few_checks(
        slurm_gate(tmp_path / "shared", training=training, nodes=3), "cluster.declared.spares=1"
    )
    shown = slurm.run("scontrol", "show", "job", "-o").splitlines()[-1]

    assert (Decision.LAUNCHED, 0, ["n3"]) == (outcome.decision, outcome.code, [*outcome.left_out]), (
        outcome.reason
    )
    assert outcome.training and JobState.SUCCEEDED is outcome.training.state
    assert " NodeList=n[0-2] " in shown and " NumNodes=3 " in shown and "ResizeTime=" in shown


@pytest.mark.long
def test_the_next_job_of_a_refused_gate_gets_other_nodes(slurm: SlurmCluster, tmp_path: Path) -> None:
    """`exclude_failed`: the node that failed is left out, the others train, and people hear of it."""
    n1 = ("ip", "-n", f"{slurm.name}-1", "link", "set", "eth0", "mtu")
    subprocess.run((*n1, "1200"), check=True)
    try:
        path = slurm_gate(tmp_path / "shared", options="exclude_failed = true", nodes=3)
        outcome = gate_of_few_checks(path)
    finally:
        subprocess.run((*n1, "1500"), check=True)
    first, second = (jobs_below(path)[name] for name in ("train-1", "train-2"))

    assert (Decision.LAUNCHED, 0) == (outcome.decision, outcome.code), outcome.reason
    assert "--exclude" not in (first / "job.sbatch").read_text()
    assert "#SBATCH --exclude=n1\n" in (second / "job.sbatch").read_text()
    assert sorted(log.stem for log in (second / "logs").iterdir()) == ["n0", "n2", "n3"]
    assert not any("\ntrained\n" in log.read_text() for log in (first / "logs").iterdir())
    assert all("\ntrained\n" in log.read_text() for log in (second / "logs").iterdir())
    assert "n1" in outcome.reason and slurm.run("squeue", "-h") == ""
