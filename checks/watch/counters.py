"""Numbers that only a watch can count: Xids by code, and the growth of counters from round to round. Pure.

They count since this watch began, as counters of a process do; Prometheus recognises a restart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from checks.model import Observation, Outcome, Value
from checks.probes.kernel.xid_rows import LISTED, NO_AGE, incidents_of

Code = tuple[str, str]
Xid = tuple[str, str, str]
EFA_COUNTERS = ("rx_drops", "error_events", "retransmitted_packets")
# Two clocks that read one line's age differ by less than this.
SAME_S = 1.0


@dataclass
class Totals:
    """The counters of one watch. `xids` is by (GPU, code, what it needs), the others by their labels."""

    xids: Counter[Xid] = field(default_factory=Counter)
    nvlink_recoveries: Counter[str] = field(default_factory=Counter)
    efa_errors: Counter[tuple[str, str]] = field(default_factory=Counter)
    _lines: dict[Code, int] = field(default_factory=dict)
    _last: dict[Code, float] = field(default_factory=dict)

    def add(self, rows: Sequence[Observation], at: float) -> None:
        """Adds one round's observations; `at` is when it ended (Unix time)."""
        for row in rows:
            if row.outcome is not Outcome.MEASURED:
                continue
            if row.check == "kernel.xid":
                self._add_xids(row.metrics, at)
            elif row.check == "gpu.nvlink":
                for gpu, grown in grown_by(row.metrics, "gpus", "link_recoveries"):
                    self.nvlink_recoveries[gpu] += grown
            elif row.check == "efa.counters":
                for name in EFA_COUNTERS:
                    for device, grown in grown_by(row.metrics, "devices", name):
                        self.efa_errors[device, name] += grown

    def _add_xids(self, metrics: Mapping[str, Value], at: float) -> None:
        """Counts the lines that are new, by what they need now. Lines that left the log's window do not count backwards, a newer last
        line is new even if as many old ones have left, and lines that a reset has answered meanwhile are not new.
        """
        count = metrics.get("incidents")
        listed = {**metrics, "incidents": min(count, LISTED) if isinstance(count, int) else count}
        lines: Counter[Code] = Counter()
        last: dict[Code, float] = {}
        needs: dict[Code, str] = {}
        for one in incidents_of({name: value for name, value in listed.items() if value is not None}) or ():
            code = (one.gpu, str(one.code))
            lines[code] += one.count
            needs.setdefault(code, one.need.value)
            if one.age_s != NO_AGE:
                last[code] = max(last.get(code, 0.0), at - one.age_s)
        for code, number in lines.items():
            newer = code in last and last[code] > self._last.get(code, last[code]) + SAME_S
            self.xids[code[0], code[1], needs[code]] += max(number - self._lines.get(code, 0), int(newer))
        self._lines, self._last = dict(lines), {**self._last, **last}


def grown_by(metrics: Mapping[str, Value], labels: str, values: str) -> Iterator[tuple[str, int]]:
    """Each label with its growth; a value that could not be compared counts 0."""
    for label, value in side_by_side(metrics, labels, values):
        yield label, int(value) if value > 0 else 0


def side_by_side(metrics: Mapping[str, Value], labels: str, values: str) -> Iterator[tuple[str, float]]:
    """Each label of an array metric with its value, where there is a number."""
    names, numbers = metrics.get(labels), metrics.get(values)
    if isinstance(names, tuple) and isinstance(numbers, tuple) and len(names) == len(numbers):
        for name, number in zip(names, numbers, strict=True):
            if isinstance(number, (int, float)) and not isinstance(number, bool):
                yield str(name), float(number)
