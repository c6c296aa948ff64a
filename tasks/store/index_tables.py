"""The index's tables and statements, in SQLAlchemy Core. It is imported only if an index is used."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import (
    URL,
    Column,
    Connection,
    Engine,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    create_engine,
    delete,
    event,
    func,
    insert,
    make_url,
    select,
    text,
    update,
)
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert
from sqlalchemy.pool import NullPool

# 1: verdicts alone; 2: also the nodes of every gate (tasks.store.index_nodes).
SCHEMA = 2
META, VERDICTS = "prelaunch_index", "prelaunch_verdicts"
# Any number that no other program's advisory lock bears: the first bytes of sha256("prelaunch index").
LOCK = 0x23DE5C7A
# Versions whose tables only lack tables of this one: they are added, and the store fills them.
UPGRADES = (1,)

METADATA = MetaData()
_META = Table(META, METADATA, Column("schema_version", Integer, nullable=False))
_TEXTS = (
    "gate", "cluster", "instance_type", "profile", "measured_at", "judged_at", "answer", "level", "report",
    "report_digest", "policy_digest", "facts_digest", "engine", "condemned", "finding", "reused",
)  # fmt: skip
_VERDICTS = Table(
    VERDICTS,
    METADATA,
    Column("store", Text, primary_key=True),
    Column("gate_id", Text, primary_key=True),
    Column("nodes", Integer, nullable=False),
    *(Column(name, Text, nullable=False) for name in _TEXTS),
    Column("baseline_digest", Text),
    Index("prelaunch_verdicts_by_cluster", "store", "cluster", "judged_at"),
)


def engine_of(url: str, file: Path, busy_s: float) -> Engine:
    """An engine that keeps no connection. Nothing in it waits for longer than `busy_s`."""
    made = make_url(url) if url else URL.create("sqlite", database=str(file))
    if made.get_backend_name() == "sqlite":
        engine = create_engine(made, poolclass=NullPool, connect_args={"timeout": busy_s})
        event.listen(engine, "connect", _leave_transactions_alone)
        event.listen(engine, "begin", _begin_immediate)
        return engine
    # tcp_user_timeout in ms, libpq 12 and later: https://www.postgresql.org/docs/15/libpq-connect.html
    waits = {
        "connect_timeout": int(busy_s),
        "tcp_user_timeout": int(busy_s * 1000),
        "keepalives_idle": int(busy_s),
    }
    engine = create_engine(made.set(drivername="postgresql+psycopg"), poolclass=NullPool, connect_args=waits)
    event.listen(engine, "begin", lambda connection: _limit(connection, int(busy_s * 1000)))
    return engine


def lock(connection: Connection) -> None:
    """Let one process at a time make or drop the tables, until the transaction ends. SQLite runs one at a time anyway."""
    if connection.dialect.name == "postgresql":
        connection.execute(select(func.pg_advisory_xact_lock(LOCK)))


def version(connection: Connection) -> int | None:
    """The schema version that the tables were made with; None if none is recorded."""
    return connection.execute(select(func.max(_META.c.schema_version))).scalar()


def set_version(connection: Connection) -> None:
    """Record this version, unless this or a later one is recorded already."""
    found = version(connection)
    if found is None:
        connection.execute(insert(_META).values(schema_version=SCHEMA))
    elif found in UPGRADES:
        connection.execute(update(_META).values(schema_version=SCHEMA))


def upsert(connection: Connection, rows: Sequence[dict[str, object]]) -> None:
    """Insert the rows; a row that exists is replaced."""
    if not rows:
        return
    make: Any = postgresql_insert if connection.dialect.name == "postgresql" else sqlite_insert
    statement = make(_VERDICTS)
    changed = {c.name: statement.excluded[c.name] for c in _VERDICTS.columns if not c.primary_key}
    connection.execute(
        statement.on_conflict_do_update(index_elements=["store", "gate_id"], set_=changed), list(rows)
    )


def selected(connection: Connection, store: str, cluster: str, since: str) -> list[dict[str, object]]:
    """Rows of a store, oldest first."""
    query = select(_VERDICTS).where(_VERDICTS.c.store == store, _VERDICTS.c.judged_at >= since)
    if cluster:
        query = query.where(_VERDICTS.c.cluster == cluster)
    ordered = query.order_by(_VERDICTS.c.judged_at, _VERDICTS.c.gate_id)
    return [dict(row) for row in connection.execute(ordered).mappings()]


def delete_rows(connection: Connection, store: str, gate_ids: Sequence[str] | None) -> None:
    """Remove these rows of a store; None for all of them."""
    mine = _VERDICTS.c.store == store
    if gate_ids is None:
        connection.execute(delete(_VERDICTS).where(mine))
        return
    for begin in range(0, len(gate_ids), 500):
        chosen = _VERDICTS.c.gate_id.in_(gate_ids[begin : begin + 500])
        connection.execute(delete(_VERDICTS).where(mine, chosen))


def _leave_transactions_alone(connection: Any, record: object) -> None:
    """Python's sqlite3 would begin them late, and a late writer among several is refused instead of waiting."""
    connection.isolation_level = None


def _begin_immediate(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def _limit(connection: Connection, milliseconds: int) -> None:
    connection.execute(text(f"SET LOCAL statement_timeout = {int(milliseconds)}"))
    connection.execute(text(f"SET LOCAL lock_timeout = {int(milliseconds)}"))
