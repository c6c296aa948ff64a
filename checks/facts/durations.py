"""How long the checks of a profile take, as far as it was measured or is documented. It is shown in plans, and no verdict uses it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from pathlib import Path
from typing import Annotated

from checks.facts.instances import Instance
from checks.facts.provenance import Provenance, shipped_rows
from checks.model import Profile
from checks.value_types import Range

DURATIONS = Path(__file__).parent / "durations.json"


class Devices(str, Enum):
    """The parts of a node that have to be checked besides the node itself."""

    NONE = "none"
    NVIDIA = "nvidia"
    NEURON = "neuron"


@dataclass(frozen=True)
class Duration:
    """The seconds for all checks of a profile on one cluster; `is_least` says that parts of them were never measured."""

    profile: Profile
    devices: Devices
    seconds: Annotated[float, Range(0.1, 86400)]
    is_least: bool
    provenance: Provenance


@lru_cache(maxsize=1)
def builtin_durations() -> tuple[Duration, ...]:
    """The table of this version."""
    return shipped_rows(DURATIONS, "durations", Duration)


def devices_of(instance: Instance | None, gpus_per_node: int) -> Devices:
    """The parts of a declared node. For an instance type that is not in the table the declaration counts."""
    if instance is not None and instance.neuron_devices:
        return Devices.NEURON
    return Devices.NVIDIA if gpus_per_node or (instance is not None and instance.gpus) else Devices.NONE


def duration_of(profile: Profile, devices: Devices) -> Duration | None:
    """The row; None if there is no measurement and no documentation."""
    fitting = (entry for entry in builtin_durations() if (entry.profile, entry.devices) == (profile, devices))
    return next(fitting, None)
