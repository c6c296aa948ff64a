"""NCCL's own log (NCCL_DEBUG=INFO): which network it chose, and what each channel really goes over.

The lines are those of NCCL's init.cc and transport/*.cc, 2.4 to 2.28, and of aws-ofi-nccl's "NET/OFI" ones:

    host:194:710 [0] NCCL INFO Using network AWS Libfabric
    host:194:710 [0] NCCL INFO NET/OFI Selected provider is efa, fabric is efa-direct (found 32 nics)
    host:194:710 [0] NCCL INFO Channel 00/0 : 7[7] -> 8[0] [send] via NET/AWS Libfabric/0/GDRDMA
    host:194:710 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM
    host:194:710 [0] NCCL INFO ncclCommInitRank comm 0x55 rank 0 nranks 16 ... - Init COMPLETE

Any prefix of a launcher before them is passed over.

Where NCCL writes its log, and what makes it write one (NCCL_DEBUG*, docs.nvidia.com/deeplearning/nccl, "Debug").
"""

from __future__ import annotations

import glob
import os
import re
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from checks.check import CheckError

_LINE = re.compile(
    r"(?:(?<![\w.-])(?P<host>[\w.-]+):(?P<pid>\d+):\d+ \[-?\d+\] (?:\S.*? )?)?NCCL (?P<level>INFO|WARN) (?P<said>.*)"
)
# How NCCL names its network over InfiniBand verbs, RoCE included.
IB = "IB"
_VERSION = re.compile(r"NCCL version (\d+\.\d+\.\d+)")
_BARE_VERSION = re.compile(r"^(?:\S+ )?(NCCL version \d+\.\d+\.\d+\S*)\s*$", re.MULTILINE)
_NETWORK = re.compile(r"Using network (.+)$")
_IB = re.compile(r"NET/IB(?:ext\S*)? : Using ([^;]+)")
_IB_PORT = re.compile(r"\[\d+\]\S+:\d+/")
_PROVIDER = re.compile(
    r"NET/OFI Selected [Pp]rovider is ([^\s,]+)(?:, fabric is (\S+))? \(found (\d+) nics\)"
)
_CHANNEL = re.compile(
    r"(?:Channel|Ring) (\d+(?:/\d+)? : \d+\[[^]]*\] -> \d+\[[^]]*\]) (?:\[(send|receive)\] )?via (\S.*)$"
)
_BEGAN = re.compile(r"comm (0x[0-9a-f]+) rank (\d+) n[rR]anks (\d+) .*Init START")
_DONE = re.compile(r"comm (0x[0-9a-f]+) rank (\d+) n[rR]anks (\d+) .*Init COMPLETE")
_ENDED = re.compile(r"comm (0x[0-9a-f]+) rank (\d+) n[rR]anks (\d+) .*Destroy COMPLETE")
# What ends or breaks a communicator: NCCL's init.cc, transport/net_ib.cc, misc/socket.cc, include/checks.h; aws-ofi-nccl's
# cm_req_handle_error_entry; libfabric's EFA provider (efa_strerror). A bind that fails is not among them: RAS tries one port only.
_ERROR = re.compile(
    r"Abort COMPLETE|Request \S+ completed with error\. RC: \d+|[Uu]nresponsive receiver|Got completion from peer .*status=(?!0\b)\d+"
    r"|[Cc]onnection closed by (?:remote )?peer|Call to (?:recv|send|connect|sendmsg|recvmsg)\b.* failed"
    r"|Cuda failure|[Uu]nhandled cuda error"
    r"|Got async event : (?:local catastrophic error|port error|.*\bfatal\b)|ncclRemoteError|ncclSystemError|Call to ibv_\w+ failed"
)
_PEER = re.compile(
    r"(?:Peer host id: (?!N/A)|Peer EFA addr: |[Pp]eer (?=[\w.:-]+<)|(?:from|to) (?=[\w.:-]+<))([^\s<,;)]+(?:<\d+>)?)"
)
_SHAPE = re.compile(r"comm 0x[0-9a-f]+ rank \d+ nRanks (\d+) nNodes (\d+) localRanks (\d+)")


