"""What the image of a job must contain for its checks. Pure. Nobody knows what an image contains before the job runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from checks import bundle as bundles
from checks import image_requirements
from checks.bundle import Bundle
from checks.check import CatalogError
from checks.value_types import DecodeError
from tasks.launchers.base import JobSpec, PreflightCheck, PreflightResult, Work
from tasks.text.tables import counted

SUBJECT = "tools in the image"
EXAMPLE = "deployments/examples/training.Dockerfile"
REMEDY = f"Build it FROM the prelaunch image ({EXAMPLE}), or see to it that it has them: docs/sagemaker.md, An image of your own."
Tools = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class Checked:
    """An image in which checks run. `required` and `optional`: a tool -> the checks of the policy that need it."""

    image: str
    required: Tools = field(default_factory=dict)
    optional: Tools = field(default_factory=dict)


def image_of(body: Mapping[str, object]) -> str:
    """The image of a request, "" if it names none."""
    specification = body.get("AlgorithmSpecification")
    image = specification.get("TrainingImage") if isinstance(specification, Mapping) else ""
    return image if isinstance(image, str) else ""


def checked_in(job: JobSpec, image: str) -> tuple[Checked, ...]:
    """The image of a job that runs checks, where these need any tool of it; nodes refuse a bundle that cannot be read."""
    data = job.files.get("bundle.json")
    if data is None or job.work is Work.COMMAND or not image:
        return ()
    try:
        required, optional = wanted(bundles.load(data))
    except (DecodeError, CatalogError):
        return ()
    return (Checked(image, required, optional),) if {**required, **optional} else ()


def wanted(bundle: Bundle) -> tuple[Tools, Tools]:
    """The tools that the bundle's checks need, by those that the policy insists on and by the others. Raises CatalogError."""
    catalogue, planned = bundles.plan_of(bundle)
    applies = {item.check for item in planned if item.skip is None} - set(bundle.skip)
    lines = bundle.policy.checks
    required: dict[str, tuple[str, ...]] = {}
    optional: dict[str, tuple[str, ...]] = {}
    for check in catalogue:
        if check.name in applies and check.name in lines:
            tools = optional if lines[check.name].may_be_left_out else required
            for tool in image_requirements.tools(check):
                tools[tool] = (*tools.get(tool, ()), check.name)
    return dict(sorted(required.items())), dict(sorted(optional.items()))


def unknown_tools(checked: Checked) -> PreflightCheck:
    """The line for an image in which checks run: what they need of it, and what follows where it lacks that."""
    phrases, required, optional = [], checked.required, checked.optional
    if required:
        phrases.append(f"must contain {_listed(required)}: without one of them the verdict is CANNOT TELL")
    if optional:
        phrases.append(f"should contain {_listed(optional)}: without one its check is skipped, with a WARN")
    text = f"the image {checked.image} {'; it '.join(phrases)}"
    return PreflightCheck(SUBJECT, PreflightResult.UNSEEN, text, REMEDY)


def _listed(tools: Tools) -> str:
    return ", ".join(f"{tool} ({counted(len(names), 'check')})" for tool, names in tools.items())
