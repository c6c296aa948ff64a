"""Reports as a command line names them: a file, a folder that holds one, or "-" for stdin.

InputError          there is no such report, or no policy to judge it by: exit 2
"""

from __future__ import annotations

import stat
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from checks.baseline import Baseline
from checks.decode import DecodeError, nearest
from checks.facts.shipped import builtin
from checks.model import Declared, Report, Verdict
from checks.policy import OnWarn, Policy
from checks.report import REPORT_BYTES, digest, load
from checks.verdict import decide, unreadable
from tasks.costing import NOTHING_SAID, Terms, cost_of
from tasks.mistaken import kind_of
from tasks.policies import PolicyError, default_policy, read_policy
from tasks.render.beside import NOTHING_BESIDE, Beside, beside
from tasks.render.clean import one_line
from tasks.secondopinion import NOTHING_STATED, POLICY, Stated, headline_name, opinion_of, said

if TYPE_CHECKING:
    from checks.secondopinion.read import Opinion

REPORT_NAME = "health_check_metrics.json"
MOST_NODES = 100_000
# For a report that cannot be read, where no policy was named: it holds nothing and lets nothing through.
NO_POLICY = Policy("none", (), OnWarn.REFUSE, 0.0, {})


class InputError(Exception):
    """What was named cannot be judged at all. It carries what {"error": ...} says."""

    def __init__(self, file: str, message: str, path: str = "", nearest: str | None = None) -> None:
        super().__init__(f"{file}: {f'{path}: ' if path else ''}{message}")
        self.file, self.path, self.message, self.nearest = file, path, message, nearest


@dataclass(frozen=True)
class JudgedFile:
    """One report and its verdict; `report` is None for one that cannot be read. `name` is for headlines.

    `policy` names the policy that was chosen for it and its file, "" where one was given. `opinion` is set for the
    report of another tool.
    """

    file: str
    name: str
    report: Report | None
    verdict: Verdict
    policy: str = ""
    beside: Beside = NOTHING_BESIDE
    opinion: Opinion | None = None


def judged(
    file: str,
    policy: Policy | None,
    baseline: Baseline | None = None,
    stated: Stated = NOTHING_STATED,
    terms: Terms = NOTHING_SAID,
) -> JudgedFile:
    """The verdict on one report. Raises InputError if there is none to judge, or nothing to judge it by.

    `stated` is for the report of another tool; one of ours declares itself. `terms` are for the cost beside the verdict.
    """
    return judged_data(file, *read_input(file), policy, baseline, stated, terms)


def judged_data(
    file: str,
    path: str,
    data: bytes,
    policy: Policy | None,
    baseline: Baseline | None = None,
    stated: Stated = NOTHING_STATED,
    terms: Terms = NOTHING_SAID,
) -> JudgedFile:
    """The same for a report that was read already, from `path`."""
    facts = builtin()
    try:
        report = load(data)
    except DecodeError as error:
        return _another(file, path, data, policy, baseline, stated, terms) or _unreadable(
            file, path, data, policy, error
        )
    if stated.anything:
        raise InputError(
            file, "a report of Prelaunch declares its machines itself: leave --instance-type and --nodes out."
        )
    rules, chosen = (policy, "") if policy else default_of(report.declared.instance_type)
    verdict = decide(report, rules, facts, baseline, report_digest=digest(data))
    shown = beside(report, rules, verdict, cost=cost_of(report, verdict, terms), facts=facts)
    return JudgedFile(file, report.gate_id or path, report, verdict, chosen, shown)


