"""When the embedded server's SQLite file counts as complete."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import AsyncMock, Mock

import pytest

from tasks.orchestration.server import process
from tasks.orchestration.server.database import copy_database, is_finished, is_intact, mark_finished
from tasks.orchestration.server.process import prepare_database, repeat_when_busy


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """What Prefect's migrations leave, as far as matters here, in WAL mode and of several pages."""
    path = tmp_path / "made.sqlite"
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE alembic_version (version_num TEXT)")
        connection.execute("INSERT INTO alembic_version VALUES ('head')")
        connection.execute("CREATE TABLE run (name TEXT)")
        connection.executemany("INSERT INTO run VALUES (?)", [("x" * 500,)] * 100)
        connection.commit()
    return path


def test_a_database_counts_once_it_is_marked(database: Path, tmp_path: Path) -> None:
    """Migrations that were interrupted never pass for a database; nothing is none, and looking at it makes none."""
    before = is_finished(database)
    mark_finished(database)

    assert (before, is_finished(database)) == (False, True)
    assert not is_finished(tmp_path / "absent.sqlite") and not (tmp_path / "absent.sqlite").exists()


@pytest.mark.parametrize("kept_bytes", [0, 50, 4096, 8192])
def test_a_truncated_file_does_not_count(database: Path, kept_bytes: int) -> None:
    """A file that lost its end is made anew, not served."""
    mark_finished(database)
    database.write_bytes(database.read_bytes()[:kept_bytes])

    assert not is_finished(database)


def test_a_template_that_lost_its_end_is_not_intact(database: Path) -> None:
    """Damage far from the header is found before a template is copied into every new folder."""
    mark_finished(database)
    whole = database.read_bytes()
    before = is_intact(database)
    database.write_bytes(whole[: len(whole) // 2])

    assert (before, is_intact(database)) == (True, False)


def _tables(database: Path) -> set[str]:
    with contextlib.closing(sqlite3.connect(database)) as connection:
        return {row[0] for row in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}


def test_a_new_folder_starts_from_the_template(tmp_path: Path, database: Path) -> None:
    """No migration runs where a template of this Prefect version exists; its copy is whole, and no temporary file stays."""
    mark_finished(database)
    (tmp_path / "new").mkdir()
    prepare_database(tmp_path / "new" / "new.sqlite", database)

    assert "run" in _tables(tmp_path / "new" / "new.sqlite")
    assert is_finished(tmp_path / "new" / "new.sqlite")
    assert {"new.lock", "new.sqlite"} == {path.name for path in (tmp_path / "new").iterdir()}


@pytest.mark.parametrize("content", [b"", b"not a database" * 1000], ids=["half_made", "garbage"])
def test_an_unusable_database_is_set_aside(tmp_path: Path, database: Path, content: bytes) -> None:
    """A broken history never stops a gate: it is kept beside, and a new one begins."""
    mark_finished(database)
    broken = tmp_path / "broken.sqlite"
    broken.write_bytes(content)
    prepare_database(broken, database)

    assert "run" in _tables(broken)
    assert Path(f"{broken}.unusable").read_bytes() == content


def _cannot_open() -> sqlite3.OperationalError:
    with pytest.raises(sqlite3.OperationalError) as raised:
        sqlite3.connect("/nonexistent/folder/file.sqlite").execute("SELECT 1")
    return raised.value


@pytest.mark.parametrize(
    "error", [PermissionError(13, "Permission denied"), _cannot_open()], ids=["folder", "file"]
)
def test_a_template_of_another_user_is_none(
    error: Exception, tmp_path: Path, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As root leaves one in a person's ~/.cache after `sudo -E`: the migrations run, and the gate has its server."""
    made = tmp_path / "new.sqlite"
    monkeypatch.setattr(process, "is_intact", Mock(side_effect=error))
    monkeypatch.setattr(process, "_migrate", AsyncMock(side_effect=lambda: copy_database(database, made)))
    prepare_database(made, tmp_path / "template.sqlite")

    assert "run" in _tables(made)


def test_a_folder_without_space_is_not_taken_for_a_foreign_template(
    tmp_path: Path, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the copy fails of is said: no migration begins where nothing can be written."""
    mark_finished(database)
    full = Mock(side_effect=OSError(28, "No space left on device"))
    monkeypatch.setattr(process, "copy_database", full)
    with pytest.raises(OSError, match="No space left"):
        prepare_database(tmp_path / "new.sqlite", database)


if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

BODY: list[Message] = [
    {"type": "http.request", "body": b"first,", "more_body": True},
    {"type": "http.request", "body": b"last", "more_body": False},
]


def _application(statuses: list[int], bodies: list[bytes], fails: bool = False) -> ASGIApp:
    """Answers with each status in turn, keeps the bodies it was sent, and may raise after it answered."""

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        body = b""
        while True:
            message = await receive()
            body += message["body"]
            if not message["more_body"]:
                break
        bodies.append(body)
        status = statuses.pop(0)
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": str(status).encode()})
        if fails and status >= 500:
            raise RuntimeError("database is locked")

    return application


def _post(application: ASGIApp) -> list[object]:
    """What a client sees of one request: the statuses and the parts of the body."""
    waiting, seen = list(BODY), list[object]()

    async def receive() -> Message:
        return waiting.pop(0)

    async def send(message: Message) -> None:
        seen.append(message.get("status", message.get("body")))

    async def call() -> None:
        await repeat_when_busy(application)({"type": "http"}, receive, send)

    asyncio.run(call())
    return seen


@pytest.mark.parametrize("fails", [False, True])
def test_a_refused_request_is_repeated_unseen(fails: bool) -> None:
    """The client sees the one answer that counts, also where Starlette raises after answering."""
    bodies: list[bytes] = []

    assert _post(_application([503, 503, 201], bodies, fails)) == [201, b"201"]
    assert bodies == [b"first,last"] * 3


def test_another_error_is_passed_on() -> None:
    """Only what SQLite refused is repeated: any other failure may have changed something."""
    with pytest.raises(RuntimeError, match="database is locked"):
        _post(_application([500, 201], [], fails=True))


def test_repeating_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """A database that stays locked is an answer too, not a hang."""
    monkeypatch.setattr(process, "_GIVE_UP_S", 0.0)

    assert _post(_application([503, 201], [])) == [503, b"503"]
