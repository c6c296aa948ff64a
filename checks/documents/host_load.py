"""What else used a host's CPUs during one measurement, as an observation records it (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from checks.model import Value

# Judgement: a program that shares its CPUs fairly with one other loses half of them, with four others on two CPUs most;
# 15 % less of a CPU is what healthy machines differ by. While 15 % of the CPU time was left over, nobody was kept waiting
# for long.
BUSY, LEFT_OVER = 0.15, 0.15
# Judgement: a quota that holds back in every fifth period costs more than healthy machines differ by.
HELD_BACK = 0.2
# Judgement: less than this of the host's CPU time explains no slow number; what is smaller is left out of reports.
NOTABLE = 0.05
MOST_CPUS = 1_000_000


@dataclass(frozen=True)
class Contention:
    """The mean over one measurement; shares are of the CPU time of the `cpus` that this process may run on.

    `taken`: used by other processes or taken by the hypervisor (`stolen`, a part of it). `idle`: used by nobody.
    `throttled`: the share of the scheduler's periods in which a CPU quota held this process's cgroup back.
    `pressure`: the share of the time in which some process waited for a CPU (/proc/pressure/cpu), this gate's included.
    `load`: the host's load average over the last minute. `mhz`: the CPUs' mean frequency at the end, None where not shown.
    """

    cpus: int
    load: float
    taken: float
    idle: float
    stolen: float = 0.0
    throttled: float = 0.0
    pressure: float = 0.0
    mhz: float | None = None

    @staticmethod
    def of(metrics: Mapping[str, Value], prefix: str = "") -> Contention | None:
        """What an observation recorded; None without a record. A record without `idle` tells of nobody who waited."""
        names = ("cpus", "load", "taken", "idle", "stolen", "throttled")
        found = ((name, metrics.get(f"{prefix}host_{name}")) for name in names)
        seen = {name: float(value) for name, value in found if isinstance(value, (int, float))}
        if "taken" not in seen:
            return None
        return Contention(
            int(min(seen.get("cpus", 0), MOST_CPUS)),
            seen.get("load", 0.0),
            seen["taken"],
            seen.get("idle", 1.0),
            seen.get("stolen", 0.0),
            seen.get("throttled", 0.0),
        )

    @property
    def held_back(self) -> bool:
        """Whether a CPU quota kept the processes from running: then there was CPU time, and it was not for them."""
        return self.throttled >= HELD_BACK

    @property
    def busy(self) -> bool:
        """Whether other work took so much that what was measured may be slow because of it."""
        return self.taken >= BUSY and self.idle <= LEFT_OVER and not self.held_back

    def words(self, node: str = "node") -> str:
        """For people; "" where there is nothing to say."""
        if self.held_back:
            return f"{node} was throttled by its CPU quota in {self.throttled:.0%} of the scheduler's periods"
        if not self.busy:
            return ""
        stolen = f", of which the hypervisor took {self.stolen:.0%}" if self.stolen >= NOTABLE else ""
        used = f"other work used {self.taken:.0%} of them{stolen}"
        return f"{node} was busy: load {self.load:.3g} on {self.cpus:g} CPUs, {used}"

    def metrics(self) -> dict[str, Value]:
        """What an observation keeps: load, share and frequency always, the rest where there is something to explain."""
        made: dict[str, Value] = {"host_load": round(self.load, 1), "host_taken": round(self.taken, 2)}
        if self.mhz is not None:
            made["host_mhz"] = round(self.mhz)
        if max(self.taken, self.throttled) >= NOTABLE:
            made["host_cpus"] = self.cpus
            for name in ("idle", "stolen", "throttled", "pressure"):
                made[f"host_{name}"] = round(getattr(self, name), 2)
        return made
