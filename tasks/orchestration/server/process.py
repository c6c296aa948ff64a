"""The embedded Prefect server's process: `python -m tasks.orchestration.server.process`, started by tasks.orchestration.server.server.

It inherits a listening socket, so that its address is known before it runs and nobody can take the port
from it, and a pipe on which it says "ready", "full: ..." or "failed: ..." once. It dies with its parent.

A request that SQLite refused is repeated here within milliseconds. A transaction that began by reading is refused at once
(SQLITE_BUSY) if another connection has written since; no timeout helps, and Prefect's client would try again after two seconds. The
refused transaction changed nothing. Two servers on one file conflict in the same way.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import errno
import gc
import itertools
import os
import signal
import socket
import sqlite3
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from checks.process.tree import die_with_parent
from tasks.orchestration.server.database import (
    copy_database,
    is_finished,
    is_intact,
    lock_file,
    mark_finished,
    set_aside,
)

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send
    from uvicorn import Server

_FORBIDDEN = (sqlite3.SQLITE_PERM, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_AUTH)
_SETTLE_S = 2.0
_COLLECT_S = 5.0
_EVERY_OBJECT = 12  # so many collections until one looks at all objects
# Below the client's time-out of 60 s (PREFECT_API_REQUEST_TIMEOUT). A server that is dead answers nothing, and is not waited for.
_GIVE_UP_S = 50.0
_PAUSE_S = 0.02
_BUSY = 503


def main(arguments: list[str]) -> int:
    """Serve until SIGTERM: 0. Where the server never became ready: 1, and the pipe and the log say why."""
    gc.disable()  # importing Prefect makes millions of objects and no garbage; collecting cost 0.7 s of 2.3 s
    options = _options(arguments)
    die_with_parent(options.parent)
    os.umask(0o077)
    try:
        # Before Prefect is imported: a folder that is full is reported at once.
        prepare_database(options.database, options.template)
        from prefect.server.api.server import create_app

        app = repeat_when_busy(create_app(ephemeral=True))
        asyncio.run(_serve(app, socket.socket(fileno=options.listen_fd), lambda: _say(options, "ready")))
    except Exception as error:  # noqa: BLE001 - the process ends here; whatever it was, the parent is told
        traceback.print_exc()
        _say(options, f"{'full' if _is_full(error) else 'failed'}: {type(error).__name__}: {error}")
        return 1
    return 0


def prepare_database(database: Path, template: Path) -> None:
    """Make `database` ready: as it is, else from `template`, else by migrating (and then keep a template).

    One process at a time does so; others wait for it. A database whose making was interrupted holds no run,
    and a broken one serves nobody: both are set aside and made anew.
    """
    with lock_file(database.with_suffix(".lock")):
        if is_finished(database):
            return
        set_aside(database)
        if _is_copied(template, database):
            return
        asyncio.run(_migrate())
        mark_finished(database)
        try:
            template.parent.mkdir(parents=True, exist_ok=True)
            copy_database(database, template)
        except (OSError, sqlite3.Error) as error:
            print(f"No template kept, the next new folder migrates again: {error}", file=sys.stderr)


def _is_copied(template: Path, database: Path) -> bool:
    """Whether there was a template to copy. One that this user may not read, such as root's after `sudo -E`, is none."""
    try:
        if not is_intact(template):
            return False
        copy_database(template, database)
    except PermissionError:
        return False
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF in _FORBIDDEN:
            return False
        raise
    return True


async def _migrate() -> None:
    from prefect.server.database import provide_database_interface

    database = provide_database_interface()
    await database.create_db()
    await (await database.engine()).dispose()


