"""What a check job has written so far, read from the folder into which it was fetched.

Only <attempt>/nodes/<node>.json of the current attempt counts: a restarted job is never judged by its first
attempt. The texts of a report lose the secrets of this process where it is decoded.
"""

from __future__ import annotations

import os
import re
import stat
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

from checks.bundle import Bundle, plan_of
from checks.documents.report import NODE_REPORT_BYTES, NodeReport, digest, load_node
from checks.model import Declared, Observation, Outcome, Planned, Scope, Value
from checks.value_types import DecodeError, natural
from tasks.text.inert import one_line
from tasks.text.redact import redacted, redactor

ID = re.compile(r"[\w.:,-]*")  # a host name, a UUID, a version, or several of them

NODES = 100_000
MOST_NAMES, LOG_AFTER_S = 3, 60.0


@dataclass(frozen=True)
class NodeProgress:
    """What a node has reported of its checks: `done` of `total` observations, and `failed` that could not be made. `doing` is the
    first check that it has not reported, "" where it is done.
    """

    name: str
    done: int
    total: int
    doing: str
    failed: int = 0


@dataclass(frozen=True)
class ReportCounts:
    """The nodes' progress: observations made of those planned, nodes that report, and nodes that are done.

    `doing` is the first check that nobody has reported yet. `by_node` has the nodes that report.
    """

    done: int
    total: int
    nodes: int
    complete: int
    doing: str
    by_node: tuple[NodeProgress, ...] = ()


class NodeReports:
    """Node reports, each content decoded once however often it is read.

    It remembers what was decoded of the files that `readable` was last asked for, and of no others.
    """

    def __init__(self) -> None:
        self._decoded: dict[str, NodeReport | DecodeError] = {}

    def __len__(self) -> int:
        return len(self._decoded)

    def load(self, data: bytes) -> NodeReport:
        """The report in one file. Raises DecodeError."""
        key = digest(data)
        if key not in self._decoded:
            self._decoded[key] = _load(data)
        result = self._decoded[key]
        if isinstance(result, DecodeError):
            raise result.with_traceback(None)
        return result

    def readable(self, files: Mapping[str, bytes]) -> list[NodeReport]:
        """The reports of these files, without those that cannot be decoded: the merge says what is wrong with them."""
        keys = [digest(data) for data in files.values()]
        before = self._decoded
        self._decoded = {
            key: before[key] if key in before else _load(data)
            for key, data in zip(keys, files.values(), strict=True)
        }
        results = [self._decoded[key] for key in keys]
        return [report for report in results if not isinstance(report, DecodeError)]


def read_files(folder: Path, attempt: str) -> dict[str, bytes]:
    """Node -> the bytes of its report, a byte more than allowed at most, so that the reader refuses them."""
    nodes = folder / attempt / "nodes"
    if not attempt or not nodes.is_dir():
        return {}
    files: dict[str, bytes] = {}
    for path in sorted(nodes.glob("*.json"))[:NODES]:
        data = _read(path)
        if data is not None:
            files[path.stem] = data
    return files


def keep_read(before: Path, now: Path) -> None:
    """Keep the reports that were read before and could not be read now. Raises OSError."""
    for path in before.glob("*/nodes/*.json"):
        if not (report := now / path.relative_to(before)).exists():
            report.parent.mkdir(parents=True, exist_ok=True)
            path.replace(report)


def count_observations(bundle: Bundle, files: Mapping[str, bytes], decoded: NodeReports) -> ReportCounts:
    """Count observations for people; no decision depends on the counts."""
    declared = bundle.declared
    checks, plan = plan_of(bundle)
    planned = [entry for entry in plan if entry.skip is None]
    last = {check.name for check in checks if check.closing}
    per = {Scope.NODE: declared.nodes, Scope.RANK: declared.ranks, Scope.CLUSTER: 1}
    reports = decoded.readable(files)
    observations = [observation for report in reports for observation in report.observations]
    reported = {observation.check for observation in observations}
    turns = sorted(planned, key=lambda entry: (entry.check in last, entry.scope is Scope.RANK))
    waiting = [turn.check for turn in turns if turn.check not in reported]
    doing = waiting[0] if observations and waiting else ""
    done = sum(observation.outcome is not Outcome.ERRORED for observation in observations)
    ended = sum(report.node.complete for report in reports)
    by_node = tuple(_progress_of(report, turns, declared.ranks_per_node) for report in reports)
    total = sum(per[entry.scope] for entry in planned)
    return ReportCounts(done, total, len(reports), ended, doing, by_node)


