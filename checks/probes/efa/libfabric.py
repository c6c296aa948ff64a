"""Runs libfabric's own programs: which domains there are, and one fi_pingpong between two endpoints.

The provider is EFA's; the environment variable PRELAUNCH_FABRIC_PROVIDER names another ("tcp"), which a policy for EFA
does not accept.

fi_pingpong prints one row per message size:

    bytes   #sent   #ack     total       time     MB/sec    usec/xfer   Mxfers/sec
    1m      10      =10      20m         0.01s   2614.25     401.10       0.00

Sizes are multiples of 1024, MB are 10^6 bytes. "=10" means that as many were acknowledged as were sent. Client and server print
one table each. A line may have a prefix ("[rank 1] "), and each prefix has its own tables.

FabricError         libfabric offers nothing to run over; the message says what that means
"""

from __future__ import annotations

import os
import re
import threading
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from checks.check import CheckError
from checks.model import Value
from checks.probes.efa import fi_info
from checks.probes.sysfs import text_of
from checks.process import tool
from checks.process.free_ports import free_port
from checks.process.tree import end_marked

PROVIDER = "PRELAUNCH_FABRIC_PROVIDER"
MARK = "PRELAUNCH_FABRIC_SERVER"  # in the environment of a server, so that it and what it starts are found
LISTEN_S = 5.0
POLL_S = 0.02
BUSY = "Address already in use"
GROUP = (
    "a hang, fi_getinfo -61 or error 4126 is typical of a security group that does not allow all traffic to and from "
    "itself, outbound included"
)
SIZES = (64, 256, 1024, 4096, 65536, 1048576)  # what it runs where no size is asked for
LARGEST, SMALL = 1 << 20, 256  # the first size of a run, 64 bytes, has the handshake in it
DATAGRAM = SIZES[:4]  # and over its default endpoint: EFA's datagrams end at 4096
_PREFIX = r"^(?P<prefix>\s*(?:\[[^\]]*\]\s*)*)"
HEADER = re.compile(_PREFIX + r"bytes\s+#sent\s+#ack\s+total\s+time\s+MB/sec\s+usec/xfer\s+Mxfers/sec\s*$")
SIZE_LINE = re.compile(
    _PREFIX
    + r"(?P<size>\d+(?:\.\d)?[kmg]?)\s+(?P<sent>\d+(?:\.\d+)?[kmg]?)\s+(?P<ack>=?\d+(?:\.\d+)?[kmg]?)\s+"
    r"\d+(?:\.\d+)?[kmg]?\s+\d+\.\d\ds\s+(?P<mb>\d+\.\d\d)\s+(?P<usec>\d+\.\d\d)\s+(?P<mx>\d+\.\d\d)\s*$"
)
_NUMBERED = re.compile(_PREFIX + r"\d[\d.]*[kmg]?(?:\s|$)")
_UNIT = {"k": 1, "m": 2, "g": 3}


class FabricError(CheckError):
    """libfabric offers no endpoint of the provider."""


@dataclass(frozen=True)
class ClientResult:
    """How one client ended: `failure` is "ok" or the reason; `readable` is false where its output gives no answer."""

    failure: str
    readable: bool
    table: PingpongTable | None
    account: str


def late() -> ClientResult:
    """A run for which no time was left."""
    return ClientResult("not run: the check's deadline passed first", True, None, "")


def rates_of(runs: Sequence[ClientResult]) -> dict[str, Value]:
    """The metrics of runs, null where one failed. Raises CheckError if what is wrong is only that no output can be read (pure)."""
    unread = [run for run in runs if not run.readable]
    if unread and not any(run.readable and run.failure != "ok" for run in runs):
        raise CheckError(f"{unread[0].failure}\n{unread[0].account}")
    tables = [run.table for run in runs]
    return {
        "acks_missing": tuple(t.acks_missing if t else None for t in tables),
        "rate_gbps": tuple(t.of_size(LARGEST).rate_gbps if t else None for t in tables),
        "latency_us": tuple(t.of_size(SMALL).usec if t else None for t in tables),
    }


def provider() -> str:
    """The libfabric provider that the checks look at."""
    return os.environ.get(PROVIDER, "") or "efa"


