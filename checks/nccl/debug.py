"""Where NCCL writes its log, and what makes it write one (NCCL_DEBUG*, docs.nvidia.com/deeplearning/nccl, "Debug")."""

from __future__ import annotations

import glob
import os
import socket
from collections.abc import Mapping
from pathlib import Path

from checks.check import CheckError

MOST_BYTES = 1 << 26


def environment(present: Mapping[str, str], scratch: Path) -> dict[str, str]:
    """What to set before NCCL begins: it reads these once. A file that the user chose stays, a terminal does not."""
    chosen = present.get("NCCL_DEBUG_FILE", "")
    kept = chosen if chosen and not chosen.startswith("/dev/") else str(scratch / "nccl.%h.%p.log")
    level = present.get("NCCL_DEBUG", "").upper()
    return {
        "NCCL_DEBUG": level if level == "TRACE" else "INFO",
        "NCCL_DEBUG_SUBSYS": "INIT,NET,GRAPH",
        "NCCL_DEBUG_FILE": kept,
    }


def process() -> str:
    """This process as NCCL's lines name it."""
    return f"{_host()}:{os.getpid()}"


def texts(present: Mapping[str, str]) -> str:
    """The logs of all processes of this node. Raises CheckError where there is none, or it is too long."""
    named = present.get("NCCL_DEBUG_FILE", "")
    if not named:
        raise CheckError("NCCL_DEBUG_FILE is not set, so that NCCL's log is nowhere to be read")
    pattern = glob.escape(named).replace("%h", glob.escape(_host())).replace("%p", "*")
    paths = sorted(glob.glob(pattern))
    if not paths:
        raise CheckError(f"NCCL left no log at {named}: it never began, or could not write there")
    return "\n".join(_text(Path(path)) for path in paths)


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise CheckError(f"NCCL's log {path}: {error.strerror}") from error
    if len(data) > MOST_BYTES:
        raise CheckError(
            f"NCCL's log {path} is longer than {MOST_BYTES >> 20} MiB: it is read whole or not at all"
        )
    return data.decode("utf-8", "replace")


def _host() -> str:
    return socket.gethostname().partition(".")[0]
