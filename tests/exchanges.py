"""Keys of exchanges for tests: every node of one gate gets the same one."""

from __future__ import annotations

from checks.exchange.secret_key import Access, Secret, Service

SECRET = Secret(bytes(range(32)))


def access(node: str = "node-0", gate: str = "corpus", secret: Secret = SECRET) -> Access:
    """What one node of a gate speaks with."""
    return secret.access(Service.CHECKS, gate, node)