def domains(name: str, timeout_s: float) -> tuple[str, ...]:
    """The provider's domains with a reliable-datagram endpoint. Raises FabricError, ToolMissing, CheckError."""
    result = tool.run(("fi_info", "-p", name), timeout_s)
    number = fi_info.failure(result.stdout + result.stderr)
    if number is not None:
        raise FabricError(fi_info.meaning(number, name))
    if not result.whole or result.code:
        raise CheckError(f"fi_info failed or did not end in time: {result.account()[:500]}")
    names = fi_info.domains(fi_info.parse(result.stdout), name)
    if not names:
        raise FabricError(f"libfabric offers no reliable-datagram endpoint of {name}")
    return names


class Server:
    """An fi_pingpong that waits for one client in this process's keeping, until its time is over."""

    def __init__(self, name: str, domain: str, timeout_s: float) -> None:
        self.port, self._said, self._error = 0, "", ""
        self._name, self._domain, self._ends = name, domain, time.monotonic() + timeout_s
        self._thread, self._mark = threading.Thread(target=lambda: None), uuid.uuid4().hex

    def open(self) -> None:
        """Start the server and wait until it listens, on another port if somebody took the first.

        Raises ToolMissing, CheckError.
        """
        tool.find("fi_pingpong")
        for _ in range(3):
            self.port = free_port("0.0.0.0")  # noqa: S104 - fi_pingpong listens on every address
            self._thread = threading.Thread(target=self._run, daemon=True)
            self._thread.start()
            deadline = min(time.monotonic() + LISTEN_S, self._ends)
            while self._thread.is_alive() and time.monotonic() < deadline:
                if listening(self.port):
                    return
                time.sleep(POLL_S)
            if self._thread.is_alive() or BUSY not in self._said:
                break
        self.close()
        message = f"the fi_pingpong server of this node did not start listening in time: {self._error or self._said[:500]}"
        raise CheckError(message)

    def close(self) -> str:
        """End the server and return its output: a server that lost its client in the middle of a message would wait for ever."""
        if self._thread.is_alive():
            end_marked(MARK, self._mark, 0.0)
        if self._thread.ident is not None:
            self._thread.join(tool.AFTER_END_S)
        return self._error or self._said

    def waiting(self) -> bool:
        """Whether the server still runs."""
        return self._thread.is_alive()

    def wait(self, timeout_s: float) -> None:
        """Give its client the time to come and to finish."""
        self._thread.join(max(0.0, timeout_s))

    def _run(self) -> None:
        left = max(0.1, self._ends - time.monotonic())
        argv = (*_command(self._name, self._domain), "-B", str(self.port))
        try:
            self._said = tool.run(argv, left, {**environment(self._domain), MARK: self._mark}).account()
        except CheckError as error:
            self._error = str(error)


def client(name: str, domain: str, address: str, port: int, timeout_s: float) -> ClientResult:
    """Run the client's side against a server that listens. Raises ToolMissing, ToolError."""
    six = ("-6",) if ":" in address else ()
    argv = (*_command(name, domain), "-P", str(port), *six, address)
    return client_result(tool.run(argv, max(0.1, timeout_s), environment(domain)), name)


def client_result(result: tool.ToolResult, name: str) -> ClientResult:
    """What a client's output means (pure)."""
    text, failure = result.stdout + result.stderr, ""
    number = fi_info.failure(text)
    if number is not None:
        failure = fi_info.meaning(number, name)
    elif result.code is None:
        failure = f"fi_pingpong did not finish within {result.seconds:.0f} s; {GROUP}"
    elif "Unresponsive receiver" in text or (result.code and re.search(r"\b4126\b", result.stderr)):
        failure = f"error 4126, the receiver does not answer; {GROUP}"
    elif result.code:
        last = next(iter(result.stderr.strip().splitlines()[-1:]), "") or "it printed nothing"
        failure = f"exit code {result.code}: {last[:300]}"
    elif not result.whole:
        return ClientResult(
            "fi_pingpong printed more than the 1 MiB that is read", False, None, result.account()
        )
    if failure:
        return ClientResult(failure, True, None, result.account())
    try:
        return ClientResult("ok", True, parse(result.stdout)[-1], result.account())
    except CheckError as error:
        return ClientResult(str(error), False, None, result.account())


def environment(domain: str) -> Mapping[str, str]:
    """Settings that keep a run on its device: no shared memory between two processes of one host."""
    device = fi_info.device_of(domain)
    chosen = {"FI_EFA_IFACE": device, "FI_TCP_IFACE": device} if domain else {}
    return {"FI_EFA_ENABLE_SHM_TRANSFER": "0", **chosen}


