"""fi_pingpong for real over tcp, and what becomes of its processes."""

from __future__ import annotations

import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from checks.check import CheckError, Context
from checks.exchange.exchange import Responder
from checks.model import Observation, Outcome
from checks.probes.efa import libfabric, pingpong
from checks.probes.efa.devices import devices
from checks.process.observe import probe
from checks.process.tool import ToolResult
from checks.roster import Member, Roster
from tests.corpus.case import context
from tests.corpus.efa_cases import listen
from tests.exchanges import access
from tests.fakes.fabric import TABLE, endpoints, install_fabric
from tests.fakes.tools import on_path
from tests.programs import executable

real = pytest.mark.skipif(
    not shutil.which("fi_pingpong"), reason="fi_pingpong is missing (Debian: libfabric-bin)"
)


@pytest.fixture
def pair() -> object:
    """Two nodes' responders on the loopback interface, and their roster."""
    responders = [Responder(access(f"node-{index}"), "") for index in range(2)]
    members = tuple(Member(f"node-{i}", "127.0.0.1", listen(r)) for i, r in enumerate(responders))
    yield Roster(members, 1, "lo")
    for responder in responders:
        responder.close()


def _at(roster: Roster, rank: int, tmp_path: Path) -> Context:
    made = context(pingpong.pingpong, tmp_path, nodes=2, options={"each_s": 100.0, "wait_s": 100.0})
    mine = f"node-{rank}"
    return replace(made, node=mine, node_rank=rank, roster=roster, timeout_s=240.0, access=access(mine))


@real
def test_two_nodes_measure_over_tcp(pair: Roster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Real fi_pingpong in both directions at once; the provider that ran is said."""
    monkeypatch.setenv(libfabric.PROVIDER, "tcp")

    def run(rank: int) -> Observation:
        return probe(pingpong.pingpong, _at(pair, rank, tmp_path), f"node-{rank}")

    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(run, range(2)))

    assert [Outcome.MEASURED] * 2 == [row.outcome for row in found], found
    assert ("node-0 -> node-1 (lo)",) == found[0].metrics["pairs"]
    assert ("node-1 -> node-0 (lo)",) == found[1].metrics["pairs"]
    ran = [(row.metrics["provider"], row.metrics["failures"]) for row in found]
    assert [("tcp", ("ok",))] * 2 == ran


@real
def test_a_client_that_finds_no_server_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """The real client, where nobody listens."""
    with_nobody = Responder(access(), "")
    port = listen(with_nobody)
    with_nobody.close()

    ended = libfabric.client("tcp", "lo", "127.0.0.1", port, 10.0)

    assert (True, None) == (ended.readable, ended.table)
    assert "onnection refused" in ended.failure


@real
def test_a_server_that_waits_is_ended_with_what_it_started() -> None:
    """Nobody came; nothing is left, and it does not take its whole time."""
    server = libfabric.Server("tcp", "lo", 600.0)
    server.open()
    port = server.port

    server.close()

    assert not server.waiting()
    assert not libfabric.listening(port)


def test_a_server_whose_client_vanished_in_the_middle_is_ended(tmp_path: Path) -> None:
    """It would wait for ever: it is found by its mark."""
    install_fabric(tmp_path, endpoints(["rdmap1s0"]), {"rdmap1s0-rdm": "hang"})
    with on_path(tmp_path, alone=True):
        server = libfabric.Server("efa", "rdmap1s0-rdm", 60.0)
        server.open()
        ended = libfabric.client("efa", "rdmap1s0-rdm", "127.0.0.1", server.port, 0.5)
        server.close()

    assert "did not finish within" in ended.failure
    assert not server.waiting()
    assert [] == [pid for pid in os.listdir("/proc") if pid.isdigit() and _marked(pid, server)]


def _marked(pid: str, server: libfabric.Server) -> bool:
    try:
        said = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False
    return f"{libfabric.MARK}={server._mark}".encode() in said


def test_a_server_that_cannot_listen_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is no fault of the fabric."""
    executable(tmp_path / "fi_pingpong", "#!/bin/sh\nsleep 60\n")
    monkeypatch.setattr(libfabric, "LISTEN_S", 0.3)
    server = libfabric.Server("efa", "rdmap1s0-rdm", 60.0)

    with on_path(tmp_path), pytest.raises(CheckError, match="did not start listening"):
        server.open()

    assert not server.waiting()


def _said(**more: object) -> ToolResult:
    plain: dict[str, object] = {"stdout": TABLE, "stderr": "", "code": 0, "seconds": 1.0, "cut": False}
    return ToolResult(("fi_pingpong",), **{**plain, **more})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("said", "failure", "readable"),
    [
        (_said(), "ok", True),
        (_said(stdout=TABLE.replace("2669.83     392.75", "4126.14     254.13")), "ok", True),
        (_said(stderr="libfabric:4126:1764460800::core:core: a warning"), "ok", True),
        (_said(code=1, stderr=""), "exit code 1: it printed nothing", True),
        (_said(code=-11), "exit code -11", True),
        (_said(code=1, stderr="completed with error 4126"), "error 4126, the receiver", True),
        (_said(stdout=""), "no table", False),
        (_said(cut=True), "more than the 1 MiB that is read", False),
    ],
)
def test_how_a_client_ended_is_said(said: ToolResult, failure: str, readable: bool) -> None:
    """A failure of the fabric is told from output that gives no answer; neither is "ok"."""
    ended = libfabric.client_result(said, "efa")

    assert failure in ended.failure
    assert readable is ended.readable
    assert (failure == "ok") is (ended.table is not None)


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"a": 70000}', '{"a": true}', '{"a": "1"}', "nonsense", "1"]
)
def test_a_note_that_is_no_list_of_ports_is_refused(text: str) -> None:
    """What a peer says is not trusted."""
    with pytest.raises(CheckError):
        pingpong.read_ports("node-1", text)


