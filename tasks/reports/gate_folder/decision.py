"""What a gate kept beside its report: its verdict, and the policy that it judged with. A report that is judged again says where the
new answer differs from the gate's, and why.

The gate's own policy is recognised by its digest, which the verdict has. It is looked for beside the report, in the gate file that the
request names, and among the shipped policies; another file is never taken for it.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from checks.command_line import InputError
from checks.documents.decode import decode, parse_json
from checks.documents.report import digest
from checks.judge.clocks import seconds_of
from checks.model import ANSWER_WORDS, Answer, Digests, Verdict
from checks.policy import Policy
from checks.value_types import DecodeError
from tasks.gate_file.references import SHIPPED, read_policy
from tasks.launchers.base import PreflightCheck, PreflightResult
from tasks.store import layout
from tasks.store.records import VERDICT_BYTES, Record, load
from tasks.text.inert import one_line

FILE_BYTES = 1 << 22


@dataclass(frozen=True)
class KeptBeside:
    """The verdict that a gate kept beside its report. `policy` is the one that it judged with, None if no file of it was found; `file`
    is where that is. `problem` says why nobody knows what the gate decided; `verdict` is then None. `name` is the gate's or its
    cluster's, "" where nobody kept it; `folder` is where all of this lies, and `judged_s` (Unix seconds) when the gate judged, None
    where no record says it. `doubts` is what its preflight warned of.
    """

    verdict: Verdict | None
    problem: str = ""
    policy: Policy | None = None
    file: str = ""
    name: str = ""
    folder: str = ""
    judged_s: float | None = None
    doubts: tuple[str, ...] = ()


def kept_beside(path: str, data: bytes) -> KeptBeside | None:
    """What lies beside the report at `path` with the content `data`; None where no verdict lies there, or one of another file."""
    folder, is_report = Path(path).parent, Path(path).name == layout.REPORT_FILE
    try:
        if not (folder / layout.VERDICT_FILE).is_file():
            return None
        with (folder / layout.VERDICT_FILE).open("rb") as file:
            written = file.read(VERDICT_BYTES + 1)
        verdict = load(written)
    except (DecodeError, OSError, ValueError) as error:
        text = f"{layout.VERDICT_FILE} beside the report cannot be read ({one_line(str(error), 200)})"
        return KeptBeside(None, text) if is_report else None
    if verdict.digests.report != digest(data):
        text = f"{layout.VERDICT_FILE} beside the report was made from another report"
        return KeptBeside(None, text) if is_report else None
    record = _table(folder.parent.parent / layout.record_key(folder.name))
    name = (
        _name_in(record, "gate") or _name_in(record, "cluster") or _name_in(outcome_beside(folder), "cluster")
    )
    result = KeptBeside(
        verdict, name=name, folder=str(folder),
        judged_s=seconds_of(str(record.get("judged_at"))), doubts=_doubts_beside(folder),
    )  # fmt: skip
    for candidate in _candidates(folder):
        try:
            policy = read_policy(candidate)
        except InputError:
            continue
        if policy.digest == verdict.digests.policy:
            return replace(result, policy=policy, file=str(candidate))
    return result


def outcome_beside(folder: Path) -> dict[str, object] | None:
    """What outcome.json in the gate's folder says, as it is; {} where it cannot be read, None where it is not there."""
    path = folder / Path(layout.outcome_key(folder.name)).name
    return _table(path) if path.is_file() else None


def _doubts_beside(folder: Path) -> tuple[str, ...]:
    """What the preflight of the gate warned of: it may explain what the checks found. () where that is not kept, or cannot be read."""
    of_gate = folder.parent.parent  # of the report of one attempt
    for path in (base / Path(layout.preflight_key("")).name for base in (folder, of_gate)):
        try:
            if path.is_file():
                with path.open("rb") as file:
                    return doubts_in(file.read(FILE_BYTES + 1))
        except (DecodeError, OSError):
            return ()
    return ()


def doubts_in(data: bytes) -> tuple[str, ...]:
    """The warnings in what a gate kept of its preflight, each as a line for its pages. Raises DecodeError."""
    entries = parse_json(data, FILE_BYTES)
    lines = [decode(PreflightCheck, entry) for entry in entries] if isinstance(entries, list) else []
    return tuple(
        f"Before the checks: {line.text}" for line in lines if line.result is PreflightResult.WARNING
    )


