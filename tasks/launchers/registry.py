"""The launchers that exist. Each is imported only when it is needed, so that its SDK costs no other launcher anything."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import cast

from checks.documents.decode import decode
from checks.documents.nearest import nearest
from checks.judge.rules.wording import and_text
from checks.model import KernelLog
from checks.value_types import DecodeError, required, shape
from tasks.gate_file.model import DeclaredTable
from tasks.gate_file.read import ALL_KEYS
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
    """The names of the options of a launcher."""
    return frozenset(option.name for option in fields(importlib.import_module(LAUNCHERS[engine]).Options))


def launcher_for(engine: str, options: Mapping[str, object], root: Path) -> Launcher:
    """The launcher of that kind; `root` is a folder for what it keeps on this machine.

    Raises LaunchRejected for an unknown kind or option, or a value of the wrong type, naming the nearest valid one.
    """
    if engine not in LAUNCHERS:
        near = nearest(engine, tuple(LAUNCHERS))
        hint = f" Did you mean {near!r}?" if near else ""
        raise LaunchRejected(f"launcher {engine!r:.80} is none of {', '.join(LAUNCHERS)}.{hint}")
    module = importlib.import_module(LAUNCHERS[engine])
    for fault in option_faults(engine, options):
        raise LaunchRejected(f"launcher {engine}: {fault}") from fault
    return cast(Launcher, module.launcher(decode(module.Options, options, "options"), root))


def option_faults(engine: str, options: Mapping[str, object]) -> Iterator[DecodeError]:
    """What is wrong with each option of a launcher that exists."""
    types, known_options = shape(importlib.import_module(LAUNCHERS[engine]).Options)
    for name, value in options.items():
        if name not in types:
            near = nearest(name, tuple(types))
            reason = "unknown key" if near else f"the launcher {engine} has no such option; {ALL_KEYS}"
            if name in DeclaredTable.model_fields:
                reason, near = f"{name} belongs to [cluster.declared]", None
            elif others := [launcher for launcher in LAUNCHERS if name in options_of(launcher)]:
                has = f"{and_text(others)} {'has' if len(others) == 1 else 'have'} it"
                reason, near = f"the launcher {engine} has no such option; {has}", None
            yield DecodeError(reason, f"options.{name}", near)
            continue
        try:
            decode(types[name], value, f"options.{name}")
        except DecodeError as error:
            yield error
    missing = [option.name for option in known_options if required(option) and option.name not in options]
    yield from (DecodeError("missing key", f"options.{name}") for name in missing)
