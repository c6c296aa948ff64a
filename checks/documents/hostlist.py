"""Reads a list of hosts as Slurm writes it, in SLURM_JOB_NODELIST, squeue and topology.conf. Pure.

HostListError      the text is no list of hosts; the message says why
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

MOST_NODES = 100_000


class HostListError(Exception):
    """The text is no list of hosts."""


def expand(text: str) -> list[str]:
    """Slurm's list of hosts as names: "n[0-2,7],m1" is n0, n1, n2, n7, m1; leading zeros stay. Raises HostListError."""
    names: list[str] = []
    for entry in _entries(text):
        pieces: list[Sequence[str]] = []
        rest = entry
        while rest:
            plain, bracket, after = rest.partition("[")
            inside, closed, rest = after.partition("]") if bracket else ("", "", "")
            if bracket and not closed:
                raise HostListError(f"{entry!r:.80} has a bracket without its end")
            pieces += [(plain,), *([_numbers(inside)] if bracket else [])]
        combinations = list(zip(range(MOST_NODES + 1), product(*pieces), strict=False))
        names += ["".join(pieces) for _, pieces in combinations]
        if len(names) > MOST_NODES:
            raise HostListError(f"more than {MOST_NODES} names")
    return names


def _entries(text: str) -> Iterator[str]:
    """The parts between those commas that are not in brackets."""
    depth, entry = 0, ""
    for letter in text:
        depth += (letter == "[") - (letter == "]")
        if depth not in (0, 1):
            raise HostListError(f"brackets do not fit in {text!r:.80}")
        if letter == "," and not depth:
            yield from filter(None, (entry.strip(),))
            entry = ""
        else:
            entry += letter
    yield from filter(None, (entry.strip(),))


def _numbers(text: str) -> list[str]:
    numbers: list[str] = []
    for item in text.split(","):
        first, dash, last = item.partition("-")
        last = last if dash else first
        if not (first.isdecimal() and last.isdecimal() and len(last) < 10 and int(first) <= int(last)):
            raise HostListError(f"[{text:.60}] is no list of numbers")
        if int(last) - int(first) >= MOST_NODES:
            raise HostListError(f"more than {MOST_NODES} names")
        numbers += [f"{value:0{len(first)}d}" for value in range(int(first), int(last) + 1)]
    return numbers
