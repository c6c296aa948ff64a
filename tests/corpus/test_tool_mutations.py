"""Recordings of tools that `prelaunch explain` does not read, mutated: through the check's parser and the policy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pytest

from checks.check import CheckError
from checks.model import Level, Observation, Outcome, Value, worst
from checks.probes.dcgm import diag, health, policy, xid_events
from checks.probes.host import disk, error_counters, stress
from checks.probes.neuron import collectives
from tests.corpus.case import RECORDINGS_FOLDER, Case, RecordProperty, Sort, recordings_of
from tests.corpus.judging import verdict_of
from tests.corpus.mutations import passed_wrongly
from tests.corpus.test_mutations import RECORDINGS

Metrics = Mapping[str, Value]
recorded = recordings_of("")


@dataclass(frozen=True)
class Replayed:
    """A recording; `measure` makes the check's metrics of its text, or raises what the check would raise."""

    path: str
    check: str
    instance_type: str
    level: Level
    measure: Callable[[str], Metrics]
    irrelevant: dict[str, str] = field(default_factory=dict)


def stressed(stressor: str, code: int) -> Callable[[str], Metrics]:
    def measure(text: str) -> Metrics:
        ran = stress.parse(text, stressor, code)
        if stressor == "cpu":
            return stress.cpu_measurement(ran, 2, "").metrics
        return stress.memory_measurement(ran, 1 << 30, "").metrics

    return measure


def ran_alone(text: str) -> Metrics:
    return {"cores_used": 32, **collectives.metrics_of(("allr",), [collectives.parse(text)])}


def wrote(text: str) -> Metrics:
    job = disk.parse(text)
    disk.whole_file(job, 1 << 25)
    there = job if job.error else disk.parse(recorded("host/fio_random.json"))
    return disk.together(job, there, 1 << 25, True, "").metrics


def read_at_random(text: str) -> Metrics:
    first = disk.parse(recorded("host/fio_sequential.json"))
    return disk.together(first, disk.parse(text), 1 << 25, True, "").metrics


def of_health(watches: str, discovery: str) -> Metrics:
    on, report = health.watches(watches), health.parse(recorded("dcgm/health_ok.json"))
    return {
        "gpus_missing": 8 - diag.gpus_discovered(discovery),
        "watches_off": ", ".join(name for name in health.WATCHED if not on.get(name, False)),
        "watched_s": 90.0,
        **health.metrics_of(report, tuple(range(8))),
    }


def watched(text: str) -> Metrics:
    return of_health(text, recorded("dcgm/discovery.txt"))


def discovered(text: str) -> Metrics:
    return of_health(recorded("dcgm/watches.json"), text)


def violated(text: str) -> Metrics:
    if policy.LISTENING not in text:
        raise CheckError("nobody listened")
    heard = "; ".join(policy.violations(text))
    return {"conditions": "x", "action": "None", "validation": "None", "violations": heard}


def last_xids(text: str) -> Metrics:
    changes = [record for record in xid_events.changes(iter(text.splitlines()), 8) if record]
    if not changes:
        raise CheckError("not every GPU was printed")
    return xid_events.measured(changes[0], changes[1:]).metrics


def counted(text: str) -> Metrics:
    """A device's corrected errors, which stood at the same number when the run began."""
    try:
        total = error_counters.parse(text)
    except ValueError:
        total = None
    file = "aer_dev_correctable"
    return error_counters.compared({"0000:10:1c.0": {file: 2}}, {"0000:10:1c.0": {file: total}}).metrics


