"""What the kernel counts of a host's TCP segments, read from the text of /proc/net/snmp and /proc/net/netstat. Pure.

Both files hold pairs of lines that begin alike: the names, and the values (net/ipv4/proc.c in Linux). They count for the whole network
namespace, since it was created.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address


@dataclass(frozen=True)
class TcpCounters:
    """Segments that were sent again; segments with new data that were sent; and those of the repeated ones of which the receiver said
    that it had them already, so that they had not been lost. None if this kernel has no such counter.
    """

    resent: int | None = None
    data: int | None = None
    needless: int | None = None


# Between nodes without links: nothing was sent over a network, so that nothing of it can be lost.
NOTHING_SENT = TcpCounters(resent=0, data=0, needless=0)


def counted(snmp: str, netstat: str) -> TcpCounters:
    """The counters in the text of both files.

    TCPDSACKRecvSegs counts segments (Linux 5.9); older kernels count the reports only, each of which is about one segment or more.
    """
    extended = _values(netstat, "TcpExt:")
    reports = [extended.get(name) for name in ("TCPDSACKRecv", "TCPDSACKOfoRecv")]
    needless = extended.get("TCPDSACKRecvSegs")
    if needless is None and None not in reports:
        needless = sum(report or 0 for report in reports)
    return TcpCounters(_values(snmp, "Tcp:").get("RetransSegs"), extended.get("TCPOrigDataSent"), needless)


def have_links(addresses: Sequence[str]) -> bool:
    """Whether a network is between nodes with these addresses. There is none where all have loopback addresses: the counters are then
    those of one host with all its programs.
    """
    return not addresses or not all(map(_is_loopback, addresses))


def _is_loopback(address: str) -> bool:
    try:
        return ip_address(address).is_loopback
    except ValueError:  # a host's name
        return False


def _values(text: str, prefix: str) -> Mapping[str, int]:
    lines = [line.split()[1:] for line in text.splitlines() if line.startswith(prefix)]
    if len(lines) != 2 or len(lines[0]) != len(lines[1]):
        return {}
    return {name: int(value) for name, value in zip(*lines, strict=True) if value.isdigit()}
