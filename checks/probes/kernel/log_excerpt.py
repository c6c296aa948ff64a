"""How much of a kernel's log a text shows, and what it leaves out (pure).

A log that begins at a start of the kernel shows all that this boot said. One that does not has to go back a day, as far
as the checks look on a node (source.WINDOW_S): from less nobody can tell that nothing happened.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from checks.probes.kernel.log_lines import Line
from checks.probes.kernel.log_source import START, WINDOW_S

# Line's ages are counted from here, both for stamps since boot and since 1970; they cannot be mistaken for each other.
UPTIME_S = 1e10
SINCE_BOOT_S = UPTIME_S / 2
# The kernel's clock stands at 0.000000 until it is set up, shortly after its first lines (kernel/sched/clock.c).
FIRST_S = 1.0
# Processors print at once: their stamps may go back by less than that. Text logs have stamps of whole seconds.
JITTER_S = 1.0


@dataclass
class Shown:
    """What was seen of the kernel's lines; they are handed to `see` in their order, or in any."""

    spoken: bool = False
    started: bool = False
    first_record: int | None = None
    hosts: dict[str, None] = field(default_factory=dict)
    _onward: int = 0
    _back: int = 0
    _out_of_order: int = 0
    _within_a_boot: int = 0
    _last: dict[tuple[str, bool], Line] = field(default_factory=dict)
    _since_boot: tuple[float, float] | None = None
    _since_1970: tuple[float, float] | None = None

    def see(self, lines: Iterable[Line]) -> None:
        """Lines that show by their form that the kernel wrote them."""
        for line in lines:
            self.spoken = True
            if line.host:
                self.hosts[line.host] = None
            self.started |= _begins(line)
            if line.record is not None and self.first_record is None:
                self.first_record = line.record
            self.started |= line.record == 0
            if line.age_s is None:
                continue
            self._step(line, line.age_s)
            if line.age_s > SINCE_BOOT_S:
                self._since_boot = _wider(self._since_boot, line.age_s)
            else:
                self._since_1970 = _wider(self._since_1970, line.age_s)

    def again(self) -> None:
        """What is handed to `see` from here on begins anew: its first line does not follow the last one."""
        self._last.clear()

    def _step(self, line: Line, age_s: float) -> None:
        """Counts how the stamps go from line to line, for each machine and clock by itself."""
        since_boot = age_s > SINCE_BOOT_S
        last = self._last.get((line.host, since_boot))
        self._last[line.host, since_boot] = line
        if last is None or last.age_s is None or last.age_s == age_s:
            return
        if age_s < last.age_s:
            self._onward += 1
            self._within_a_boot += since_boot and not _begins(last)
            return
        self._back += 1
        restarted = _begins(line) or (since_boot and UPTIME_S - age_s <= FIRST_S)
        self._out_of_order += age_s > last.age_s + JITTER_S and not restarted

    @property
    def newest_first(self) -> bool:
        """Whether every stamp is earlier than the one before it, as `journalctl --reverse` prints them."""
        return self._back > 0 and self._onward == 0

    def answers(self, start: Line) -> bool:
        """Whether a start of the kernel may answer what stands above it: the text is in the order of time.

        Stamps that count from the start itself tell no order between boots: the lines of some boot must show it.
        """
        if start.age_s is None or (self._out_of_order and not self.newest_first):
            return False
        return start.age_s <= SINCE_BOOT_S or self._within_a_boot > 0

    @property
    def covers_s(self) -> float | None:
        """Seconds from the earliest to the latest stamp of one clock; None where no line has a time."""
        spans = [span for span in (self._since_boot, self._since_1970) if span]
        return max((oldest - newest for newest, oldest in spans), default=None)

    def left_out(self) -> str:
        """What came before is missing and may matter: "it begins ...", or ""."""
        covers_s = self.covers_s
        if covers_s is None:
            return "no line has a timestamp, so it is unknown how much of the log this is"
        if self._begins_at_boot() or covers_s >= WINDOW_S:
            return ""
        if self.first_record is not None:
            begins = f"the text begins at record {self.first_record}"
        elif self._since_boot and not self._since_1970:
            begins = f"the text begins {UPTIME_S - self._since_boot[1]:.0f} s after the kernel's start"
        else:
            begins = "the text does not begin at a start of the kernel"
        return f"{begins} and covers {covers_s:.0f} s, not the last 24 hours. Earlier lines are missing"

    def _begins_at_boot(self) -> bool:
        return self.started or (
            self.first_record is None
            and self._since_boot is not None
            and UPTIME_S - self._since_boot[1] <= FIRST_S
        )


def _begins(line: Line) -> bool:
    return line.message.startswith(START) and not line.facility


def _wider(span: tuple[float, float] | None, age_s: float) -> tuple[float, float]:
    return (age_s, age_s) if span is None else (min(span[0], age_s), max(span[1], age_s))
