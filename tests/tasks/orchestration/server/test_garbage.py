"""Garbage in the embedded server: freeing a cursor waits for its connection, so it must not stop the event loop."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

BUSY_S = 15.0
# One connection holds the write lock, another waits for it, and a forgotten cursor of the second one is garbage.
SERVE = """
import asyncio, gc, os, socket, sys, threading, time, urllib.request
import aiosqlite
from tasks.orchestration.server import process

path, busy_s = sys.argv[1], float(sys.argv[2])
gc.disable()  # as process.main does

async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        while True:
            message = await receive()
            await send({"type": message["type"] + ".complete"})
    holder = await aiosqlite.connect(path, isolation_level=None)
    waiter = await aiosqlite.connect(path, isolation_level=None, timeout=busy_s)
    await holder.execute("PRAGMA journal_mode = WAL")
    await holder.execute("CREATE TABLE a (b)")
    forgotten = [await waiter.execute("VALUES (1), (2)")]
    forgotten.append(forgotten)
    await waiter.execute("PRAGMA synchronous")  # the connection's thread keeps its last result
    await holder.execute("BEGIN IMMEDIATE")
    began = time.monotonic()
    waiting = asyncio.create_task(waiter.execute("BEGIN IMMEDIATE"))
    await asyncio.sleep(0.2)
    del forgotten
    kept = [[] for _ in range(100_000)]  # Python collects garbage on its way, if it may
    await holder.execute("COMMIT")
    try:
        await waiting
    except aiosqlite.OperationalError:
        pass
    took = time.monotonic() - began
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": str(took).encode()})

listening = socket.create_server(("127.0.0.1", 0))

def ask():
    port = listening.getsockname()[1]
    print(urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=60).read().decode(), flush=True)
    os._exit(0)

asyncio.run(process._serve(app, listening, threading.Thread(target=ask).start))
"""
# Garbage of the loop's own thread, young and old, and who freed it.
FREE = """
import gc, threading, time
from tasks.orchestration.server import process

gc.disable()
process._COLLECT_S = 0.05
process._EVERY_OBJECT = 4
freed = []

class Node:
    def __init__(self):
        self.own = self
    def __del__(self):
        freed.append(threading.current_thread() is threading.main_thread())

def wait(count):
    deadline = time.monotonic() + 60
    while len(freed) < count and time.monotonic() < deadline:
        time.sleep(0.01)

process._collect_beside_the_loop()
old = Node()
Node()
wait(1)
young = list(freed)
assert any(one is old for one in gc.get_objects(2)), "it survived a collection"
del old
wait(2)
print(young, freed, gc.isenabled())
"""


def run(script: str, *words: str) -> str:
    """What the script prints."""
    done = subprocess.run((sys.executable, "-c", script, *words), capture_output=True, text=True, check=False)
    assert 0 == done.returncode, done.stderr
    return done.stdout.strip()


def test_a_forgotten_cursor_does_not_stop_the_server(tmp_path: Path) -> None:
    """Requests of three gates that began together hung for 60 s, SQLite's limit: the lock's holder needs the event loop to commit."""
    assert float(run(SERVE, str(tmp_path / "a.sqlite"), str(BUSY_S))) < BUSY_S / 2


def test_garbage_is_freed_all_the_same() -> None:
    """A server may live for days, behind a gate that waits for its training: what became garbage late is freed as well."""
    assert "[False] [False, False] False" == run(FREE)
