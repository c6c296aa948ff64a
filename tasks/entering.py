"""A gate's verdict enters the store's records, and then the index, which may fail: that is said, and nothing else."""

from __future__ import annotations

import logging
import time

from tasks.kept import report_key
from tasks.outcome import Judged
from tasks.progress import Progress, tell
from tasks.session import Session
from tasks.store import record as records
from tasks.store.base import StoreError
from tasks.store.identity import identity
from tasks.store.index import IndexFailed
from tasks.store.record import Record, record_of
from tasks.store.verdictfile import of

LOG = logging.getLogger("prelaunch")


def keep_record(session: Session, judged: Judged) -> Record:
    """What lists and indexes are made of, kept beside the verdict. Raises StoreError."""
    gate, gate_id = session.setting.gate, session.gate_id
    made = record_of(
        gate_id, judged.report, of(judged.verdict), report_key(gate_id), time.time(),
        gate.name, gate.cluster.name, judged.reused,
    )  # fmt: skip
    records.keep(session.setting.store, made)
    return made


def enter(session: Session, record: Record) -> None:
    """The record's row in the index. It is a cache: where it fails, that is said, and the gate goes on."""
    try:
        session.setting.index.write(identity(session.setting.store), (record,))
    except (IndexFailed, StoreError) as error:
        LOG.warning("the verdict is kept, but not in the index: %s", error)
        tell(Progress("index", f"the verdict is kept, but not in the index: {error}"))
