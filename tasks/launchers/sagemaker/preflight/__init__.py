"""Everything that the preflight examines before anything is billed, in the order in which it is shown.

What AWS refuses by itself when a job is created costs nothing, and is left to AWS.
"""

from __future__ import annotations

from tasks.launchers.base import Plan, PreflightCheck
from tasks.launchers.sagemaker.api import Clients
from tasks.launchers.sagemaker.options import SageMakerOptions
from tasks.launchers.sagemaker.preflight.account import credentials, quotas
from tasks.launchers.sagemaker.preflight.iam import inside, starts_jobs
from tasks.launchers.sagemaker.preflight.image import images
from tasks.launchers.sagemaker.preflight.network import groups, subnets
from tasks.launchers.sagemaker.preflight.probe import CREDENTIALS, Probe, run_probes
from tasks.launchers.sagemaker.preflight.requirements import requirements_of
from tasks.launchers.sagemaker.preflight.storage import channels, prefix, sources

PROBES = (
    Probe(CREDENTIALS, credentials),
    Probe("image", images, lambda needs: bool(needs.images)),
    Probe("S3 prefix", prefix),
    Probe("input channel", channels, lambda needs: bool(sources(needs))),
    Probe("permission to start jobs", starts_jobs),
    Probe("permissions of the role", inside),
    Probe("security groups", groups, lambda needs: bool(needs.options.subnets) or needs.efa),
    Probe("subnets", subnets, lambda needs: bool(needs.options.subnets)),
    Probe("quota", quotas),
)


def check(plans: tuple[Plan, ...], options: SageMakerOptions, clients: Clients) -> tuple[PreflightCheck, ...]:
    """A line or more for each thing that the requests need, in 20 seconds at the most. Raises nothing; starts nothing.

    The one thing that it writes is an object of 16 bytes below the prefix, which it removes.
    """
    if not any(plan.calls for plan in plans):
        return ()
    return run_probes(PROBES, requirements_of(plans, options), clients)
