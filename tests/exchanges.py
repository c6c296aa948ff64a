"""Keys of exchanges for tests, of which every node of one gate gets the same, and a responder."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from checks.exchange.exchange import Responder
from checks.exchange.secret_key import Access, Secret, Service
from checks.process.free_ports import free_port
from checks.roster import Member

SECRET = Secret(bytes(range(32)))


def access(node: str = "node-0", gate: str = "corpus", secret: Secret = SECRET) -> Access:
    """What one node of a gate speaks with."""
    return secret.access(Service.CHECKS, gate, node)


@contextmanager
def listening(address: str = "127.0.0.1") -> Iterator[tuple[Responder, Member]]:
    """A responder of node-0, and where it is."""
    responder, port = Responder(access("node-0"), "catalogue"), free_port(address)
    responder.listen(address, port)
    try:
        yield responder, Member("node-0", address, port)
    finally:
        responder.close()
