"""The whole gate on SageMaker, against a stand-in that really runs the containers' entrypoint."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest

from tasks.gate.outcome import Decision
from tests.flows.cloud import Account, account, answered, cloud_gate, gate_there, names
from tests.flows.driving import kept, page
from tests.survival import few_checks
from tests.survival.faulty_network import needs_root

__all__ = ["account"]
pytestmark = [
    needs_root,
    pytest.mark.root,
    pytest.mark.timeout(240),
    pytest.mark.usefixtures("prefect_backend", "play"),
]


# The node's own code either way; all checks need torch, and the machine to themselves.
@pytest.mark.parametrize(
    "few", [pytest.param(True, id="few checks"), pytest.param(False, id="all checks", marks=pytest.mark.long)]
)
def test_sagemaker_gate_passes_and_trains_on_its_pool(tmp_path: Path, account: Account, few: bool) -> None:
    """Real checks; the training's machines are those that were checked, by what SageMaker says and by their GPUs' UUIDs."""
    with account() as cloud, few_checks.chosen() if few else nullcontext():
        path = cloud_gate(tmp_path, cloud, real=True, few=few)
        _, outcome = gate_there(path)
        check, train = names(outcome)
        jobs = cloud.jobs()

        assert (Decision.LAUNCHED, 0) == (outcome.decision, outcome.code), outcome.reason
        assert {"Status": "Reused", "ReusedByJob": train}.items() <= jobs[check]["WarmPoolStatus"].items()
        of = {machine["id"]: machine["gpus"] for machine in cloud.machines()}
        trained = sorted(tuple(of[host["machine"]]) for host in cloud.hosts(train))
        report = kept(tmp_path, outcome, "health_check_metrics.json")
        assert trained == sorted(tuple(node["identity"]["gpu_uuids"].split(",")) for node in report["nodes"])
        proof = kept(tmp_path, outcome, "outcome.json")["placement"]
        assert ("pooled", f"{train} reused the machines of {check}") == (proof["kind"], proof["proof"][0])
        assert "all 2 hosts confirmed" in proof["proof"][1] and "GPU UUIDs" in proof["proof"][1]
        assert f"{check}/metrics/health_check_metrics.json" in cloud.keys(check)


def test_sagemaker_job_with_a_no_go_does_not_train_and_says_why(tmp_path: Path, account: Account) -> None:
    """The failure file names the culprit; no host becomes the training."""
    with account(part="wrong") as cloud:
        path = cloud_gate(tmp_path, cloud, "in_job")
        _, outcome = gate_there(path)
        _, train = names(outcome)
        job = cloud.jobs()[train]

        assert (Decision.REFUSED, 1, "Failed") == (outcome.decision, outcome.code, job["TrainingJobStatus"])
        assert job["FailureReason"].startswith("AlgorithmError: ") and "algo-2" in job["FailureReason"]
        assert not any(line == "trained" for lines in cloud.log(train).values() for line in lines)
        assert "algo-2" in page(tmp_path, outcome)


def test_sagemaker_spare_trains_in_place_of_a_host_that_failed(tmp_path: Path, account: Account) -> None:
    """In the same job, which completes; the host that failed ends well, and is named."""
    with account(machines=3) as cloud, few_checks.chosen():
        path = cloud_gate(tmp_path, cloud, "in_job", real=True, few=True)
        (sick := tmp_path / "sick").mkdir()
        (sick / "algo-2").touch()
        few_checks.interpreter(tmp_path / "few-python", sick)
        _, outcome = gate_there(path, "cluster.declared.spares=1")
        lines = cloud.log(names(outcome)[1])

        assert (Decision.LAUNCHED, 0, ["algo-2"]) == (outcome.decision, outcome.code, [*outcome.left_out]), (
            outcome.reason
        )
        assert 2 == sum("trained" in found for found in lines.values())
        assert "Completed" == cloud.jobs()[names(outcome)[1]]["TrainingJobStatus"]


def test_sagemaker_job_holds_for_the_answer_of_a_person(tmp_path: Path, account: Account) -> None:
    """A warning, and a policy that asks: the answer reaches every host through S3."""
    with account(part="warn") as cloud:
        outcome = answered(cloud_gate(tmp_path, cloud, "in_job", on_warn="ask"), "launch-anyway")
        lines = [line for found in cloud.log(names(outcome)[1]).values() for line in found]

        assert (Decision.LAUNCHED, 2) == (outcome.decision, lines.count("trained")), outcome.reason
