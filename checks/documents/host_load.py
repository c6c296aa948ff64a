"""The record in an observation of what else used a host's CPUs during the measurement. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from checks.model import Value

# Judgement: a program that shares its CPUs fairly with one other program loses half of them, with four others on two CPUs most of
# them.
# 15 % less of a CPU is what healthy machines differ by. While 15 % of the CPU time was left over, nobody was kept waiting
# for long.
BUSY, LEFT_OVER = 0.15, 0.15
# Judgement: a quota that throttles in every fifth period costs more than the difference between healthy machines.
HELD_BACK = 0.2
# Judgement: a smaller share of the host's CPU time explains no slow value, and is left out of reports.
NOTABLE = 0.05
MOST_CPUS = 1_000_000


@dataclass(frozen=True)
class Contention:
    """The mean over one measurement. Shares are of the CPU time of the `cpus` that this process may use.

    `taken`: used by other processes or taken by the hypervisor (`stolen`, a part of it). `idle`: unused. `throttled`: the share of
    the scheduler's periods in which a CPU quota throttled this process's cgroup. `pressure`: the share of the time in which some
    process waited for a CPU (/proc/pressure/cpu), including this gate's. `load`: the host's load average over the last minute.
    `mhz`: the CPUs' mean frequency at the end, None if it is not shown.
    """

    cpus: int
    load: float
    used: float
    idle: float
    stolen: float = 0.0
    throttled: float = 0.0
    pressure: float = 0.0
    mhz: float | None = None

    @staticmethod
    def from_metrics(metrics: Mapping[str, Value], prefix: str = "") -> Contention | None:
        """The record of an observation; None if it has none. A record without `idle` gives no evidence that a process waited."""
        names = ("cpus", "load", "taken", "idle", "stolen", "throttled")
        values = ((name, metrics.get(f"{prefix}host_{name}")) for name in names)
        numbers = {name: float(value) for name, value in values if isinstance(value, (int, float))}
        if "taken" not in numbers:
            return None
        return Contention(
            int(min(numbers.get("cpus", 0), MOST_CPUS)),
            numbers.get("load", 0.0),
            numbers["taken"],
            numbers.get("idle", 1.0),
            numbers.get("stolen", 0.0),
            numbers.get("throttled", 0.0),
        )

    @property
    def held_back(self) -> bool:
        """Whether a CPU quota throttled the processes: then CPU time was free, but not for them."""
        return self.throttled >= HELD_BACK

    @property
    def busy(self) -> bool:
        """Whether other work took so much CPU time that the measured value may be slow because of it."""
        return self.used >= BUSY and self.idle <= LEFT_OVER and not self.held_back

    def describe(self, node: str = "node") -> str:
        """The record for people; "" if there is nothing to report."""
        if self.held_back:
            return f"{node} was throttled by its CPU quota in {self.throttled:.0%} of the scheduler's periods"
        if not self.busy:
            return ""
        stolen = f", of which the hypervisor took {self.stolen:.0%}" if self.stolen >= NOTABLE else ""
        used = f"other work used {self.used:.0%} of them{stolen}"
        return f"{node} was busy: load {self.load:.3g} on {self.cpus:g} CPUs, {used}"

    def metrics(self) -> dict[str, Value]:
        """The metrics that an observation keeps: load, share and frequency always, the others if there is something to explain."""
        kept_values: dict[str, Value] = {"host_load": round(self.load, 1), "host_taken": round(self.used, 2)}
        if self.mhz is not None:
            kept_values["host_mhz"] = round(self.mhz)
        if max(self.used, self.throttled) >= NOTABLE:
            kept_values["host_cpus"] = self.cpus
            for name in ("idle", "stolen", "throttled", "pressure"):
                kept_values[f"host_{name}"] = round(getattr(self, name), 2)
        return kept_values
