"""network.counters: what the counters of the network interfaces counted while the checks and collectives ran.

Interfaces are listed by system calls, in this process's network namespace (/sys may show another namespace's).
"""

from __future__ import annotations

import array
import fcntl
import ipaddress
import socket
import struct
from collections.abc import Container, Iterable, Mapping
from pathlib import Path

from checks.check import CheckError, Context, Measurement, check, lists
from checks.model import Scope
from checks.probes import growth
from checks.probes.sysfs import text_of

SIOCGIFCONF, SIOCGIFMTU, SIOCETHTOOL = 0x8912, 0x8921, 0x8946  # linux/sockios.h
IFREQ_BYTES, MOST_ADDRESSES = 40, 1 << 14
ETHTOOL_GDRVINFO, ETHTOOL_GSTRINGS, ETHTOOL_GSTATS = 0x3, 0x1B, 0x1D  # linux/ethtool.h
ETH_SS_STATS, GSTRING_BYTES, DRVINFO_BYTES, N_STATS_AT = 1, 32, 196, 180
MOST_STATS = 1 << 16
DEV = Path("/proc/net/dev")
# The columns of /proc/net/dev that stand for trouble, and one of the sent bytes.
COLUMNS = {"rx_errors": 2, "rx_dropped": 3, "tx_errors": 10, "tx_dropped": 11, "sent_bytes": 8}
ERRORS = ("rx_errors", "tx_errors", "rx_dropped", "tx_dropped")
WIDTH = 16
# The ENA driver's counters of packets that EC2 queued or dropped: bw_in, pps ...
ALLOWANCE = "_allowance_exceeded"

Snapshot = Mapping[str, Mapping[str, int]]


def first_look(context: Context) -> Mapping[str, object]:
    """The counters of the interfaces at the start. Raises CheckError."""
    return {"interfaces": {name: dict(values) for name, values in _snapshot(context).items()}}


@check(
    "network.counters",
    Scope.NODE,
    timeout_s=10,
    metrics=("interfaces", *ERRORS, "allowance_counters", "allowance_exceeded", "sent_bytes"),
    events=(*ERRORS, "allowance_exceeded"),
    needs="/proc/net/dev, the driver's counters",
    before=first_look,
    beside_job=True,
    holds=lists("interfaces"),
)
def counters(context: Context) -> Measurement:
    """Compares the network interfaces' error and drop counters with those of the start of the run.

    The interfaces are those that bear this node's address in the roster, of the collectives, and of the default route; the
    loopback interface only if there is no other. One entry an interface, the growth of each. `allowance_counters` is how
    many counters of exceeded allowances the driver has (EC2's ENA; 0 where it is another driver) and `allowance_exceeded`
    the growth of their sum. A counter that went backwards, or that only one of the two looks shows, makes its number null.
    """
    return compared(growth.first_look(context.before, "interfaces"), _snapshot(context))


def compared(before: Mapping[str, object], after: Snapshot) -> Measurement:
    """The growth of every counter (pure)."""
    names = sorted({*before, *after})
    if not names:
        raise CheckError("no interface was compared")
    looks = [growth.Growth(before.get(name), after.get(name, {})) for name in names]
    plain = {key: tuple(delta.total((key,)) for delta in looks) for key in COLUMNS}
    allowances = [tuple(key for key in delta.after if key.endswith(ALLOWANCE)) for delta in looks]
    return Measurement(
        {
            "interfaces": tuple(names),
            **plain,
            "allowance_counters": tuple(len(keys) for keys in allowances),
            "allowance_exceeded": tuple(
                delta.total(keys) for delta, keys in zip(looks, allowances, strict=True)
            ),
        },
        growth.account((), names, looks),
    )


def parse_dev(text: str) -> dict[str, dict[str, int]]:
    """/proc/net/dev: interface -> its counters. Raises CheckError for a line that is cut or garbled."""
    interfaces: dict[str, dict[str, int]] = {}
    for line in text.splitlines()[2:]:
        name, colon, rest = line.partition(":")
        numbers = rest.split()
        if not colon or len(numbers) != WIDTH or not all(number.isdigit() for number in numbers):
            raise CheckError(f"a line of {DEV} is truncated or garbled: {line!r:.120}")
        interfaces[name.strip()] = {key: int(numbers[column]) for key, column in COLUMNS.items()}
    if not interfaces:
        raise CheckError(f"{DEV} lists no interface")
    return interfaces


