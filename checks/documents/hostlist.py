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
    for word in _words(text):
        parts: list[Sequence[str]] = []
        rest = word
        while rest:
            plain, bracket, after = rest.partition("[")
            inside, closed, rest = after.partition("]") if bracket else ("", "", "")
            if bracket and not closed:
                raise HostListError(f"{word!r:.80} has a bracket without its end")
            parts += [(plain,), *([_numbers(inside)] if bracket else [])]
        made = list(zip(range(MOST_NODES + 1), product(*parts), strict=False))
        names += ["".join(parts) for _, parts in made]
        if len(names) > MOST_NODES:
            raise HostListError(f"more than {MOST_NODES} names")
    return names


def _words(text: str) -> Iterator[str]:
    """The parts between those commas that are not in brackets."""
    depth, word = 0, ""
    for letter in text:
        depth += (letter == "[") - (letter == "]")
        if depth not in (0, 1):
            raise HostListError(f"brackets do not fit in {text!r:.80}")
        if letter == "," and not depth:
            yield from filter(None, (word.strip(),))
            word = ""
        else:
            word += letter
    yield from filter(None, (word.strip(),))


def _numbers(text: str) -> list[str]:
    found: list[str] = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        last = last if dash else first
        if not (first.isdecimal() and last.isdecimal() and len(last) < 10 and int(first) <= int(last)):
            raise HostListError(f"[{text:.60}] is no list of numbers")
        if int(last) - int(first) >= MOST_NODES:
            raise HostListError(f"more than {MOST_NODES} names")
        found += [f"{value:0{len(first)}d}" for value in range(int(first), int(last) + 1)]
    return found
