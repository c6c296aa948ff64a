"""The watch's metrics: what they say, that hostile values break nothing, and that they stay bounded. Read with prometheus-client."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from prometheus_client.parser import text_string_to_metric_families

from checks.documents.open_findings import FindingKey, OpenFinding, OpenFindings
from checks.judge.open_findings.update import LatestEvidence
from checks.model import Action, Cause, Level, Observation, Outcome
from checks.watch.exposition import GROWN, MOST_FINDINGS, WatchNumbers, exposition, read
from checks.watch.families import FAMILIES, NVLINK_RECOVERIES, Source
from checks.watch.rounds import RoundResult
from tests.tasks.launchers.golden import GOLDEN, golden_text

Series = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def an_open(part: str = "GPU 5", level: Level = Level.FAIL, opened_at: float = 100.0) -> OpenFinding:
    key, action = FindingKey("kernel.xid", part, "act", Cause.HARDWARE), Action.RESET_GPU
    return OpenFinding(key, level, action, "had an Xid", "", True, "watch", opened_at, 200.0, 0.0, "b")


def numbers(*found: OpenFinding, omitted: int = 0) -> WatchNumbers:
    return WatchNumbers("p5.48xlarge", 8, 60.0, 24, OpenFindings(open=found, omitted=omitted, opened_total=7))


def after(*rows: Observation) -> WatchNumbers:
    """A watch that has made a round."""
    made = numbers()
    made.last = RoundResult(1000.0, 1002.5, True, rows, LatestEvidence(1002.5, "watch", "b", [], {}))
    return made


GPUS = ("GPU 0", "GPU 1")
ROUND = (
    Observation("gpu.inventory", "n", Outcome.MEASURED, 0.5, {"gpus_found": 7}),
    Observation("gpu.row_remap", "n", Outcome.MEASURED, 0.1, {"gpus": GPUS, "remap_pending": (0, 1)}),
    Observation("gpu.ecc", "n", Outcome.ERRORED, 15.0, reason="hung"),
    Observation("gpu.nvlink", "n", Outcome.MEASURED, 0.1, {"gpus": GPUS, "link_recoveries": (None, 2)}),
)
WATCHES = {
    # No time of a round: a zero would be a round of 1970. The alert about a stale watch fires because nothing is there.
    "begun": numbers(),
    "with_a_finding": numbers(an_open()),
    "after_a_round": after(*ROUND),
    # A count of GPUs that was not measured is no zero.
    "without_a_count": after(Observation("gpu.inventory", "n", Outcome.ERRORED, 0.5, reason="hung")),
}


@pytest.mark.parametrize("name", WATCHES)
def test_the_text_of_a_watch_is_the_golden_one(name: str) -> None:
    """Every series with its labels, and none of what is not known; UPDATE_GOLDEN=1 writes it."""
    text = re.sub(r'version="[^"]*"', 'version="{version}"', exposition(WATCHES[name]))

    assert series(WATCHES[name]), "Prometheus's own parser takes it"
    assert text == golden_text(GOLDEN / "watch" / f"{name}.prom", text)


def test_a_link_that_was_not_compared_counts_nothing() -> None:
    assert [(NVLINK_RECOVERIES, ("GPU 1",), 2)] == [*read(GROWN, ROUND)]


def series(made: WatchNumbers) -> Series:
    families = text_string_to_metric_families(exposition(made))
    samples = [sample for family in families for sample in family.samples]
    return {(sample.name, tuple(sorted(sample.labels.items()))): sample.value for sample in samples}


@pytest.mark.parametrize(
    "part",
    ['a"b', "a\\", "a\nprelaunch_finding_open 0", "a\r\n# EOF\n", "\x00\x1b[31m", "{}", "\u202egnp", "\ud800", 'x"} 1\ny 2'],
)  # fmt: skip
def test_no_label_breaks_the_text(part: str) -> None:
    found = series(numbers(an_open(part)))
    named = [dict(labels)["part"] for name, labels in found if name == "prelaunch_finding_open"]

    assert 1 == len(named)
    assert {name for name, _ in found} <= {family.name for family in FAMILIES}
    assert not {"\n", "\r", "\x00", "\x1b"} & {*named[0]}


def test_ten_thousand_findings_stay_bounded_and_are_counted() -> None:
    many = [
        an_open(f"{'GPU' * 3000} {n}" if n % 2 else f"GPU {n}", opened_at=float(n)) for n in range(10_000)
    ]
    mild = [replace(one, level=Level.WARN) for one in many[:5000]]
    made = numbers(*mild, *many[5000:])
    found = series(made)
    listed = [dict(labels)["level"] for name, labels in found if name == "prelaunch_finding_open"]

    assert len(exposition(made)) < 100_000
    assert {"FAIL"} == {*listed}, "the gravest are listed"
    assert len(listed) <= MOST_FINDINGS
    assert 10_000 == len(listed) + found["prelaunch_findings_omitted", ()]
    assert 5000 == found["prelaunch_findings_open", (("cause", "HARDWARE"), ("level", "FAIL"))]


def test_every_family_has_one_name_and_help_and_its_type_is_written() -> None:
    """Counters end in _total, and nothing else does: the type follows from it."""
    text = exposition(numbers())
    assert "# TYPE prelaunch_watch_rounds_total counter" in text
    assert "# TYPE prelaunch_watch_interval_seconds gauge" in text
    assert len({family.name for family in FAMILIES}) == len(FAMILIES)
    for family in FAMILIES:
        assert family.name.startswith("prelaunch_")
        assert family.help.endswith(".")
        assert not {"node", "cluster", "instance", "job"} & {*family.labels} or family.source is Source.STORE
