"""Nodes with a network of their own: namespaces on a bridge that is in a namespace of its own (root only).

A network has a name; its namespaces are NAME-sw (the bridge `br0` with the ports v0, v1, ...) and NAME-0,
NAME-1, ... (each with `eth0` and one address). Nothing of it is in the machine's own namespace, and nothing
is routed out of it. Whoever makes a network removes it: a test may create one, break it, and lend it to a job
through LocalOptions(prepared=NAME).

NetworkError        `ip` refused; the message has its words
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

LOCK = Path("/run/prelaunch-network.lock")
FIRST_HOST = 10
REMOVE_S = 5.0
# CAP_SYS_ADMIN and CAP_NET_ADMIN (linux/capability.h), which the root of most containers lacks.
CAPABILITIES = 1 << 21 | 1 << 12


class NetworkError(Exception):
    """`ip` refused or is missing. The message says what was asked and what it answered."""


@dataclass(frozen=True)
class Network:
    """`addresses` in the order of the nodes, all of `subnet` (its first three octets)."""

    name: str
    subnet: str
    addresses: tuple[str, ...]


def lacks_rights(status: Path = Path("/proc/self/status")) -> str:
    """Why this process may make no namespaces and mounts, or ""."""
    held = re.search(r"^CapEff:\s*(\w+)", status.read_text(), re.MULTILINE)
    if os.geteuid() != 0 or held is None or int(held[1], 16) & CAPABILITIES != CAPABILITIES:
        return "network namespaces need root with CAP_SYS_ADMIN and CAP_NET_ADMIN (a container: --privileged)"
    return ""


def unavailable() -> str:
    """Why this process can make no namespaces, or ""."""
    missing = "the program `ip` is missing (Debian: apt-get install iproute2)"
    return lacks_rights() or ("" if shutil.which("ip") else missing)


def switch(name: str) -> str:
    """The namespace of the bridge."""
    return f"{name}-sw"


def create(name: str, nodes: int, subnet: str) -> Network:
    """Make the network in `subnet`, or else in the first free one of 10.78 to 10.95.

    What bore the name is removed first. Raises NetworkError, leaving nothing.
    """
    remove(name)
    try:
        with open(LOCK, "ab") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            return _build(name, nodes, _free_subnet(subnet))
    except OSError as error:
        raise NetworkError(f"{LOCK}: {error.strerror}") from error
    except NetworkError:
        remove(name)
        raise


def find(name: str, nodes: int) -> Network:
    """A network that is there already. Raises NetworkError if it is not, or has fewer nodes."""
    addresses = tuple(_address(f"{name}-{index}") for index in range(nodes))
    return Network(name, addresses[0].rpartition(".")[0], addresses)


def remove(name: str) -> None:
    """Remove the network and end what still runs in it. Nothing of that name is fine. Raises NetworkError."""
    for namespace in filter(re.compile(rf"{re.escape(name)}-(sw|\d+)").fullmatch, _namespaces()):
        try:
            _empty(namespace)
            _ip("netns", "del", namespace)
        except NetworkError:
            if namespace in _namespaces():  # else another process removed it meanwhile
                raise


def _build(name: str, nodes: int, subnet: str) -> Network:
    bridge = switch(name)
    addresses = tuple(f"{subnet}.{FIRST_HOST + index}" for index in range(nodes))
    _ip("netns", "add", bridge)
    _ip("-n", bridge, "link", "add", "br0", "type", "bridge")
    _ip("-n", bridge, "link", "set", "br0", "up")
    for index, address in enumerate(addresses):
        node, port = f"{name}-{index}", f"v{index}"
        _ip("netns", "add", node)
        _ip("-n", bridge, "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", node)
        _ip("-n", bridge, "link", "set", port, "master", "br0", "up")
        _ip("-n", node, "link", "set", "lo", "up")
        _ip("-n", node, "link", "set", "eth0", "up")
        _ip("-n", node, "addr", "add", f"{address}/24", "dev", "eth0")
    return Network(name, subnet, addresses)


def _free_subnet(wanted: str) -> str:
    # The addresses in use on this machine and by the first node of every network.
    used = _addresses(_ip("-j", "-4", "addr"))
    for namespace in _namespaces():
        if namespace.endswith("-0"):
            used += _addresses_of(namespace)
    for subnet in _candidates(wanted):
        if not any(address.startswith(f"{subnet}.") for address in used):
            return subnet
    raise NetworkError("every subnet of 10.78 to 10.95 is in use. End other jobs first.")


def _candidates(wanted: str) -> Iterator[str]:
    yield wanted
    yield from (f"10.{second}.{third}" for third in range(256) for second in range(78, 96))


def _addresses_of(namespace: str) -> list[str]:
    """The addresses in another's namespace; none if that disappears meanwhile."""
    try:
        return _addresses(_ip("-n", namespace, "-j", "-4", "addr"))
    except NetworkError:
        return []


def _address(namespace: str) -> str:
    addresses = _addresses(_ip("-n", namespace, "-j", "-4", "addr", "show", "dev", "eth0"))
    if not addresses:
        raise NetworkError(f"namespace {namespace} has no address on eth0. Make the network again.")
    return addresses[0]


def _addresses(text: str) -> list[str]:
    return [str(info["local"]) for link in json.loads(text or "[]") for info in link.get("addr_info", ())]


def _namespaces() -> list[str]:
    folder = Path("/run/netns")
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []


def _empty(namespace: str) -> None:
    deadline = time.monotonic() + REMOVE_S
    while pids := _ip("netns", "pids", namespace).split():
        if time.monotonic() > deadline:
            raise NetworkError(f"processes {', '.join(pids)} in {namespace} cannot be ended.")
        _kill(int(pid) for pid in pids)
        time.sleep(0.02)


def _kill(pids: Iterable[int]) -> None:
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def _ip(*arguments: str) -> str:
    try:
        done = subprocess.run(("ip", *arguments), capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NetworkError(f"ip {' '.join(arguments)}: {error}") from error
    if done.returncode != 0:
        message = f"ip {' '.join(arguments)}: {done.stderr.strip() or f'exit code {done.returncode}'}"
        raise NetworkError(message)
    return done.stdout
