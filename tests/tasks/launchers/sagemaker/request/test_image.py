"""What the image of a job must hold for its checks, and what its plan says of that before anything is paid for.

The catalogue and the shipped policies write the table of docs/sagemaker.md: which tools an image needs for which checks.
"""

from __future__ import annotations

import dataclasses
import os
import re
from pathlib import Path

import pytest

from checks import bundle as bundles
from checks import catalog, image_requirements
from checks.check import MODULES, PROGRAMS
from checks.policy import Policy
from tasks.gate.context import open_gate_context
from tasks.gate.jobs import planned_jobs
from tasks.gate_file.references import read_policy
from tasks.gate_file.request import GateRequest
from tasks.launchers.base import JobSpec, Plan, PreflightResult
from tasks.launchers.sagemaker.request.image import checked_in, wanted
from tests.linters import finds_nothing

ROOT = Path(__file__).resolve().parents[5]
GATES = ROOT / "deployments" / "gates"
TRAINING = "123456789012.dkr.ecr.us-east-1.amazonaws.com/training:latest"


def planned(gate: str) -> tuple[Plan, ...]:
    """The jobs of a shipped gate file."""
    context = open_gate_context(GateRequest(gate_file=str(GATES / f"{gate}.toml")))
    return tuple(context.launcher.plan(job) for job in planned_jobs(context))


def gated() -> JobSpec:
    """The one job of the gate file whose checks run in the training's own image."""
    return planned("sagemaker-p5-injob")[0].job


def test_image_requirements_follow_from_the_catalogue() -> None:
    """Required checks and those that may be left out apart; nvidia-ml-py comes with the checks."""
    required, optional = wanted(bundles.load(gated().files["bundle.json"]))

    assert {"dcgmi", "nv-hostengine", "fi_info", "fi_pingpong", "torch"} == set(required)
    assert {"all_reduce_perf", "fio", "stress-ng", "dcgmi", "nv-hostengine"} == set(optional)
    assert {"dcgm.diag", "dcgm.health"} <= set(required["dcgmi"])
    assert ("nccl.tests",) == optional["all_reduce_perf"]


def test_a_check_that_the_gate_file_leaves_out_asks_for_nothing() -> None:
    """[checks] skip."""
    made = bundles.load(gated().files["bundle.json"])

    assert "fio" not in wanted(dataclasses.replace(made, skip=("disk.io",)))[1]


def test_a_plan_says_before_anybody_looks_what_an_unknown_image_may_cost() -> None:
    """In the job that checks and trains the image is the training's own."""
    (line,) = planned("sagemaker-p5-injob")[0].unverified

    required, _, optional = line.message.partition("; it should contain ")
    assert PreflightResult.UNSEEN is line.result and required.endswith("the verdict is CANNOT TELL")
    assert required.startswith(f"the image {TRAINING} must contain dcgmi (3 checks), ")
    assert optional.startswith("all_reduce_perf (1 check)") and optional.endswith("a WARN")
    assert "FROM the prelaunch image" in line.remedy and "docs/sagemaker.md" in line.remedy


PAGE = ROOT / "docs" / "sagemaker.md"
BEGIN, END = "test_the_page_has_the_table -->\n", "<!-- end of tools -->"
UPDATE = "UPDATE_GOLDEN"  # set it to write the table anew, then read the difference


def table() -> str:
    """A row for each tool that a check of NVIDIA's or of Neuron's policy needs."""
    folder = ROOT / "deployments" / "policies"
    policies = [read_policy(folder / f"{name}.toml") for name in ("nvidia", "neuron")]
    names = sorted({tool for check in catalog.CATALOG for tool in image_requirements.tools(check)})
    rows = [
        f"| `{tool}` | {_cell(tool, policies, True)} | {_cell(tool, policies, False)} |" for tool in names
    ]
    head = ("| tool | checks that require it | checks that may be left out |", "| --- | --- | --- |")
    return "\n".join([*head, *rows, ""])


def _cell(tool: str, policies: list[Policy], required: bool) -> str:
    names = [check.name for check in catalog.CATALOG if tool in image_requirements.tools(check)]
    lines = [(name, policy.checks.get(name)) for name in names for policy in policies]
    found = [f"`{name}`" for name, line in lines if line and line.may_be_left_out is not required]
    return ", ".join(dict.fromkeys(found))


def test_the_page_has_the_table_of_the_catalogue() -> None:
    """Never written by hand."""
    head, _, rest = PAGE.read_text().partition(BEGIN)
    shown, _, tail = rest.partition(END)
    if os.environ.get(UPDATE):
        PAGE.write_text(f"{head}{BEGIN}{table()}{END}{tail}")
        shown = table()

    assert table() == shown


@pytest.mark.parametrize("gate", ["sagemaker-p5-injob", "sagemaker-g5-1gpu"])
def test_the_shipped_gate_files_name_what_their_image_must_hold(gate: str) -> None:
    """In the comment above the training's image: the tools that the gate's own checks require, and no other."""
    text = (ROOT / "deployments" / "gates" / f"{gate}.toml").read_text()
    comment = re.search(r"\[training\]\n((?:#.*\n)+)image", text)
    (checked,) = checked_in(planned(gate)[-1].job, TRAINING)

    assert comment is not None
    said = re.findall(r"[\w-]+", comment[1].partition(" have to be in it")[0].replace("PyTorch", "torch"))
    assert set(checked.required) == {*said} & {*PROGRAMS.values(), *MODULES.values()}


def test_the_example_of_a_training_image_is_linted_and_stands_on_ours() -> None:
    """It keeps our label and our entrypoint; what cannot be built here is at least read by hadolint."""
    path = ROOT / "deployments" / "examples" / "training.Dockerfile"
    finds_nothing("hadolint", path)
    lines = path.read_text().splitlines()
    words = [line.split()[0] for line in lines if line and not line.startswith(("#", " "))]

    assert (["ARG", "FROM", "COPY", "RUN", "COPY"], True) == (words, "FROM ${PRELAUNCH_IMAGE}" in lines)