WELL, WRONG = Level.PASS, Level.FAIL
LINE = {
    r"^stress-ng: info: .*setting to": "what was asked for",
    r"^stress-ng: metrc: .*stressor|real time": "a heading",
}
UNREAD = {
    r'^"(?!error"|io_bytes"|bw_bytes"|iops"|99\.000000"|read"|write"|clat_ns"|percentile"|jobs")': "a key that is not read"
}
HEADING = {r"^Health monitor systems report$": "words around the document"}
COUNTED = {r"": "the count alone is read; gpu.inventory looks at each GPU"}
STREAM = {r"": "what is listened to for a while has no end, and what is said later is not heard"}
TOTALLED = {r"^(?!TOTAL_ERR_COR)": "the kernel adds the kinds up in the last line, which is read"}
REPLAYED = [
    Replayed("host/stress_cpu.txt", "cpu.stress", "cpu", WELL, stressed("cpu", 0), LINE),
    Replayed("host/stress_cpu_wrong.txt", "cpu.stress", "cpu", WRONG, stressed("cpu", 2)),
    Replayed("host/stress_vm.txt", "memory.stress", "cpu", WELL, stressed("vm", 0), LINE),
    Replayed("host/stress_vm_wrong.txt", "memory.stress", "cpu", WRONG, stressed("vm", 2)),
    Replayed("host/fio_sequential.json", "disk.io", "cpu", WELL, wrote, UNREAD),
    Replayed("host/fio_random.json", "disk.io", "cpu", WELL, read_at_random, UNREAD),
    Replayed("host/fio_corrupt.txt", "disk.io", "cpu", WRONG, wrote),
    Replayed("host/fio_full.txt", "disk.io", "cpu", WRONG, wrote),
    Replayed("dcgm/watches.json", "dcgm.health", "p5.48xlarge", WELL, watched, HEADING),
    Replayed("dcgm/watches_no_memory.json", "dcgm.health", "p5.48xlarge", WRONG, watched),
    Replayed("dcgm/discovery.txt", "dcgm.health", "p5.48xlarge", WELL, discovered, COUNTED),
    Replayed("dcgm/discovery_seven.txt", "dcgm.health", "p5.48xlarge", WRONG, discovered),
    Replayed("dcgm/violations.txt", "dcgm.policy", "p5.48xlarge", Level.WARN, violated, STREAM),
    *(
        Replayed(f"dcgm/dmon_xid_{name}.txt", "dcgm.xid_events", "p5.48xlarge", level, last_xids, irrelevant)
        for name, level, irrelevant in (
            ("ok", WELL, STREAM),
            ("na", WELL, STREAM),
            ("79", WRONG, STREAM),
            ("31_then_48", WRONG, {}),
            ("earlier", Level.WARN, {}),
            ("seven", WRONG, {}),
        )
    ),
    Replayed(
        "system/aer_dev_correctable.txt", "system.error_counters", "p5.48xlarge", WELL, counted, TOTALLED
    ),
    Replayed("neuron/nccom_allr.txt", "neuron.collectives", "trn1.32xlarge", WELL, ran_alone),
    Replayed("neuron/nccom_allr_failure.txt", "neuron.collectives", "trn1.32xlarge", WRONG, ran_alone),
    Replayed("neuron/nccom_allr_slow.txt", "neuron.collectives", "trn1.32xlarge", WRONG, ran_alone),
    Replayed("neuron/nccom_allr_wrong.txt", "neuron.collectives", "trn1.32xlarge", WRONG, ran_alone),
    Replayed("neuron/nccom_no_driver.txt", "neuron.collectives", "trn1.32xlarge", WRONG, ran_alone),
]


# Lists of lines of many machines, which are no logs: each is read alone in tests/checks/kernel. Reports of another tool are
# spoilt in tests/tasks/reports/test_seed_report.py.
ALONE = {"kernel/faults.txt", "kernel/public_lines.txt"}
ALONE |= {f"second_opinion/{name}.json" for name in ("g5_hidden_failure", "p5_two_nodes")}


def _level(one: Replayed, text: str) -> Level:
    try:
        metrics = one.measure(text)
    except CheckError:
        return Level.FAIL
    row = Observation(one.check, "node-0", Outcome.MEASURED, 1.0, metrics)
    made = verdict_of(Case(one.check, Sort.HEALTHY, "", lambda _: (), one.instance_type), (row,))
    return worst([finding.level for finding in made.findings])


@pytest.mark.parametrize("one", REPLAYED, ids=lambda one: one.path)
def test_a_replayed_recording_never_passes_mutated(one: Replayed, record_property: RecordProperty) -> None:
    """The whole has its level; what lost a line is no pass, unless the line is stated to carry no evidence."""
    text = recorded(one.path)
    assert one.level is _level(one, text)
    assert [] == passed_wrongly(
        text, lambda spoilt: _level(one, spoilt) is Level.PASS, one.irrelevant, record_property
    )


def test_every_recording_is_mutated() -> None:
    """A recording in no list would be read whole and never broken."""
    explained = {recording.path for recording in RECORDINGS}
    files = [path for path in RECORDINGS_FOLDER.rglob("*") if path.is_file()]
    there = {str(path.relative_to(RECORDINGS_FOLDER)) for path in files}
    broken = explained | {one.path for one in REPLAYED} | ALONE

    # What Prelaunch itself wrote is no tool's output: tests/checks/judge/culprits/test_findings.py reads the first folder,
    # tests/worlds/test_worlds.py the second.
    # What Slurm shows of nodes is no evidence of a check: tests/tasks/machines/test_slurm_nodes.py reads it.
    # Reports of gates in which a node was killed: tests/tasks/render/test_missing_text.py.
    # Logs of trainings say nothing of a machine: tests/tasks/launchers/test_log_end.py.
    # NVML's answers and reports of gates of a real H100 and H200: tests/checks/probes/gpu/test_a_real_h100.py.
    ours = ("pairs/", "worlds/", "slurm/", "h100/", "h200/", "torchrun/", "silent_node/")
    left = [path for path in there - broken if not path.endswith(".SOURCE.txt")]
    assert [] == sorted(path for path in left if not path.startswith(ours))
