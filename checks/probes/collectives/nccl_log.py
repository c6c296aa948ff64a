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
_PLUGIN = re.compile(r"aws-ofi-nccl (\d+\.\d+\.\d+\S*)")
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
_NVLS = re.compile(r"NVLS multicast support is available|Connected NVLS tree")


@dataclass(frozen=True)
class Line:
    """A line of the log: the process that wrote it, and its text."""

    number: int
    process: str
    level: str
    said: str

    @property
    def shown(self) -> str:
        """As "17: text"."""
        return f"{self.number}: {self.said}"


@dataclass(frozen=True)
class Channel:
    """A connection between two ranks: `kind` is NET, P2P, SHM ..., `way` is the text after it ("Socket", "CUMEM").

    `ends` are the channel's number and its two ranks; `end` ("send", "receive") says which of them wrote the line.
    """

    kind: str
    way: str
    nic: str
    gpudirect: bool
    line: Line
    end: str = ""
    ends: str = ""


@dataclass(frozen=True)
class Log:
    """The content of the log. `providers` has each process's libfabric provider; `chosen` the lines in which it was chosen.

    `unfinished` counts communicators whose initialisation did not complete, `ended` those that were destroyed; `ranks` and `nodes`
    are those of the largest communicator, 0 if no line says so, and `up` is how many of its ranks completed.
    """

    versions: tuple[str, ...]
    networks: tuple[str, ...]
    providers: Mapping[str, str]
    nics: tuple[int, ...]
    plugins: tuple[str, ...]
    channels: tuple[Channel, ...]
    warnings: tuple[Line, ...]
    begun: int
    unfinished: int
    ended: int
    up: int
    ranks: int
    nodes: int
    processes: int
    nvls: bool
    chosen: tuple[Line, ...]
    errors: tuple[Line, ...] = ()


def lines_of(text: str) -> Iterator[Line]:
    """The lines that NCCL wrote."""
    for number, raw in enumerate(text.splitlines(), 1):
        if "NCCL " in raw and (match := _LINE.search(raw)):
            process = f"{match['host']}:{match['pid']}" if match["host"] else ""
            yield Line(number, process, match["level"], match["said"].rstrip())


def understood(text: str) -> frozenset[int]:
    """The numbers of the lines that NCCL wrote."""
    numbers = (number for number, line in enumerate(text.splitlines(), 1) if _BARE_VERSION.match(line))
    return frozenset([*numbers, *(line.number for line in lines_of(text))])


def read(text: str, process: str = "") -> Log:
    """Everything in the log, of one process ("host:pid") or of all."""
    lines = [line for line in lines_of(text) if process in ("", line.process)]
    said = [line for line in lines if line.level == "INFO"]
    chosen = [(line.process, m) for line in said if (m := _PROVIDER.search(line.said))]
    ports = [_IB.search(line.said) for line in said]
    began = {(line.process, m[1], m[2]) for line in said if (m := _BEGAN.search(line.said))}
    ups = {(line.process, m[1], m[2]): int(m[3]) for line in said if (m := _DONE.search(line.said))}
    done = set(ups)
    ended = {(line.process, m[1], m[2]) for line in said if (m := _ENDED.search(line.said))}
    sizes = [int(m[3]) for line in said if (m := _BEGAN.search(line.said) or _DONE.search(line.said))]
    shapes = [m for line in said if (m := _SHAPE.search(line.said))]
    largest = max([*sizes, *(int(m[1]) for m in shapes)], default=0)
    return Log(
        versions=_all(_VERSION, [*said, *_bare_version(text)]),
        networks=_all(_NETWORK, said),
        providers={process: m[1] for process, m in chosen},
        nics=tuple(dict.fromkeys([*(int(m[3]) for _, m in chosen), *(_ports(m[1]) for m in ports if m)])),
        plugins=_all(_PLUGIN, said),
        channels=tuple(channel for line in said if (channel := _channel(line))),
        warnings=tuple(line for line in lines if line.level == "WARN"),
        errors=tuple(line for line in lines if _ERROR.search(line.said)),
        begun=len(began | done),
        unfinished=len(began - done),
        ended=len(ended),
        up=len({rank for (_, _, rank), size in ups.items() if size == largest}),
        ranks=largest,
        nodes=max((int(m[2]) for m in shapes), default=0),
        processes=len({line.process for line in lines}),
        nvls=any(_NVLS.search(line.said) for line in said),
        chosen=tuple(
            line
            for line in said
            if _NETWORK.search(line.said) or _PROVIDER.search(line.said) or _IB.search(line.said)
        ),
    )


