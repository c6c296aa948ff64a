"""`prelaunch trend`: text and JSON; 1 where something gets worse, 3 where nobody can tell."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from checks.documents.report import dump, dump_plain, load
from checks.judge.baseline.samples import Side
from checks.judge.trend.degradation import Motion
from checks.judge.trend.model import Course, Point
from tasks.render.trend_text import course_text
from tasks.store.folder import FolderStore
from tests.flows.cli.conftest import Ended, Run
from tests.sample_reports import POLICY, healthy, with_metric
from tests.tasks.kept_gates import keep

ATTACK = "<script>alert(1)</script>\x1b[31m"


MANY = 14


def policy_file(folder: Path) -> Path:
    """The policy of the sample reports."""
    (folder / "policy.json").write_bytes(dump_plain(POLICY))
    return folder / "policy.json"


def reports(folder: Path, fall: float, many: int = MANY, gate: str = "g") -> list[Path]:
    """Reports of six nodes; node-1's GEMM falls by so much a day after eight days. And the policy."""
    policy_file(folder)
    files = []
    for number in range(many):
        value = 42.0 - fall * max(0, number - 7)
        made = with_metric(healthy(6, 2), "compute.gemm", "node-1/rank-3", "gflops", value)
        file = folder / f"r{number}.json"
        file.write_bytes(
            dump(replace(made, gate_id=f"{gate}{number}", measured_at=f"2026-11-{number + 1:02d}T08:00:00Z"))
        )
        files.append(file)
    return files


def followed(run: Run, folder: Path, files: list[Path], *words: object) -> Ended:
    """The command on these."""
    return run("trend", *files, "--policy", folder / "policy.json", *words)


def test_something_gets_worse(run: Run, tmp_path: Path) -> None:
    """Exit code 1; the machine, the number, its course and by how much."""
    done = followed(run, tmp_path, reports(tmp_path, 2.0))

    assert 1 == done.code
    assert (
        "compute.gemm gflops ████████▇▆▅▃▂▁ 32 where 42 is expected, 24% down in 13 days (p < 1e-09)"
        in done.out
    )
    assert "No trend: " in done.out
    assert "At most 1 healthy machine a month is expected to be named by chance" in done.out


def test_nothing_degrades_is_an_answer(run: Run, tmp_path: Path) -> None:
    """Exit code 0, and it is said."""
    done = followed(run, tmp_path, reports(tmp_path, 0.0))

    assert (0, True) == (done.code, done.out.startswith("nothing degrades: 7 machines"))


def test_what_all_machines_do_is_one_line(run: Run, tmp_path: Path) -> None:
    """Exit code 1, because it got worse; no machine is named."""
    files = reports(tmp_path, 0.0)
    for file in files[9:]:
        report = load(file.read_bytes())
        rows = [row for row in report.observations if row.check == "compute.gemm"]
        for row in rows:
            report = with_metric(
                report, row.check, row.subject, "gflops", 0.9 * cast(float, row.metrics["gflops"])
            )
        file.write_bytes(dump(report))
    done = followed(run, tmp_path, files)

    assert 1 == done.code
    assert done.out.startswith("no machine gets worse than the others, but all moved together: 7 machines")
    assert (
        "The fleet moved: compute.gemm gflops fell by 10.0% on 6 machines together. No machine is named"
        in done.out
    )


def test_too_few_reports_is_another(run: Run, tmp_path: Path) -> None:
    """Exit code 3, with how many are needed: that nothing was found says nothing."""
    done = followed(run, tmp_path, reports(tmp_path, 2.0, many=3))

    assert 3 == done.code
    assert "Cannot tell: " in done.out and "a trend needs 11 reports" in done.out


def test_of_a_store_the_rows_of_its_nodes_are_enough(run: Run, tmp_path: Path) -> None:
    """No report is read; where rows are missing, the reports are, and say the same."""
    store = FolderStore(tmp_path / "store")
    for number in range(9):
        made = with_metric(healthy(6, 2), "compute.gemm", "node-1/rank-3", "gflops", 42.0)
        keep(store, number, replace(made, measured_at=f"2025-11-{21 + number:02}T08:00:00Z"))
    with_reports = run("trend", tmp_path / "store", "--policy", policy_file(tmp_path))
    for key in [key for key in store.list("gates") if key.endswith("metrics.json")]:
        store.delete(key)
    kept = run("trend", tmp_path / "store")

    assert (with_reports.code, with_reports.out) == (kept.code, kept.out)
    assert kept.out.startswith(
        "cannot tell: too few reports or nodes for 7 of 7 machines and groups (9 reports"
    )


def test_a_file_that_is_no_report_is_named_and_keeps_it_from_a_zero(run: Run, tmp_path: Path) -> None:
    """The others are followed nonetheless."""
    files = reports(tmp_path, 0.0)
    (tmp_path / "bad.json").write_text("{")
    done = followed(run, tmp_path, [*files, tmp_path / "bad.json"])

    assert 3 == done.code and "bad.json: it is not a report" in done.err
    assert done.out.startswith(f"CANNOT TELL: 1 of {len(files) + 1} files could not be read")


def test_a_file_that_is_not_there_is_rejected(run: Run, tmp_path: Path) -> None:
    """Exit code 2."""
    assert 2 == followed(run, tmp_path, [*reports(tmp_path, 0.0), tmp_path / "none.json"]).code


def test_json_has_the_courses(run: Run, tmp_path: Path) -> None:
    """One document; points in days, values in the metric's unit."""
    document = json.loads(followed(run, tmp_path, reports(tmp_path, 2.0), "--format", "json").out)
    (worse,) = [one for one in document["machines"] if one["degrading"]]
    (course,) = worse["degrading"]

    assert ("node-1", MANY) == (worse["name"], worse["reports"])
    assert {"day": 13.0, "parts": 1, "value": 30.0} == course["points"][-1]
    assert (1.0, "worse") == (document["false_names_a_month"], course["motion"])


def test_a_hostile_report_is_inert(run: Run, tmp_path: Path) -> None:
    """Names of gates and identities are text in a terminal."""
    files = reports(tmp_path, 2.0, gate=ATTACK)
    files.append(tmp_path / "twice.json")
    files[-1].write_bytes(files[0].read_bytes())
    out = followed(run, tmp_path, files).out

    assert "given twice" in out and "\x1b" not in out


@pytest.mark.parametrize(
    ("days", "value", "said"),
    [
        (4.0, 10_143.2, "10,143 in 4 days"),
        (1 / 24, 5098.0, "5,098 in 1 hour"),
        (0.0, 0.5, "0.5 in less than a minute"),
    ],
)
def test_courses_are_in_words_that_can_be_read(days: float, value: float, said: str) -> None:
    """Neither 1.014e+04 nor 0.00278 days."""
    course = Course(
        "a.check", "rate", "group", Side.LOW, (Point(0.0, 1.0), Point(days, value)), Motion.STEADY
    )

    assert f"1 to {said}" in course_text(course)
