"""The back ends that change machines. Each is imported only when it is needed, so that its SDK costs no other anything."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from checks.documents.decode import decode, nearest
from checks.value_types import DecodeError
from tasks.machines.base import MachineError, Machines
from tasks.machines.log import LogMachines
from tasks.machines.slurm import SlurmMachineOptions, SlurmMachines

HYPERPOD, KUBERNETES = "tasks.machines.hyperpod", "tasks.machines.kubernetes"
# Launchers whose engine has commands for nodes under the same name.
ENGINES = ("slurm", "kubernetes")
NAMES = ("slurm", "hyperpod", "kubernetes", "log")


class UnknownMachines(MachineError):
    """There is no such back end, or it has no such option. The message names the nearest valid one."""


@dataclass(frozen=True)
class LogOptions:
    """`nodes` are the names of the machines that are listed, as unknown."""

    nodes: tuple[str, ...] = ()


@dataclass(frozen=True)
class HyperPodOptions:
    """`cluster` is HyperPod's name or ARN, `act_by` is how acts are requested: "api" or "reason". `deep_check` lets HyperPod test
    what a person would have to look at. Slurm's options are beside these.
    """

    cluster: str
    region: str
    act_by: str = "api"
    deep_check: bool = False


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
            engine = machines_for(launcher, {}) if launcher in ENGINES else None
            return LogMachines(decode(LogOptions, options, "options").nodes, engine)
        if name == "hyperpod":
            return _hyperpod(options)
        if name == "kubernetes":
            return _kubernetes(options)
        return SlurmMachines(decode(SlurmMachineOptions, options, "options"))
    except DecodeError as error:
        raise UnknownMachines(f"machines {name}: {error}") from error


def _kubernetes(options: Mapping[str, object]) -> Machines:
    module = importlib.import_module(KUBERNETES)
    made = decode(module.KubernetesMachineOptions, options, "options")
    by_api = made.hyperpod is module.HyperPodAct.API
    if by_api != bool(made.cluster and made.region):
        raise UnknownMachines(
            'machines kubernetes: hyperpod = "api" needs a cluster and a region, and nothing else does.'
        )
    repairs = (
        importlib.import_module(f"{HYPERPOD}_api").HyperPodApi(made.cluster, made.region, None)
        if by_api
        else None
    )
    return cast(Machines, module.KubernetesMachines(made, repairs=repairs))


def _hyperpod(options: Mapping[str, object]) -> Machines:
    names = HyperPodOptions.__dataclass_fields__
    own = decode(HyperPodOptions, {key: value for key, value in options.items() if key in names}, "options")
    rest = {key: value for key, value in options.items() if key not in names}
    slurm = SlurmMachines(decode(SlurmMachineOptions, rest, "options"))
    module = importlib.import_module(HYPERPOD)
    act_by = decode(module.ActBy, own.act_by, "options.act_by")
    return cast(
        Machines, module.HyperPodMachines(own.cluster, own.region, slurm, act_by, deep_check=own.deep_check)
    )
