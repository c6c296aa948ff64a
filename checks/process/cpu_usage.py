"""What else used a host's CPUs during a measurement: counters before and after it, from /proc and the cgroup.

The CPU time of other processes is the time for which the CPUs that this process may use were busy (/proc/stat), minus the time of
the gate's own processes. These are all processes with this run's mark in their environment, and the first process above them.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from checks.documents.host_load import Contention
from checks.process.cgroup import CgroupError, read_throttling

# Launchers, checks.runner.node_run or torchrun set these: they are the same for all processes of one run on a host.
MARKS = ("PRELAUNCH_ATTEMPT", "TORCHELASTIC_RUN_ID")
MOST_CPUS_ASKED = 8  # how many CPUs are asked for their frequency, because each answer interrupts that CPU
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
# How long a new process may take to run its program, on a busy machine.
BEGUN_S = 2.0


@dataclass(frozen=True)
class Sample:
    """The counters at one moment, in seconds; None if the machine does not show them."""

    at: float
    busy: float
    idle: float
    stolen: float
    cpus: int
    own: float
    waited: float | None
    periods: int | None
    throttled: int | None


class Watch:
    """Measures from its creation on. It reads every process of the host once, which takes a few milliseconds on most hosts."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root
        self._own = _Own(root)
        self._first = self._sample()

    def contention(self) -> Contention | None:
        """The CPU use since the creation; None if the kernel does not show it, or no time has passed."""
        return between(self._first, self._sample(), _load(self._root), _mhz(self._root))

    def _sample(self) -> Sample | None:
        try:
            text = (self._root / "proc/stat").read_text(encoding="ascii")
            cpus, busy, idle, stolen = parse_stat(text, os.sched_getaffinity(0))
            own = self._own.seconds()
        except (OSError, ValueError):
            return None
        try:
            periods, throttled = read_throttling(self._root)
        except CgroupError:
            periods, throttled = None, None
        # The seconds in which some process waited for a CPU: "some avg10=0.0 ... total=MICROSECONDS" (Documentation/accounting/psi).
        waited = _read(
            self._root / "proc/pressure/cpu", lambda text: int(text.split("total=")[1].split()[0]) / 1e6
        )
        return Sample(time.monotonic(), busy, idle, stolen, cpus, own, waited, periods, throttled)


def between(first: Sample | None, last: Sample | None, load: float, mhz: float | None) -> Contention | None:
    """The mean between two samples. Pure."""
    if first is None or last is None or last.at <= first.at or not last.cpus or first.cpus != last.cpus:
        return None
    # The time that has passed by the counters themselves, because the kernel's ticks and our clock differ in short spans.
    whole = sum(getattr(last, name) - getattr(first, name) for name in ("busy", "idle", "stolen"))
    if whole <= 0:
        return None
    stolen = _share(last.stolen - first.stolen, whole)
    others = _share((last.busy - first.busy) - (last.own - first.own), whole)
    return Contention(
        cpus=last.cpus,
        load=load,
        used=min(1.0, others + stolen),
        idle=_share(last.idle - first.idle, whole),
        stolen=stolen,
        throttled=_share(*_grown(first, last)),
        pressure=_share((last.waited or 0.0) - (first.waited or 0.0), last.at - first.at),
        mhz=mhz,
    )


def parse_stat(text: str, mine: set[int]) -> tuple[int, float, float, float]:
    """The number of CPUs of `mine`, and their busy, idle and stolen seconds since boot. Raises ValueError.

    proc(5): user, nice, system, idle, iowait, irq, softirq, steal, and guest times, which user and nice include already.
    """
    cpus, busy, idle, stolen = 0, 0, 0, 0
    for line in text.splitlines():
        name, _, rest = line.partition(" ")
        if name.startswith("cpu") and name[3:].isdigit() and int(name[3:]) in mine:
            ticks = [int(number) for number in rest.split()[:8]]
            ticks += [0] * (8 - len(ticks))
            cpus += 1
            idle += ticks[3] + ticks[4]
            stolen += ticks[7]
            busy += sum(ticks[:3]) + ticks[5] + ticks[6]
    if not cpus:
        raise ValueError("/proc/stat shows none of the CPUs that this process may run on")
    return cpus, busy / TICKS_PER_S, idle / TICKS_PER_S, stolen / TICKS_PER_S