@dataclass(frozen=True)
class NcclLine:
    """A line of the log: the process that wrote it, and its text."""

    number: int
    process: str
    level: str
    text: str

    @property
    def numbered(self) -> str:
        """As "17: text"."""
        return f"{self.number}: {self.text}"


@dataclass(frozen=True)
class Channel:
    """A connection between two ranks: `network` is NET, P2P, SHM ..., `carrier` is the text after it ("Socket", "CUMEM").

    `ends` are the channel's number and its two ranks; `end` ("send", "receive") says which of them wrote the line.
    """

    network: str
    carrier: str
    gpudirect: bool
    line: NcclLine
    end: str = ""
    ends: str = ""


@dataclass(frozen=True)
class NcclLog:
    """The content of the log. `providers` has each process's libfabric provider; `chosen` the lines in which it was chosen.

    `unfinished` counts communicators whose initialisation did not complete, `ended` those that were destroyed; `ranks` and `nodes`
    are those of the largest communicator, 0 if no line says so, and `up` is how many of its ranks completed.
    """

    versions: tuple[str, ...]
    networks: tuple[str, ...]
    providers: Mapping[str, str]
    nics: tuple[int, ...]
    channels: tuple[Channel, ...]
    warnings: tuple[NcclLine, ...]
    begun: int
    unfinished: int
    ended: int
    up: int
    ranks: int
    nodes: int
    processes: int
    chosen: tuple[NcclLine, ...]
    errors: tuple[NcclLine, ...] = ()


def lines_of(text: str) -> Iterator[NcclLine]:
    """The lines that NCCL wrote."""
    for number, raw in enumerate(text.splitlines(), 1):
        if "NCCL " in raw and (match := _LINE.search(raw)):
            process = f"{match['host']}:{match['pid']}" if match["host"] else ""
            yield NcclLine(number, process, match["level"], match["said"].rstrip())


def understood(text: str) -> frozenset[int]:
    """The numbers of the lines that NCCL wrote."""
    numbers = (number for number, line in enumerate(text.splitlines(), 1) if _BARE_VERSION.match(line))
    return frozenset([*numbers, *(line.number for line in lines_of(text))])


def read(text: str, process: str = "") -> NcclLog:
    """Everything in the log, of one process ("host:pid") or of all."""
    lines = [line for line in lines_of(text) if process in ("", line.process)]
    info_lines = [line for line in lines if line.level == "INFO"]
    providers, ports, shapes = (_hits(pattern, info_lines) for pattern in (_PROVIDER, _IB, _SHAPE))
    began, done, ended = (
        {(line.process, hit[1], hit[2]): int(hit[3]) for line, hit in _hits(pattern, info_lines)}
        for pattern in (_BEGAN, _DONE, _ENDED)
    )
    largest = max([*began.values(), *done.values(), *(int(hit[1]) for _, hit in shapes)], default=0)
    nics = [*(int(hit[3]) for _, hit in providers), *(len(_IB_PORT.findall(hit[1])) for _, hit in ports)]
    return NcclLog(
        versions=_distinct(_VERSION, [*info_lines, *_bare_version(text)]),
        networks=_distinct(_NETWORK, info_lines),
        providers={line.process: hit[1] for line, hit in providers},
        nics=tuple(dict.fromkeys(nics)),
        channels=tuple(_channel(line, hit) for line, hit in _hits(_CHANNEL, info_lines)),
        warnings=tuple(line for line in lines if line.level == "WARN"),
        errors=tuple(line for line in lines if _ERROR.search(line.text)),
        begun=len({*began, *done}),
        unfinished=len(began.keys() - done),
        ended=len(ended),
        up=len({rank for (_, _, rank), size in done.items() if size == largest}),
        ranks=largest,
        nodes=max((int(hit[2]) for _, hit in shapes), default=0),
        processes=len({line.process for line in lines}),
        chosen=tuple(line for line in info_lines if chosen_by(line)),
    )


