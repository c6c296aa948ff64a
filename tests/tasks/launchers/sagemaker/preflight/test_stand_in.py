"""The looks before the first dollar, through the launcher, against the stand-in: nothing there is wrong."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tasks.launchers.base import Plan, PreflightResult
from tasks.launchers.sagemaker.launcher import launcher
from tasks.launchers.sagemaker.options import SageMakerOptions
from tasks.launchers.sagemaker.request.image import WHAT
from tests.fakes.sagemaker.bench import BUCKET, IMAGE, REGION, ROLE, stand_in
from tests.tasks.launchers.sagemaker.preflight.accounts import plans
from tests.tasks.launchers.sagemaker.request.test_image import gated

TRAINING = IMAGE.replace("/prelaunch:", "/training:")


def with_checks(made: tuple[Plan, ...]) -> tuple[Plan, ...]:
    """The same requests, with the bundle of a gate for GPUs."""
    return tuple(replace(plan, job=replace(plan.job, files=gated().files)) for plan in made)


def test_all_is_seen_and_well_in_a_furnished_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pool quotas, rights and all; a quota too small is wrong, and an image without a label is not seen."""
    chosen = SageMakerOptions(region=REGION, image=IMAGE, role_arn=ROLE, prefix=f"s3://{BUCKET}/gates")
    with stand_in(tmp_path, machines={"ml.m5.large": 2}, images={TRAINING: {}}) as cloud:
        for key, value in cloud.environment.items():
            monkeypatch.setenv(key, value)
        made = launcher(chosen, tmp_path)

        well = made.preflight(with_checks(plans(chosen)))
        cloud.dial("pool_quotas", {"ml.m5.large": 1})
        poor = made.preflight(with_checks(plans(replace(chosen, image=TRAINING))))

    assert [] == [line for line in well if line.result is PreflightResult.WRONG]
    assert [PreflightResult.OK] == [line.result for line in well if line.subject == WHAT]
    assert [(PreflightResult.UNSEEN, True)] == [
        (line.result, "dcgmi (" in line.message) for line in poor if line.subject == WHAT
    ]
    assert [PreflightResult.OK] == [line.result for line in poor if line.subject == "image"]
    assert ["ml.m5.large for training warm pool usage: 1, 2 wanted"] == [
        line.message.partition(": the")[0] for line in poor if line.result is PreflightResult.WRONG
    ]
