"""What a person may raise for one run, and what is refused; and the lines of the groups."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

import checks
from checks.catalog import CATALOG
from checks.documents.report import load
from checks.facts.person_options import GROUPS, lines_of, with_options
from checks.facts.profile_options import NAMES, OPTIONS, RAISABLE
from checks.model import Outcome, Profile
from checks.policy import SENSIBLE
from checks.value_types import DecodeError
from tests.checks.local_policy import local_policy

H100 = Path(__file__).resolve().parents[2] / "recordings" / "h100" / "health_check_metrics.json"


def test_a_larger_number_reaches_the_policy_and_changes_its_digest() -> None:
    """The verdict names the policy that was used, so that two runs with other numbers are not mistaken for each other."""
    policy = local_policy()
    made = with_options(policy, Profile.QUICK, ["training.smoke.steps=200", "compute.gemm.size=1024"])

    assert 200 == made.checks["training.smoke"].options["steps"]
    assert 1024 == made.checks["compute.gemm"].options["size"]
    assert made.checks["training.smoke"].rules == policy.checks["training.smoke"].rules
    assert with_options(policy, Profile.QUICK, []) == policy != made


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("training.smoke.steps=29", "the profile quick measures with 30, and less would be less evidence"),
        ("collective.all_reduce.max_bytes=1", "the profile quick measures with 8388608"),
        ("training.smoke.step=200", "Did you mean 'training.smoke.steps'"),
        ("network.names.lookup_s=1", "is none of compute.gemm.seconds"),
        ("training.smoke.steps", "not CHECK.NAME=NUMBER"),
        ("training.smoke.steps=nan", "not CHECK.NAME=NUMBER"),
        ("=5", "is none of"),
        ("compute.gemm.size=511", "measures with 512"),
        ("compute.gemm.size=999999999999", "up to 32768"),
        ("compute.gemm.size=2048.5", "whole numbers"),
        ("nccl.all_reduce.max_bytes=99999999", "has no check nccl.all_reduce for this machine"),
    ],
)
def test_less_evidence_and_unknown_names_are_refused(word: str, says: str) -> None:
    """With what is there instead."""
    with pytest.raises(DecodeError, match=says):
        with_options(local_policy(), Profile.QUICK, [word])


def test_raisable_options_exist_in_their_checks() -> None:
    """Each name is one of a check's numbers in every profile; the order of products alone is the device's own."""
    checks = {check.name for check in CATALOG}
    named = {(check, name) for check, numbers in RAISABLE.items() for name in numbers}

    assert set(RAISABLE) <= checks
    assert {("compute.gemm", "size")} == {
        (check, name) for check, name in named for profile in Profile if name not in OPTIONS[check][profile]
    }


def test_every_option_that_a_check_reads_may_be_in_a_policy() -> None:
    """The gate refuses any other name as misspelt."""
    sources = "".join(path.read_text(encoding="utf-8") for path in Path(checks.__file__).parent.rglob("*.py"))
    read = set(re.findall(r'options(?:\.get\(|\[)\s*"(\w+)"', sources))

    assert {"window_s", "floor_gbps", "level"} < read <= {*NAMES, *SENSIBLE}


def test_every_metric_of_a_line_is_one_of_its_check() -> None:
    """A name that no check has would never be shown."""
    metrics = {check.name: set(check.metrics) for check in CATALOG}

    assert all(set(shown) <= metrics[check] for checks in GROUPS.values() for check, shown in checks.items())


def test_the_lines_of_a_real_gpu() -> None:
    """The recorded report of an H100: each group says what was measured, or why it was not."""
    report = load(H100.read_bytes())
    lines = lines_of(report)
    found = "gpus_found=1 models=NVIDIA H100 80GB HBM3 driver=580.159.04 cuda=13.0"
    gemm = "[COMPUTE] node-0/rank-0 compute.gemm: "

    assert f"[ENV] node-0 gpu.inventory: {found}" in lines
    assert any(f"{gemm}size=8192 precisions=fp32,tf32,bf16,fp16 " in line for line in lines)
    assert any("[TRAIN] node-0/rank-0 training.smoke: " in line and "improved=True" in line for line in lines)
    assert "[DDP] training.ddp: not run, one rank declared" in lines
    [row] = (one for one in report.observations if one.check == "compute.gemm")
    failed = replace(row, outcome=Outcome.ERRORED, metrics={}, reason="no CUDA device")
    assert f"{gemm}not measured: no CUDA device" in lines_of(replace(report, observations=(failed,)))
