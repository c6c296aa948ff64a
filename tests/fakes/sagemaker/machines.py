"""The machines of the simulated region: which there are, who has them, and what is wrong with them."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

NAMES = uuid.UUID("5a9e3a4e-0000-4000-8000-000000000000")
DRIVER = "570.133.20"


@dataclass
class Machine:
    """`environment` is for fake tools: containers on this machine get it.

    `devices` are files in its /dev, `mounts` folders that are laid over its containers' (place -> folder here): recordings of /sys and
    /opt.
    """

    id: str
    type: str
    boot_id: str
    gpus: tuple[str, ...] = ()
    driver: str = DRIVER
    environment: dict[str, str] = field(default_factory=dict)
    devices: tuple[str, ...] = ()
    mounts: dict[str, str] = field(default_factory=dict)
    shm_bytes: int = 64 << 20  # Docker's default; AWS publishes no size of its own
    owner: str = ""  # a job's name


class Fleet:
    """Every machine. The caller holds the control plane's lock."""

    def __init__(self, machines: Iterable[Machine], folder: Path) -> None:
        self.machines = list(machines)
        self._folder = folder

    def take(self, kind: str, count: int, owner: str) -> list[Machine]:
        """`count` free machines of the type, or none at all."""
        free = [m for m in self.machines if m.type == kind and not m.owner][:count]
        if len(free) < count:
            return []
        for machine in free:
            machine.owner = owner
        return free

    def cache(self, machine: Machine) -> Path:
        """What /opt/ml/sagemaker/warmpoolcache is on it."""
        folder = self._folder / "cache" / machine.id
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def give_back(self, machines: Iterable[Machine]) -> None:
        """To the region: their volumes are gone."""
        for machine in machines:
            machine.owner = ""
            shutil.rmtree(self._folder / "cache" / machine.id, ignore_errors=True)

    def replace(self, machine: Machine) -> Machine:
        """Another one of its type, for the same owner; where there is none it is rebooted instead.

        "Cluster repair" (Amazon SageMaker AI, model checkpoints): "rebooting or replacing the faulty instances".
        """
        found = self.take(machine.type, 1, machine.owner)
        if not found:
            machine.boot_id = str(uuid.uuid4())  # GPUs and volume stay
            return machine
        self.give_back([machine])
        machine.owner = "in repair"
        return found[0]


def make(kind: str, given: int | list[dict[str, Any]]) -> list[Machine]:
    """So many machines of a type, or as the list says. Identities follow from type and number."""
    rows = [{}] * given if isinstance(given, int) else given
    return [_machine(kind, index, dict(row)) for index, row in enumerate(rows)]


def _machine(kind: str, index: int, row: dict[str, Any]) -> Machine:
    name = row.pop("id", f"{kind.removeprefix('ml.')}-{index}")
    gpus = row.pop("gpus") if "gpus" in row else _uuids(name, _gpus(kind))
    boot = row.pop("boot_id", str(uuid.uuid5(NAMES, f"{name} boot")))
    return Machine(id=name, type=kind, boot_id=boot, gpus=tuple(gpus), **row)


def _uuids(name: str, count: int) -> list[str]:
    return [f"GPU-{uuid.uuid5(NAMES, f'{name} gpu {index}')}" for index in range(count)]


def _gpus(kind: str) -> int:
    """As the shipped facts say; 0 for a type that they do not know."""
    from checks.facts.builtin import builtin

    row = builtin().instances.get(kind.removeprefix("ml."))
    return row.gpus if row else 0
