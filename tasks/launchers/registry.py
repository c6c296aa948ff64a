"""Which launchers there are. Each is imported when it is asked for, so that its SDK costs nobody else."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import cast

from checks.decode import DecodeError, decode, nearest
from tasks.launchers.base import Launcher, LaunchRejected

# kind -> a module with `Options`, a frozen dataclass, and `launcher(options, root) -> Launcher`
BACK_ENDS = {
    "local": "tasks.launchers.local",
    "sagemaker": "tasks.launchers.sagemaker.launcher",
}


def launcher_for(kind: str, options: Mapping[str, object], root: Path) -> Launcher:
    """The launcher of that kind; `root` is a folder for what it keeps on this machine.

    Raises LaunchRejected for an unknown kind or option, or a value of the wrong type, naming the nearest
    valid one.
    """
    if kind not in BACK_ENDS:
        near = nearest(kind, tuple(BACK_ENDS))
        hint = f" Did you mean {near!r}?" if near else ""
        raise LaunchRejected(f"launcher {kind!r:.80} is none of {', '.join(BACK_ENDS)}.{hint}")
    module = importlib.import_module(BACK_ENDS[kind])
    try:
        made = decode(module.Options, options, "options")
    except DecodeError as error:
        raise LaunchRejected(f"launcher {kind}: {error}") from error
    return cast(Launcher, module.launcher(made, root))
