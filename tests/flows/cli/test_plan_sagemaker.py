"""`prelaunch plan --offline` for SageMaker: what is wrong in a gate file is one line with the file, what and the remedy."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from flows.cli.main import main

ROOT = Path(__file__).parents[3]
GATES = ROOT / "deployments" / "gates"
CPU, P5 = "sagemaker-cpu", "sagemaker-p5"
LINE = r'placement = "pooled".*'


def gate(folder: Path, name: str, old: str, new: str, on_warn: str = "go") -> Path:
    """A shipped gate file with one thing changed."""
    text, count = re.subn(old, new, (GATES / f"{name}.toml").read_text(), count=1)
    assert count
    policy = re.search(r"\.\./policies/(\w+\.toml)", text)
    assert policy
    said = (GATES.parent / "policies" / policy[1]).read_text().replace('"go"', f'"{on_warn}"', 1)
    (folder / "policy.toml").write_text(said)
    path = folder / "gate.toml"
    path.write_text(text.replace(policy[0], "policy.toml"))
    return path


def refused(path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """The line on stderr of a plan that shows nothing."""
    code = main(["plan", str(path), "--offline"])
    out, err = capsys.readouterr()

    assert (2, "", 1) == (code, out, err.count("\n"))
    assert err.startswith("prelaunch: ") and re.search(r"gate\.toml(, line [0-9]+)?: ", err)
    return err


@pytest.mark.parametrize(
    ("name", "old", "new", "said", "on_warn"),
    [
        (CPU, "volume_gb", "volume_bg", "options.volume_bg: unknown key. Did you mean 'volume_gb'?", "go"),
        (CPU, '"in_job"', '"pool"', "options.placement: 'pool' is none of .* Did you mean 'pooled'", "go"),
        (P5, "keep_alive_s = 3600", "keep_alive_s = 7200", "keep_alive_s: 7200 is not between 0 and 3600", "go"),
        (P5, LINE, 'placement = "pooled"\nspot = true', 'Leave spot out, or set placement = "in_job"', "go"),
        (CPU, '"in_job"', '"pinned"', 'Name them, or set placement = "in_job"', "go"),
        (CPU, '"us-east-1"', '"virginia"', "options.region: 'virginia' is not of the form", "go"),
        (CPU, '"s3://prelaunch', '"prelaunch', "options.prefix: .* is not of the form s3://", "go"),
        (CPU, "max_attempts = 1", "request = { RoleArn = 'x' }", r"training\.request\.RoleArn is the gate's own", "go"),
        (CPU, "max_attempts = 1", "request = { Rolle = 'x' }", 'Unknown parameter in input: "Rolle"', "go"),
        (CPU, "max_attempts = 1", 'model_trainer = "a:b"', "training: give either command or model_trainer", "go"),
        (P5, "p5.48xlarge", "p6-b300.48xlarge.", "is not a known instance type", "go"),
        ("sagemaker-trn1", "trn1.32xlarge", "inf2.48xlarge", "'ml.inf2.48xlarge' is none of", "go"),
        (P5, "keep_alive_s = 3600", "keep_alive_s = 300", "Keep them for 40 minutes or longer.\n$", "ask"),
        (P5, LINE, 'placement = "in_job"\nnetwork_isolation = true', "or leave network_isolation out", "ask"),
    ],
)  # fmt: skip
def test_plan_reports_a_sagemaker_mistake_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, old: str, new: str, said: str, on_warn: str
) -> None:
    """With the file, and what to write in its place."""
    assert re.search(said, refused(gate(tmp_path, name, old, new, on_warn), capsys))


def test_a_plan_shows_how_long_nodes_wait_for_an_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is a part of what they may run, which is asked of AWS."""
    path = gate(tmp_path, "sagemaker-p5-injob", "x", "x", on_warn="ask")

    assert 0 == main(["plan", str(path), "--offline", "--format", "json"])
    body = json.loads(capsys.readouterr().out)["requests"][0]

    assert "--ask-s" in body["AlgorithmSpecification"]["ContainerArguments"]
    assert (30 + 31 + 7080) * 60 == body["StoppingCondition"]["MaxRuntimeInSeconds"]


def test_a_plan_says_how_long_it_takes_and_what_it_costs(capsys: pytest.CaptureFixture[str]) -> None:
    """As text and as JSON, labelled as estimates."""
    path = str(GATES / f"{P5}.toml")

    assert 0 == main(["plan", path, "--offline"])
    text = capsys.readouterr().out
    assert 0 == main(["plan", path, "--offline", "--format", "json"])
    estimate = json.loads(capsys.readouterr().out)["estimate"]

    assert "Stages: estimates, not measurements of this cluster" in text
    assert "  63.296 USD per node and hour (AWS Price List API" in text
    assert "Cost before the training (price of us-west-2)" in text
    assert "price of us-west-2" == estimate["price_region"]
    assert "  checks, profile standard: at least 3.0 min, at most 30.0 min for 126.59 USD" in text
    assert re.search(r"  pooled: at least 12\.66 USD .* 379\.78 USD .* idle at most 253\.18 USD", text)
    assert "  idle pool: not known, at most 60.0 min for" in text
    assert ["in_job", "pooled", "none"] == [row["placement"] for row in estimate["placements"]]
    assert [False, True, False] == [row["chosen"] for row in estimate["placements"]]
    assert {"name", "about_s", "is_least", "at_most_s", "source", "billed"} == set(estimate["stages"][0])
