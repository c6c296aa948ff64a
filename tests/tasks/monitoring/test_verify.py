"""Every exporter is UP, DOWN, LACKS something or STALE; whatever answers, it ends in time."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from dataclasses import replace

import pytest

from checks.process.free_ports import free_port
from tasks.monitoring import endpoint
from tasks.monitoring.exporters import Hardware, Job, exporter_of
from tasks.monitoring.targets import Target
from tasks.monitoring.verify import Endpoint, ExporterResult, ExporterState, endpoints, verified
from tests.tasks.monitoring import expositions
from tests.tasks.monitoring.expositions import NOW, page, serving

GPUS = Hardware(8, 32)
STORE_FAMILIES = exporter_of(Job.EXPORTER).families
UP, DOWN, LACKS, STALE = (
    ExporterState.UP,
    ExporterState.DOWN,
    ExporterState.LACKS,
    ExporterState.STALE,
)


def looked_at(
    job: Job,
    answer: bytes | Callable[[socket.socket, threading.Event], None],
    hardware: Hardware = GPUS,
    seconds: float = 5.0,
) -> ExporterResult:
    """The result for one exporter that answers so."""
    with serving(answer) as port:
        one = Endpoint(exporter_of(job), "127.0.0.1", (port,), "n", "c", hardware)
        return verified([one], seconds, clock=lambda: NOW)[0]


@pytest.mark.parametrize(
    ("job", "text"),
    [
        (Job.WATCH, expositions.watch(gpus=8)),
        (Job.NODE, expositions.node()),
        (Job.DCGM, expositions.dcgm()),
        (Job.EFA, expositions.EFA),
        (Job.EXPORTER, expositions.STORE),
        (Job.SLURM, 'slurm_nodes_down{partition="p"} 0\n'),
    ],
)
def test_a_healthy_exporter_is_up(job: Job, text: str) -> None:
    """And nothing else is said of it."""
    found = looked_at(job, page(text))

    assert (UP, "", ()) == (found.state, found.reason, found.lacks)


@pytest.mark.parametrize(
    ("job", "text", "lacks"),
    [
        (Job.WATCH, expositions.watch(), ("prelaunch_found_gpus",)),
        (Job.NODE, "node_uname_info 1\n", ("node_textfile_scrape_error",)),
        (Job.DCGM, expositions.dcgm().replace("ECC_DBE", "ECC_SBE"), ("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL",)),
        (Job.DCGM, expositions.dcgm(7), ("1 of 8 GPUs",)),
        (Job.EFA, expositions.node(), ("node_amazonefa_info",)),
        (Job.SLURM, expositions.node(), ("slurm_*",)),
        (Job.EFA, "", ("node_amazonefa_info",)),
        (Job.EXPORTER, "prelaunch_store_readable 0\n", STORE_FAMILIES[1:]),
    ],
)  # fmt: skip
def test_an_exporter_without_a_family_lacks_it(job: Job, text: str, lacks: tuple[str, ...]) -> None:
    """The families are named, and so are GPUs without values; a page without any series lacks all."""
    found = looked_at(job, page(text))

    assert (LACKS, lacks) == (found.state, found.lacks)


@pytest.mark.parametrize(
    ("job", "text"),
    [
        (Job.WATCH, expositions.watch(NOW - 200, gpus=8)),
        (Job.WATCH, expositions.watch(NOW + 4000, gpus=8)),
        (Job.WATCH, expositions.watch(float("nan"), gpus=8)),
        (Job.NODE, expositions.node(NOW - 3 * 3600)),
        (Job.NODE, expositions.node().replace("error 0", "error 1")),
        (Job.DCGM, expositions.dcgm().replace(" 40\n", f" 40 {(NOW - 600) * 1000:.0f}\n")),
        (Job.EXPORTER, expositions.STORE.replace("readable 1", "readable 0")),
    ],
)
def test_old_values_are_stale(job: Job, text: str) -> None:
    """A round long ago, one in the future, a file that nobody writes any more, samples with an old time, a store that is not read."""
    found = looked_at(job, page(text))

    assert STALE is found.state and found.reason


def endless(client: socket.socket, over: threading.Event) -> None:
    """Samples without an end."""
    client.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n")
    while not over.is_set():
        client.sendall(b"a 1\n" * 4096)


def trickle(client: socket.socket, over: threading.Event) -> None:
    """A byte now and then, for ten minutes."""
    client.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 6000\r\n\r\n")
    for _ in range(6000):
        client.sendall(b"a")
        if over.wait(0.1):
            return


def slow_headers(client: socket.socket, over: threading.Event) -> None:
    """A header that never ends."""
    client.sendall(b"HTTP/1.1 200 OK\r\nX: ")
    while not over.wait(0.1):
        client.sendall(b"a")


def silent(client: socket.socket, over: threading.Event) -> None:
    """Takes the connection, and says nothing."""
    over.wait()


HOSTILE: dict[str, bytes | Callable[[socket.socket, threading.Event], None]] = {
    "HTML": page("<html>metrics</html>", "text/html"),
    "HTML as text": page("<html>metrics</html>"),
    "valid samples as HTML": page(expositions.dcgm(), "text/html"),
    "a page in another state": page(expositions.dcgm(), status="503 Unavailable"),
    "a redirect": b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/metrics\r\nContent-Length: 0\r\n\r\n",
    "not complete": page(expositions.dcgm(), length=10**6),
    "not UTF-8": page(b'a{x="\xff"} 1\n'),
    "no HTTP": b"SSH-2.0-OpenSSH_9.2\r\n",
    "nothing": b"",
    "endless": endless,
    "trickle": trickle,
    "slow headers": slow_headers,
    "silent": silent,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_endpoint_is_down_and_holds_nobody(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them answers something; none of it is metrics."""
    monkeypatch.setattr(endpoint, "BODY_BYTES", 1 << 20)
    found = looked_at(Job.DCGM, HOSTILE[name], seconds=1.0)

    assert DOWN is found.state and found.reason


