"""What stands behind a report: whole evidence and the nodes' logs, kept in the store beside it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tasks.launchers.base import LaunchError
from tasks.progress import Progress, tell
from tasks.session import Session
from tasks.store.base import StoreError

LOG_BYTES = 1 << 18
EVIDENCE_FILES = 10_000


def keep_evidence(session: Session, folder: Path) -> None:
    """Every evidence/<sha256>.gz of an attempt's folder -> gates/<gate id>/evidence. Raises StoreError."""
    for path in sorted((folder / "evidence").glob("*.gz"))[:EVIDENCE_FILES]:
        if path.is_file() and not path.is_symlink():
            session.setting.store.put(f"gates/{session.gate_id}/evidence/{path.name}", path.read_bytes())


def keep_logs(session: Session, job: str, nodes: Iterable[str]) -> None:
    """The end of each node's log -> gates/<gate id>/logs/<job>. A log that cannot be kept is said, no more."""
    try:
        for node in nodes:
            text = session.setting.launcher.logs(job, node, LOG_BYTES)
            key = f"gates/{session.gate_id}/logs/{job}/{node}.log"
            session.setting.store.put(key, text.encode("utf-8", "replace"))
    except (LaunchError, StoreError) as error:
        tell(Progress("checks", f"a log could not be kept: {error}"))