def requested_launch(folder: Path) -> bool:
    """Whether the gate was to start a training, as request.json in its folder says; False where nobody knows."""
    return _table(folder / layout.REQUEST_FILE).get("launch") is True


def _table(path: Path) -> dict[str, object]:
    try:
        if not path.is_file():
            return {}
        with path.open("rb") as file:
            table = parse_json(file.read(FILE_BYTES + 1), FILE_BYTES)
    except (DecodeError, OSError, ValueError):
        return {}
    return table if isinstance(table, dict) else {}


def _name_in(table: dict[str, object] | None, key: str) -> str:
    name = (table or {}).get(key)
    return one_line(name, 80) if isinstance(name, str) else ""


def own_decision(record: KeptBeside | None, now: Verdict, name: str) -> str:
    """What the gate decided, by which policy, and why the new answer is another, in short sentences; "" where it is the same answer by
    the same policy. `name` names the policy of the new answer.
    """
    if record is None:
        return ""
    if record.verdict is None:
        return f"What the gate itself decided is not known: {record.problem}."
    reasons = tuple(other_inputs(record.verdict.digests, now.digests))
    other, same = record.verdict.digests.policy != now.digests.policy, _same(record.verdict, now)
    if not other and same:
        return ""
    decided = f"The gate itself decided {answer_text(record.verdict)}"
    if not other:
        return f"{decided}. This answer is by the same policy: {'; '.join(reasons) or 'why it differs is not known'}."
    rest = f" Also, {'; '.join(reasons)}." if reasons else ""
    now_by = f"has the same result, by policy {name}" if same else f"differs: it is by policy {name}"
    if record.policy is not None:
        return f"{decided}, by policy {policy_name(record)}. This answer {now_by}.{rest}"
    return f"{decided}, by a policy that is not here. This answer {now_by}. Name the gate's own with --policy.{rest}"


def policy_name(record: KeptBeside) -> str:
    """The gate's own policy: its name and file, "" where no file of it was found."""
    return f"{one_line(record.policy.name, 80)} ({record.file})" if record.policy is not None else ""


def own_decision_json(record: KeptBeside, now: Verdict, reason: str) -> dict[str, object]:
    """The document holds the gate's own decision, for programs. No key is ever absent."""
    old = record.verdict
    return {
        "answer": old.answer.value if old is not None else None,
        "level": old.level.value if old is not None else None,
        "policy": old.digests.policy if old is not None else None,
        "policy_file": record.file or None,
        "same_answer": old is not None and _same(old, now),
        "same_policy": old is not None and old.digests.policy == now.digests.policy,
        "said": reason or None,
    }


def _candidates(folder: Path) -> Iterator[Path]:
    """Where the gate's own policy may be."""
    of_gate = folder.parent.parent  # of the report of one attempt
    yield from (
        base / layout.POLICY_FILE for base in (folder, of_gate) if (base / layout.POLICY_FILE).is_file()
    )
    try:
        gate_file = Path(str(_table(folder / layout.REQUEST_FILE)["gate_file"]))
        with gate_file.open("rb") as file:
            table = tomllib.loads(file.read(FILE_BYTES).decode("utf-8"))
        yield (gate_file.parent / str(table["policy"]["file"])).resolve()
    except (DecodeError, KeyError, OSError, TypeError, ValueError):
        pass  # no request, or its gate file is on another machine
    yield from sorted(SHIPPED.glob("*.toml"))


def other_inputs(old: Digests, now: Digests) -> Iterator[str]:
    """What differs between then and now besides report and policy."""
    if old.baseline != now.baseline:
        yield "the gate compared with another baseline, or one of the two with none"
    if old.facts != now.facts:
        yield "the facts have changed since then"
    if old.engine != now.engine:
        yield f"Prelaunch {one_line(old.engine, 40)} judged it"


def _same(old: Verdict, now: Verdict) -> bool:
    return (old.answer, old.level, old.condemned) == (now.answer, now.level, now.condemned)


def answer_text(judged: Verdict | Record) -> str:
    """Such as "NO-GO (FAIL)". The level of what could not be told would read as if a machine had failed."""
    level = "" if judged.answer is Answer.CANNOT_TELL else f" ({judged.level.value})"
    return f"{ANSWER_WORDS[judged.answer]}{level}"