def test_nobody_there_is_down() -> None:
    """A port on which nothing listens, and a name that nothing resolves."""
    one = Endpoint(exporter_of(Job.EFA), "127.0.0.1", (free_port(),), "n")
    two = replace(one, host="no-such-host.invalid")

    assert [DOWN, DOWN] == [found.state for found in verified([one, two], 3.0)]


def test_the_ports_are_tried_in_order() -> None:
    """The node exporter on 9100 is not taken for the EFA exporter that stands on the other port."""
    with serving(page(expositions.node())) as plain, serving(page(expositions.EFA)) as efa:
        both = Endpoint(exporter_of(Job.EFA), "127.0.0.1", (plain, efa), "n")
        wrong = replace(both, ports=(free_port(), plain))

        assert [(UP, f"127.0.0.1:{efa}"), (LACKS, f"127.0.0.1:{plain}")] == [
            (found.state, found.address) for found in verified([both, wrong])
        ]


def test_all_together_end_in_bounded_time() -> None:
    """200 endpoints that say nothing: those that were not asked are DOWN, and say so."""
    with serving(silent) as port:
        one = Endpoint(exporter_of(Job.EFA), "127.0.0.1", (port,), "n")
        found = verified([one] * 200, seconds=0.5, all_s=0.6)

    assert ({DOWN}, {True, False}) == ({one.state for one in found}, {one.asked for one in found})


def test_each_declared_node_has_the_exporters_of_its_parts() -> None:
    """A CPU node has no DCGM and no EFA; what is not known is asked."""

    def jobs(hardware: Hardware) -> list[Job]:
        return [one.exporter.job for one in endpoints([Target("n", "c", "n", "t", hardware)])]

    assert [Job.WATCH, Job.NODE] == jobs(Hardware(0, 0))
    assert [Job.WATCH, Job.NODE, Job.DCGM, Job.EFA] == jobs(Hardware(8, 32)) == jobs(Hardware(None, None))


def test_ports_and_the_exporters_of_a_cluster_are_named_by_hand() -> None:
    """The one of a store and the one of Slurm belong to no node."""
    found = endpoints([Target("n", "c", "n", "t", GPUS)], ["h:1"], ["[fd00::7]:2"], {Job.EFA: 9100})

    assert [
        ("n", (9402,)), ("n", (9100,)), ("n", (9400,)), ("n", (9100,)), ("h", (1,)), ("[fd00::7]", (2,)),
    ] == [(one.host, one.ports) for one in found]  # fmt: skip
