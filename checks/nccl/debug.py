"""Where NCCL writes its log, and what makes it write one (NCCL_DEBUG*, docs.nvidia.com/deeplearning/nccl, "Debug")."""

from __future__ import annotations

import glob
import os
import socket
import time
from collections.abc import Mapping
from pathlib import Path

from checks.check import CheckError

MOST_BYTES = 1 << 26
SLACK_S = 5.0
BEGUN_S = time.monotonic()  # the ranks import this before NCCL begins


def environment(present: Mapping[str, str], scratch: Path) -> dict[str, str]:
    """What to set before NCCL begins: it reads these once.

    A file that the user chose stays. A terminal does not, nor one file for all processes: each would overwrite it.
    """
    chosen = present.get("NCCL_DEBUG_FILE", "")
    own = "%p" in chosen and not chosen.startswith("/dev/")
    kept = chosen if own else str(scratch / "nccl.%h.%p.log")
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
    """The logs of all processes of this node's run. Raises CheckError where there is none, or it is too long.

    The folder may be one that the user chose, and hold the logs of earlier runs: these prove nothing of this one.
    """
    named = present.get("NCCL_DEBUG_FILE", "")
    if not named:
        raise CheckError("NCCL_DEBUG_FILE is not set, so that NCCL's log is nowhere to be read")
    pattern = glob.escape(named).replace("%h", glob.escape(_host()))
    own = Path(named.replace("%h", _host()).replace("%p", str(os.getpid())))
    if not own.is_file():
        raise CheckError(f"NCCL left no log at {named}: it never began, or could not write there")
    # By the clock of the file system itself. All ranks write when the first communicator comes up, after BEGUN_S.
    since = own.stat().st_mtime - (time.monotonic() - BEGUN_S) - SLACK_S
    paths = (Path(path) for path in sorted(glob.glob(pattern.replace("%p", "*"))))
    return "\n".join(_text(path) for path in paths if path == own or path.stat().st_mtime >= since)


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
