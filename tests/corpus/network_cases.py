"""network.mtu, network.names, network.counters: networks that are well, that are not, and that say nothing."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from checks.exchange.authentication import MAC_BYTES, NONCE_BYTES, OPENING_BYTES, greeting, open_opening
from checks.exchange.exchange import PING_BYTES, Responder
from checks.model import Cause, Level, Observation, Outcome
from checks.probes.network import counters as counters_module
from checks.probes.network import mtu as mtu_module
from checks.probes.network.counters import counters
from checks.probes.network.mtu import PathResult, measurement, mtu
from checks.probes.network.names import names
from checks.process.free_ports import free_port
from checks.roster import Member, Roster
from tests.corpus.case import Observe, Rows, Sort, cases_of, context, observed, observing
from tests.exchanges import access

Answers = Mapping[str, Sequence[str] | int]
HEALTHY, FAULTY, UNMEASURABLE = Sort
CONFIG = Cause.CONFIGURATION
WARN = Level.WARN

# ---------------------------------------------------------------- network.mtu


@contextmanager
def echoing(name: str) -> Iterator[int]:
    """A peer whose responder works; its port."""
    responder = Responder(access(name), "")
    port = free_port("127.0.0.1")
    responder.listen("127.0.0.1", port)
    yield port
    responder.close()


@contextmanager
def behaving(answer: Callable[[socket.socket, str], None], name: str) -> Iterator[int]:
    """A peer that treats each connection so."""
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                link, _ = server.accept()
            except OSError:
                return
            threading.Thread(target=answer, args=(link, name), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    yield int(server.getsockname()[1])
    server.shutdown(socket.SHUT_RDWR)
    server.close()


def swallows_large(link: socket.socket, name: str) -> None:
    """As a path does that drops full-size packets and says nothing: small messages are echoed."""
    with link:
        nonce = bytes(NONCE_BYTES)
        link.sendall(greeting(nonce))
        session = open_opening(access().key, nonce, link.recv(OPENING_BYTES, socket.MSG_WAITALL))
        link.recv(session.length + MAC_BYTES, socket.MSG_WAITALL)
        link.sendall(session.answer(0, json.dumps({"node": name}).encode()))
        while 0 < len(data := link.recv(1 << 20)) <= PING_BYTES:
            link.sendall(data)
        with suppress(ConnectionResetError):
            link.recv(1)  # nothing comes back until the other side gives up


def silent(link: socket.socket, name: str) -> None:
    """Accepts, and never says a word."""
    with link:
        while link.recv(1 << 16):
            pass


def rude(link: socket.socket, name: str) -> None:
    """Answers with something else."""
    with link:
        link.recv(1 << 16)
        link.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")


def closed(name: str) -> Iterator[int]:
    """A port on which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        yield int(probe.getsockname()[1])


def probed(*peers: Callable[[str], AbstractContextManager[int]], info: bytes | None = None) -> Observe:
    """network.mtu towards these peers; `info`: what the kernel says of every connection."""

    def observe(tmp_path: Path) -> Sequence[Observation]:
        with ExitStack() as stack, pytest.MonkeyPatch.context() as patch:
            ports = [stack.enter_context(peer(f"node-{i}")) for i, peer in enumerate(peers, 1)]
            if info is not None:
                patch.setattr(mtu_module, "_info", lambda link: info)
            members = [Member("node-0", "127.0.0.1", 1)]
            members += [Member(f"node-{i}", "127.0.0.1", port) for i, port in enumerate(ports, 1)]
            made = context(mtu, tmp_path, nodes=len(members), options={"stall_s": 0.3})
            return observed(mtu, replace(made, roster=Roster(tuple(members), 1, "lo")))

    return observe


@observing
def found(tmp_path: Path, *nodes: Sequence[PathResult]) -> Rows:
    """The check's own measurement of what each node's probes gave."""
    made = []
    for index, rows in enumerate(nodes):
        metrics = dict(measurement([f"peer-{i}" for i in range(len(rows))], rows).metrics)
        made.append(Observation("network.mtu", f"node-{index}", Outcome.MEASURED, 0.1, metrics))
    return made


_mtu = cases_of("network.mtu", nodes=2)
JUMBO, PLAIN = PathResult("ok", 9001, 9001), PathResult("ok", 1500, 1500)
nobody = contextmanager(closed)


def swallower(name: str) -> AbstractContextManager[int]:
    return behaving(swallows_large, name)