@contextlib.contextmanager
def marked(run: str) -> Iterator[None]:
    """Processes that are started inside of this context have this run's mark, unless a launcher has set one already."""
    if os.environ.get(MARKS[0]):
        yield
        return
    os.environ[MARKS[0]] = run
    try:
        yield
    finally:
        os.environ.pop(MARKS[0], None)


class _Own:
    """The CPU time of this gate's processes on this host, including ended ones for which one of them waited."""

    def __init__(self, root: Path) -> None:
        self._proc = root / "proc"
        self._mine: set[int] = {os.getpid()}
        self._others: set[int] = set()
        self._marks = [f"{name}={os.environ[name]}".encode() for name in MARKS if os.environ.get(name)]
        self._climb()

    def seconds(self) -> float:
        """The sum since each of them started."""
        for name in os.listdir(self._proc):
            if not name.isdigit() or (pid := int(name)) in self._others or pid in self._mine:
                continue
            if self._is_mine(pid):
                self._mine.add(pid)
            elif self._has_begun(pid):
                self._others.add(pid)
        # utime, stime, and the times of ended children for which they waited.
        spent = (fields[11:15] for pid in self._mine if (fields := self._fields(pid)))
        return sum(sum(map(int, times)) for times in spent) / TICKS_PER_S

    def _climb(self) -> None:
        """The processes above this one, up to the first without a mark, which started the run."""
        pid = os.getpid()
        while pid > 1:
            fields = self._fields(pid)
            self._mine.add(pid)
            if not fields or not (pid == os.getpid() or self._is_mine(pid)):
                return
            pid = int(fields[1])

    def _is_mine(self, pid: int) -> bool:
        try:
            environment = (self._proc / str(pid) / "environ").read_bytes().split(b"\0")
        except OSError:  # the process has ended, belongs to the kernel or belongs to another user
            return False
        return any(mark in environment for mark in self._marks)

    def _has_begun(self, pid: int) -> bool:
        """Whether its environment is its own. Until a new process runs its program, it shows none, or that of its parent."""
        fields = self._fields(pid)
        if len(fields) < 20:
            return not fields  # it has ended
        up_s = _read(self._proc / "uptime", lambda text: float(text.split()[0]))
        return up_s is None or up_s - int(fields[19]) / TICKS_PER_S > BEGUN_S

    def _fields(self, pid: int) -> list[bytes]:
        try:
            text = (self._proc / str(pid) / "stat").read_bytes()
        except OSError:
            return []
        return text.rpartition(b")")[2].split()


def _share(amount: float, whole: float) -> float:
    return min(1.0, max(0.0, amount / whole)) if whole > 0 else 0.0


def _grown(first: Sample, last: Sample) -> tuple[int, int]:
    """The number of periods in which the quota throttled this cgroup, and of all periods."""
    if None in (first.periods, last.periods, first.throttled, last.throttled):
        return 0, 0
    return last.throttled - first.throttled, last.periods - first.periods  # type: ignore[operator]


def _read(path: Path, parse: Callable[[str], float]) -> float | None:
    try:
        return parse(path.read_text(encoding="ascii"))
    except (OSError, ValueError, IndexError):
        return None


def _load(root: Path) -> float:
    return _read(root / "proc/loadavg", lambda text: float(text.split()[0])) or 0.0


def _mhz(root: Path) -> float | None:
    """The mean frequency of a few of these CPUs; cpufreq reports kHz."""
    cpus = sorted(os.sched_getaffinity(0))[:MOST_CPUS_ASKED]
    folder = "sys/devices/system/cpu/cpu{}/cpufreq/scaling_cur_freq"
    readings = [_read(root / folder.format(cpu), lambda text: int(text) / 1000) for cpu in cpus]
    frequencies = [mhz for mhz in readings if mhz is not None]
    return sum(frequencies) / len(frequencies) if frequencies else None
