"""How much of a kernel's log a text shows, and what it leaves out (pure).

A log that begins at a start of the kernel shows all that this boot said. One that does not has to go back a day, as far
as the checks look on a node (source.WINDOW_S): from less nobody can tell that nothing happened.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from checks.kernel.lines import Line
from checks.kernel.source import START, WINDOW_S

# Line's ages are counted from here, both for stamps since boot and since 1970; they cannot be mistaken for each other.
UPTIME_S = 1e10
SINCE_BOOT_S = UPTIME_S / 2
# The kernel's clock stands at 0.000000 until it is set up, shortly after its first lines (kernel/sched/clock.c).
FIRST_S = 1.0


@dataclass
class Shown:
    """What was seen of the kernel's lines; they are handed to `see` in their order, or in any."""

    spoken: bool = False
    started: bool = False
    first_record: int | None = None
    hosts: dict[str, None] = field(default_factory=dict)
    _steps: list[int] = field(default_factory=lambda: [0, 0])
    _last_age_s: float | None = None
    _since_boot: tuple[float, float] | None = None
    _since_1970: tuple[float, float] | None = None

    def see(self, lines: Iterable[Line]) -> None:
        """Lines that show by their form that the kernel wrote them."""
        for line in lines:
            self.spoken = True
            if line.host:
                self.hosts[line.host] = None
            self.started |= line.message.startswith(START) and not line.facility
            if line.record is not None and self.first_record is None:
                self.first_record = line.record
            self.started |= line.record == 0
            if line.age_s is None:
                continue
            self._step(line.age_s)
            if line.age_s > SINCE_BOOT_S:
                self._since_boot = _wider(self._since_boot, line.age_s)
            else:
                self._since_1970 = _wider(self._since_1970, line.age_s)

    def _step(self, age_s: float) -> None:
        last, self._last_age_s = self._last_age_s, age_s
        if last is not None and age_s != last and (age_s > SINCE_BOOT_S) == (last > SINCE_BOOT_S):
            self._steps[age_s > last] += 1

    @property
    def newest_first(self) -> bool:
        """Whether stamps go back from line to line, as `journalctl --reverse` prints them."""
        onward, back = self._steps
        return back > onward

    @property
    def covers_s(self) -> float | None:
        """Seconds from the earliest to the latest stamp of one clock; None where no line has a time."""
        spans = [span for span in (self._since_boot, self._since_1970) if span]
        return max((oldest - newest for newest, oldest in spans), default=None)

    def left_out(self) -> str:
        """What came before is missing and may matter: "it begins ...", or ""."""
        covers_s = self.covers_s
        if covers_s is None:
            return "no line has a time: nobody can tell how much of the log this is"
        if self._begins_at_boot() or covers_s >= WINDOW_S:
            return ""
        if self.first_record is not None:
            begins = f"the text begins at record {self.first_record}"
        elif self._since_boot and not self._since_1970:
            begins = f"the text begins {UPTIME_S - self._since_boot[1]:.0f} s after the kernel's start"
        else:
            begins = "the text does not begin at a start of the kernel"
        return (
            f"{begins} and covers {covers_s:.0f} s of the day that is looked at: what came before is missing"
        )

    def _begins_at_boot(self) -> bool:
        return self.started or (
            self.first_record is None
            and self._since_boot is not None
            and UPTIME_S - self._since_boot[1] <= FIRST_S
        )


def _wider(span: tuple[float, float] | None, age_s: float) -> tuple[float, float]:
    return (age_s, age_s) if span is None else (min(span[0], age_s), max(span[1], age_s))
