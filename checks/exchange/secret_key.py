"""The secret of one gate's exchange between its nodes: where it is stored, and the keys that are derived from it.

KeyUnavailable      there is no secret, or none that can be used, or it cannot be removed; the message has the remedy
"""

from __future__ import annotations

import hmac
import os
import re
import secrets
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

FILE = "exchange.key"
VARIABLE = "PRELAUNCH_EXCHANGE_KEY"
SECRET_BYTES = 32  # as long as the digest (RFC 2104, section 3)
FILE_BYTES = 1 << 10
FORM = re.compile(rb"[0-9a-f]{64}\s*")
BY_HAND = "python3 -c 'import secrets; print(secrets.token_hex(32))' > exchange.key"


class KeyUnavailable(Exception):
    """The secret of the exchange cannot be used. The message says where it was looked for, and the remedy."""


class Service(Enum):
    """The service that communicates: a key of one service cannot be used for another one."""

    CHECKS = "checks"
    AGENT = "agent"
    MPI = "mpi"


@dataclass(frozen=True)
class Access:
    """What one node needs to communicate with its peers: its own name, and the key of one service of one gate."""

    key: bytes = field(repr=False)
    node: str


@dataclass(frozen=True)
class Secret:
    """The 32 random bytes that all nodes of one job share. They are never printed."""

    data: bytes = field(repr=False)

    def access(self, service: Service, gate: str, node: str) -> Access:
        """The key of one service of one gate, for this node."""
        return Access(derived(self.data, f"{service.value} {gate}"), node)


def derived(key: bytes, purpose: str) -> bytes:
    """A key for one purpose. Neither `key` nor a key for another purpose can be computed from it."""
    return hmac.digest(key, f"prelaunch exchange 1: {purpose}".encode(), "sha256")


def make() -> bytes:
    """The content of a new key file: 64 hexadecimal digits and a line end."""
    return secrets.token_hex(SECRET_BYTES).encode() + b"\n"


def parse(data: bytes, source: str) -> Secret:
    """The secret in a key file's content. Raises KeyUnavailable, which never repeats the content."""
    if not FORM.fullmatch(data):
        raise KeyUnavailable(
            f"{source} is not a key of 64 hexadecimal digits. Make one key for all nodes: {BY_HAND}"
        )
    return Secret(bytes.fromhex(data.decode().strip()))


def file_of(bundle: Path) -> Path:
    """Where the key of this bundle's gate is stored: where PRELAUNCH_EXCHANGE_KEY says, else beside the bundle."""
    return Path(os.environ.get(VARIABLE) or bundle.with_name(FILE))


def load(path: Path, nodes: int) -> Secret:
    """The secret in a file. One node speaks with nobody, so a random one will do. Raises KeyUnavailable."""
    if nodes == 1:
        return Secret(secrets.token_bytes(SECRET_BYTES))
    try:
        with open(path, "rb") as file:
            return parse(file.read(FILE_BYTES), str(path))
    except OSError as error:
        raise KeyUnavailable(
            f"the key with which {nodes} nodes communicate cannot be read: {path}: {error.strerror}. A launcher provides it. "
            f"Without a launcher, copy the same key to every node, beside the bundle or to the path in {VARIABLE}: "
            f"{BY_HAND}"
        ) from error


def require_removable(path: Path) -> None:
    """Raise KeyUnavailable where `remove` would fail: better known before the checks than after them."""
    if path.exists() and not os.access(path.parent, os.W_OK | os.X_OK):
        raise KeyUnavailable(
            f"{path} could not be removed before the command starts: {path.parent} cannot be written. Mount it writable, "
            f"or copy the key elsewhere and set its path in {VARIABLE}."
        )


def write(path: Path, data: bytes) -> None:
    """Writes a key file that only its owner may read. Raises OSError, also if there is a file already."""
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "wb") as file:
        file.write(data)


def remove(path: Path) -> None:
    """Removes the key file, if there is one. Raises OSError."""
    path.unlink(missing_ok=True)
