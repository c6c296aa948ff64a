"""Progress of a gate while it runs: a listener for whoever starts a flow in its own process, and live progress on stderr.

Nobody has to listen. A terminal shows the stage and the nodes with the time that has passed, anew several times a second. Anything
else, such as the log of CI, gets a line when a stage begins and when it ends, and one every 10 s meanwhile; where it waits for
a person or for other runs, one every minute after the first. A long sentence that was said already is cut then.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from tasks.gate.outcome import GateOutcome
from tasks.notifiers.base import AnswerLine
from tasks.reports.node_reports import NodeProgress
from tasks.text.inert import one_line

if TYPE_CHECKING:
    from rich.status import Status
    from rich.text import Text
PLAIN_EVERY_S = 10.0
DETAIL_CHARACTERS, SAID_AGAIN = 300, 60  # characters of a detail, and of one that was said already
LASTING = 1500  # of one that is said once: its end is what to do
TICK_S = 0.5
SHORT_S, MINUTE_S = 120.0, 60.0
STARTING = "start"
SHOWN_NODES = 8
# The end of a stage that was shorter is clear from the next line.
NOTED_S = 1.0


@dataclass(frozen=True)
class Progress:
    """The progress of a stage. `done` of `total` observations or 0 of 0; `detail` is a sentence for people.

    `nodes` are those that report.

    `answered` says who decided what and why where a question of the run has just been answered. A `lasting` detail is no state that
    the next one replaces: it stays on a terminal. An `unended` one is about a job that could not be ended, or machines that are kept.
    While nothing of the run's own goes on it `waits`: for a person, a worker, or another run.
    """

    stage: str
    detail: str
    done: int = 0
    total: int = 0
    answer: AnswerLine | None = None
    lasting: bool = False
    unended: bool = False
    waits: bool = False
    nodes: tuple[NodeProgress, ...] = ()

    @property
    def percent(self) -> float:
        """0 to 100."""
        return 100.0 * min(self.done, self.total) / self.total if self.total else 0.0


class ProgressListener(Protocol):
    """Receives a gate's progress. It is called from the flow's thread and must not block."""

    def progress(self, progress: Progress) -> None:
        """Take the newest progress."""

    def ended(self, outcome: GateOutcome) -> None:
        """Take the outcome; called once, before the flow's final state is set."""


class EndListener:
    """Keeps how a gate ended; its progress is not shown."""

    def __init__(self) -> None:
        self.outcome: GateOutcome | None = None

    def progress(self, progress: Progress) -> None:
        """Show nothing."""

    def ended(self, outcome: GateOutcome) -> None:
        """Keep the outcome."""
        self.outcome = outcome


LISTENER: ContextVar[ProgressListener | None] = ContextVar("prelaunch_listener", default=None)
BOARD: ContextVar[Callable[[Progress], None] | None] = ContextVar("prelaunch_board", default=None)
STAGES: ContextVar[Callable[[Progress], None] | None] = ContextVar("prelaunch_stages", default=None)


def report_progress(progress: Progress) -> None:
    """Hand the progress to the listener, to the gate's messages, and to the log of its run."""
    listener = LISTENER.get()
    if listener is not None:
        listener.progress(progress)
    for also in (BOARD.get(), STAGES.get()):
        if also is not None:
            also(progress)


def report_end(outcome: GateOutcome) -> None:
    """Hand the gate's end to the listener."""
    listener = LISTENER.get()
    if listener is not None:
        listener.ended(outcome)


def write_line(line: str) -> None:
    """Write a line to stderr."""
    print(line, file=sys.stderr, flush=True)


