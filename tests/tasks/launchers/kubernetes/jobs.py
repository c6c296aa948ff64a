"""Jobs of the contract for a launcher over the stand-in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tasks.launchers.base import JobSpec, JobState
from tasks.launchers.kubernetes.launcher import KubernetesLauncher
from tests.tasks.launchers.contract import Bench, until

SECONDS = 60.0
Make = Callable[..., KubernetesLauncher]


def job(code: str, **changes: Any) -> JobSpec:
    """A job of two pods."""
    return replace(bench(Path()).job(code), **changes)


def bench(tmp_path: Path) -> Bench:
    """For the helpers of the contract."""
    return Bench(lambda: pytest.fail("not here"), tmp_path, SECONDS)


def started(launcher: KubernetesLauncher, spec: JobSpec) -> tuple[KubernetesLauncher, JobSpec]:
    """Both, when the job is submitted, and every pod has started."""
    launcher.submit(launcher.plan(spec))
    until(launcher, spec.name, SECONDS, lambda status: status.state is JobState.RUNNING)
    return launcher, spec