MTU = [
    _mtu(HEALTHY, "two peers", probed(echoing, echoing)),
    _mtu(HEALTHY, "jumbo frames everywhere", found([JUMBO], [JUMBO])),
    _mtu(FAULTY, "large packets vanish", probed(swallower), cause=CONFIG,
        names="loses packets of full size (from node-0 to node-1)"),
    _mtu(FAULTY, "they vanish towards one of two", probed(echoing, swallower), cause=CONFIG,
        names="loses packets of full size (from node-0 to node-2)"),
    _mtu(FAULTY, "the path is narrower", found([PathResult("ok", 9001, 1500)], [JUMBO]), cause=CONFIG, level=WARN,
        names="carries packets that are smaller by 7,501 bytes than the interfaces allow (from node-0 to peer-0)"),
    _mtu(FAULTY, "one node of three with plain frames", found([JUMBO], [PLAIN], [JUMBO]), cause=CONFIG,
        names="interface_mtu_bytes MTU of the interface is 1500, but on 2 of 3 it is 9001"),
    _mtu(FAULTY, "no jumbo frames", found([PLAIN], [PLAIN]), cause=CONFIG, level=WARN,
        names="interface_mtu_bytes has an interface with an MTU of 1,500 bytes"),
    _mtu(UNMEASURABLE, "nobody listens", probed(nobody)),
    _mtu(UNMEASURABLE, "one of two does not listen", probed(echoing, nobody)),
    _mtu(UNMEASURABLE, "a peer that says nothing", probed(lambda name: behaving(silent, name))),
    _mtu(UNMEASURABLE, "a peer that is something else", probed(lambda name: behaving(rude, name))),
    _mtu(UNMEASURABLE, "a kernel without tcp_info", probed(echoing, info=b"\0" * 20 + b"\x40")),
]  # fmt: skip

# ---------------------------------------------------------------- network.names

MEMBERS = (Member("algo-1", "10.0.0.11", 1), Member("algo-2", "10.0.0.12", 1))
GOOD: Answers = {
    "algo-1": ["10.0.0.11"],
    "algo-2": ["10.0.0.12"],
    "10.0.0.11": ["ip-10-0-0-11.internal"],
    "10.0.0.12": ["ip-10-0-0-12.internal"],
    "ip-10-0-0-11.internal": ["10.0.0.11"],
    "ip-10-0-0-12.internal": ["10.0.0.12"],
}


@observing
def resolved(tmp_path: Path, answers: Answers, members: Sequence[Member] = MEMBERS, hangs: str = "") -> Rows:
    """network.names with a resolver that knows this; a number is its error, `hangs` a name that it never answers."""

    def told(name: str) -> list[str]:
        if name == hangs:
            threading.Event().wait(1.2)
        answer = answers.get(name, socket.EAI_NONAME)
        if isinstance(answer, int):
            raise socket.gaierror(answer, "as told")
        return list(answer)

    def forward(name: str, *_: object, **__: object) -> list[tuple[object, ...]]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 0)) for address in told(name)]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket, "getaddrinfo", forward)
        patch.setattr(socket, "getnameinfo", lambda place, _flags: (told(place[0])[0], "0"))
        made = context(names, tmp_path, nodes=len(members), options={"lookup_s": 0.2})
        return observed(names, replace(made, roster=Roster(tuple(members), 1, "")))


_names = cases_of("network.names", cause=CONFIG)
SHARED = (MEMBERS[0], replace(MEMBERS[1], address="10.0.0.11"))
NAMES = [
    _names(HEALTHY, "both ways", resolved(GOOD)),
    _names(FAULTY, "torch's own question about an address is not answered", resolved(GOOD, hangs="::ffff:10.0.0.12"), level=WARN,
        names="mapped_s"),
    _names(HEALTHY, "addresses without names", resolved({k: v for k, v in GOOD.items() if k[0] == "a"})),
    _names(FAULTY, "a name that leads elsewhere", resolved({**GOOD, "algo-2": ["10.0.0.99"]}), names="resolves to 10.0.0.99"),
    _names(FAULTY, "the own name leads to 127.0.1.1", resolved({**GOOD, "algo-1": ["127.0.1.1"]}), names="127.0.1.1"),
    _names(FAULTY, "two members with one address", resolved({**GOOD, "algo-2": ["10.0.0.11"]}, SHARED),
        names="shared_addresses has 2 peers with an address that another one has, too"),
    _names(FAULTY, "a name that does not exist", resolved({**GOOD, "algo-2": socket.EAI_NONAME}), level=WARN,
        names="algo-2 10.0.0.12: the name does not exist"),
    _names(FAULTY, "a stale reverse entry", resolved({**GOOD, "ip-10-0-0-12.internal": ["10.0.0.77"]}), level=WARN,
        names="which resolves to 10.0.0.77"),
    _names(UNMEASURABLE, "the resolver cannot be reached", resolved({**GOOD, "algo-1": socket.EAI_AGAIN})),
    _names(UNMEASURABLE, "the reverse zone cannot be reached", resolved({**GOOD, "10.0.0.12": socket.EAI_FAIL})),
    _names(UNMEASURABLE, "the resolver hangs", resolved(GOOD, hangs="algo-2")),
]  # fmt: skip