def _command(name: str, domain: str) -> tuple[str, ...]:
    """Reliable datagrams, and the data compared: the default endpoint stops at 4 KiB and looks at nothing."""
    return ("fi_pingpong", "-e", "rdm", "-p", name, "-c", *(("-d", domain) if domain else ()))


def listening(port: int) -> bool:
    """Whether some process here listens on the TCP port; asking the kernel does not take the server's one client."""
    end = f":{port:04X}"
    for path in (Path("/proc/net/tcp"), Path("/proc/net/tcp6")):
        sockets = [line.split() for line in text_of(path).splitlines()[1:]]
        if any(len(fields) > 3 and fields[1].endswith(end) and fields[3] == "0A" for fields in sockets):
            return True
    return False


@dataclass(frozen=True)
class PingpongSize:
    """One size. `rate_gbps` is 10^9 bytes/s one way; `usec` is the time of one message one way."""

    size_bytes: int
    sent: int
    acked: int
    rate_gbps: float
    usec: float
    line: int


@dataclass(frozen=True)
class PingpongTable:
    """The rows of one side."""

    results: tuple[PingpongSize, ...]

    def missing(self, sizes: tuple[int, ...]) -> tuple[int, ...]:
        """Which of the sizes are not there."""
        have = {record.size_bytes for record in self.results}
        return tuple(size for size in sizes if size not in have)

    @property
    def acks_missing(self) -> int:
        """Messages that were sent and not acknowledged."""
        return sum(record.sent - record.acked for record in self.results)

    def of_size(self, size_bytes: int) -> PingpongSize:
        """The row of a size that is there."""
        return next(record for record in self.results if record.size_bytes == size_bytes)


def parse(text: str, sizes: tuple[int, ...] = SIZES) -> tuple[PingpongTable, ...]:
    """Every table, in order. Raises CheckError for one that is cut, garbled or lacks a size, and where there is none."""
    tables = [PingpongTable(tuple(records)) for records in _tables(text)]
    if not tables:
        raise CheckError("fi_pingpong printed no table")
    for table in tables:
        if table.missing(sizes):
            gone = ", ".join(map(str, table.missing(sizes)))
            raise CheckError(
                f"fi_pingpong's table has no row for {gone} bytes: the output is truncated, or the run "
                "used a datagram endpoint, which stops at 4096 bytes (run it with -e rdm)"
            )
    return tuple(tables)


def _tables(text: str) -> Iterator[list[PingpongSize]]:
    open_tables: dict[str, list[PingpongSize]] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if header := HEADER.match(line):
            prefix = header["prefix"].strip()
            if prefix in open_tables:
                yield open_tables.pop(prefix)
            open_tables[prefix] = []
            continue
        numbered = _NUMBERED.match(line)
        if numbered is None:
            continue
        records = open_tables.get(numbered["prefix"].strip())
        if records is None and SIZE_LINE.match(line):
            raise CheckError(
                f"line {number} of fi_pingpong's output does not belong to a table: {line.strip()!r:.80}"
            )
        if records is not None:
            records.append(_record(line, number, records))
    yield from open_tables.values()


def _record(line: str, number: int, before: list[PingpongSize]) -> PingpongSize:
    match = SIZE_LINE.match(line)
    if match is None:
        message = f"line {number} of fi_pingpong's output is truncated or garbled: {line.strip()!r:.80}"
        raise CheckError(message)
    size, sent = _count(match["size"], 1024), _count(match["sent"], 1000)
    acked = _count(match["ack"].lstrip("="), 1000)
    rate, usec, mxfers = float(match["mb"]), float(match["usec"]), float(match["mx"])
    # The last three columns are one measurement in three units, each rounded to two places.
    agree = abs(rate * usec - size) <= 0.006 * (rate + usec) + 1e-3 * size + 1
    if not agree or abs(mxfers * usec - 1) > 0.006 * (mxfers + usec) + 0.01 or acked > sent or sent == 0:
        raise CheckError(f"line {number} of fi_pingpong's output contradicts itself: {line.strip()!r:.80}")
    if before and size <= before[-1].size_bytes:
        raise CheckError(f"line {number} of fi_pingpong's output is out of order: {line.strip()!r:.80}")
    return PingpongSize(size, sent, acked, rate / 1000, usec, number)


def _count(text: str, base: int) -> int:
    power = _UNIT.get(text[-1], 0)
    return round(float(text.rstrip("kmg")) * float(base**power))
