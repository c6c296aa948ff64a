"""The back ends that change machines."""

from __future__ import annotations

from collections.abc import Mapping

from checks.documents.decode import decode
from checks.documents.nearest import nearest
from checks.value_types import DecodeError
from tasks.machines.base import MachineError, Machines
from tasks.machines.kubernetes import KubernetesMachineOptions, KubernetesMachines
from tasks.machines.log import LogMachines
from tasks.machines.slurm import SlurmMachineOptions, SlurmMachines

# Launchers whose engine has commands for nodes under the same name.
ENGINES = ("slurm", "kubernetes")
NAMES = ("slurm", "hyperpod", "kubernetes", "log")


class UnknownMachines(MachineError):
    """There is no such back end, or it has no such option. The message names the nearest valid one."""


def machines_for(name: str, options: Mapping[str, object], launcher: str = "") -> Machines:
    """The back end of that name. "log" shows the commands of the engine of the launcher, and none where that has none for nodes.

    Raises UnknownMachines for an unknown name or option, or a value of the wrong type.
    """
    if name not in NAMES:
        near = nearest(name, NAMES)
        raise UnknownMachines(
            f"machines {name!r:.80} is none of {', '.join(NAMES)}."
            + (f" Did you mean {near!r}?" if near else "")
        )
    try:
        if name == "log":
            if options:
                raise DecodeError("it has no options", "options")
            return LogMachines(machines_for(launcher, {}) if launcher in ENGINES else None)
        if name == "kubernetes":
            return KubernetesMachines(decode(KubernetesMachineOptions, options, "options"))
        return SlurmMachines(decode(SlurmMachineOptions, options, "options"), hyperpod=name == "hyperpod")
    except DecodeError as error:
        raise UnknownMachines(f"machines {name}: {error}") from error