def _another(
    file: str,
    path: str,
    data: bytes,
    policy: Policy | None,
    baseline: Baseline | None,
    stated: Stated,
    terms: Terms,
) -> JudgedFile | None:
    """The verdict on the report of another tool; None for what is none."""
    try:
        opinion = opinion_of(data, builtin(), stated)
    except DecodeError as error:
        return _unreadable(file, path, data, policy, error)
    if opinion is None:
        return None
    rules, chosen = (policy, "") if policy else _shipped(POLICY)
    report = opinion.report
    verdict = decide(report, rules, opinion.facts, baseline, report_digest=digest(data))
    cost = cost_of(report, verdict, terms)
    shown = beside(report, rules, verdict, said=said(opinion), cost=cost, facts=opinion.facts)
    return JudgedFile(file, headline_name(path, opinion.own), report, verdict, chosen, shown, opinion)


def _unreadable(file: str, path: str, data: bytes, policy: Policy | None, error: DecodeError) -> JudgedFile:
    reason = no_report(data, error)
    return JudgedFile(file, path, None, unreadable(reason, policy or NO_POLICY, builtin(), data))


def no_report(data: bytes, error: DecodeError) -> str:
    """Why the bytes are no report, in a line without a full stop: what they are instead, where that is known."""
    found = kind_of(data)
    if found and found != "a report":
        return f"it is {found}"
    return one_line(str(error), 500).rstrip(".")


def _shipped(path: Path) -> tuple[Policy, str]:
    policy = policy_of(path)
    assert policy is not None  # noqa: S101 - a path was given
    return policy, f"{policy.name} ({path})"


def policy_of(path: Path | None) -> Policy | None:
    """The policy that --policy names; None where each report gets its type's own. Raises InputError."""
    try:
        return None if path is None else read_policy(path)
    except PolicyError as error:
        raise InputError(str(error.file), error.message, error.path, error.nearest) from error


def declared_of(instance_type: str, nodes: int) -> Declared:
    """What an instance type implies: a rank a GPU, or one a node. Raises InputError for an unknown type."""
    known = builtin().instances
    if instance_type not in known:
        near = nearest(instance_type, list(known))
        said = f"nothing is known of instance type {instance_type:.64}."
        raise InputError("facts", said, "instance_types", near)
    gpus = known[instance_type].gpus
    return Declared(instance_type, nodes, gpus, max(gpus, 1))


def stated_of(instance_type: str | None, nodes: int | None) -> Stated:
    """What the command line says of another tool's report, "ml." or not. Raises InputError for an unknown type."""
    if nodes is not None and not 1 <= nodes <= MOST_NODES:
        raise InputError("command line", f"{nodes} is not between 1 and {MOST_NODES}.", "--nodes")
    if instance_type is None:
        return Stated(None, nodes)
    return Stated(declared_of(instance_type.removeprefix("ml."), 1).instance_type, nodes)


def default_of(instance_type: str) -> tuple[Policy, str]:
    """The shipped policy that was written for the type, and how to name it. Raises InputError."""
    try:
        path, policy = default_policy(instance_type)
    except PolicyError as error:
        raise InputError(str(error.file), error.message, error.path, error.nearest) from error
    return policy, f"{policy.name} ({path})"


def read_input(file: str) -> tuple[str, bytes]:
    """Where it was found, and its bytes, at most one more than a reader of reports takes. Raises InputError."""
    if file == "-":
        return "stdin", _bounded(sys.stdin.buffer)
    path = Path(file)
    try:
        if path.is_dir():
            path = _only_report(path)
        if stat.S_ISCHR(path.stat().st_mode):
            raise InputError(file, "it is a device. Name a report, a folder that holds one, or - for stdin.")
        with path.open("rb") as opened:
            return str(path), _bounded(opened)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise InputError(
            file, f"it cannot be read ({why}). Name a report, a folder, or - for stdin."
        ) from error


def _bounded(opened: BinaryIO) -> bytes:
    return opened.read(REPORT_BYTES + 1)


def _only_report(folder: Path) -> Path:
    if (folder / REPORT_NAME).exists():
        return folder / REPORT_NAME
    found = sorted(folder.rglob(REPORT_NAME))
    if len(found) == 1:
        return found[0]
    said = f"the folder holds {len(found)} files called {REPORT_NAME}. Name the one to judge."
    raise InputError(str(folder), said)