def _hits(pattern: re.Pattern[str], lines: Sequence[NcclLine]) -> list[tuple[NcclLine, re.Match[str]]]:
    return [(line, hit) for line in lines if (hit := pattern.search(line.text))]


def peer_of(line: NcclLine) -> str:
    """The peer that an error names, or ""."""
    match = _PEER.search(line.text)
    return match[1] if match else ""


def _bare_version(text: str) -> list[NcclLine]:
    """The version as old releases print it, without a prefix."""
    match = _BARE_VERSION.search(text)
    return [NcclLine(0, "", "INFO", match[1])] if match else []


def chosen_by(line: NcclLine) -> str:
    """The network or the libfabric provider that a line of `chosen` names."""
    if _IB.search(line.text):
        return IB
    match = _NETWORK.search(line.text) or _PROVIDER.search(line.text)
    return match[1].strip() if match else ""


def _distinct(pattern: re.Pattern[str], lines: Sequence[NcclLine]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(hit[1].strip() for _, hit in _hits(pattern, lines)))


def _channel(line: NcclLine, hit: re.Match[str]) -> Channel:
    network, _, rest = hit[3].partition("/")
    carrier, _, more = rest.partition("/")
    return Channel(network, carrier, "GDRDMA" in more, line, hit[2] or "", hit[1])


MOST_BYTES = 1 << 26
SLACK_S = 5.0
BEGUN_S = time.monotonic()  # the ranks import this before NCCL is initialised


def environment(present: Mapping[str, str], scratch: Path) -> dict[str, str]:
    """Environment variables to set before NCCL is initialised, because it reads them once.

    A file that the user chose is kept. A terminal is not, nor one file for all processes, which each process would overwrite.
    """
    chosen = present.get("NCCL_DEBUG_FILE", "")
    own = "%p" in chosen and not chosen.startswith("/dev/")
    file = chosen if own else str(scratch / "nccl.%h.%p.log")
    level = present.get("NCCL_DEBUG", "").upper()
    return {
        "NCCL_DEBUG": level if level == "TRACE" else "INFO",
        "NCCL_DEBUG_SUBSYS": "INIT,NET,GRAPH",
        "NCCL_DEBUG_FILE": file,
    }


def process() -> str:
    """The name of this process in NCCL's lines."""
    return f"{_host()}:{os.getpid()}"


def texts(present: Mapping[str, str]) -> str:
    """The logs of all processes of this node's run. Raises CheckError if there is none, or it is too long.

    The folder may be one that the user chose, with logs of earlier runs, which prove nothing about this one.
    """
    file_name = present.get("NCCL_DEBUG_FILE", "")
    if not file_name:
        raise CheckError("NCCL_DEBUG_FILE is not set, so there is no log of NCCL to read")
    pattern = glob.escape(file_name).replace("%h", glob.escape(_host()))
    own = Path(file_name.replace("%h", _host()).replace("%p", str(os.getpid())))
    if not own.is_file():
        raise CheckError(f"NCCL wrote no log at {file_name}: it did not start, or could not write there")
    # By the clock of the file system itself. All ranks write when the first communicator comes up, after BEGUN_S.
    since = own.stat().st_mtime - (time.monotonic() - BEGUN_S) - SLACK_S
    paths = (Path(path) for path in sorted(glob.glob(pattern.replace("%p", "*"))))
    return "\n".join(_text(path) for path in paths if path == own or path.stat().st_mtime >= since)


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise CheckError(f"NCCL's log {path}: {error.strerror}") from error
    if len(data) > MOST_BYTES:
        raise CheckError(f"NCCL's log {path} is longer than {MOST_BYTES >> 20} MiB, so it was not read")
    return data.decode("utf-8", "replace")


def _host() -> str:
    return socket.gethostname().partition(".")[0]
