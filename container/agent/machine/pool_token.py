"""A token in the folder that a warm pool keeps on the machine: it shows the next job that this is the same machine.

Source: "Train using SageMaker-managed warm pools", persistent cache: SAGEMAKER_MANAGED_WARMPOOL_CACHE_DIRECTORY names a
folder that outlives the job, /opt/ml/sagemaker/warmpoolcache. A machine that came into the pool later has no token.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from pathlib import Path

from checks.process.whole_file import write_whole
from container.agent.files.exit_record import say

VARIABLE = "SAGEMAKER_MANAGED_WARMPOOL_CACHE_DIRECTORY"
FORM = r"[0-9a-f]{32}"


def folder(root: Path, environment: Mapping[str, str]) -> Path | None:
    """The pool's folder on this machine; None if there is none."""
    if folder_name := environment.get(VARIABLE):
        return Path(folder_name)
    usual = root / "sagemaker" / "warmpoolcache"
    return usual if usual.is_dir() else None


def leave(cache: Path | None, gate_id: str) -> str:
    """A fresh token, in place of an earlier one; "" if it cannot be kept, which proves nothing later."""
    if cache is None:
        say(
            "this machine has no folder that a warm pool keeps: the next job cannot prove that it got this machine"
        )
        return ""
    token = secrets.token_hex(16)
    try:
        write_whole(_path(cache, gate_id), token.encode())
    except OSError as error:
        say(f"no pool token can be left in {cache}: {error.strerror or error}")
        return ""
    return token


def find(cache: Path | None, gate_id: str) -> str:
    """The token that the check of this gate left here, "" if there is none."""
    if cache is None:
        return ""
    try:
        text = _path(cache, gate_id).read_text()[:64]
    except (OSError, UnicodeDecodeError):
        return ""
    return text if re.fullmatch(FORM, text) else ""


def _path(cache: Path, gate_id: str) -> Path:
    return cache / "prelaunch" / gate_id