def peer_of(line: Line) -> str:
    """The peer that an error names, or ""."""
    found = _PEER.search(line.said)
    return found[1] if found else ""


def _ports(said: str) -> int:
    """How many ports of InfiniBand or RoCE the line names, as "[0]mlx5_0:1/IB [1]mlx5_1:1/RoCE"."""
    return len(_IB_PORT.findall(said))


def _bare_version(text: str) -> list[Line]:
    """The version as old releases print it, without a prefix."""
    found = _BARE_VERSION.search(text)
    return [Line(0, "", "INFO", found[1])] if found else []


def chosen_by(line: Line) -> str:
    """The network or the libfabric provider that a line of `chosen` names."""
    if _IB.search(line.said):
        return IB
    match = _NETWORK.search(line.said) or _PROVIDER.search(line.said)
    return match[1].strip() if match else ""


def _all(pattern: re.Pattern[str], lines: Sequence[Line]) -> tuple[str, ...]:
    found = (pattern.search(line.said) for line in lines)
    return tuple(dict.fromkeys(match[1].strip() for match in found if match))


def _channel(line: Line) -> Channel | None:
    match = _CHANNEL.search(line.said)
    if not match:
        return None
    kind, _, rest = match[3].partition("/")
    way, _, more = rest.partition("/")
    nic = re.match(r"\d+", more)
    return Channel(kind, way, nic[0] if nic else "", "GDRDMA" in more, line, match[2] or "", match[1])


MOST_BYTES = 1 << 26
SLACK_S = 5.0
BEGUN_S = time.monotonic()  # the ranks import this before NCCL is initialised


def environment(present: Mapping[str, str], scratch: Path) -> dict[str, str]:
    """Environment variables to set before NCCL is initialised, because it reads them once.

    A file that the user chose is kept. A terminal is not, nor one file for all processes, which each process would overwrite.
    """
    chosen = present.get("NCCL_DEBUG_FILE", "")
    own = "%p" in chosen and not chosen.startswith("/dev/")
    kept = chosen if own else str(scratch / "nccl.%h.%p.log")
    level = present.get("NCCL_DEBUG", "").upper()
    return {
        "NCCL_DEBUG": level if level == "TRACE" else "INFO",
        "NCCL_DEBUG_SUBSYS": "INIT,NET,GRAPH",
        "NCCL_DEBUG_FILE": kept,
    }


def process() -> str:
    """The name of this process in NCCL's lines."""
    return f"{_host()}:{os.getpid()}"


def texts(present: Mapping[str, str]) -> str:
    """The logs of all processes of this node's run. Raises CheckError if there is none, or it is too long.

    The folder may be one that the user chose, with logs of earlier runs, which prove nothing about this one.
    """
    named = present.get("NCCL_DEBUG_FILE", "")
    if not named:
        raise CheckError("NCCL_DEBUG_FILE is not set, so there is no log of NCCL to read")
    pattern = glob.escape(named).replace("%h", glob.escape(_host()))
    own = Path(named.replace("%h", _host()).replace("%p", str(os.getpid())))
    if not own.is_file():
        raise CheckError(f"NCCL wrote no log at {named}: it did not start, or could not write there")
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