def repeat_when_busy(app: ASGIApp) -> ASGIApp:
    """The returned application withholds the 503 answers of `app`, and repeats the requests for up to 50 s."""

    async def repeating(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        request = await _whole(receive)
        deadline = time.monotonic() + _GIVE_UP_S
        while await _refused(app, dict(scope), _Replay(request, receive), send, deadline):
            await asyncio.sleep(_PAUSE_S)

    return repeating


class _Replay:
    """Gives the request's messages once more, then whatever follows them."""

    def __init__(self, request: list[Message], receive: Receive) -> None:
        self._left = list(request)
        self._receive = receive

    async def __call__(self) -> Message:
        return self._left.pop(0) if self._left else await self._receive()


async def _refused(app: ASGIApp, scope: Scope, receive: Receive, send: Send, deadline: float) -> bool:
    """Run the request once; True if it answered 503 in time, and then nothing of the answer was sent."""
    withheld = False

    async def pass_on(message: Message) -> None:
        nonlocal withheld
        if message["type"] == "http.response.start" and message["status"] == _BUSY:
            withheld = time.monotonic() < deadline
        if not withheld:
            await send(message)

    try:
        await app(scope, receive, pass_on)
    except Exception:
        # Starlette raises the error again after it answered 503 for it.
        if not withheld:
            raise
    return withheld


async def _whole(receive: Receive) -> list[Message]:
    """The request's messages up to the end of its body."""
    messages = [await receive()]
    while messages[-1].get("more_body", False):
        messages.append(await receive())
    return messages


async def _serve(app: ASGIApp, listening: socket.socket, when_ready: Callable[[], None]) -> None:
    import uvicorn

    config = uvicorn.Config(
        app, log_config=None, access_log=False, lifespan="on", timeout_graceful_shutdown=2
    )
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    while not server.started and not serving.done():
        await asyncio.sleep(0.005)
    if not server.started:
        await serving
        raise RuntimeError("Prefect's application refused to start; the lines above say why")
    _collect_beside_the_loop()
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    when_ready()
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    await _settle(server)
    server.should_exit = True
    await serving


def _collect_beside_the_loop() -> None:
    """Collect garbage in a thread of its own; `main` has switched off that Python does it wherever memory is asked for.

    On the event loop's thread it stopped the server for 60 s: to free a forgotten cursor SQLite waits for the cursor's connection,
    that connection may be waiting for another one's transaction, and the transaction ends only if the event loop runs.
    """

    def collect() -> None:
        for time_number in itertools.count(1):
            time.sleep(_COLLECT_S)
            # Most garbage is young. To look at all objects each time took a fifth of the CPU of a server behind many gates.
            gc.collect(1 if time_number % _EVERY_OBJECT else 2)

    gc.freeze()
    threading.Thread(target=collect, daemon=True).start()


async def _settle(server: Server) -> None:
    """Wait until each received event is written: a shutdown drops what Prefect's queue in memory holds."""
    from prefect.server.utilities.messaging.memory import METRICS

    deadline = time.monotonic() + _SETTLE_S
    while time.monotonic() < deadline:
        counts = METRICS["events"]
        if not server.server_state.tasks and counts["published"] == counts["consumed"]:
            return
        await asyncio.sleep(0.01)


def _say(options: argparse.Namespace, line: str) -> None:
    with contextlib.suppress(BrokenPipeError):  # the parent gave up waiting; it will end us
        os.write(options.ready_fd, f"{line}\n".encode())


def _is_full(error: BaseException | None) -> bool:
    """Whether no space was left, as the error or one of its causes says."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            return True
        if isinstance(error, sqlite3.Error) and error.sqlite_errorcode == sqlite3.SQLITE_FULL:
            return True
        error = getattr(error, "orig", None) or error.__cause__ or error.__context__  # `orig`: of SQLAlchemy
    return False


def _options(arguments: list[str]) -> argparse.Namespace:
    """What the parent passes: two inherited descriptors, its process id and two files. No secrets."""
    parser = argparse.ArgumentParser(prog="tasks.orchestration.server.process")
    for name in ("listen-fd", "ready-fd", "parent"):
        parser.add_argument(f"--{name}", type=int, required=True)
    for name in ("database", "template"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
