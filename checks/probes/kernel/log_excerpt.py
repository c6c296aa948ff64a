"""How much of a kernel log a text shows, and what is missing. Pure.

A log that begins at a start of the kernel shows everything of this boot. Another one has to go back a day, as far as the checks read
on a node (source.WINDOW_S): a shorter one does not show that nothing happened.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from checks.probes.kernel.log_lines import SINCE_BOOT_S, UPTIME_S, Line
from checks.probes.kernel.log_source import START, WINDOW_S

# The kernel's clock is at 0.000000 until it is set up, shortly after the first lines (kernel/sched/clock.c).
FIRST_S = 1.0
# Processors print at the same time, so timestamps may go back by less than this. Text logs have timestamps of whole seconds.
JITTER_S = 1.0


@dataclass
class LogExcerpt:
    """What was read of the kernel's lines. They are passed to `see` in their order, or in any order."""

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
        """Reads lines that have the form of kernel lines."""
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
        """The lines that are passed to `see` from here on do not follow the last one."""
        self._last.clear()

    def _step(self, line: Line, age_s: float) -> None:
        """Counts how the timestamps change from line to line, for each machine and clock."""
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
        """Whether every timestamp is earlier than the one before it, as `journalctl --reverse` prints them."""
        return self._back > 0 and self._onward == 0

    def answers(self, start: Line) -> bool:
        """Whether a start of the kernel may settle what is above it, because the text is in the order of time.

        Timestamps since boot give no order between boots: the lines of some boot must show it.
        """
        if start.age_s is None or (self._out_of_order and not self.newest_first):
            return False
        return start.age_s <= SINCE_BOOT_S or self._within_a_boot > 0

    @property
    def covers_s(self) -> float | None:
        """The seconds from the earliest to the latest timestamp of one clock; None if no line has a time."""
        spans = [span for span in (self._since_boot, self._since_1970) if span]
        return max((oldest - newest for newest, oldest in spans), default=None)

    def left_out(self) -> str:
        """Why earlier lines are missing that may matter ("it begins ..."), or ""."""
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