def test_devices_that_appear_late_are_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Right after the boot a p5en may show fewer: it looks again, and says how long it waited."""
    names = [f"rdmap{n}s0" for n in range(16)]
    answers = [endpoints(names[:3]), endpoints(names[:15]), endpoints(names)]
    monkeypatch.setattr("checks.probes.efa.devices.RETRY_S", 0.01)
    monkeypatch.setattr("checks.process.tool.run", lambda argv, timeout_s: _said(stdout=answers.pop(0)))
    monkeypatch.delenv(libfabric.PROVIDER, raising=False)

    found = probe(devices, context(devices, tmp_path, "p5en.48xlarge", options={"settle_s": 5.0}), "node-0")

    assert (16, []) == (found.metrics["rdm_domains"], answers)


def test_sizes_and_rates_are_read_with_their_units() -> None:
    """1m is 2^20 bytes, MB/sec are 10^6 bytes, "=10" is ten of ten."""
    (found,) = libfabric.parse(TABLE)

    assert libfabric.SIZES == tuple(row.size_bytes for row in found.results)
    assert libfabric.PingpongSize(1 << 20, 10, 10, 2.66983, 392.75, 7) == found.results[-1]


def test_two_ranks_have_a_table_each() -> None:
    """Their lines come mixed, each behind its rank."""
    pairs = [f"[rank 0] {line}\n[rank 1] {line}" for line in TABLE.splitlines()]

    assert 2 == len(libfabric.parse("\n".join(pairs)))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("2669.83", "9669.83"),
        ("=10      20m", "11       20m"),
        ("24.65 ", "nan   "),
        ("64k     10", "64k     0 "),
        ("256     10", "32      10"),
    ],
)
def test_a_row_that_contradicts_itself_is_refused(old: str, new: str) -> None:
    """A rate that its time denies, more acknowledged than sent, no number, nothing sent, sizes out of order."""
    assert old in TABLE

    with pytest.raises(CheckError):
        libfabric.parse(TABLE.replace(old, new))
