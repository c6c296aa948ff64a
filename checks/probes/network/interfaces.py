"""Lists network interfaces by system calls, in this process's network namespace (/sys may show another namespace's)."""

from __future__ import annotations

import array
import contextlib
import fcntl
import ipaddress
import socket
import struct
from pathlib import Path

SIOCGIFADDR, SIOCGIFMTU, SIOCETHTOOL = 0x8915, 0x8921, 0x8946  # linux/sockios.h
ETHTOOL_GDRVINFO, ETHTOOL_GSTRINGS, ETHTOOL_GSTATS = 0x3, 0x1B, 0x1D  # linux/ethtool.h
ETH_SS_STATS, GSTRING_BYTES, DRVINFO_BYTES, N_STATS_AT = 1, 32, 196, 180
MOST_STATS = 1 << 16


def mtu_of(name: str) -> int:
    """The interface's MTU in bytes. Raises OSError."""
    return int(struct.unpack_from("i", _ifreq(SIOCGIFMTU, name), 16)[0])


def interface_of(address: str) -> str:
    """The interface that bears the address, or ""; every address of 127/8 is the loopback interface's."""
    wanted = ipaddress.ip_address(address.partition("%")[0])
    if wanted.is_loopback:
        return "lo"
    if wanted.version == 6:
        return _by_ipv6(wanted.packed.hex())
    for _, name in socket.if_nameindex():
        with contextlib.suppress(OSError):
            if _ifreq(SIOCGIFADDR, name)[20:24] == wanted.packed:
                return name
    return ""


def _by_ipv6(wanted: str) -> str:
    """From /proc/net/if_inet6: address, index, prefix length, scope, flags, name."""
    try:
        rows = [line.split() for line in Path("/proc/net/if_inet6").read_text(encoding="ascii").splitlines()]
    except OSError:
        return ""
    return next((row[5] for row in rows if len(row) == 6 and row[0] == wanted), "")


def default_interfaces() -> tuple[str, ...]:
    """The interfaces of IPv4's default routes."""
    try:
        rows = [line.split() for line in Path("/proc/net/route").read_text(encoding="ascii").splitlines()[1:]]
    except OSError:
        return ()
    return tuple(dict.fromkeys(row[0] for row in rows if len(row) > 7 and row[1] == row[7] == "00000000"))


def driver_counters(name: str) -> dict[str, int]:
    """The driver's own counters, as `ethtool -S` prints them; none if the driver has none. Raises OSError."""
    try:
        info = _ethtool(name, struct.pack("I", ETHTOOL_GDRVINFO).ljust(DRVINFO_BYTES, b"\0"))
    except OSError as error:
        if error.errno in (95, 22):  # EOPNOTSUPP, EINVAL: the interface has no driver that counts, as lo
            return {}
        raise
    count = struct.unpack_from("I", info, N_STATS_AT)[0]
    if not 0 < count <= MOST_STATS:
        return {}
    asked = struct.pack("III", ETHTOOL_GSTRINGS, ETH_SS_STATS, count)
    names = _ethtool(name, asked + bytes(count * GSTRING_BYTES))[12:]
    values = _ethtool(name, struct.pack("II", ETHTOOL_GSTATS, count) + bytes(count * 8))[8:]
    labels = [
        names[i * GSTRING_BYTES : (i + 1) * GSTRING_BYTES].split(b"\0")[0].decode("ascii", "replace")
        for i in range(count)
    ]
    return dict(zip(labels, struct.unpack(f"{count}Q", values), strict=True))


def _ifreq(request: int, name: str) -> bytes:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as handle:
        return fcntl.ioctl(handle, request, struct.pack("16s24x", name.encode()[:15]))


def _ethtool(name: str, command: bytes) -> bytes:
    """One ethtool request; the kernel answers in the buffer that the ifreq points to."""
    buffer = array.array("B", command)
    address, _ = buffer.buffer_info()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as handle:
        fcntl.ioctl(handle, SIOCETHTOOL, struct.pack("16sP16x", name.encode()[:15], address))
    return buffer.tobytes()
