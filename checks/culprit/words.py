"""What a header says of the numbers below it: the unit, and whether more or less of it is good (pure)."""

from __future__ import annotations

import re

from checks.culprit.matrix import Better

_RATE = re.compile(
    r"(?<![a-z])(?:[kmgt]i?b(?:its?|ytes?)?/s(?:ec)?|[kmgt]i?bps|[kmgt]bit/s)(?![a-z])", re.IGNORECASE
)
_TIME = re.compile(r"(?<![a-zµμ])(?:us|usec|µs|μs|ms|msec|ns|nsec)(?![a-z])", re.IGNORECASE)
_MORE = re.compile(r"(?<![a-z])(?:bandwidth|bw|busbw|algbw|throughput)(?![a-z])", re.IGNORECASE)
_LESS = re.compile(r"(?<![a-z])(?:latency|latencies|lat|rtt)(?![a-z])", re.IGNORECASE)
SAY = "Say which values are good: --better higher (bandwidth) or --better lower (latency)."


class Unclear(Exception):
    """Nothing says which values are good, or it is contradicted. The message says what to give."""


def unit_of(words: str) -> str:
    """ "GB/s" of "Bandwidth (GB/s)", "gbps" of "bandwidth_gbps"; "" where none is named."""
    found = _RATE.search(words) or _TIME.search(words)
    return found.group() if found else ""


def what_of(words: str) -> str:
    """ "bandwidth", "latency", or "value" where nothing says it."""
    says = says_better(words)
    return {Better.HIGHER: "bandwidth", Better.LOWER: "latency", None: "value"}[says]


def says_better(words: str) -> Better | None:
    """Which values are the good ones, by the header's words; None where they say nothing, or both."""
    more = bool(_MORE.search(words) or _RATE.search(words))
    less = bool(_LESS.search(words) or _TIME.search(words))
    return None if more is less else Better.HIGHER if more else Better.LOWER


def better_of(words: str, asked: Better | None) -> Better:
    """The same, or what was asked for. Raises Unclear; also for an answer that the header contradicts."""
    says = says_better(words)
    if asked is None and says is None:
        both = _MORE.search(words) or _RATE.search(words)
        raise Unclear(
            f"its header names {'bandwidth and latency' if both else 'neither bandwidth nor latency'}. {SAY}"
        )
    if asked is not None and says is not None and asked is not says:
        raise Unclear(
            f"its header says {what_of(words)}, of which the {says.value} values are good: not --better {asked.value}"
        )
    return asked or says or Better.HIGHER
