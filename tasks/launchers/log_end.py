"""What the logs of nodes say of the end of their commands, also where torchrun started the ranks. Pure, but for `read_log`.

torchrun prints a table of the ranks that failed (torch/distributed/elastic/multiprocessing/errors, ChildFailedError): the root cause
is the one that it saw first on its node, and stands last. That may be a victim: the ranks that lose their connection to one that
failed end as well. So the errors of all nodes are compared.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile

from checks.judge.culprits.silent_ranks import WAITED
from tasks.launchers.base import Launcher
from tasks.text.redact import redacted_tail

TORCHRUN = "torch/distributed/elastic"
ROOT_CAUSE = "Root Cause"
MOST_RANKS = 8
MOST_CHARACTERS = 1000  # of a line that is kept: of a thousand nodes each is
TRACEBACK = "Traceback (most recent call last):"
# What torch prints before each line of a rank's error, once the process group is there.
_OF_RANK = re.compile(r"\[rank(\d{1,9})\]: ?")
# What torchrun says about itself before anything runs.
_NOTICE = "Setting OMP_NUM_THREADS environment variable for each process to be"
_TORCHRUN_ERROR = "torch.distributed.elastic."
_RANK = re.compile(r"rank\s*:\s*(\d{1,9})\b")
_EXIT_CODE = re.compile(r"exitcode\s*:\s*(-?\d{1,5})\b(?:.*\((SIG[A-Z0-9+]+)\))?")


@dataclass(frozen=True)
class RankEnd:
    """How a rank ended. `rank` is None where the table does not say; a negative `code` is minus the signal, whose name may be "";
    `first` is the one that failed first.
    """

    rank: int | None
    code: int
    signal: str
    first: bool

    @property
    def text(self) -> str:
        """ "rank 1 ended first, with exit code 7"."""
        subject = "a rank" if self.rank is None else f"rank {self.rank}"
        first = " first" if self.first else ""
        if self.code < 0:
            return f"{subject} was ended{first} by {self.signal or f'signal {-self.code}'}"
        return f"{subject} ended{first}{',' if first else ''} with exit code {self.code}"


@dataclass(frozen=True)
class RankError:
    """The last line of an error that Python printed. `rank` is None where the line names none."""

    rank: int | None
    text: str

    @property
    def is_own(self) -> bool:
        """Whether it differs from those that ranks have which lost another one."""
        return not WAITED.search(self.text)


@dataclass(frozen=True)
class NodeLog:
    """What one node's log says of the end: the command's own last line, the last error of each rank, and how its ranks ended."""

    node: str
    own: str
    errors: tuple[RankError, ...]
    ends: tuple[RankEnd, ...]

    @property
    def last(self) -> str:
        """The command's own last line, then how each rank ended, of at most MOST_RANKS of them."""
        return "; ".join([*filter(None, [self.own]), *_ends_of(self.ends)])[:MOST_CHARACTERS]

    @property
    def first(self) -> RankEnd | None:
        """The rank that ended first, where torchrun says so."""
        return next((end for end in self.ends if end.first), None)


@dataclass(frozen=True)
class FailureCause:
    """Why a command failed, in one sentence, "" where no log says anything; how the ranks ended that it does not speak of; and the
    node whose log says it, "" where others say the same.
    """

    cause: str = ""
    ends: tuple[str, ...] = ()
    node: str = ""

    @property
    def text(self) -> str:
        """Both."""
        return "; ".join(filter(None, (self.cause, *self.ends)))


def read_log(launcher: Launcher, job: str, node: str, last_bytes: int) -> str:
    """The end of a node's log, without secrets of this process. Raises LaunchError."""
    return redacted_tail(launcher.logs(job, node, last_bytes))


def node_log(node: str, log: str) -> NodeLog:
    """Read one log."""
    return NodeLog(node, _own_line(log)[:MOST_CHARACTERS], tuple(_errors(log)), rank_ends(log))


