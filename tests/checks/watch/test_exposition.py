"""The watch's metrics: what they say, that hostile values break nothing, and that they stay bounded. Read with prometheus-client."""

from __future__ import annotations

from dataclasses import replace

import pytest
from prometheus_client.parser import text_string_to_metric_families

from checks.documents.open_findings import FindingKey, OpenFinding, OpenFindings
from checks.judge.open_findings.update import LatestEvidence
from checks.model import Action, Cause, Level, Observation, Outcome, Value
from checks.watch.exposition import GROWN, MOST_FINDINGS, WatchNumbers, exposition, read
from checks.watch.families import FAMILIES, NVLINK_RECOVERIES, Source
from checks.watch.rounds import RoundResult

Series = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def an_open(part: str = "GPU 5", level: Level = Level.FAIL, opened_at: float = 100.0) -> OpenFinding:
    key, action = FindingKey("kernel.xid", part, "act", Cause.HARDWARE), Action.RESET_GPU
    return OpenFinding(key, level, action, "had an Xid", "", True, "watch", opened_at, 200.0, 0.0, "b")


def a_round(*rows: Observation) -> RoundResult:
    return RoundResult(1000.0, 1002.5, True, rows, LatestEvidence(1002.5, "watch", "b", [], {}))


def numbers(*found: OpenFinding, omitted: int = 0) -> WatchNumbers:
    return WatchNumbers("p5.48xlarge", 8, 60.0, 24, OpenFindings(open=found, omitted=omitted, opened_total=7))


def series(made: WatchNumbers) -> Series:
    families = text_string_to_metric_families(exposition(made))
    samples = [sample for family in families for sample in family.samples]
    return {(sample.name, tuple(sorted(sample.labels.items()))): sample.value for sample in samples}


def test_a_watch_that_has_made_no_round_has_no_time_of_a_round() -> None:
    """A zero would be a round of 1970: the alert about a stale watch fires because nothing is there."""
    names = {name for name, _ in series(numbers())}

    assert "prelaunch_watch_last_round_timestamp_seconds" not in names
    assert "prelaunch_watch_observations" not in names
    assert "prelaunch_watch_interval_seconds" in names


def test_a_round_is_told() -> None:
    made, gpus = numbers(), ("GPU 0", "GPU 1")
    remapped: dict[str, Value] = {"gpus": gpus, "remap_pending": (0, 1)}
    recovered: dict[str, Value] = {"gpus": gpus, "link_recoveries": (None, 2)}
    made.last = a_round(
        Observation("gpu.inventory", "n", Outcome.MEASURED, 0.5, {"gpus_found": 7}),
        Observation("gpu.row_remap", "n", Outcome.MEASURED, 0.1, remapped),
        Observation("gpu.ecc", "n", Outcome.ERRORED, 15.0, reason="hung"),
        Observation("gpu.nvlink", "n", Outcome.MEASURED, 0.1, recovered),
    )
    found = series(made)

    assert 1002.5 == found["prelaunch_watch_last_round_timestamp_seconds", ()]
    assert 2.5 == found["prelaunch_watch_round_duration_seconds", ()]
    assert 8 == found["prelaunch_declared_gpus", (("instance_type", "p5.48xlarge"),)]
    assert 7 == found["prelaunch_found_gpus", ()]
    assert (3, 1) == tuple(
        found["prelaunch_watch_observations", (("outcome", one),)] for one in ("MEASURED", "ERRORED")
    )
    assert (0, 1) == tuple(found["prelaunch_gpu_row_remap_pending", (("gpu", f"GPU {n}"),)] for n in (0, 1))
    assert 15.0 == found["prelaunch_watch_check_duration_seconds", (("check", "gpu.ecc"),)]
    # What was not compared counts nothing.
    assert [(NVLINK_RECOVERIES, ("GPU 1",), 2)] == [*read(GROWN, made.last.observations)]


def test_a_gpu_count_that_was_not_measured_is_no_zero() -> None:
    made = numbers()
    made.last = a_round(Observation("gpu.inventory", "n", Outcome.ERRORED, 0.5, reason="hung"))

    assert "prelaunch_found_gpus" not in {name for name, _ in series(made)}


def test_an_open_finding_is_a_series_and_a_closed_one_is_none() -> None:
    labels = (
        ("cause", "HARDWARE"),
        ("check", "kernel.xid"),
        ("level", "FAIL"),
        ("metric", "act"),
        ("part", "GPU 5"),
    )
    total = ("prelaunch_findings_open", (("cause", "HARDWARE"), ("level", "FAIL")))
    found, none = series(numbers(an_open())), series(numbers())

    assert (1, 1, 0) == (found["prelaunch_finding_open", labels], found[total], none[total])
    assert "prelaunch_finding_open" not in {name for name, _ in none}


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