class LiveProgress:
    """Shows progress, and keeps how the flow ended, in `measured` the last progress that counted observations, and in `unended` what
    could not be ended.

    On a terminal it is what `status` draws; each drawing has the present time. Without a terminal `say` gets the lines; the
    `stage` with which it begins has none about its end.
    """

    def __init__(
        self,
        status: Status | None,
        clock: Callable[[], float] = time.monotonic,
        say: Callable[[str], None] = write_line,
        stage: str = STARTING,
    ) -> None:
        self.outcome: GateOutcome | None = None
        self.measured: Progress | None = None
        self.unended: list[str] = []
        self._status, self._clock, self._lock = status, clock, threading.Lock()
        self._write, self._initial = say, stage
        self._now, self._begun = Progress(stage, "Prefect begins the run"), clock()
        self._last_line, self._line_at = "", self._begun
        self._last_detail = self._first = ""

    def progress(self, progress: Progress) -> None:
        """Show it; if the output is no terminal, a line at once for a new stage, and else at the next tick."""
        with self._lock:
            if progress.unended:
                self.unended += [progress.detail] if progress.detail not in self.unended else []
                return
            if progress.lasting:
                self._last(f"{progress.stage}: {one_line(progress.detail, LASTING)}")
                return
            begins = progress.stage != self._now.stage
            if begins:
                self.end_stage()
                self._begun, self._first = self._clock(), progress.detail
            self._now = progress
            if progress.total:
                self.measured = progress
            if self._status is not None:
                self._status.update(self)
            elif begins:
                self._say_now()

    def tick(self) -> None:
        """Be silent for 10 s at most, in a long wait that says nothing new for a minute. A terminal shows the time by itself."""
        with self._lock:
            if self._status is None and self._clock() - self._line_at >= self._every_s():
                self._say_now()

    def ended(self, outcome: GateOutcome) -> None:
        """Keep the outcome for the command line."""
        self.outcome = outcome
        with self._lock:
            self.end_stage()

    def __rich__(self) -> Text:
        """The stage, then the nodes that have most to do."""
        from rich.text import Text

        return Text("\n".join((self._line(), *node_lines(self._now.nodes))))

    def _line(self, most: int = DETAIL_CHARACTERS) -> str:
        took = _time(self._clock() - self._begun)
        return f"{self._now.stage}: {one_line(self._now.detail, most)} ({took})"

    def _every_s(self) -> float:
        unchanged = self._now.waits and self._now.detail == self._last_detail
        return MINUTE_S if unchanged and self._clock() - self._begun >= MINUTE_S else PLAIN_EVERY_S

    def end_stage(self) -> None:
        """Say that the stage has ended, with its last state where that is another than its first."""
        took_s, detail = self._clock() - self._begun, self._now.detail
        if self._status is None and self._now.stage != self._initial and took_s >= NOTED_S:
            last = f": {one_line(detail, DETAIL_CHARACTERS)}" if detail != self._first else ""
            self._say(f"{self._now.stage}: ended after {_time(took_s)}{last}")

    def _last(self, line: str) -> None:
        if self._status is not None:
            self._status.console.print(line, markup=False, highlight=False, soft_wrap=True)
        elif line != self._last_line:
            self._say(line)

    def _say_now(self) -> None:
        self._say(self._line(SAID_AGAIN if self._now.detail == self._last_detail else DETAIL_CHARACTERS))
        self._last_detail = self._now.detail

    def _say(self, line: str) -> None:
        self._last_line, self._line_at = line, self._clock()
        self._write(line)


def measured_text(progress: Progress | None) -> str:
    """What had been measured by the end of a gate without a verdict, as a sentence."""
    if progress is None:
        return "Nothing had been measured by then."
    return f"By then {progress.done} of {progress.total} observations had been made."


def node_lines(nodes: Sequence[NodeProgress]) -> tuple[str, ...]:
    """One line per node that has something to do, those that have most of it first; how many more there are is said."""
    busy = sorted(
        (node for node in nodes if node.doing), key=lambda node: (node.done - node.total, node.name)
    )
    width = max((len(one_line(node.name, 40)) for node in busy[:SHOWN_NODES]), default=0)
    lines = [
        f"  {one_line(node.name, 40):<{width}}  {node.done} of {node.total}, now {one_line(node.doing, 80)}"
        for node in busy[:SHOWN_NODES]
    ]
    more = len(busy) - SHOWN_NODES
    return (*lines, f"  and {more} more nodes") if more > 0 else tuple(lines)


def _time(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < SHORT_S else f"{seconds / MINUTE_S:.0f} min"


def _ticking(progress: LiveProgress, over: threading.Event) -> None:
    while not over.wait(TICK_S):
        progress.tick()


@contextlib.contextmanager
def live_progress() -> Iterator[LiveProgress]:
    """Listen for the time of the block."""
    with contextlib.ExitStack() as stack:
        status = None
        if sys.stderr.isatty():
            from rich.console import Console

            status = stack.enter_context(Console(stderr=True).status("starting"))
        progress, over = LiveProgress(status), threading.Event()
        stack.callback(LISTENER.reset, LISTENER.set(progress))
        stack.callback(over.set)
        threading.Thread(target=_ticking, args=(progress, over), name="progress", daemon=True).start()
        yield progress
