"""The launchers that exist. Each is imported only when it is needed, so that its SDK costs no other launcher anything."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import cast

from checks.documents.decode import decode, nearest
from checks.model import KernelLog
from checks.value_types import DecodeError
from tasks.launchers.base import Launcher, LaunchRejected, Placement

# kind -> a module with `Options`, a frozen dataclass, and `launcher(options, root) -> Launcher`
LAUNCHERS = {
    "local": "tasks.launchers.local.launcher",
    "sagemaker": "tasks.launchers.sagemaker.launcher",
    "slurm": "tasks.launchers.slurm.launcher",
    "kubernetes": "tasks.launchers.kubernetes.launcher",
}

# Whether the nodes of a job can read their host's kernel log, by launcher and placement. The local launcher's nodes are
# processes of this host. SageMaker starts a training container as `docker run image train` ("How Amazon SageMaker Runs
# Your Training Image"), and no key of CreateTrainingJob asks for a privilege, capability or device: there is no
# /dev/kmsg in it, and Docker's default profile gives syslog(2) to CAP_SYSLOG alone (moby/moby commit ccd22ffcc8b5).
# Slurm runs a job as the user who submitted it, to whom most distributions refuse the log (kernel.dmesg_restrict is 1 in Debian and
# Ubuntu; /var/log/kern.log belongs to the group adm). An unprivileged pod has no /dev/kmsg and not CAP_SYSLOG either (containerd's and
# CRI-O's default capabilities). Where a node's log can be read all the same, it is judged.
KERNEL_LOG: Mapping[tuple[str, Placement], KernelLog] = {
    ("local", Placement.PINNED): KernelLog.READABLE,
    ("local", Placement.IN_JOB): KernelLog.READABLE,
    ("sagemaker", Placement.POOLED): KernelLog.WITHHELD,
    ("sagemaker", Placement.PINNED): KernelLog.WITHHELD,
    ("sagemaker", Placement.IN_JOB): KernelLog.WITHHELD,
    ("sagemaker", Placement.NONE): KernelLog.WITHHELD,
    ("slurm", Placement.PINNED): KernelLog.WITHHELD,
    ("slurm", Placement.IN_JOB): KernelLog.WITHHELD,
    ("kubernetes", Placement.PINNED): KernelLog.WITHHELD,
    ("kubernetes", Placement.IN_JOB): KernelLog.WITHHELD,
}


def kernel_log_of(kind: str, placement: Placement) -> KernelLog:
    """What the table says; READABLE, the stricter of the two, for a row that it lacks."""
    return KERNEL_LOG.get((kind, placement), KernelLog.READABLE)


def options_of(kind: str) -> frozenset[str]:
    """The names of the options of a launcher; empty for one that does not exist."""
    if kind not in LAUNCHERS:
        return frozenset()
    return frozenset(one.name for one in fields(importlib.import_module(LAUNCHERS[kind]).Options))


def kinds_with(option: str) -> tuple[str, ...]:
    """The launchers that have an option of this name."""
    return tuple(kind for kind in LAUNCHERS if option in options_of(kind))


def launcher_for(kind: str, options: Mapping[str, object], root: Path) -> Launcher:
    """The launcher of that kind; `root` is a folder for what it keeps on this machine.

    Raises LaunchRejected for an unknown kind or option, or a value of the wrong type, naming the nearest
    valid one.
    """
    if kind not in LAUNCHERS:
        near = nearest(kind, tuple(LAUNCHERS))
        hint = f" Did you mean {near!r}?" if near else ""
        raise LaunchRejected(f"launcher {kind!r:.80} is none of {', '.join(LAUNCHERS)}.{hint}")
    module = importlib.import_module(LAUNCHERS[kind])
    try:
        made = decode(module.Options, options, "options")
    except DecodeError as error:
        raise LaunchRejected(f"launcher {kind}: {error}") from error
    return cast(Launcher, module.launcher(made, root))
