"""network.mtu: whether packets of full size reach every peer."""

from __future__ import annotations

import ipaddress
import socket
import struct
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from checks.check import CheckError, Context, Measurement
from checks.exchange.authentication import Op
from checks.exchange.exchange import PING_BYTES, ExchangeError, connection
from checks.exchange.secret_key import Access
from checks.model_details import Contents
from checks.probes.network.counters import interface_of, mtu_of
from checks.probes.network.reachability import peers_check
from checks.roster import Member

# struct tcp_info of linux/tcp.h: 8 bytes, then words of 32 bits.
OPTIONS_AT, SEND_MSS_AT, PATH_MTU_AT, INFO_BYTES = 5, 8 + 2 * 4, 8 + 13 * 4, 104
TIMESTAMPS, TIMESTAMP_BYTES = 1, 12
HEADERS = {socket.AF_INET: 40, socket.AF_INET6: 60}
LARGEST = 65535  # of an IP packet; the loopback interface says 65536
WINDOW_BOUND = 16384  # beyond, the peer's window may make segments smaller than the path would carry (tcp_bound_to_half_wnd)
SEGMENTS = 3
SIDE_BY_SIDE = 32


@peers_check(
    "network.mtu",
    ("peers", "failures", "interface_mtu_bytes", "path_mtu_bytes", "full_size_lost", "narrowed_bytes"),
    timeout_s=30,
    holds=lambda basis: (Contents("peers", basis.declared.nodes - 1),),
)
def mtu(context: Context) -> Measurement:
    """Sends full-size packets to each peer, which echoes them, and reads the path MTU that the kernel found.

    One entry a peer: `failures` is "ok" or the reason; `full_size_lost` is 1 where a small message is answered and a
    segment of the greatest size is not within `stall_s`: a path that drops large packets and does not say so, on which a
    collective hangs. `narrowed_bytes` is by how much the path MTU is below that of this node's interface. Numbers are null
    where the peer could not be reached, and the two of the path where the segment was lost.
    """
    members = context.roster.members
    peers = [members[(context.node_rank + step) % len(members)] for step in range(1, len(members))]
    stall_s = context.options.get("stall_s", 2.0)
    deadline = time.monotonic() + context.timeout_s * 0.8
    with ThreadPoolExecutor(min(SIDE_BY_SIDE, len(peers))) as pool:
        results = list(pool.map(lambda peer: _probe(peer, context.access, stall_s, deadline), peers))
    if all(result.interface_mtu is None for result in results):
        raise CheckError(f"no peer could be probed: {results[0].failure}")
    return measurement([peer.name for peer in peers], results)


@dataclass(frozen=True)
class PathResult:
    """What one peer's probe gave; `path_mtu` is None if the full-size segment was lost."""

    failure: str
    interface_mtu: int | None = None
    path_mtu: int | None = None

    @property
    def lost(self) -> int | None:
        """1 where only small messages arrive."""
        return None if self.interface_mtu is None else int(self.path_mtu is None)

    @property
    def narrowed(self) -> int | None:
        """How much smaller the path's packets are than the interface's."""
        if self.interface_mtu is None or self.path_mtu is None:
            return None
        return max(0, min(self.interface_mtu, LARGEST) - self.path_mtu)


def measurement(peers: Sequence[str], results: Sequence[PathResult]) -> Measurement:
    """The probes as metrics (pure)."""
    return Measurement(
        {
            "peers": tuple(peers),
            "failures": tuple(result.failure for result in results),
            "interface_mtu_bytes": min(
                result.interface_mtu for result in results if result.interface_mtu is not None
            ),
            "path_mtu_bytes": tuple(result.path_mtu for result in results),
            "full_size_lost": tuple(result.lost for result in results),
            "narrowed_bytes": tuple(result.narrowed for result in results),
        },
        "\n".join(
            f"{peer}: {result.failure}, interface MTU {result.interface_mtu}, path MTU {result.path_mtu}"
            for peer, result in zip(peers, results, strict=True)
        ),
    )


def sending_mtu(address: str, info: bytes) -> int:
    """The MTU of the interface that bears the connection's own address; or its route's, where that interface sends nothing.

    A host that has its routes by BGP bears its address on the loopback interface. Raises OSError, CheckError.
    """
    name = interface_of(address)
    borne = name and (name != "lo" or ipaddress.ip_address(address).is_loopback)
    return mtu_of(name) if borne else _route_mtu(info)


def _route_mtu(info: bytes) -> int:
    if len(info) < PATH_MTU_AT + 4:
        raise CheckError(f"the kernel's tcp_info has only {len(info)} bytes, so the path MTU is unknown")
    return int(struct.unpack_from("I", info, PATH_MTU_AT)[0])


def path_mtu(info: bytes, family: int) -> int:
    """The path MTU from a connection's tcp_info: its route's, or less where the peer takes only smaller segments."""
    route = _route_mtu(info)
    segment = struct.unpack_from("I", info, SEND_MSS_AT)[0]
    if route > WINDOW_BOUND:
        return int(min(route, LARGEST))
    extra = TIMESTAMP_BYTES if info[OPTIONS_AT] & TIMESTAMPS else 0
    return int(min(route, segment + HEADERS[socket.AddressFamily(family)] + extra, LARGEST))


def _probe(peer: Member, access: Access, stall_s: float, deadline: float) -> PathResult:
    try:
        with connection(peer, access, Op.PING, _left(stall_s, deadline)) as line:
            line.answer()
            link = line.link
            device = sending_mtu(link.getsockname()[0], _info(link))
            if _echoed(link, deadline):
                return PathResult("ok", device, path_mtu(_info(link), link.family))
            # What is still unsent would keep the peer waiting: drop it.
            link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        with connection(peer, access, Op.PING, _left(stall_s, deadline)) as line:
            line.answer()
            line.link.sendall(bytes(PING_BYTES))
            if not line.link.recv(PING_BYTES):
                raise CheckError("the peer closed the connection")
        return PathResult(f"packets of {device} bytes do not arrive, but small ones do", device)
    except (ExchangeError, OSError, CheckError) as error:
        return PathResult(str(error) or type(error).__name__)


def _echoed(link: socket.socket, deadline: float) -> bool:
    """Whether segments of the greatest size come back, one at a time: of several together the hardware makes its own.

    The peer echoes whole messages of PING_BYTES; what is left over comes back with the next segment.
    """
    owed = 0
    for _ in range(SEGMENTS):
        if time.monotonic() > deadline:
            raise CheckError("the check's deadline passed")
        size = struct.unpack_from("I", _info(link), SEND_MSS_AT)[0]
        try:
            link.sendall(bytes(size))
            owed += size
            while owed >= PING_BYTES:
                got = len(link.recv(owed))
                if not got:
                    raise CheckError("the peer closed the connection")
                owed -= got
        except TimeoutError:
            return False
    return True


def _left(stall_s: float, deadline: float) -> float:
    return max(0.1, min(stall_s, deadline - time.monotonic()))


def _info(link: socket.socket) -> bytes:
    return link.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, INFO_BYTES)
