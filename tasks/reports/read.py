"""Reads reports as a command line names them: a file, a folder that holds one, or "-" for stdin.

If a gate judged nothing, the verdict says that nobody can tell, and why, so that no page of an earlier run stays in its place.

Raises InputError if there is no such report, or no policy to judge it by.
"""

from __future__ import annotations

import stat
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from checks.command_line import InputError
from checks.documents.report import REPORT_BYTES, digest, dump_plain, load
from checks.exit_codes import Exit
from checks.facts import own_machine
from checks.facts.builtin import builtin
from checks.facts.instances import Instance, not_for, unknown_type
from checks.judge.baseline.bands import Baseline
from checks.judge.clocks import seconds_of
from checks.judge.verdict import ANSWER_EXITS, NOTHING, conclude, decide, unreadable
from checks.model import CLUSTER, Answer, Cause, Declared, Digests, Finding, Level, Report, Verdict
from checks.policy import OnWarn, Policy
from checks.value_types import DecodeError
from checks.version import ENGINE
from tasks.gate_file.cost_terms import cost_of
from tasks.gate_file.references import VERDICT, default_policy, document_kind, read_policy
from tasks.render.context import NO_CONTEXT, VerdictContext, verdict_context
from tasks.render.headline import measured_before
from tasks.reports.gate_folder.decision import KeptBeside, kept_beside, own_decision, policy_name
from tasks.store.layout import REPORT_FILE, gate_folder
from tasks.store.records import is_gate_id
from tasks.text.inert import one_line

R = TypeVar("R")
DEFAULT = ".prelaunch"  # the store of a gate file that names none
MOST_NODES = 100_000
# For a report that cannot be read, where no policy was named: it holds nothing and lets nothing through.
NO_POLICY = Policy("none", (), OnWarn.REFUSE, 0.0, {})
AS_KEPT = "This is the gate's own verdict, as it was kept; prelaunch judge judges the report again."
# Several files in one call: the worst, in this order.
_WORST = (Exit.REJECTED, Exit.NO_GO, Exit.CANNOT_TELL, Exit.GO)
REMEDY = "Correct the problem and run the gate again. This does not mean that any machine is broken."


@dataclass(frozen=True)
class JudgedFile:
    """One report and its verdict; `report` is None for one that cannot be read. `name` is for headlines.

    `policy` names the policy that was chosen for it and its file, "" if one was given; `rules` is the policy itself. `kept` is set
    where a gate's verdict lies beside the report.
    """

    file: str
    name: str
    report: Report | None
    verdict: Verdict
    policy: str = ""
    context: VerdictContext = NO_CONTEXT
    rules: Policy | None = None
    record: KeptBeside | None = None

    @property
    def is_kept(self) -> bool:
        """Whether the verdict is the gate's own, as it was kept."""
        return self.record is not None and self.record.verdict is self.verdict


# Adds to what is shown of a report beside which a gate kept its verdict how that gate ended.
ShownEnd = Callable[[JudgedFile], JudgedFile]


def judge_file(
    file: str, policy: Policy | None, baseline: Baseline | None = None, as_kept: ShownEnd | None = None
) -> JudgedFile:
    """The verdict on one report. Raises InputError if there is none to judge, or nothing to judge it by.

    `as_kept`: if a gate kept its verdict beside the report, and neither policy nor baseline is named, it is that verdict; how the
    gate ended is added by `as_kept`.
    """
    path, data = read_input(file)
    facts = builtin()
    try:
        report = load(data)
    except DecodeError as error:
        return _unreadable(file, path, data, policy, error)
    record = kept_beside(path, data)
    own = policy is None and baseline is None
    if own and as_kept is not None and record is not None and record.verdict is not None:
        return as_kept(_with_doubts(_as_kept(file, path, report, record, record.verdict)))
    rules, chosen = _rules_for(report, policy, record)
    verdict = decide(report, rules, facts, baseline, report_digest=digest(data))
    context = verdict_context(report, rules, verdict, cost=cost_of(report, verdict), facts=facts)
    context = replace(context, own_decision=own_decision(record, verdict, chosen or rules.name))
    name = (record.name if record is not None else "") or report.gate_id or path
    judged = _with_doubts(JudgedFile(file, name, report, verdict, chosen, context, rules, record))
    return judged if as_kept is None else as_kept(judged)


def _with_doubts(judged: JudgedFile) -> JudgedFile:
    """The returned file has what the preflight of its gate warned of, as the gate's own pages have it, unless the answer is a go."""
    if judged.record is None or judged.verdict.answer is Answer.GO:
        return judged
    lines = (*judged.record.doubts, *judged.context.notes)
    return replace(judged, context=replace(judged.context, doubts=judged.record.doubts, notes=lines))


def _as_kept(file: str, path: str, report: Report, record: KeptBeside, verdict: Verdict) -> JudgedFile:
    """The gate's own verdict; thresholds and expectations only where its policy is known."""
    cost = cost_of(report, verdict)
    if record.policy is not None:
        own = verdict_context(report, record.policy, verdict, cost=cost, facts=builtin())
    else:
        own = replace(verdict_context(report, NO_POLICY, verdict, cost=cost), ledger=())
    measured = measured_before(record.judged_s, seconds_of(report.measured_at))
    own = replace(own, own_decision=AS_KEPT, measured=measured)
    name = record.name or report.gate_id or path
    return JudgedFile(file, name, report, verdict, policy_name(record), own, record.policy, record)


