"""What the kernel says of interfaces, and /proc/net/dev."""

from __future__ import annotations

import struct
import subprocess
import sys
from pathlib import Path

import pytest

from checks.check import CheckError
from checks.probes.network import counters as interfaces
from checks.probes.network.counters import chosen, parse_dev
from tests.survival.faulty_network import add_address, needs_root, network

ROOT = Path(__file__).parents[4]


def test_the_loopback_interface_bears_every_address_of_its_net() -> None:
    """Rosters of one machine use several of them."""
    assert ["lo", "lo", "lo"] == [interfaces.interface_of(a) for a in ("127.0.0.1", "127.3.2.1", "::1")]


def test_the_loopback_interface_is_compared_only_where_there_is_no_other() -> None:
    """It has no driver with counters, and no cable."""
    assert ["eth0"] == chosen(("lo", "", "eth0"), {"lo": 0, "eth0": 0})
    assert ["lo"] == chosen(("lo", "eth7"), {"lo": 0, "eth0": 0})
    assert [] == chosen(("eth7",), {"lo": 0})


def test_an_address_of_nobody_has_no_interface() -> None:
    """192.0.2.0/24 of the documentation's addresses may be in use: one of another such net."""
    assert "" == interfaces.interface_of("203.0.113.77")


def test_the_loopback_interfaces_mtu_is_read() -> None:
    """By the kernel's call, not from /sys."""
    assert 16384 < interfaces.mtu_of("lo") <= 65536


def test_an_interface_that_is_not_there_is_an_error() -> None:
    """Never a number."""
    with pytest.raises(OSError, match="such device"):
        interfaces.mtu_of("none0")
    with pytest.raises(OSError, match="such device"):
        interfaces.driver_counters("none0")


@needs_root
def test_interface_and_driver_counters_are_those_of_the_own_namespace() -> None:
    """A veth counts what its peer has; each of its addresses leads to it, also under a label."""
    script = (
        "from checks.probes.network import counters as i\n"
        "import sys\n"
        "name, = {i.interface_of(address) for address in sys.argv[1:]}\n"
        "print(name, i.mtu_of(name), 'peer_ifindex' in i.driver_counters(name), i.driver_counters('lo'))\n"
    )
    with network(1) as name:
        from tasks.launchers.local import network as local_network

        address = local_network.find(name, 1).addresses[0]
        for more in (("10.9.8.2/24",), ("10.9.9.2/24", "label", "eth0:1")):
            add_address(f"{name}-0", "eth0", *more)
        addresses = (address, "10.9.8.2", "10.9.9.2")
        argv = ("ip", "netns", "exec", f"{name}-0", sys.executable, "-c", script, *addresses)
        said = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True).stdout

    assert "eth0 1500 True {}\n" == said


def test_a_drivers_counters_are_named_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the kernel's three answers give them."""
    names = [b"tx_timeout", b"bw_in_allowance_exceeded"]

    def answer(name: str, command: bytes) -> bytes:
        kind = struct.unpack_from("I", command)[0]
        if kind == interfaces.ETHTOOL_GDRVINFO:
            at = interfaces.N_STATS_AT
            return command[:at] + struct.pack("I", 2) + command[at + 4 :]
        if kind == interfaces.ETHTOOL_GSTRINGS:
            return command[:12] + b"".join(n.ljust(interfaces.GSTRING_BYTES, b"\0") for n in names)
        return command[:8] + struct.pack("2Q", 7, 1 << 40)

    monkeypatch.setattr(interfaces, "_ethtool", answer)

    assert {"tx_timeout": 7, "bw_in_allowance_exceeded": 1 << 40} == interfaces.driver_counters("ens32")


@pytest.mark.parametrize(
    "text", ["", "a\nb\n", "a\nb\n  lo: 1 2 3\n", "a\nb\n lo 1 2\n", f"a\nb\nlo:{' x' * 16}\n"]
)
def test_a_cut_or_garbled_file_is_refused(text: str) -> None:
    """Nothing, headers alone, a short line, no colon, no numbers."""
    with pytest.raises(CheckError):
        parse_dev(text)
