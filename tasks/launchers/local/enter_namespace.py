"""Becomes a command inside a node's namespaces: `enter_namespace.py NAMESPACE NODE HOSTS COMMAND...`

The command gets the node's network, host name and /etc/hosts. /sys stays as it was, cgroups included (`ip netns exec` would hide
them), so /sys/class/net still shows the machine's own interfaces.
"""

from __future__ import annotations

import ctypes
import os
import socket
import sys
from collections.abc import Sequence

CLONE_NEWNS = 0x00020000  # linux/sched.h
CLONE_NEWUTS = 0x04000000
CLONE_NEWNET = 0x40000000
MS_BIND = 0x1000  # linux/mount.h
MS_REC = 0x4000
MS_SLAVE = 0x80000
CANNOT_ENTER = 126


def main(argv: Sequence[str]) -> int:
    """Enter the namespaces and become the command. Returns only if that failed."""
    namespace, node, hosts, *command = argv
    try:
        enter(namespace, node, hosts)
        os.execvp(command[0], command)
    except OSError as error:
        print(f"{node}: {command[0]} cannot start in {namespace}: {error}", file=sys.stderr)
        return CANNOT_ENTER


def enter(namespace: str, node: str, hosts: str) -> None:
    """Move this process there. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open(f"/run/netns/{namespace}", "rb") as file:
        _done(libc.setns(file.fileno(), CLONE_NEWNET), "setns")
    _done(libc.unshare(CLONE_NEWUTS | CLONE_NEWNS), "unshare")
    _done(libc.mount(b"none", b"/", None, ctypes.c_ulong(MS_REC | MS_SLAVE), None), "mount /")
    _done(libc.mount(hosts.encode(), b"/etc/hosts", None, ctypes.c_ulong(MS_BIND), None), "mount /etc/hosts")
    socket.sethostname(node)


def _done(result: int, call: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{call}: {os.strerror(number)}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
