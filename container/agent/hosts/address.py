"""Resolves names and interfaces to IP addresses. Names of a job that has just started may resolve only after a while."""

from __future__ import annotations

import fcntl
import socket
import struct

SIOCGIFADDR = 0x8915  # linux/sockios.h


def resolve(name: str) -> str:
    """An address of the name, IPv4 before IPv6; "" if there is none now."""
    try:
        addresses = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except OSError:
        return ""
    ordered = sorted(addresses, key=lambda entry: entry[0] != socket.AF_INET)
    return str(ordered[0][4][0]) if ordered else ""


def own(name: str, interface: str, peers: tuple[str, ...] = ()) -> str:
    """The address of this host that its peers use.

    Its name's, but where /etc/hosts says loopback (Debian's 127.0.1.1), the interface's, or the one from which the kernel would
    send to the first peer whose name resolves: a peer would find itself at a loopback address.
    """
    resolved = resolve(name)
    if resolved and not _loopback(resolved):
        return resolved
    attached = of_interface(interface)
    if attached and not _loopback(attached):
        return attached
    sending = next(filter(None, (towards(resolve(peer)) for peer in peers if peer != name)), "")
    return sending or resolved or attached


def towards(other: str) -> str:
    """The address from which this host would send to that one; "" for loopback and for none. Sends nothing."""
    if not other or _loopback(other):
        return ""
    family = socket.AF_INET6 if ":" in other else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((other, 9))
        except OSError:
            return ""
        addresses = str(probe.getsockname()[0])
    return "" if _loopback(addresses) else addresses


def of_interface(interface: str) -> str:
    """The IPv4 address of an interface, "" if it has none."""
    if not interface:
        return ""
    request = struct.pack("256s", interface.encode()[:15])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            answer = fcntl.ioctl(probe.fileno(), SIOCGIFADDR, request)
        except OSError:
            return ""
    return socket.inet_ntoa(answer[20:24])


def _loopback(address: str) -> bool:
    return address.startswith("127.") or address == "::1"