def _rules_for(report: Report, policy: Policy | None, record: KeptBeside | None) -> tuple[Policy, str]:
    """The policy that was given; else the gate's own, which lies beside the report; else the shipped one for the type."""
    if policy is not None:
        return policy, ""
    if record is not None and record.policy is not None:
        return record.policy, policy_name(record)
    return default_policy_of(report.declared.instance_type, report.declared)


def _unreadable(file: str, path: str, data: bytes, policy: Policy | None, error: DecodeError) -> JudgedFile:
    reason, document = not_a_report(data, error), document_kind(data)
    if document not in ("", "a report"):
        sibling = Path(path).with_name(REPORT_FILE)
        is_beside = document == VERDICT and sibling.is_file()
        other = f"Judge the report beside it: {sibling}" if is_beside else "Name a report or its folder"
        raise InputError(file, f"{reason}, and no report. {other}.")
    return JudgedFile(file, path, None, unreadable(reason, policy or NO_POLICY, builtin(), data))


def not_a_report(data: bytes, error: DecodeError) -> str:
    """Why the bytes are no report, in a line without a full stop: what they are instead, where that is known."""
    document = document_kind(data)
    if document and document != "a report":
        return f"it is {document}"
    return one_line(str(error), 500).rstrip(".")


def policy_of(path: Path | None) -> Policy | None:
    """The policy that --policy names; None where each report gets its type's own. Raises InputError."""
    return None if path is None else read_policy(path)


def declared_of(instance_type: str, nodes: int) -> Declared:
    """What an instance type, or a file about a machine of one's own, implies: a rank a GPU, or one a node. Raises InputError."""
    if own_machine.is_file(instance_type):
        try:
            return own_machine.read(Path(instance_type), nodes)
        except OSError as error:
            raise InputError(instance_type, error.strerror or str(error)) from error
        except DecodeError as error:
            raise InputError(instance_type, error.reason, error.path, error.nearest) from error
    gpus = instance_named(instance_type, "--instance-type").gpus
    return Declared(instance_type, nodes, gpus, max(gpus, 1))


def instance_named(name: str, where: str, hint: str = "") -> Instance:
    """The facts of an instance type that somebody named at `where`. Raises InputError."""
    instances = builtin().instances
    if name not in instances:
        message, near = unknown_type(name, tuple(instances))
        raise InputError(where, f"{message}{hint}.", "", near)
    return instances[name]


def require_policy_for(declared: Declared, policy: Policy, path: Path) -> None:
    """Refuse a policy that is for other instance types before anything is measured. Raises InputError."""
    if not builtin().are_for(policy.instance_types, declared):
        message = f"the policy {not_for(policy.instance_types, declared.instance_type)}."
        message += " Name another one, or leave --policy out: the shipped one for the type is then taken."
        raise InputError(path, message, "instance_types")


def default_policy_of(instance_type: str, declared: Declared | None = None) -> tuple[Policy, str]:
    """The shipped policy that was written for the type, or for an own one that `declared` describes, and how to name it. Raises
    InputError.
    """
    path, policy = default_policy(instance_type, declared)
    return policy, f"{policy.name} ({path})"


def read_input(file: str) -> tuple[str, bytes]:
    """The path of the report and its bytes, at most one more than a reader of reports accepts. Raises InputError."""
    if file == "-":
        return "stdin", sys.stdin.buffer.read(REPORT_BYTES + 1)
    path = Path(file)
    if is_gate_id(file):
        here = gate_folder(DEFAULT, file)
        folder = here if Path(here).is_dir() else gate_folder("STORE", file)
        raise InputError(file, f"it is the id of a gate. Name the folder of its report: {folder}")
    try:
        if path.is_dir():
            path = _only_report(path)
        if stat.S_ISCHR(path.stat().st_mode):
            raise InputError(file, "it is a device. Name a report, a folder that holds one, or - for stdin.")
        with path.open("rb") as opened:
            return str(path), opened.read(REPORT_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        message = f"it cannot be read ({reason}). Name a report, a folder, a gate id, or - for stdin."
        raise InputError(file, message) from error


def _only_report(folder: Path) -> Path:
    if (folder / REPORT_FILE).exists():
        return folder / REPORT_FILE
    reports = sorted(folder.rglob(REPORT_FILE))
    if len(reports) == 1:
        return reports[0]
    message = f"the folder holds {len(reports)} files called {REPORT_FILE}. Name the file to judge."
    raise InputError(folder, message)


def unjudged_verdict(reason: str) -> Verdict:
    """The verdict CANNOT TELL, for the reason given."""
    text = f"nothing was judged: {reason}"
    finding = Finding(Level.FAIL, Cause.EVIDENCE, "report", CLUSTER, text, "", REMEDY)
    digests = Digests(digest(b""), digest(dump_plain(NO_POLICY)), builtin().digest, None, ENGINE)
    return conclude([finding], NOTHING, NO_POLICY, 1, digests, None)


def results_of(files: Sequence[str], work: Callable[[str], R]) -> list[R | InputError]:
    """What became of each file: its result, or why it was refused. Raises the InputError of a file that is the only one."""
    results: list[R | InputError] = []
    for file in files:
        try:
            results.append(work(file))
        except InputError as error:
            if len(files) == 1:
                raise
            results.append(error)
    return results


def exit_code(verdict: Verdict) -> int:
    """0 go, 1 no-go (and a question that nobody has answered), 3 cannot tell."""
    return int(ANSWER_EXITS[verdict.answer])


def worst_code(codes: Sequence[int]) -> int:
    """The one exit code of several inputs; 3 for none, since nothing was judged."""
    return next((int(code) for code in _WORST if code in codes), int(Exit.CANNOT_TELL))
