"""A list that is cut together with its labels is missing evidence, whatever the list, and however much of it is cut."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from checks import catalog
from checks.documents.report import load
from checks.facts.builtin import builtin
from checks.judge import reachability
from checks.judge.culprits import findings as culprits
from checks.judge.culprits.from_report import CHECKS
from checks.judge.evidence import weigh
from checks.judge.reachability import PAIRS, REACHABILITY
from checks.judge.verdict import decide
from checks.model import Answer, Cause, Declared, Level, Observation, Profile, Report, Value, Verdict
from checks.policy import Policy
from tasks.gate_file.references import default_policy
from tests.catalogue_reports import catalogue_report
from tests.planned_contents import COUNTS, with_later_checks

RECORDINGS = Path(__file__).parents[1] / "recordings"
HEALTHY = (
    "worlds/p5_healthy.json.gz", "worlds/g5_healthy.json.gz", "h100/health_check_metrics.json", "h200/health_check_metrics.json",
)  # fmt: skip
# What a machine has there is its own, so that nothing says how much it should be.
OWN = {
    "environment.lint", "mounts.responsive", "system.error_counters", "network.counters", "efa.plugin",
}  # fmt: skip
CUTS: Mapping[str, Callable[[int], int]] = {
    "by one": lambda size: size - 1,
    "by half": lambda size: size // 2,
    "to one": lambda size: 1,
    "to none": lambda size: 0,
}


def recorded(name: str) -> Report:
    """A healthy report whose plan is as one of today: with what every list holds, and the checks that came later and do not apply.
    When it was recorded a training had six steps.
    """
    data = (RECORDINGS / name).read_bytes()
    report = load(gzip.decompress(data) if name.endswith(".gz") else data)
    kind, declared = report.declared.instance_type, report.declared
    row = builtin().merged(declared).instances[kind]
    plan = catalog.plan(catalog.CATALOG, declared, report.profile, row, policy_of(declared))
    holds = {planned.check: planned.holds for planned in plan}
    lists = {check: tuple(one for one in held if one.metric != "steps") for check, held in holds.items()}
    old = tuple(replace(planned, holds=lists[planned.check]) for planned in report.plan)
    return with_later_checks(replace(report, plan=old), plan)


def judged(report: Report) -> Verdict:
    """By the policy of its type."""
    return decide(report, policy_of(report.declared), builtin())


def cut(row: Observation, metric: str, left: Callable[[int], int]) -> Observation:
    """The list and all of its length shortened from the end."""
    held = row.metrics[metric]
    assert isinstance(held, tuple)
    size = left(len(held))
    metrics: dict[str, Value] = {
        name: value[:size] if isinstance(value, tuple) and len(value) == len(held) else value
        for name, value in row.metrics.items()
    }
    return replace(row, metrics=metrics)


def is_repeat(row: Observation, metric: str, how: str) -> bool:
    """Whether only repeats of pair tests are cut: how many there are depends on the time that was left."""
    after = cut(row, metric, CUTS[how])
    return row.check in CHECKS and {*after.metrics["peers"]} == {*row.metrics["peers"]}  # type: ignore[misc]


def changes(report: Report) -> Iterator[tuple[str, str, str]]:
    """(check, metric, how) of every way to shorten every list of every check, that changes something."""
    first = {row.check: row for row in reversed(report.observations) if row.check not in OWN}
    for check, row in first.items():
        lists = {len(value): metric for metric, value in row.metrics.items() if isinstance(value, tuple)}
        for size, metric in lists.items():
            for how, left in CUTS.items():
                if left(size) < size and not is_repeat(row, metric, how):
                    yield check, metric, how


def alone(report: Report, check: str) -> Report:
    """The plan and the rows of this check, unless it is one whose rows other checks are compared with."""
    if check in (*CHECKS, PAIRS, REACHABILITY):
        return report
    plan = tuple(planned for planned in report.plan if planned.check == check)
    rows = tuple(row for row in report.observations if row.check == check)
    return replace(report, plan=plan, observations=rows)


def shortened(report: Report, check: str, metric: str, how: str, everywhere: bool) -> Report:
    """The report of this check, cut on the first subject or on all."""
    report = alone(report, check)
    first = next(row.subject for row in report.observations if row.check == check)
    rows = (
        cut(row, metric, CUTS[how]) if row.check == check and (everywhere or row.subject == first) else row
        for row in report.observations
    )
    return replace(report, observations=tuple(rows))


def missing(report: Report) -> set[str]:
    """The checks of which the judge says that evidence is missing, with a FAIL, so that the answer is no GO."""
    policy = policy_of(report.declared)
    sound = weigh(report, policy, builtin())
    found = (
        *sound.findings,
        *culprits.judge(report, sound.records, policy, builtin())[0],
        *reachability.judge(report, sound.records, policy),
    )
    return {f.check for f in found if f.cause is Cause.EVIDENCE and f.level is Level.FAIL}


def policy_of(declared: Declared) -> Policy:
    """The shipped one."""
    return default_policy(declared.instance_type, declared)[1]


@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_machine_has_all_that_its_plan_says(name: str) -> None:
    """Two p5, two g5, an H100 and an H200 (without the tools of DCGM) say of every check what they said before plans had lists."""
    report = recorded(name)
    older = replace(report, plan=tuple(replace(planned, holds=()) for planned in report.plan))

    assert judged(older).findings == judged(report).findings
    assert name.startswith("h") or Answer.GO is judged(report).answer


@pytest.mark.parametrize(
    ("name", "everywhere"), [(HEALTHY[0], False), (HEALTHY[1], True), (HEALTHY[2], False)]
)
def test_a_list_that_is_cut_with_its_labels_is_missing_evidence(name: str, everywhere: bool) -> None:
    """Every list of every check, by one, by half, to one and to none."""
    report = recorded(name)
    ways = {way: shortened(report, *way, everywhere) for way in changes(report)}

    assert [] == [way for way, cut_report in ways.items() if way[0] not in missing(cut_report)]


MADE = [
    ("p5.48xlarge", Profile.DEEP),
    ("trn1.32xlarge", Profile.DEEP),
    ("cpu", Profile.STANDARD),
    ("p3.16xlarge", Profile.QUICK),
]


@pytest.mark.parametrize(("kind", "profile"), MADE)
def test_every_list_of_the_catalogue_is_held_to_what_the_plan_says(kind: str, profile: Profile) -> None:
    """Without the pair tests, whose peers the judge of pairs knows."""
    report = catalogue_report(kind, 2, profile, peers=False)
    ways = [way for way in changes(report) if way[0] not in CHECKS]

    assert missing(report) <= {*CHECKS, PAIRS, REACHABILITY}
    assert [] == [way for way in ways if way[0] not in missing(shortened(report, *way, everywhere=True))]


@pytest.mark.parametrize(("kind", "profile"), MADE)
def test_a_check_that_did_no_work_proves_nothing(kind: str, profile: Profile) -> None:
    """Each count of work of each check at 0, at 1 where more is needed, and below what the profile wants."""
    report = catalogue_report(kind, 2, profile, peers=False)
    wanted = {(line.check, one.metric): one.count for line in report.plan for one in line.holds}
    work = {(row.check, name) for row in report.observations for name in COUNTS & {*row.metrics}}
    for name, metric in work:
        for count in {0, wanted.get((name, metric), 1) - 1}:
            only = alone(report, name)
            rows = tuple(
                replace(row, metrics={**row.metrics, metric: count}) if row.check == name else row
                for row in only.observations
            )
            assert name in missing(replace(only, observations=rows)), (name, metric, count)


@pytest.mark.parametrize("name", HEALTHY)
def test_every_recorded_list_is_declared(name: str) -> None:
    """Beside its check: a list that nobody declares would be held to nothing. Pair tests and peers have a judge of their own."""
    report = recorded(name)
    held = {line.check for line in report.plan if line.holds}
    rows = (row for row in report.observations if any(isinstance(v, tuple) for v in row.metrics.values()))

    assert {row.check for row in rows} - held <= {*CHECKS, PAIRS, REACHABILITY}


def test_a_machine_without_gpus_need_not_list_one() -> None:
    """Also where a check that runs on every machine would list them, such as kernel.xid."""
    held = [one for line in catalogue_report("cpu", 2).plan for one in line.holds]

    assert {0} == {one.count for one in held if one.metric == "gpus"}
