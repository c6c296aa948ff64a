"""Whether this image can run the checks of a gate. It is asked before they start, so that the remedy is said once."""

from __future__ import annotations

from checks import image_requirements
from checks.bundle import Bundle
from checks.check import Check
from checks.facts.builtin import builtin
from checks.model import Skip
from checks.version import BUILD_IMAGE, ENGINE


def image_fault(bundle: Bundle) -> str:
    """What this image lacks for the checks of the bundle, with the remedy; "" if it lacks nothing that they must have."""
    if (other := bundle.facts != builtin().digest) or bundle.version not in (ENGINE, ""):
        tables = ", with other tables of facts" if other else ""
        return f"the image has Prelaunch {ENGINE}, and the gate {bundle.version or 'an earlier version'}{tables}. {BUILD_IMAGE}"
    from checks.catalog import CATALOG

    modules = image_requirements.needed(check for check in CATALOG if _is_required(check, bundle))
    for name in (name for name in modules if name in image_requirements.BROUGHT):
        try:
            image_requirements.load(name)
        except ImportError as error:
            return f"the image cannot import {name}, which the checks of GPUs need: {error}. Install nvidia-ml-py in it. {BUILD_IMAGE}"
    return ""


def _is_required(check: Check, bundle: Bundle) -> bool:
    """Whether the gate refuses without this check."""
    line = bundle.policy.checks.get(check.name)
    if line is None or check.name in bundle.skip or not bundle.declared.gpus_per_node:
        return False
    return line.required and bundle.profile in line.profiles and not line.accepts(Skip.TOOL_MISSING)
