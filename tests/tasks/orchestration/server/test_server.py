"""The embedded Prefect server: ready, private, gone afterwards; what it recorded is there the next time."""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from unittest.mock import Mock

import pytest

from checks.process.tree import alive, start_ticks
from tasks.orchestration.server import server
from tasks.orchestration.server.server import (
    EmbeddedServer,
    ServerFailed,
    StateFull,
    StateUnusable,
    embedded_server,
)
from tests.waiting import until

ROOT = Path(__file__).resolve().parents[4]

# A whole gate's worth of Prefect in a process of its own: argv is the state folder and the template folder.
GATE = """
import asyncio, os, sys
from pathlib import Path
from tasks.orchestration.server.server import EmbeddedServer
server = EmbeddedServer(Path(sys.argv[1]), Path(sys.argv[2]))
server.start()
os.environ.update(server.client_environment())
from prefect import flow, task
from prefect.artifacts import acreate_markdown_artifact
from prefect.states import Failed
server.wait_ready()

@task
async def check(node: int) -> int:
    return node

@flow(name="gate", flow_run_name="gate local: 2 nodes, quick")
async def gate():
    for node in range(3):
        await check(node)
    await acreate_markdown_artifact("FAIL: node-1", key="verdict")
    {body}

try:
    asyncio.run(gate(return_state=True))
finally:
    server.stop()
"""
REFUSED = """return Failed(name="Refused", message="node-1 is slow")"""


def _gate(state_dir: Path, template_dir: Path, body: str = REFUSED) -> tuple[str, ...]:
    return (sys.executable, "-c", GATE.replace("{body}", body), str(state_dir), str(template_dir))


