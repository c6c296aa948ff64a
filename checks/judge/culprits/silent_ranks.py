"""Finds out which ranks the others waited for when a check of all ranks failed. Pure.

Ranks that reported nothing are suspects: they are frozen, killed, lost, or never came to the check. If all reported, the suspect is
a rank that failed with an error of its own while others waited, or one that was still busy when others had given up. The cause stays
EVIDENCE: a process was silent, and nothing is known against the machine. A rank that finished its part is not a suspect.

gloo's "Connection closed by peer" names both the rank that left first and those that gave up because of it, and it gives an address,
not a rank: the text is shown, and no rank is named because of it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from checks.documents.columns import CheckTable, by_check
from checks.model import (
    CLUSTER,
    Cause,
    ErrorKind,
    Finding,
    Level,
    Outcome,
    Report,
    Scope,
    node_of,
    rank_subject,
)
from checks.policy import CheckPolicy, Policy
from checks.value_types import listed_names

REACHABILITY = "network.reachability"
# How the check of a rank that waited for others ended.
WAITING = (ErrorKind.RAISED, ErrorKind.DEADLINE, ErrorKind.LIMIT_PASSED, ErrorKind.NOT_RUN)
# What gloo, NCCL and torch's store print in ranks that wait. Seen: torch 2.13 (gloo's pair.cc and unbound_buffer.cc);
# NCCL: "remote process exited or there was a network error" (ncclRemoteError); TCPStore: "wait timeout after", "got 0 bytes".
WAITED = re.compile(
    r"(?i)timed out|timeout|connection (?:closed|reset|refused)|got 0 bytes|remote process exited|ncclRemoteError"
    r"|broken pipe|socket|connectFullMesh|heartbeat|Work\w+\("
)
PLACE_IN_SOURCE = re.compile(r"\[[^\]]*:\d+\] ")
MOST_NAMED = 8
MOST_TOLD = 300
MOST_READ = 10_000  # the patterns take the square of the length
REMEDY = (
    "Find out what happened to that process: its node's log, dmesg (out of memory, Xid), a debugger that stopped it. "
    "Run the gate again: if the same rank is silent again, suspect its GPU or node."
)
# Subject -> how and why its check failed; None if it was measured, or skipped because of the declaration.
Errors = Mapping[str, "_Error | None"]
TOGETHER = "Check what they share: a node, the fabric, the deadline of the check, memory. Run the gate again."


class _SilentRank(str, Enum):
    SILENT = "did not report"
    ERROR = "ended with an error of its own"
    BUSY = "was still busy at its deadline"


@dataclass(frozen=True)
class _Error:
    ending: ErrorKind | None
    reason: str

    def is_own(self) -> bool:
        """Whether the error differs from those that torch and NCCL raise in a rank that waits."""
        return self.ending is ErrorKind.RAISED and not WAITED.search(self.reason)


@dataclass(frozen=True)
class Suspected:
    """One finding, and the ranks that it is about. It replaces the findings about each of them in that check. `waiting` are the checks
    and ranks that could not measure because the only suspect did not report.
    """

    finding: Finding
    ranks: frozenset[str]
    waiting: frozenset[tuple[str, str]] = frozenset()

    def covers(self, finding: Finding) -> bool:
        """Whether the other finding says the same, and less of it."""
        same = (finding.check, finding.cause) == (self.finding.check, Cause.EVIDENCE)
        return same and finding.subject in self.ranks and not finding.evidence

    def marked(self, finding: Finding) -> Finding:
        """The finding, as a consequence of this one where its rank waited for the suspect."""
        waited = finding.cause is Cause.EVIDENCE and (finding.check, finding.subject) in self.waiting
        return replace(finding, follows=self.finding.subject) if waited else finding


@dataclass(frozen=True)
class _Break:
    """The first group check in which some ranks waited: these ranks with their errors, and the ranks that they waited for."""

    check: str
    mode: _SilentRank
    suspects: tuple[str, ...]
    waited: Mapping[str, _Error]


def judge(report: Report, policy: Policy) -> tuple[Suspected, ...]:
    """One finding per suspected node, or one about the cluster if there are too many suspects; () if there are none."""
    declared = report.declared
    checks = [p for p in report.plan if p.scope is Scope.RANK and p.skip is None]
    together = [p.check for p in checks if policy.checks.get(p.check, CheckPolicy()).min_ranks > 1]
    tables = by_check(report.observations)
    if not any(_odd(tables.get(check), declared.ranks) for check in together):
        return ()
    ranks = _ranks(report)
    errors = {p.check: _errors(tables[p.check]) if p.check in tables else {} for p in checks}
    broken = _broken(together, errors, ranks)
    lost = _lost_nodes(report, tables) if broken is not None and broken.waited else ()
    if broken is None or not (broken.suspects or lost):
        return ()
    # In the order in which ranks run them.
    order = [*(p.check for p in checks if p.check not in together), *together]
    first = {rank: _first_missing(rank, order, errors, broken) for rank in broken.suspects}
    reasons = _runner_reasons(broken.suspects, errors.values())
    return tuple(_suspicions(report, policy, broken, first, lost, reasons))


def _broken(checks: Sequence[str], errors: Mapping[str, Errors], ranks: Sequence[str]) -> _Break | None:
    """The first check in which a rank waited, or else the first that some ranks reported and some did not."""
    partly: _Break | None = None
    for check in checks:
        by_rank = errors[check]
        waited, absent = _waiting(by_rank), tuple(rank for rank in ranks if _absent(rank, by_rank))
        if absent and waited:
            return _Break(check, _SilentRank.SILENT, absent, waited)
        if absent:
            partly = partly or _Break(check, _SilentRank.SILENT, absent, {})
        elif waited:
            return partly or _by_error(check, waited)
    return partly


def _by_error(check: str, waited: Mapping[str, _Error]) -> _Break:
    """The case that all ranks reported: the suspects raised an error that differs from that of waiting ranks, or were busy when the
    others had left. Where the gate file's own limit for the check passed, nobody is suspected: the first rank that it ended is the one
    that the others lost.
    """
    own = tuple(rank for rank, error in waited.items() if error.is_own())
    others = {rank: error for rank, error in waited.items() if rank not in own}
    if own and others:
        return _Break(check, _SilentRank.ERROR, own, others)
    limited = any(error.ending is ErrorKind.LIMIT_PASSED for error in waited.values())
    busy = tuple(rank for rank, error in waited.items() if error.ending is ErrorKind.DEADLINE and not limited)
    others = {rank: error for rank, error in waited.items() if rank not in busy}
    return _Break(check, _SilentRank.BUSY, busy if others else (), others)


def _suspicions(
    report: Report,
    policy: Policy,
    broken: _Break,
    first: Mapping[str, str],
    lost: Sequence[str],
    reasons: Mapping[str, str],
) -> Iterator[Suspected]:
    declared = report.declared
    of_node: dict[str, list[str]] = {}
    for rank in broken.suspects:
        of_node.setdefault(node_of(rank), []).append(rank)
    nodes = len(of_node) + len(lost)
    many = len(broken.suspects) > max(1.0, policy.max_unfit_fraction * declared.ranks)
    if nodes > max(1.0, policy.max_unfit_fraction * declared.nodes) or (declared.nodes == 1 and many):
        if broken.mode is not _SilentRank.SILENT:
            return  # all ranks reported the same error
        check = next(iter(first.values()), broken.check)
        count = len(broken.suspects) + len(lost) * declared.ranks_per_node
        message = f"{count} of {declared.ranks} ranks did not report: too many to suspect a single rank"
        yield _suspected(policy, broken, check, CLUSTER, message, (), TOGETHER)
        return
    for node in lost:
        message = f"left no report{_waiters(broken, broken.check)}"
        yield _suspected(policy, broken, broken.check, node, message, (), is_predicate=True)
    for node, ranks in of_node.items():
        check = first[ranks[0]]
        subject = ranks[0] if len(ranks) == 1 else node
        is_one = subject != node
        text = broken.mode.value if is_one else _ranks_text(ranks, node, declared.ranks_per_node, broken.mode)
        message = f"{text}{_waiters(broken, check)}"
        reason = next((reasons[rank] for rank in ranks if rank in reasons), "")
        if reason:
            message = f"{message} ({reason})"
        suspect = _suspected(policy, broken, check, subject, message, ranks, is_predicate=is_one)
        alone_silent = nodes == 1 and broken.mode is _SilentRank.SILENT
        yield replace(
            suspect, waiting=frozenset((broken.check, rank) for rank in broken.waited if alone_silent)
        )


def _runner_reasons(suspects: Collection[str], checks: Iterable[Errors]) -> dict[str, str]:
    """What the runner of a node says of its ranks that never reached a check, the first of each."""
    reasons: dict[str, str] = {}
    for errors in checks:
        for rank in suspects:
            error = errors.get(rank)
            if error is not None and error.ending is ErrorKind.NOT_REACHED:
                reasons.setdefault(rank, error.reason[:MOST_TOLD])
    return reasons


def _ranks_text(ranks: Sequence[str], node: str, per_node: int, silence: _SilentRank) -> str:
    """For example "ranks 5, 6 on node-1 did not report", or "none of the 8 ranks on node-1 reported"."""
    if len(ranks) == per_node > 1 and silence is _SilentRank.SILENT:
        return f"none of the {per_node} ranks on {node} reported"
    numbers = [rank.rpartition("-")[2] for rank in ranks]
    return f"ranks {listed_names(numbers, MOST_NAMED)} on {node} {silence.value}"


def _waiters(first_break: _Break, check: str) -> str:
    count = len(first_break.waited)
    if not count:
        return f" in {check}"
    return f"; {count} other{' rank' if count == 1 else ' ranks'} waited for it in {first_break.check}"


def _suspected(
    policy: Policy,
    first_break: _Break,
    check: str,
    subject: str,
    text: str,
    ranks: Sequence[str],
    remedy: str = REMEDY,
    *,
    is_predicate: bool = False,
) -> Suspected:
    level = Level.FAIL if policy.checks.get(check, CheckPolicy()).required else Level.WARN
    finding = Finding(
        level, Cause.EVIDENCE, check, subject, text, _evidence(first_break), remedy, is_predicate=is_predicate
    )
    return Suspected(finding, frozenset(ranks))


def _evidence(broken: _Break) -> str:
    """The errors of the ranks that waited, the most frequent first."""
    waited = broken.waited.items()
    texts = {rank: PLACE_IN_SOURCE.sub("", error.reason, count=1)[:300] for rank, error in waited}
    counts, rank_of = Counter(texts.values()), {text: rank for rank, text in reversed(list(texts.items()))}
    lines = []
    for text, times in sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:MOST_NAMED]:
        more = f" and {times - 1} more" if times > 1 else ""
        lines.append(f"{rank_of[text]}{more}: {text}")
    return "\n".join(lines)


def _first_missing(rank: str, order: Sequence[str], errors: Mapping[str, Errors], broken: _Break) -> str:
    if broken.mode is not _SilentRank.SILENT:
        return broken.check
    return next((check for check in order if errors[check] and _absent(rank, errors[check])), broken.check)


def _errors(records: CheckTable) -> Errors:
    columns = records.columns
    every = zip(columns.subjects, columns.outcomes, columns.error_kinds, columns.reasons, strict=True)
    return {
        subject: _Error(ending, reason[:MOST_READ]) if outcome is Outcome.ERRORED else None
        for subject, outcome, ending, reason in every
    }


def _absent(rank: str, errors: Errors) -> bool:
    """Whether the rank did not get to this check. The runner writes such rows for ranks that never reached it."""
    error = errors.get(rank)
    return rank not in errors or (error is not None and error.ending is ErrorKind.NOT_REACHED)


def _waiting(errors: Errors) -> dict[str, _Error]:
    return {rank: error for rank, error in errors.items() if error is not None and error.ending in WAITING}


def _odd(records: CheckTable | None, ranks: int) -> bool:
    return records is None or len(records) != ranks or Outcome.ERRORED in records.columns.outcomes


def _lost_nodes(report: Report, records: Mapping[str, CheckTable]) -> tuple[str, ...]:
    """Nodes that belong to the job and sent no report: they are declared by name, or others saw them."""
    here = {node.name for node in report.nodes}
    column = records[REACHABILITY].column("peers") if REACHABILITY in records else ()
    peers = (str(peer) for value in column if isinstance(value, tuple) for peer in value)
    names = dict.fromkeys([*report.declared.node_names, *peers])
    missing = [name for name in names if name not in here]
    return tuple(sorted(missing)) if len(missing) <= report.declared.nodes - len(here) else ()


def _ranks(report: Report) -> list[str]:
    per_node = report.declared.ranks_per_node
    nodes = sorted(report.nodes, key=lambda node: (node.rank, node.name))
    return [rank_subject(n.name, n.rank * per_node + local) for n in nodes for local in range(per_node)]