def _snapshot(context: Context) -> Snapshot:
    try:
        every = parse_dev(DEV.read_text(encoding="ascii", errors="replace"))
        me = context.roster.members[context.node_rank]
        names = chosen((interface_of(me.address), context.roster.interface, *default_interfaces()), every)
        if not names:
            raise CheckError(
                f"no interface has the address {me.address}, is named in the roster, or has a default route"
            )
        return {name: {**every[name], **_allowances(name)} for name in names}
    except OSError as error:
        raise CheckError(f"the interfaces' counters cannot be read: {error}") from error


def chosen(wanted: Iterable[str], every: Container[str]) -> list[str]:
    """The wanted interfaces that there are; the loopback interface only where it is the only one: no cable can fail in it."""
    names = [name for name in dict.fromkeys(wanted) if name in every]
    return [name for name in names if name != "lo"] or names


def _allowances(name: str) -> dict[str, int]:
    return {key: value for key, value in driver_counters(name).items() if key.endswith(ALLOWANCE)}


def mtu_of(name: str) -> int:
    """The interface's MTU in bytes. Raises OSError."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as handle:
        reply = fcntl.ioctl(handle, SIOCGIFMTU, struct.pack("16s24x", name.encode()[:15]))
    return int(struct.unpack_from("i", reply, 16)[0])


def interface_of(address: str) -> str:
    """The interface that bears the address, or ""; every address of 127/8 is the loopback interface's."""
    wanted = ipaddress.ip_address(address.partition("%")[0])
    if wanted.is_loopback:
        return "lo"
    return _by_ipv6(wanted.packed.hex()) if wanted.version == 6 else _by_ipv4(wanted.packed)


def _by_ipv4(wanted: bytes) -> str:
    """From the kernel's list of all addresses; a label (eth0:1) is not the interface's name."""
    buffer = array.array("B", bytes(IFREQ_BYTES * MOST_ADDRESSES))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as handle:
        answer = fcntl.ioctl(handle, SIOCGIFCONF, struct.pack("iP", len(buffer), buffer.buffer_info()[0]))
    listed = struct.iter_unpack("16s4x4s16x", buffer.tobytes()[: struct.unpack_from("i", answer)[0]])
    label = next((label for label, address in listed if address == wanted), b"")
    return label.rstrip(b"\0").decode("ascii", "replace").partition(":")[0]


def _by_ipv6(wanted: str) -> str:
    """From /proc/net/if_inet6: address, index, prefix length, scope, flags, name."""
    lines = [line.split() for line in text_of(Path("/proc/net/if_inet6")).splitlines()]
    return next((fields[5] for fields in lines if len(fields) == 6 and fields[0] == wanted), "")


def default_interfaces() -> tuple[str, ...]:
    """The interfaces of IPv4's default routes."""
    lines = [line.split() for line in text_of(Path("/proc/net/route")).splitlines()[1:]]
    names = (fields[0] for fields in lines if len(fields) > 7 and fields[1] == fields[7] == "00000000")
    return tuple(dict.fromkeys(names))


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
    request = struct.pack("III", ETHTOOL_GSTRINGS, ETH_SS_STATS, count)
    names = _ethtool(name, request + bytes(count * GSTRING_BYTES))[12:]
    values = _ethtool(name, struct.pack("II", ETHTOOL_GSTATS, count) + bytes(count * 8))[8:]
    labels = [
        names[i * GSTRING_BYTES : (i + 1) * GSTRING_BYTES].split(b"\0")[0].decode("ascii", "replace")
        for i in range(count)
    ]
    return dict(zip(labels, struct.unpack(f"{count}Q", values), strict=True))


def _ethtool(name: str, command: bytes) -> bytes:
    """One ethtool request; the kernel answers in the buffer that the ifreq points to."""
    buffer = array.array("B", command)
    address, _ = buffer.buffer_info()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as handle:
        fcntl.ioctl(handle, SIOCETHTOOL, struct.pack("16sP16x", name.encode()[:15], address))
    return buffer.tobytes()
