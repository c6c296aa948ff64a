"""A cluster's baseline, learned anew from its own kept reports: baselines/<cluster>.json in the store.

Only reports whose gate said go teach. The file that a gate is held to is never touched: a person puts it there.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from checks.bands import Baseline, digest_of, dump
from checks.decode import DecodeError
from checks.learn import LEAST_VALUES, Case, learn
from checks.model import Answer
from checks.report import digest, load
from checks.verdict import decide
from tasks.history import listed
from tasks.setting import Setting
from tasks.store.record import Record


@dataclass(frozen=True)
class Learnt:
    """What became of it, for people. `place` is "" where nothing was kept; `problems` are reports that were left out."""

    said: str
    place: str = ""
    problems: tuple[str, ...] = ()


def baseline_key(cluster: str) -> str:
    """Where it lies in the store."""
    return f"baselines/{cluster}.json"


def relearn(setting: Setting, most: int) -> Learnt:
    """Learn from the newest `most` go reports of the setting's cluster, and keep it. Raises StoreError."""
    cases, problems = _cases(setting, most)
    made = learn(cases)
    bands = sum(len(group.bands) for group in made.groups)
    reports = f"{len(cases)} go report{'' if len(cases) == 1 else 's'}"
    if not bands:
        said = f"not learned: {reports}, and a band needs {LEAST_VALUES} values of machines that are fit"
        return Learnt(said, problems=problems)
    key = baseline_key(setting.gate.cluster.name)
    setting.store.put(key, dump(made))
    place = setting.store.place(key)
    said = f"learned {bands} band{'' if bands == 1 else 's'} from {reports}: {place}. {_remedy(setting, place, made)}"
    return Learnt(said, place, problems)


def _cases(setting: Setting, most: int) -> tuple[list[Case], tuple[str, ...]]:
    kept = listed(setting.store, setting.index)
    problems = list(kept.problems)
    cases: list[Case] = []
    for record in reversed(kept.records):
        if len(cases) == most:
            break
        if _teaches(setting, record):
            case = _case(setting, record, problems)
            cases += [case] if case is not None else []
    return cases, tuple(problems)


def _teaches(setting: Setting, record: Record) -> bool:
    """A go of this cluster's machines as they are declared now; a reused PASS measured nothing."""
    same = (record.cluster, record.instance_type) == (
        setting.gate.cluster.name,
        setting.gate.cluster.declared.instance_type,
    )
    return same and record.answer is Answer.GO and not record.reused


def _case(setting: Setting, record: Record, problems: list[str]) -> Case | None:
    data = setting.store.get(record.report)
    if data is None or digest(data) != record.digests.report:
        problems.append(f"{record.gate_id}: its report is gone, or is not the one that was judged")
        return None
    try:
        report = load(data)
    except DecodeError as error:
        problems.append(f"{record.gate_id}: {error}")
        return None
    verdict = decide(report, setting.policy, setting.facts, report_digest=digest(data))
    return Case(report, verdict, setting.policy)


def _remedy(setting: Setting, place: str, made: Baseline) -> str:
    copy = "aws s3 cp" if "://" in place else "cp"
    named = setting.gate.policy.baseline
    if not named:
        return f"Nothing is held to it yet: name a copy in {setting.file}, [policy] baseline"
    if setting.baseline is not None and digest_of(setting.baseline) == digest_of(made):
        return "The gate is held to this very one"
    file = shlex.quote(str(setting.here / named))
    return f"The gate is held to {named} as before. To take the new one: {copy} {shlex.quote(place)} {file}"
