"""One pair of ranks measures the path between them, over torch.distributed's default group.

Everything uses `batch_isend_irecv`: with NCCL a single isend makes a communicator for its pair, while a batch uses the world's. No
wait has a time-out: in gloo one that expires closes all connections of its process. Therefore a test runs in a thread, which is
abandoned with its buffers if it hangs; its tags are its own, so that what arrives later is never received by another test.

    greeting   both at once; it carries what is known of silent ranks
    pings      the lower rank begins; each times its own round trips
    streams    the lower rank sends, then the higher: a few messages of a size that was announced, each acknowledged when
               the receiver has it, and timed until then; the sizes grow to what the time allows
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from checks.culprit.test_rows import Trial
from checks.probes.collectives import operations
from checks.probes.pairs import gossip

if TYPE_CHECKING:
    from torch import Tensor

NEVER_TIMES_OUT = timedelta(days=30)
PERIOD = operations.P * operations.Q
ELEMENT_BYTES = 4
GROWTH = 16
GREETING, PING, PONG, PLAN, DATA, DONE = range(6)
TAGS = 8


def whole(size: float) -> int:
    """The size rounded down to whole elements, so that both ranks of a test compute the same size."""
    return int(size) // ELEMENT_BYTES * ELEMENT_BYTES


def run_queue_s(root: Path = Path("/")) -> float | None:
    """The seconds for which the threads of this process have waited for a CPU since they began; None if the kernel does not count
    them. The second number of schedstat is in nanoseconds (Documentation/scheduler/sched-stats.rst).
    """
    try:
        threads = [task.read_bytes() for task in (root / "proc/self/task").glob("*/schedstat")]
        return sum(int(text.split()[1]) for text in threads) / 1e9 if threads else None
    except (OSError, ValueError, IndexError):
        return None


class PairTestError(Exception):
    """The message of the peer does not allow the test to continue."""


@dataclass(frozen=True)
class Sizes:
    """How much a pair test sends: round trips, bytes of the first and the largest message, seconds per direction, and messages of
    the size that counts.
    """

    pings: int
    least_bytes: int
    most_bytes: int
    seconds: float
    repeats: int

    def wrong(self) -> str:
        """Why the sizes cannot be used, or "". Both ranks of a test must compute the same messages from them."""
        if not ELEMENT_BYTES <= self.least_bytes <= self.most_bytes:
            return f"min_bytes must be from {ELEMENT_BYTES} to max_bytes"
        if self.pings < 2 or self.repeats < 1 or self.seconds <= 0:
            return "pings must be 2 or more, repeats 1 or more, seconds more than 0"
        return ""

    def following(self, size: int, times: Sequence[float]) -> tuple[int, int]:
        """The next size and how many messages of it, after messages of this size took these times; 0 if that is enough.

        A pause of the host spoils a message, and the best of a few messages shows the speed of the link. If a message takes ten
        times the time that was planned for all, the link itself is slow.
        """
        best = min(times)
        if size < self.most_bytes and best < self.seconds / 2:
            growth = min(GROWTH, max(2, int(self.seconds / max(best, 1e-9))))
            larger = min(self.most_bytes, size * growth)
            return larger, self.repeats if larger == self.most_bytes else 1
        left = self.repeats - len(times)
        return (size, left) if left > 0 and best < 10 * self.seconds else (0, 0)


class Buffers:
    """The memory of one pair test at a time. A test that hangs keeps it, except for the pattern, which is never written."""

    def __init__(self, sizes: Sizes, device: str, pattern: Tensor | None = None) -> None:
        import torch

        count = sizes.most_bytes // ELEMENT_BYTES
        self.sizes, self.device = sizes, device
        # Every part of the pattern is a message that differs from those that begin elsewhere.
        self.pattern = operations.sent(0, count + PERIOD, 0, device) if pattern is None else pattern
        self.arrived = torch.zeros(count * sizes.repeats, device=device)
        self.plan = torch.zeros(2, dtype=torch.int32, device=device)
        self.word = torch.zeros(1, dtype=torch.int32, device=device)
        self.echo = torch.zeros(1, dtype=torch.int32, device=device)

    def renewed(self) -> Buffers:
        """New buffers instead of these, which a test that hangs keeps."""
        return Buffers(self.sizes, self.device, self.pattern)

    def message(self, sender: int, receiver: int, tag: int, size: int) -> Tensor:
        """The message from this sender to this receiver under this tag."""
        start = (sender * 7919 + receiver * 104729 + tag * 1297) % PERIOD
        return self.pattern[start : start + size // ELEMENT_BYTES]


@dataclass
class PairTest:
    """The exchange of `me` with `peer` under tags from `tag` on. `run` fills in `test`, step by step."""

    me: int
    peer: int
    tag: int
    sizes: Sizes
    buffers: Buffers
    greeting: list[int]
    test: Trial = field(default_factory=Trial)
    steps: int = 0
    phase: str = "the greeting"
    heard: list[int] = field(default_factory=list)
    error: str = ""
    ended: threading.Event = field(default_factory=threading.Event)
    abandoned: bool = False

    def run(self) -> None:
        """Runs the whole exchange. Never raises: `error` says why it failed."""
        begun, before_s = time.monotonic(), run_queue_s()
        try:
            if self.buffers.device.startswith("cuda"):
                import torch

                torch.cuda.set_device(self.buffers.device)  # torch has this setting per thread
            self._run()
        except Exception as error:  # noqa: BLE001 - whatever torch raises, it is this pair's
            self.error = str(error).strip() or type(error).__name__
        after_s = run_queue_s()
        if before_s is not None and after_s is not None:
            self.test.cpu_wait = min(1.0, max(0.0, after_s - before_s) / max(time.monotonic() - begun, 1e-6))
        self.ended.set()

    def _run(self) -> None:
        self._greet()
        self.phase = "the round trips"
        self._ping() if self.me < self.peer else self._echo()
        for sender in sorted((self.me, self.peer)):
            self.phase = "its own message" if sender == self.peer else "the message to it"
            self._send() if sender == self.me else self._receive()

    def _greet(self) -> None:
        import torch

        device = self.buffers.device
        mine = torch.tensor(self.greeting, dtype=torch.int32, device=device)
        theirs = torch.zeros(gossip.LENGTH, dtype=torch.int32, device=device)
        self._exchange(out=(mine, GREETING), into=(theirs, GREETING))
        self.heard = theirs.tolist()

    def _ping(self) -> None:
        token, echo = self.buffers.word, self.buffers.echo
        self._trips([self._exchange(out=(token, PING), into=(echo, PONG)) for _ in range(self.sizes.pings)])

    def _echo(self) -> None:
        """The other side of `_ping`: its round trips are from an echo to the next ping."""
        token, echo, times = self.buffers.word, self.buffers.echo, list[float]()
        self._exchange(into=(token, PING))
        for _ in range(self.sizes.pings - 1):
            times.append(self._exchange(out=(echo, PONG), into=(token, PING)))
        self._exchange(out=(echo, PONG))
        self._trips(times)

    def _trips(self, times: list[float]) -> None:
        self.test.latency_us = median(times) / 2 * 1e6
        self.test.slowest_us = max(times) / 2 * 1e6

    def _send(self) -> None:
        import torch

        plan, echo = self.buffers.plan, self.buffers.echo
        size, number, times = self.sizes.least_bytes, 1, list[float]()
        while True:
            plan.copy_(torch.tensor([size // ELEMENT_BYTES, number], dtype=torch.int32))
            self._exchange(out=(plan, PLAN))
            if not size:
                return
            message = self.buffers.message(self.me, self.peer, self.tag + size, size)
            times += [self._exchange(out=(message, DATA), into=(echo, DONE)) for _ in range(number)]
            self.test.bandwidth_gbps, self.test.message_bytes = size / min(times) / 1e9, size
            before = size
            size, number = self.sizes.following(size, times)
            times = times if size == before else []

    def _receive(self) -> None:
        """The other side of `_send`. Each message has a buffer of its own, so that all are compared after the timing."""
        token = self.buffers.word
        while True:
            count, number = self._announced()
            if not count:
                return
            rooms = [self.buffers.arrived[at * count : (at + 1) * count] for at in range(number)]
            self.buffers.arrived[: number * count].fill_(-1.0)
            self._exchange(into=(rooms[0], DATA))
            for room in rooms[1:]:
                self._exchange(out=(token, DONE), into=(room, DATA))
            self._exchange(out=(token, DONE))
            size = count * ELEMENT_BYTES
            self._compare(rooms, self.buffers.message(self.peer, self.me, self.tag + size, size))

    def _compare(self, rooms: Sequence[Tensor], expected: Tensor) -> None:
        import torch

        wrong = (0 if torch.equal(room, expected) else int((room != expected).sum()) for room in rooms)
        self.test.wrong_elements = (self.test.wrong_elements or 0) + sum(wrong)

    def _announced(self) -> tuple[int, int]:
        """How many elements a message has, and how many messages come; 0 for none. Raises PairTestError if that is impossible."""
        self._exchange(into=(self.buffers.plan, PLAN))
        count, number = self.buffers.plan.tolist()
        most = self.sizes.most_bytes // ELEMENT_BYTES
        if not (0 <= count <= most and 0 <= number <= self.sizes.repeats):
            raise PairTestError(f"the peer's message plan arrived corrupted: {number} of {count} elements")
        return count, number

    def _exchange(
        self, *, out: tuple[Tensor, int] | None = None, into: tuple[Tensor, int] | None = None
    ) -> float:
        """Send and receive at once, and wait for both: seconds. Raises PairTestError once the test was abandoned."""
        import torch
        import torch.distributed as dist

        if self.abandoned:
            raise PairTestError("left behind")
        transfers = []
        # Room first: gloo's own thread turns in circles while this one holds the connection's lock, and the answer to what
        # was sent may arrive before the room for it is made; on a host with few cores that costs whole time slices.
        if into is not None:
            transfers.append(dist.P2POp(dist.irecv, into[0], self.peer, tag=self.tag + into[1]))
        if out is not None:
            transfers.append(dist.P2POp(dist.isend, out[0], self.peer, tag=self.tag + out[1]))
        begun = time.perf_counter()
        for work in dist.batch_isend_irecv(transfers):
            work.wait(NEVER_TIMES_OUT)
        if self.buffers.device.startswith("cuda"):
            torch.cuda.current_stream().synchronize()
        self.steps += 1
        return time.perf_counter() - begun