def _clean_environment(**changed: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    return {**kept, "PYTHONPATH": str(ROOT), **changed}


def _ask(server: EmbeddedServer, path: str, auth: str | None = None) -> object:
    """POST an empty filter to the server's API and return what it answers."""
    told = server.client_environment({})["PREFECT_API_AUTH_STRING"] if auth is None else auth
    basic = f"Basic {base64.b64encode(told.encode()).decode()}"
    headers = {"Content-Type": "application/json", "Authorization": basic}
    request = urllib.request.Request(f"{server.url}/{path}", b"{}", headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def _rows(server: EmbeddedServer, path: str, field: str) -> list[str]:
    answer = _ask(server, path)
    assert isinstance(answer, list)
    return sorted(row[field] for row in answer)


@pytest.mark.long
def test_two_gates_at_once_share_a_folder(tmp_path: Path, template_dir: Path) -> None:
    """Each has a server of its own on one database; neither fails, and no run, task or artifact of either is lost."""
    gates = [subprocess.Popen(_gate(tmp_path, template_dir), env=_clean_environment()) for _ in range(2)]

    assert [gate.wait(100) for gate in gates] == [0, 0]
    with embedded_server(tmp_path, template_dir) as server:
        assert _rows(server, "flow_runs/filter", "name") == ["gate local: 2 nodes, quick"] * 2
        assert _rows(server, "flow_runs/filter", "state_name") == ["Refused"] * 2
        assert _rows(server, "task_runs/filter", "state_name") == ["Completed"] * 6
        assert _rows(server, "artifacts/filter", "key") == ["verdict"] * 2


AUDIT = """
import os, sys

def _far(host):
    host = host.decode() if isinstance(host, bytes) else host
    return host not in (None, "", "localhost", "::1") and not str(host).startswith("127.")

def _record(event, arguments):
    if event in ("socket.connect", "socket.sendto"):
        address = arguments[1]
        far = isinstance(address, tuple) and _far(address[0])
    elif event in ("socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr"):
        far = _far(arguments[0])
    else:
        return
    kind = "far" if far else "near"
    with open(os.path.join(os.environ["AUDIT_DIR"], f"{os.getpid()}.{kind}"), "a") as file:
        file.write(f"{event} {arguments!r}\\n")

open(os.path.join(os.environ["AUDIT_DIR"], f"{os.getpid()}.near"), "w").close()  # this process is watched
sys.addaudithook(_record)
"""


ONLY_LOOPBACK = ("unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh")


@pytest.mark.root
@pytest.mark.needs("unshare", "ip")
def test_no_outgoing_connection_is_tried_and_none_is_needed(tmp_path: Path, template_dir: Path) -> None:
    """In client and server, every connection and name look-up of a gate stays on loopback, proxy or not.

    It runs where there is no other network. What is tried is recorded before the kernel answers, so nothing is missed by that.
    """
    hook, seen = tmp_path / "hook", tmp_path / "seen"
    hook.mkdir()
    seen.mkdir()
    (hook / "sitecustomize.py").write_text(AUDIT)
    proxy = "http://proxy.example:3128"
    environment = _clean_environment(AUDIT_DIR=str(seen), HTTP_PROXY=proxy, http_proxy=proxy, ALL_PROXY=proxy)
    environment["PYTHONPATH"] = f"{hook}{os.pathsep}{ROOT}"

    gate = (*ONLY_LOOPBACK, *_gate(tmp_path / "state", template_dir))
    subprocess.run(gate, env=environment, check=True)

    tried = {path.name: path.read_text() for path in seen.iterdir()}
    assert {name.rsplit(".", 1)[1] for name in tried} == {"near"}, tried
    assert len(tried) == 2, "the hook must have watched both processes"


def test_strangers_on_the_machine_are_kept_out(prefect_backend: EmbeddedServer) -> None:
    """Loopback is open to every user: without the secret there is no answer, and no command line shows it."""
    secret = prefect_backend.client_environment({})["PREFECT_API_AUTH_STRING"]

    with pytest.raises(urllib.error.HTTPError, match="401") as refused:
        _ask(prefect_backend, "flow_runs/filter", auth="prelaunch:guess")
    refused.value.close()
    assert isinstance(_ask(prefect_backend, "flow_runs/filter"), list)
    assert secret.encode() not in Path(f"/proc/{prefect_backend.pid}/cmdline").read_bytes()


def test_listens_on_loopback_alone_and_ctrl_c_does_not_reach_it(prefect_backend: EmbeddedServer) -> None:
    """No other address of this machine answers. Ctrl-C ends the flow, which must still be able to report how it ended."""
    descriptors = Path(f"/proc/{prefect_backend.pid}/fd")
    sockets = {os.readlink(link) for link in descriptors.iterdir() if link.is_symlink()}
    listening = [
        fields[1].split(":")[0]
        for table in ("tcp", "tcp6")
        for fields in (line.split() for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:])
        if fields[3] == "0A" and f"socket:[{fields[9]}]" in sockets
    ]

    assert listening == ["0100007F"]
    assert prefect_backend.pid is not None and os.getsid(prefect_backend.pid) == prefect_backend.pid


PARENT = """
import sys, time
from pathlib import Path
from tasks.orchestration.server.server import EmbeddedServer
server = EmbeddedServer(Path(sys.argv[1]), Path(sys.argv[2]))
server.start()
if sys.argv[3] != "starting":
    server.wait_ready()
print(server.pid, flush=True)
time.sleep(600)
"""


# A server that is frozen has been ready before, and reacts to less.
@pytest.mark.parametrize("moment", ["starting", "frozen"])
def test_dies_with_its_parent(tmp_path: Path, template_dir: Path, moment: str) -> None:
    """A gate that is killed outright leaves no server, not even one that starts, or is frozen."""
    command = (sys.executable, "-c", PARENT, str(tmp_path), str(template_dir), moment)
    with subprocess.Popen(command, env=_clean_environment(), stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        started = start_ticks(pid)
        if moment == "frozen":
            os.kill(pid, signal.SIGSTOP)
        parent.kill()

    assert started is not None
    until(lambda: not alive(pid, started), f"server {pid} was left behind", 20.0)


def test_a_server_that_is_too_slow_or_frozen_is_ended(
    tmp_path: Path, template_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Waiting has an end; a server that does not react to SIGTERM is killed when the grace is over."""
    server = EmbeddedServer(tmp_path, template_dir)
    monkeypatch.setattr(server, "stop", partial(server.stop, grace_s=0.2))
    server.start()
    pid = server.pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)

    with pytest.raises(ServerFailed, match=r"not ready after 0\.01 s"):
        server.wait_ready(timeout_s=0.01)
    assert not alive(pid, start_ticks(pid)) and server.pid is None


def test_a_server_that_cannot_start_says_why(
    tmp_path: Path, template_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reason reaches the person, and no process is left."""
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "prefect.py").write_text("raise ImportError('prefect is broken here')")
    monkeypatch.setenv("PYTHONPATH", str(broken))
    server = EmbeddedServer(tmp_path, template_dir)
    server.start()
    pid = server.pid

    with pytest.raises(ServerFailed, match=r"prefect is broken here.*server\.log.*PREFECT_API_URL"):
        server.wait_ready()
    assert pid is not None and not alive(pid, start_ticks(pid))


def test_a_folder_that_cannot_be_written_is_refused_at_once(tmp_path: Path) -> None:
    """An unusable folder is named, with a remedy, before any process starts."""
    (tmp_path / "prefect").write_text("a file where the folder should be")
    server = EmbeddedServer(tmp_path)

    with pytest.raises(StateUnusable, match=r"prefect.*Choose a folder"):
        server.start()
    assert server.pid is None


@pytest.mark.root
@pytest.mark.needs("mount", "umount")
def test_a_full_disk_is_said(tmp_path: Path, template_dir: Path) -> None:
    """A disk that is full ends in a reason, not in a hang or a half-made database."""
    subprocess.run(("mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(tmp_path)), check=True)
    try:
        server = EmbeddedServer(tmp_path, template_dir)
        server.start()
        with pytest.raises(StateFull, match=r"is full: .*(disk is full|No space left).*Free space there\."):
            server.wait_ready()
    finally:
        subprocess.run(("umount", str(tmp_path)), check=True)


@pytest.mark.parametrize("error", [StateFull("/tmp is full"), OSError(28, "No space left")])
def test_a_database_that_cannot_be_prepared_ends_no_installation(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: Exception
) -> None:
    """A busy machine, or a full one: it is one line with its consequence, and the first gate starts later."""
    monkeypatch.setattr(server, "embedded_server", Mock(side_effect=error))

    assert 0 == server.main()
    (line,) = capsys.readouterr().err.splitlines()
    assert "the first gate starts some seconds later" in line and str(error) in line


def test_only_the_main_thread_may_start_it(tmp_path: Path) -> None:
    """The kernel would end the server with any other thread: refused rather than lost in mid-flow."""
    with (
        ThreadPoolExecutor(1) as pool,
        pytest.raises(ServerFailed, match=r"must be started from the main thread\.$"),
    ):
        pool.submit(EmbeddedServer(tmp_path).start).result()


@pytest.mark.long
def test_a_dead_server_fails_the_flow_in_time(tmp_path: Path, template_dir: Path) -> None:
    """A server that dies in mid-flow costs seconds, not the minutes of Prefect's patience."""
    kill = "import signal; os.kill(server.pid, signal.SIGKILL)"

    gate = subprocess.run(_gate(tmp_path, template_dir, kill), env=_clean_environment(), capture_output=True)

    assert gate.returncode != 0
