"""The TCP segments that a host sent again, from /proc/net/snmp (pure)."""

from __future__ import annotations

NAME = "RetransSegs"


def resent(text: str) -> int | None:
    """The counter of a network namespace since it began; None where the text has none.

    Two lines begin with "Tcp:", the names and the values (net/ipv4/proc.c in Linux).
    """
    lines = [line.split()[1:] for line in text.splitlines() if line.startswith("Tcp:")]
    if len(lines) != 2 or NAME not in lines[0] or len(lines[0]) != len(lines[1]):
        return None
    value = lines[1][lines[0].index(NAME)]
    return int(value) if value.isdigit() else None
