"""Runs the questions of the preflight side by side, each with its own deadline, and reports those that got no answer.

A question that AWS does not answer becomes a line of the preflight, and never ends it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from threading import Thread

from checks.runner.deadline import NotInTime, limited
from tasks.launchers.base import LaunchError, PreflightCheck
from tasks.launchers.preflight import unseen, wrong
from tasks.launchers.sagemaker.api import Clients
from tasks.launchers.sagemaker.preflight.requirements import Requirements
from tasks.store.aws import AwsRefused, clean

POLICY = "deployments/iam/orchestrator-preflight.json"
DEADLINE_S = 15.0
CREDENTIALS = "credentials"
MESSAGE_CHARACTERS = 160
REMEDY = "Try again, or continue without this check."
PUSH = "Push it (container/create-image.sh), or correct image in the gate file."
ROLE = "Create it (docs/sagemaker.md), or correct role_arn in the gate file."
SUBNETS, GROUPS = (
    f"Correct {key} in the gate file." for key in ("subnets", "security_group_ids")
)  # fmt: skip
# AWS's code for something that does not exist -> what to do. It was examined, and is wrong.
CORRECTIONS: Mapping[str, str] = {
    "NoSuchBucket": "Create it in the job's region (aws s3 mb), or correct its address in the gate file.",
    "NoSuchEntity": ROLE,
    "NoSuchEntityException": ROLE,
    "RepositoryNotFoundException": f"Create the repository (aws ecr create-repository). {PUSH}",
    "ImageNotFoundException": PUSH,
    "InvalidSubnetID.NotFound": SUBNETS,
    "InvalidSubnetID.Malformed": SUBNETS,
    "InvalidGroup.NotFound": GROUPS,
    "InvalidGroup.Malformed": GROUPS,
    "InvalidGroupId.Malformed": GROUPS,
}


@dataclass(frozen=True)
class Probe:
    """One thing to examine. `check` may raise: that becomes a line as well."""

    subject: str
    check: Callable[[Requirements, Clients], tuple[PreflightCheck, ...]]
    applies: Callable[[Requirements], bool] = lambda _needs: True
    within_s: float = DEADLINE_S


def unanswered(subject: str, error: AwsRefused | LaunchError, name: str = "") -> PreflightCheck:
    """The line of something that AWS refused or did not answer. `name` is what was asked about, where AWS does not name it."""
    if not isinstance(error, AwsRefused):
        return unseen(subject, str(error), REMEDY)
    if error.code in CORRECTIONS:
        return wrong(subject, f"{name}: {error.message}" if name else error.message, CORRECTIONS[error.code])
    if error.is_denied:
        return unseen(
            subject, f"permission is missing: {error.action}", f"Attach {POLICY} to who runs the gate."
        )
    if error.is_login and subject == CREDENTIALS:
        remedy = "Log in (aws sso login, AWS_PROFILE), or renew the credentials."
        return wrong(subject, f"there are none that AWS accepts: {error.message}", remedy)
    if error.is_login:
        line = unseen(subject, f"no valid credentials for {error.action}", f"See the line on {CREDENTIALS}.")
        return replace(line, hidden_by=CREDENTIALS)
    return unseen(subject, f"{error.action} has no answer: {error.message[:MESSAGE_CHARACTERS]}", REMEDY)


def line_of(subject: str, name: str, ask: Callable[[str], PreflightCheck]) -> PreflightCheck:
    """The line of one thing of several, so that a refusal hides none of the others."""
    try:
        return ask(name)
    except (AwsRefused, LaunchError) as error:
        return unanswered(subject, error, name)


def run_probes(
    probes: tuple[Probe, ...], needs: Requirements, clients: Clients
) -> tuple[PreflightCheck, ...]:
    """The lines of all probes in their order, after the longest deadline at the latest. Raises nothing."""
    applying = [probe for probe in probes if probe.applies(needs)]
    lines: dict[Probe, tuple[PreflightCheck, ...]] = {}

    def run(probe: Probe) -> None:
        lines[probe] = _lines(probe, needs, clients)

    # Daemons, and no pool, which would keep an interrupted command from ending.
    threads = [Thread(target=run, args=(probe,), daemon=True) for probe in applying]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return tuple(line for probe in applying for line in lines[probe])


def _lines(probe: Probe, needs: Requirements, clients: Clients) -> tuple[PreflightCheck, ...]:
    """The lines of one probe, within its time."""
    try:
        return limited(probe.within_s, lambda: probe.check(needs, clients))
    except NotInTime:
        late = f"AWS did not answer within {probe.within_s:g} s"
        remedy = (
            "Check that the endpoints of the region can be reached from here (AWS_ENDPOINT_URL, HTTPS_PROXY)."
        )
        return (unseen(probe.subject, late, remedy),)
    except (AwsRefused, LaunchError) as error:
        return (unanswered(probe.subject, error),)
    except Exception as error:  # noqa: BLE001 - whatever a probe trips over, the others' lines are wanted
        message = f"the check itself failed: {type(error).__name__}: {clean(error)}"
        return (unseen(probe.subject, message, "Continue without this check, and report the defect."),)
