"""A stand-in for NCCL's RAS, made from NVIDIA's documented formats alone: no NCCL runs here. It says that it is one, in its version.

`FakeJob` is a job whose ranks launch operations; `serving` lets it answer on a loopback port as RAS does, or misbehave.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

OPERATIONS = ("Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce")


@dataclass
class FakeRank:
    """A rank of the job, one process per GPU, eight per host."""

    rank: int
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(OPERATIONS, 0))
    unresponsive: bool = False
    dead: bool = False
    left: bool = False
    starting: bool = False
    ending: bool = False
    error: int = 0

    @property
    def host(self) -> str:
        return f"10.0.0.{1 + self.rank // 8}"

    @property
    def missing(self) -> bool:
        return self.unresponsive or self.dead or self.left

    @property
    def process(self) -> dict[str, object]:
        gpu = self.rank % 8
        return {"host": self.host, "pid": 7000 + self.rank, "cuda_dev": gpu, "nvml_dev": gpu}


@dataclass
class FakeJob:
    """A job with one communicator of all ranks, and others of some of them."""

    ranks: list[FakeRank]
    also: list[Sequence[int]] = field(default_factory=list)
    uninitialised: bool = False

    def step(self, *without: int, operation: str = "AllReduce", times: int = 1) -> None:
        """All ranks but some launch an operation."""
        for one in self.ranks:
            if one.rank not in without:
                one.counts[operation] += times

    def as_json(self) -> str:
        """The answer after SET FORMAT json."""
        groups = [[one.rank for one in self.ranks], *self.also]
        communicators = [self._communicator(place, group) for place, group in enumerate(groups)]
        if self.uninitialised:
            communicators.append(
                {"hash": "0x0", "secondary_hash": "0x0:0x0", "size": 0, "ranks_count": 0,
                 "missing_ranks_count": 0, "ranks": [], "missing_ranks": []}
            )  # fmt: skip
        document = {
            "nccl_version": "2.30.3+stand-in",
            "cuda_runtime_version": 13000,
            "cuda_driver_version": 13000,
            "timestamp": "2026-11-20 10:00:00",
            "communicators_count": len(communicators),
            "communicators": communicators,
            "ras": {"collection_time_sec": 0.001, "timeouts_count": 0},
        }
        return json.dumps(document, indent=2) + "\n"

    def _communicator(self, place: int, group: Sequence[int]) -> dict[str, object]:
        mine = [one for one in self.ranks if one.rank in group]
        there, missing = [one for one in mine if not one.missing], [one for one in mine if one.missing]
        numbers = {rank: number for number, rank in enumerate(group)}
        return {
            "hash": f"0x{place + 0xA1:x}",
            "secondary_hash": "0xb1:0xc1",
            "size": len(group),
            "ranks_count": len(there),
            "missing_ranks_count": len(missing),
            "ranks": [_answering(one, numbers[one.rank], counted=not place) for one in there],
            "missing_ranks": [_missing(one, numbers[one.rank]) for one in missing],
        }


def job_of(ranks: int, *also: Sequence[int]) -> FakeJob:
    """A job of so many ranks that has launched ten all-reduces."""
    made = FakeJob([FakeRank(rank) for rank in range(ranks)], [*also])
    made.step(times=10)
    return made


def _answering(one: FakeRank, number: int, counted: bool) -> dict[str, object]:
    status = {"init_state": 7 if one.starting else 0, "async_error": one.error, "finalize_called": one.ending}
    status |= {"destroy_flag": False, "abort_flag": False}
    counts = dict(one.counts) if counted else dict.fromkeys(OPERATIONS, 0)
    return {"rank": number, **one.process, "status": status, "collective_counts": counts}


def _missing(one: FakeRank, number: int) -> dict[str, object]:
    status = {"unresponsive": one.unresponsive or one.dead, "considered_dead": one.dead}
    return {"rank": number, **one.process, "status": status}


@dataclass
class FakeRas:
    """How the service behaves. `status` makes the answer; each other field is a way to misbehave.

    `format_known` and `monitor_known` are False for NCCL before 2.28.7 and 2.29.2. `asked` counts answers to STATUS.
    """

    status: Callable[[str], str]
    format_known: bool = True
    monitor_known: bool = True
    silent: bool = False
    silent_connections: int = 0
    greeting: bytes = b"SERVER PROTOCOL 2\n"
    cut: int = 0
    endless: bool = False
    stops: bool = False
    asked: int = 0
    commands: list[str] = field(default_factory=list)

    def serve(self, made: socket.socket) -> None:
        """One connection."""
        if self.silent or self.silent_connections > 0:
            self.silent_connections -= 1
            with suppress(OSError):
                while made.recv(4096):
                    pass
            return
        form = "text"
        for line in made.makefile("r", encoding="ascii", errors="replace"):
            command = line.strip()
            self.commands.append(command)
            if command.upper().startswith("CLIENT PROTOCOL"):
                made.sendall(self.greeting)
            elif command == "SET FORMAT json" and self.format_known:
                form = "json"
                made.sendall(b"OK\n")
            elif command.startswith("MONITOR ") and self.monitor_known:
                made.sendall(f"ERROR: Invalid event group '{command[8:]}'\n".encode())
            elif command == "STATUS":
                self.asked += 1
                self._answer(made, form)
                return
            else:
                made.sendall(f"ERROR: Unknown command {command}\n".encode())

    def _answer(self, made: socket.socket, form: str) -> None:
        data = self.status(form).encode()
        if self.stops:
            made.sendall(data[: len(data) // 2])
            with suppress(OSError):
                made.recv(1)
            return
        if self.cut > 0:
            self.cut -= 1
            data = data[: len(data) // 2]
        made.sendall(data)
        while self.endless:
            made.sendall(data)


def answering(job: FakeJob) -> FakeRas:
    """A RAS that answers for the job."""
    return FakeRas(lambda form: job.as_json())


@contextmanager
def serving(ras: FakeRas) -> Iterator[int]:
    """The port of 127.0.0.1 on which it answers, until the block ends."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=_accept, args=(listener, ras), daemon=True)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()
            thread.join(5)


def _accept(listener: socket.socket, ras: FakeRas) -> None:
    while True:
        try:
            made, _ = listener.accept()
        except OSError:
            return
        threading.Thread(target=_serve, args=(made, ras), daemon=True).start()


def _serve(made: socket.socket, ras: FakeRas) -> None:
    with made, suppress(OSError):
        ras.serve(made)
