"""The kernel's log of a machine as the checks see it: its events, how far back it goes, and what a check of it measured. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from checks.check import Body, Check, Measurement, check
from checks.facts.withheld_kernel_log import OWN_SOURCE
from checks.model import Scope, Value
from checks.probes.kernel.log_lines import Event, account, lines_of

KMSG = "/dev/kmsg"


@dataclass(frozen=True)
class Log:
    """The content of a source. `covers_s` says how far back it goes; `records_lost` counts missing records. Events are in order:
    those of `this_boot` or without a time, however old, and those of the last `window_s` seconds before this boot. `own` is False
    if an environment variable put a file in place of this machine's log.
    """

    source: str
    window_s: float
    lines_read: int
    covers_s: float
    records_lost: int
    this_boot: tuple[Event, ...]
    earlier_boot: tuple[Event, ...]
    notes: tuple[str, ...]
    own: bool = True
    newest_age_s: float | None = None

    @property
    def recent(self) -> tuple[Event, ...]:
        """The events of this boot within the window, or without a time."""
        return tuple(event for event in self.this_boot if not is_old(event, self.window_s))

    @property
    def older(self) -> tuple[Event, ...]:
        """The events of this boot before the window."""
        return tuple(event for event in self.this_boot if is_old(event, self.window_s))

    def counted(self, stays_open: Collection[str]) -> list[Event]:
        """The events of this boot that count: those within the window, and older ones of these kinds."""
        return [hit for hit in self.this_boot if hit.metric in stays_open or not is_old(hit, self.window_s)]

    def metrics(self) -> dict[str, Value]:
        """The metrics about the log that every check of it has."""
        return {
            "source": self.source,
            OWN_SOURCE: self.own,
            "lines_read": self.lines_read,
            "window_s": self.window_s,
            "covers_s": self.covers_s,
            "records_lost": self.records_lost,
            "older_events": len(self.older),
        }


def is_old(event: Event, window_s: float) -> bool:
    """Whether the event is known to have happened before the window."""
    return event.line.age_s is not None and event.line.age_s > window_s


def log_check(name: str, metrics: Iterable[str], **more: Any) -> Callable[[Body], Check]:
    """Makes a function a check of the kernel's log."""
    return check(
        name,
        Scope.NODE,
        timeout_s=30,
        metrics=("covers_s", "records_lost", "earlier_boot", *metrics),
        needs=f"{KMSG}, journalctl or a kernel log file",
        closing=True,
        beside_job=True,
        **more,
    )


def measurement(
    log: Log,
    counted: Sequence[Event],
    metrics: Mapping[str, Value],
    lines: Mapping[str, Iterable[Event]],
    earlier: Sequence[Event],
    first: Iterable[str] = (),
    names: dict[str, str] | None = None,
) -> Measurement:
    """What a check of the log measured: how many events of an earlier boot are grave, and for people the events that it counted, those
    of each metric in `lines`, and what it says `first`. `names` are the devices' by address.
    """
    old = sum(is_old(event, log.window_s) for event in counted)
    open_still = (
        f"{old} of them are older than {log.window_s / 3600:.0f} h, but they still count: they require an action, and the log does "
        "not show that it was taken"
    )
    before = f"before this boot:\n{account(log.earlier_boot)}" if log.earlier_boot else ""
    accounts = (open_still if old else "", account(counted, names), before)
    evidence = "\n".join(filter(None, (f"source: {log.source}", *log.notes, *first, *accounts)))
    texts = {metric: lines_of(events) for metric, events in {**lines, "earlier_boot": earlier}.items()}
    cited = {metric: text for metric, text in texts.items() if text}
    return Measurement({**log.metrics(), "earlier_boot": len(earlier), **metrics}, evidence, cited)
