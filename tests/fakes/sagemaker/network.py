"""The addresses of a job's hosts: on this machine's loopback, or in network namespaces of their own (root).

Nothing here has a name on the machine: namespaces live as long as a file descriptor of the server or a process in them does,
so that nothing is left of them, however the server ends. The bridge lies in a namespace of its own; the server listens there as well.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass

from tasks.launchers.local.network import lacks_rights
from tests.fakes.sagemaker.inside import NEWNET, _call

CREDENTIALS = "169.254.170.2"  # where containers on AWS ask for them; SDKs accept it without TLS
SERVER = "10.79.0.1"
MTU = "9001"  # AWS, network MTU of EC2 instances: jumbo frames within a VPC


@dataclass(frozen=True)
class Place:
    """Where a host is: its address, its interface, and the file of its network namespace ("" is the machine's)."""

    address: str
    interface: str = "lo"
    namespace: str = ""


class Loopback:
    """127.x.y.N: x and y follow from the server's port, so that two stand-ins share none."""

    def __init__(self, port: int) -> None:
        self._prefix = f"127.{port >> 8}.{port & 255}"
        self._next = 0

    def places(self, count: int, isolated: bool) -> list[Place]:
        """`isolated`: in a namespace with nothing but loopback, which the job's hosts share (root).

        "Run training in internet-free mode": "limited to the peers of each training container".
        """
        namespace = _path(_new_namespace(_loopback_up)) if isolated and not lacks_rights() else ""
        return [Place(self._address(), "lo", namespace) for _ in range(count)]

    def _address(self) -> str:
        self._next = self._next % 254 + 1
        return f"{self._prefix}.{self._next}"


class Namespaces:
    """10.79.0.0/16 on a bridge; every host has eth0. `listen` is called once, inside the bridge's namespace."""

    def __init__(self, listen: Callable[[], None]) -> None:
        self._ports = 0

        def furnish() -> None:
            _bridge()
            listen()

        self._switch = _new_namespace(furnish)

    def places(self, count: int, isolated: bool) -> list[Place]:
        """`isolated`: on a bridge of their own, where there is no server."""
        switch = _new_namespace(_bridge) if isolated else self._switch
        return [self._place(switch, isolated) for _ in range(count)]

    def _place(self, switch: int, isolated: bool) -> Place:
        self._ports += 1
        number = self._ports
        address = f"10.79.{number // 250 + 1}.{number % 250 + 1}"
        host, port = _new_namespace(_loopback_up), f"v{number}"

        def plug_in() -> None:
            _ip("link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", _path(host))
            _ip("link", "set", port, "mtu", MTU, "master", "br0", "up")

        def attach() -> None:
            _ip("addr", "add", f"{address}/16", "dev", "eth0")
            _ip("link", "set", "eth0", "mtu", MTU, "up")
            if not isolated:
                _ip("route", "add", CREDENTIALS, "dev", "eth0")

        _within(switch, plug_in)
        _within(host, attach)
        return Place(address, "eth0", _path(host))


def close(places: list[Place]) -> None:
    """The job ended: what held its namespaces is closed."""
    for namespace in {place.namespace for place in places if place.namespace}:
        os.close(int(namespace.rpartition("/")[2]))


def _bridge() -> None:
    _loopback_up()
    _ip("link", "add", "br0", "type", "bridge")
    for address in (f"{SERVER}/16", f"{CREDENTIALS}/32"):
        _ip("addr", "add", address, "dev", "br0")
    _ip("link", "set", "br0", "up")


def _loopback_up() -> None:
    _ip("link", "set", "lo", "up")


def _new_namespace(furnish: Callable[[], object]) -> int:
    """A file descriptor that keeps it."""
    made: list[int] = []

    def keep() -> None:
        _call("unshare", NEWNET)
        made.append(os.open("/proc/thread-self/ns/net", os.O_RDONLY))
        furnish()

    _and_back(keep)
    return made[0]


def _within(namespace: int, do: Callable[[], None]) -> None:
    """This thread is in it, and so is what it starts, while `do` runs."""

    def enter() -> None:
        _call("setns", namespace, NEWNET)
        do()

    _and_back(enter)


def _and_back(leave: Callable[[], None]) -> None:
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    try:
        leave()
    finally:
        _call("setns", home, NEWNET)
        os.close(home)


def _path(namespace: int) -> str:
    return f"/proc/{os.getpid()}/fd/{namespace}"


def _ip(*arguments: str) -> None:
    done = subprocess.run(("ip", *arguments), check=False, capture_output=True, text=True)
    if done.returncode:
        raise OSError(done.returncode, f"ip {' '.join(arguments)}: {done.stderr.strip()}")