# ---------------------------------------------------------------- network.counters

HEAD = """Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
"""
START = {"rx_bytes": 900, "rx_errors": 4, "rx_dropped": 20, "tx_bytes": 800, "tx_errors": 0, "tx_dropped": 0}
ALLOWED = {"bw_in_allowance_exceeded": 70, "pps_allowance_exceeded": 0, "conntrack_allowance_available": 500}


def dev(values: Mapping[str, int], name: str = "ens32") -> str:
    """/proc/net/dev with the loopback interface and this one."""
    v = {**START, **values}
    row = f"{v['rx_bytes']} 9 {v['rx_errors']} {v['rx_dropped']} 0 0 0 0 {v['tx_bytes']} 8 {v['tx_errors']} {v['tx_dropped']} 0 0 0 0"
    return f"{HEAD}    lo: 10 1 0 0 0 0 0 0 10 1 0 0 0 0 0 0\n{name}: {row}\n"


@observing
def counted(
    tmp_path: Path,
    grown: Mapping[str, int] | None = None,
    driver: Mapping[str, int] | None = ALLOWED,
    more: Mapping[str, int] | None = None,
    last: str | None = None,
    looked: bool = True,
    kind: str = "p5.48xlarge",
) -> Rows:
    """network.counters where the interface's and the driver's counters grow meanwhile; `last`: the second text."""
    made = context(counters, tmp_path, kind)
    file = tmp_path / "dev"
    now = dict(driver or {})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(counters_module, "DEV", file)
        patch.setattr(counters_module, "interface_of", lambda address: "ens32")
        patch.setattr(counters_module, "default_interfaces", lambda: ("ens32",))
        patch.setattr(counters_module, "driver_counters", lambda name: dict(now) if name == "ens32" else {})
        made = replace(made, roster=replace(made.roster, interface="ens32"))
        file.write_text(dev({}))
        before = dict(counters.before(made)) if looked and counters.before is not None else None
        after = {key: START[key] + value for key, value in (grown or {}).items()}
        file.write_text(dev(after) if last is None else last)
        now.update({key: now[key] + value for key, value in (more or {}).items()})
        return observed(counters, replace(made, before=before))


_counters = cases_of("network.counters", level=WARN, cause=CONFIG)
COUNTED = [
    _counters(HEALTHY, "nothing but traffic", counted({"rx_bytes": 5000, "tx_bytes": 5000})),
    _counters(HEALTHY, "a few drops, fewer connections left",
        counted({"rx_dropped": 3}, more={"conntrack_allowance_available": -40})),
    _counters(HEALTHY, "no EC2 declared", counted({}, driver={}, kind="cpu"), instance_type="cpu"),
    _counters(FAULTY, "received with errors", counted({"rx_errors": 2}), cause=Cause.HARDWARE,
        names="rx_errors ens32 has 2 errors on reception"),
    _counters(FAULTY, "sent with errors", counted({"tx_errors": 1}), cause=Cause.HARDWARE,
        names="tx_errors ens32 has 1 error on transmission"),
    _counters(FAULTY, "drops", counted({"rx_dropped": 2000}), names="rx_dropped ens32 dropped 2,000 received packets"),
    _counters(FAULTY, "the bandwidth allowance is exceeded", counted({}, more={"bw_in_allowance_exceeded": 9}),
        names="bw_in_allowance_exceeded 70 -> 79"),
    _counters(UNMEASURABLE, "no first look", counted(looked=False)),
    _counters(UNMEASURABLE, "a counter went backwards", counted({"rx_errors": -1})),
    _counters(UNMEASURABLE, "an allowance counter went backwards", counted(more={"bw_in_allowance_exceeded": -70})),
    _counters(UNMEASURABLE, "the interface is gone", counted(last=dev({}, "ens99"))),
    _counters(UNMEASURABLE, "the text is cut", counted(last=dev({})[:-9])),
    _counters(UNMEASURABLE, "the text is empty", counted(last="")),
    _counters(UNMEASURABLE, "another driver on a type with ENA", counted(driver={})),
]  # fmt: skip

CASES = [*MTU, *NAMES, *COUNTED]
