"""The launchers that exist. Each is imported only when it is needed, so that its SDK costs no other launcher anything."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import cast

from checks.documents.decode import decode
from checks.documents.nearest import nearest
from checks.model import KernelLog
from checks.value_types import DecodeError
from tasks.launchers.base import Launcher, LaunchRejected

# kind -> a module with `Options`, a frozen dataclass, and `launcher(options, root) -> Launcher`
LAUNCHERS = {
    "local": "tasks.launchers.local.launcher",
    "sagemaker": "tasks.launchers.sagemaker.launcher",
    "slurm": "tasks.launchers.slurm.launcher",
    "kubernetes": "tasks.launchers.kubernetes.launcher",
}


def kernel_log_of(engine: str) -> KernelLog:
    """Whether the nodes of a job can read their host's kernel log, as the launcher's module says in KERNEL_LOG; without that READABLE,
    the stricter of the two.
    """
    module = importlib.import_module(LAUNCHERS[engine]) if engine in LAUNCHERS else None
    return cast(KernelLog, getattr(module, "KERNEL_LOG", KernelLog.READABLE))


def options_of(engine: str) -> frozenset[str]:
    """The names of the options of a launcher; empty for one that does not exist."""
    if engine not in LAUNCHERS:
        return frozenset()
    return frozenset(option.name for option in fields(importlib.import_module(LAUNCHERS[engine]).Options))


def kinds_with(option: str) -> tuple[str, ...]:
    """The launchers that have an option of this name."""
    return tuple(engine for engine in LAUNCHERS if option in options_of(engine))


def launcher_for(engine: str, options: Mapping[str, object], root: Path) -> Launcher:
    """The launcher of that kind; `root` is a folder for what it keeps on this machine.

    Raises LaunchRejected for an unknown kind or option, or a value of the wrong type, naming the nearest
    valid one.
    """
    if engine not in LAUNCHERS:
        near = nearest(engine, tuple(LAUNCHERS))
        hint = f" Did you mean {near!r}?" if near else ""
        raise LaunchRejected(f"launcher {engine!r:.80} is none of {', '.join(LAUNCHERS)}.{hint}")
    module = importlib.import_module(LAUNCHERS[engine])
    try:
        parsed = decode(module.Options, options, "options")
    except DecodeError as error:
        raise LaunchRejected(f"launcher {engine}: {error}") from error
    return cast(Launcher, module.launcher(parsed, root))
