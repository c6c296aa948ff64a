"""The looks before the first dollar, through the launcher, against the stand-in: nothing there is wrong."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tasks.launchers.base import Look
from tasks.launchers.sagemaker.launcher import launcher
from tasks.launchers.sagemaker.options import SageMakerOptions
from tests.fakes.sagemaker.bench import BUCKET, IMAGE, REGION, ROLE, stand_in
from tests.tasks.launchers.sagemaker.preflight_account import plans


def test_all_is_seen_and_well_in_a_furnished_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pool quotas, rights and all, in a few seconds; a quota too small is wrong."""
    chosen = SageMakerOptions(region=REGION, image=IMAGE, role_arn=ROLE, prefix=f"s3://{BUCKET}/gates")
    with stand_in(tmp_path, machines={"ml.m5.large": 2}) as cloud:
        for key, value in cloud.environment.items():
            monkeypatch.setenv(key, value)
        made, began = launcher(chosen, tmp_path), time.monotonic()

        well = made.preflight(plans(chosen))
        taken_s = time.monotonic() - began
        cloud.dial("pool_quotas", {"ml.m5.large": 1})
        poor = made.preflight(plans(chosen))

    assert [] == [line for line in well if line.look is Look.WRONG]
    assert ["ml.m5.large for training warm pool usage: 1, 2 wanted"] == [
        line.said.partition(": the")[0] for line in poor if line.look is Look.WRONG
    ]
    assert taken_s < 10
