"""Reads Prometheus' text format, as far as it is needed to tell which families an endpoint has. Pure.

ExpositionError    the text is no exposition, such as a page in HTML
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

LINE = re.compile(
    r"([a-zA-Z_:][a-zA-Z0-9_:]*)"
    r'(?:\{((?:[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\.)*",?[ \t]*)*)\})?'
    r"[ \t]+([-+0-9.eEnNaAiIfF]+)(?:[ \t]+(-?[0-9.]+))?[ \t]*(?:#.*)?"
)
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\.)*)"')
ESCAPE = re.compile(r"\\(.)")
# A store with 10,000 nodes has fewer.
MOST_SAMPLES = 100_000
ESCAPED = {"n": "\n", '"': '"', "\\": "\\"}


class ExpositionError(Exception):
    """A line is no sample, or there are too many. The message says which."""


@dataclass(frozen=True)
class Sample:
    """One sample. `labels` are as they were written; `at_s` is the Unix time that the line carries, None for now."""

    family: str
    labels: str
    value: float
    at_s: float | None

    def label(self, name: str) -> str:
        """The value of a label; "" if the sample has none of that name."""
        for found, value in LABEL.findall(self.labels):
            if found == name:
                return ESCAPE.sub(lambda match: ESCAPED.get(match[1], match[0]), value)
        return ""


def samples(text: str) -> Iterator[Sample]:
    """The samples in their order. Raises ExpositionError for the first line that is neither a sample nor a comment."""
    count = 0
    for number, line in enumerate(text.split("\n"), 1):
        line = line.rstrip("\r")
        if not line.strip() or line.startswith("#"):
            continue
        count += 1
        if count > MOST_SAMPLES:
            raise ExpositionError(f"it serves more than {MOST_SAMPLES} samples")
        found = LINE.fullmatch(line)
        try:
            if found is None:
                raise ValueError
            at = float(found[4]) / 1000 if found[4] else None
            yield Sample(found[1], found[2] or "", float(found[3]), at)
        except ValueError:
            raise ExpositionError(f"line {number} is no sample of a metric: {line[:80]!r}") from None