def _progress_of(report: NodeReport, turns: Sequence[Planned], ranks: int) -> NodeProgress:
    """What a node has done of its own checks and those of its ranks, and the first of them that it has not reported."""
    turns = [turn for turn in turns if turn.scope is not Scope.CLUSTER]
    wanted = {turn.check: ranks if turn.scope is Scope.RANK else 1 for turn in turns}
    results = [result for result in report.observations if result.check in wanted]
    text = Counter(result.check for result in results)
    failed = sum(result.outcome is Outcome.ERRORED for result in results)
    doing = next((check for check, count in wanted.items() if text[check] < count), "")
    doing = "" if report.node.complete else doing
    return NodeProgress(report.node.name, len(results) - failed, sum(wanted.values()), doing, failed)


def waited_for(declared: Declared, counts: ReportCounts) -> str:
    """Which nodes the others wait for: "no report yet from n-2, n-7", "waiting for n-2 (4 of 9, now compute.gemm)", and before it
    those that are done and could not measure all; "" while that is nobody, or where no name is known.
    """
    reporting = {node.name for node in counts.by_node}
    silent = [name for name in declared.node_names if name not in reporting]
    if silent and reporting:
        return f"no report yet from {_some(silent)}"
    busy = [node for node in counts.by_node if node.doing]
    if silent or not counts.complete or not busy:
        return ""
    about = {node.name: f" ({node.done} of {node.total}, now {one_line(node.doing, 80)})" for node in busy}
    failed = {
        n.name: f" could not measure {n.failed} of {n.total}"
        for n in counts.by_node
        if n.failed and not n.doing
    }
    return "; ".join(
        [*([_some([*failed], failed)] if failed else []), f"waiting for {_some([*about], about)}"]
    )


def _some(names: Sequence[str], about: Mapping[str, str] = MappingProxyType({})) -> str:
    """The first in natural order, and how many more there are."""
    first = [f"{one_line(name, 40)}{about.get(name, '')}" for name in sorted(names, key=natural)[:MOST_NAMES]]
    more = len(names) - len(first)
    return f"{', '.join(first)}{f' and {more} more nodes' if more else ''}"


class WaitLog:
    """When the run's log names the nodes that are waited for: after a minute, and each time after twice as long."""

    def __init__(self) -> None:
        self._since: float | None = None
        self._next_s = LOG_AFTER_S

    def due(self, text: str, now: float) -> str:
        """The line for the log, "" if none is due. `text` is "" while nobody is waited for; `now` is of a clock in seconds."""
        if not text:
            self._since, self._next_s = None, LOG_AFTER_S
            return ""
        self._since = now if self._since is None else self._since
        waited_s = now - self._since
        if waited_s < self._next_s:
            return ""
        self._next_s = 2 * waited_s
        return f"after {waited_s:.0f} s: {text}"


def unfinished_nodes(
    bundle: Bundle, files: Mapping[str, bytes], decoded: NodeReports, engine_names: Iterable[str] = ()
) -> tuple[str, ...]:
    """Nodes that are known by name and have no complete report. `engine_names` are the engine's, for a gate that declared none."""
    done = {report.node.name for report in decoded.readable(files) if report.node.complete}
    names = bundle.declared.node_names or tuple(dict.fromkeys((*files, *engine_names)))
    return tuple(name for name in names if name not in done)


def all_complete(bundle: Bundle, files: Mapping[str, bytes], decoded: NodeReports) -> bool:
    """Whether as many complete reports are there as nodes are declared."""
    whole = sum(report.node.complete for report in decoded.readable(files))
    return whole == bundle.declared.nodes == len(files)


def _load(data: bytes) -> NodeReport | DecodeError:
    try:
        return _without_secrets(load_node(data))
    except DecodeError as error:
        # `error` itself would keep the text, and all that was made of it so far.
        return DecodeError(redacted(error.reason), redacted(error.path), error.nearest)


def _without_secrets(report: NodeReport) -> NodeReport:
    text, label = redactor(os.environ), redactor(os.environ, no_words=True)

    def value(raw: Value) -> Value:
        if isinstance(raw, str):
            return label(raw)
        if isinstance(raw, tuple) and any(isinstance(item, str) for item in raw):
            return tuple(label(str(item)) for item in raw)
        return raw

    def cleaned(result: Observation) -> Observation:
        metrics = {name: value(raw) for name, raw in result.metrics.items()}
        return replace(result, metrics=metrics, reason=text(result.reason), evidence=text(result.evidence))

    # An id is compared with what the machine says of itself before the training, so that it stays whole.
    identity = {name: id_ if ID.fullmatch(id_) else label(id_) for name, id_ in report.node.identity.items()}
    node = replace(report.node, identity=identity, open_findings=text(report.node.open_findings))
    return replace(report, node=node, observations=tuple(map(cleaned, report.observations)))


def _read(path: Path) -> bytes | None:
    try:
        number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    with os.fdopen(number, "rb") as file:
        return file.read(NODE_REPORT_BYTES + 1) if stat.S_ISREG(os.fstat(number).st_mode) else None
