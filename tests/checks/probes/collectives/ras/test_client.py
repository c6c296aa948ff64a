"""The client of RAS against a stand-in on loopback, and against what else may be on its port."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable

import pytest

from checks.probes.collectives.ras import client
from checks.probes.collectives.ras.client import EndedError, RasError, Reach, address_of, ask
from tests.fakes.nccl_ras import FakeRas, answering, job_of, serving


def asked(ras: FakeRas, patience_s: float = 5.0) -> client.RasAnswer:
    with serving(ras) as port:
        return ask(("127.0.0.1", port), time.monotonic() + patience_s)


def test_ras_answers_in_json() -> None:
    job = job_of(4)

    assert (Reach.JOB, job.as_json()) == ((found := asked(answering(job))).reach, found.text)


def test_ras_client_reports_nobody_when_no_server_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

    assert Reach.NOBODY is ask(("127.0.0.1", port), time.monotonic() + 5).reach


@pytest.mark.parametrize("json_known", [False, True], ids=["2.26", "2.28.7"])
def test_an_old_nccl_is_not_asked(json_known: bool) -> None:
    """Asking it has ended jobs (NCCL issues 1669, 1718, 1762)."""
    ras = answering(job_of(4))
    ras.format_known, ras.monitor_known = json_known, False

    assert Reach.OLD is asked(ras).reach
    assert 0 == ras.asked
    assert not [said for said in ras.commands if "STATUS" in said]


def test_only_commands_that_change_nothing_are_sent() -> None:
    ras = answering(job_of(4))
    asked(ras)

    assert ["CLIENT PROTOCOL 2", "SET FORMAT json", "MONITOR prelaunch", "STATUS"] == ras.commands


@pytest.mark.parametrize(
    "greeting",
    [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"SERVER PROTOCOL two\n", b"x" * 10_000, b"\xff\xfe\n"],
    ids=["a web server", "no number", "no line", "bytes"],
)
def test_another_program_is_no_job(greeting: bytes) -> None:
    assert Reach.OTHER is asked(FakeRas(lambda form: "", greeting=greeting)).reach


def test_a_program_that_hangs_up_is_no_job() -> None:
    class HangsUp(FakeRas):
        def serve(self, made: socket.socket) -> None:
            return

    assert Reach.OTHER is asked(HangsUp(lambda form: "")).reach


def test_silence_is_no_answer() -> None:
    with pytest.raises(RasError, match="says nothing"):
        asked(FakeRas(lambda form: "", silent=True), 600)


def test_another_process_of_the_job_answers_where_one_is_stopped() -> None:
    """Several listen on one port."""
    ras = answering(job_of(4))
    ras.silent_connections = 2

    assert Reach.JOB is asked(ras).reach


def test_an_answer_that_does_not_end_is_given_up() -> None:
    ras = answering(job_of(4))
    ras.stops = True
    with pytest.raises(RasError, match="in time"):
        asked(ras, 1.0)


def test_an_endless_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "MOST_BYTES", 1 << 20)
    ras = answering(job_of(64))
    ras.endless = True

    with pytest.raises(RasError, match="longer than 1 MiB"):
        asked(ras)


def test_a_connection_that_ends_before_the_answer_is_said() -> None:
    class Ends(FakeRas):
        def _answer(self, made: socket.socket, form: str) -> None:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")

    with pytest.raises(EndedError):
        asked(Ends(lambda form: ""))


@pytest.mark.parametrize(
    ("text", "expected"), [("", ("localhost", 28028)), ("10.0.0.7:28000", ("10.0.0.7", 28000)), ("[::1]:28028", ("::1", 28028))]
)  # fmt: skip
def test_the_address_is_that_of_nccl(text: str, expected: tuple[str, int]) -> None:
    assert expected == address_of(text)


@pytest.mark.parametrize("text", ["10.0.0.7", ":28028", "host:0", "host:65536", "host:x"])
def test_an_address_that_is_none_is_said(text: str) -> None:
    with pytest.raises(RasError, match="NCCL_RAS_ADDR"):
        address_of(text)


def test_a_host_that_does_not_exist_is_said() -> None:
    with pytest.raises(RasError, match="cannot be reached"):
        ask(("a host with spaces", 1), time.monotonic() + 2)


def test_no_time_is_no_answer() -> None:
    clock: Callable[[], float] = lambda: 10.0  # noqa: E731

    with pytest.raises(RasError):
        ask(("127.0.0.1", 1), 10.0, clock=clock)
