"""Answers DNS questions about pods with a host name, from the endpoints of the API. It stands in for CoreDNS, and is none.

    dns.py ADDRESS https://API:PORT TOKEN       listens on ADDRESS:53, UDP

A question `node-0.job.default.svc.cluster.local` is answered with the address that the endpoints of Service `job` give for host name
`node-0`; any other name does not exist. Only A records, and only what a stub resolver asks.
"""

from __future__ import annotations

import json
import socket
import ssl
import struct
import sys
import time
import urllib.request
from typing import Any

ZONE = ("svc", "cluster", "local")
FRESH_S = 0.5
A = 1


class Names:
    """Host names of pods, read from the API at most every FRESH_S."""

    def __init__(self, server: str, token: str) -> None:
        self._url, self._token = f"{server}/api/v1/endpoints", token
        self._context = ssl._create_unverified_context()
        self._found: dict[tuple[str, ...], str] = {}
        self._at = 0.0

    def address(self, labels: tuple[str, ...]) -> str:
        """The address of that name, "" for none."""
        if time.monotonic() - self._at > FRESH_S:
            self._found, self._at = dict(self._read()), time.monotonic()
        return self._found.get(labels, "")

    def _read(self) -> list[tuple[tuple[str, ...], str]]:
        request = urllib.request.Request(self._url, headers={"Authorization": f"Bearer {self._token}"})
        try:
            with urllib.request.urlopen(request, timeout=2, context=self._context) as answer:
                items: list[dict[str, Any]] = json.load(answer)["items"]
        except (OSError, ValueError):
            return list(self._found.items())
        made: list[tuple[tuple[str, ...], str]] = []
        for item in items:
            service = (item["metadata"]["name"], item["metadata"]["namespace"], *ZONE)
            for subset in item.get("subsets") or ():
                for row in [*(subset.get("addresses") or ()), *(subset.get("notReadyAddresses") or ())]:
                    if row.get("hostname"):
                        made.append(((row["hostname"], *service), row["ip"]))
        return made


def question(data: bytes) -> tuple[tuple[str, ...], int, int]:
    """The labels of the first question, its type, and where it ends. Raises ValueError."""
    labels, at = [], 12
    while at < len(data) and data[at]:
        size = data[at]
        labels.append(data[at + 1 : at + 1 + size].decode("ascii").lower())
        at += size + 1
    if at + 5 > len(data):
        raise ValueError("cut off")
    return tuple(labels), struct.unpack("!H", data[at + 1 : at + 3])[0], at + 5


def answer(data: bytes, names: Names) -> bytes:
    """The reply to a query: NXDOMAIN for a name that is not known, and no record where only another type is."""
    labels, kind, end = question(data)
    found = names.address(labels)
    records = b""
    if found and kind == A:
        records = b"\xc0\x0c" + struct.pack("!HHIH", A, 1, 1, 4) + socket.inet_aton(found)
    flags = 0x8580 if found else 0x8583
    return data[:2] + struct.pack("!HHHHH", flags, 1, 1 if records else 0, 0, 0) + data[12:end] + records


def main() -> None:
    """Answer for ever."""
    address, server, token = sys.argv[1:4]
    names = Names(server, token)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listener:
        listener.bind((address, 53))
        while True:
            data, asker = listener.recvfrom(4096)
            try:
                listener.sendto(answer(data, names), asker)
            except (ValueError, OSError) as error:
                print(f"no answer: {error}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
