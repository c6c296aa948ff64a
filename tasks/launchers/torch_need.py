"""For what a planned job needs PyTorch on its nodes: rank checks, and a training that torchrun starts. Pure."""

from __future__ import annotations

from checks import bundle as bundles
from checks.check import CatalogError
from checks.model import Scope
from checks.value_types import DecodeError
from tasks.launchers.base import JobSpec, Work

FOR_CHECKS = "PyTorch for the rank checks"
FOR_TRAINING = "PyTorch for the training, which torchrun starts"
TORCHRUN = ("{python}", "-m", "torch.distributed.run")


def has_rank_checks(job: JobSpec) -> bool:
    """Whether a check of a rank is planned and not skipped."""
    if job.work not in (Work.CHECK, Work.GATE):
        return False
    try:
        bundle = bundles.load(job.files["bundle.json"])
        _, planned = bundles.plan_of(bundle)
    except (KeyError, DecodeError, CatalogError):
        return False  # the node says what is wrong with it
    return any(
        row.scope is Scope.RANK and row.skip is None and row.check not in bundle.skip for row in planned
    )


def starts_torchrun(job: JobSpec) -> bool:
    """Whether torchrun starts the training."""
    return job.work.trains and job.behind[: len(TORCHRUN)] == TORCHRUN