def cause_of(logs: Sequence[NodeLog]) -> FailureCause:
    """The node, the rank and the line that say most about why a command failed.

    An error of a rank's own is worth more than one that a lost connection makes, and so is a rank that was killed: it prints nothing,
    and the others lose it. Among errors of their own that of a rank which ended first on its node counts.
    """
    own = [(log, error) for log in logs for error in log.errors if error.is_own]
    if own:
        log, error = next(
            ((log, error) for log, error in own if log.first and log.first.rank == error.rank), own[0]
        )
        subject = log.node if error.rank is None else f"{log.node}, rank {error.rank}"
        ends = [end for end in log.ends if end.signal != "SIGTERM"]
        others = any(each.text == error.text for other, each in own if other.node != log.node)
        return FailureCause(f"{subject}: {error.text}", tuple(_ends_of(ends)), "" if others else log.node)
    killed = [log for log in logs if _was_killed(log)]
    for log in killed:
        return _first_cause(log, "" if WAITED.search(log.own) else log.own, only_log=len(killed) == 1)
    logged = [log for log in logs if log.last]
    return next((_first_cause(log, log.own, only_log=len(logged) == 1) for log in logged), FailureCause())


def _was_killed(log: NodeLog) -> bool:
    """Whether a signal ended the rank that ended first, which printed no error."""
    return log.first is not None and log.first.code < 0 and log.first.rank not in {e.rank for e in log.errors}


def _first_cause(log: NodeLog, own: str, only_log: bool) -> FailureCause:
    """What one log says: the command's own words, and the rank that ended first; without one, how all ended."""
    first = log.first
    others = _ends_of([end for end in log.ends if end is not first])
    cause = "; ".join(filter(None, (own, first.text if first else "")))
    return FailureCause(f"{log.node}: {cause or others.pop(0)}", tuple(others), log.node if only_log else "")


def rank_ends(log: str) -> tuple[RankEnd, ...]:
    """The ranks that torchrun says failed, in the order of the ranks."""
    return tuple(sorted(_rank_ends(log), key=lambda end: -1 if end.rank is None else end.rank))


def _own_line(log: str) -> str:
    """The line of a log that says most about its end: the last one that the command itself printed, "" if there is none."""
    lines = [line.strip() for line in log.splitlines() if line.strip(" =-_*") and _NOTICE not in line]
    own = list(takewhile(lambda line: TORCHRUN not in line, lines))
    return next(iter((own if rank_ends(log) else own or lines)[-1:]), "")


def _errors(log: str) -> Iterator[RankError]:
    """The last error of each rank, and of what names no rank."""
    inside, last_errors = set[int | None](), dict[int | None, str]()
    for line in log.splitlines():
        match = _OF_RANK.match(line)
        rank, text = (int(match[1]), line[match.end() :]) if match else (None, line)
        if text.startswith(TRACEBACK):
            inside.add(rank)
        elif rank in inside and text and not text[0].isspace():
            inside.discard(rank)
            if not text.startswith(_TORCHRUN_ERROR) and TORCHRUN not in text:
                last_errors[rank] = text.strip()[:MOST_CHARACTERS]
    return (RankError(rank, text) for rank, text in last_errors.items())


def _ends_of(ends: Sequence[RankEnd]) -> list[str]:
    more = [f"{len(ends) - MOST_RANKS} more ranks failed"] if len(ends) > MOST_RANKS else []
    # The first that failed is always among them.
    chosen = sorted(ends, key=lambda end: not end.first)[:MOST_RANKS]
    return [*(end.text for end in ends if end in chosen), *more]


def _rank_ends(log: str) -> Iterator[RankEnd]:
    rank, first = None, False
    for line in map(str.strip, log.splitlines()):
        if line.startswith(ROOT_CAUSE):
            first = True
        elif match := _RANK.match(line):
            rank = int(match[1])
        elif match := _EXIT_CODE.match(line):
            yield RankEnd(rank, int(match[1]), match[2] or "", first)
            rank = None
