"""Reports and other files that came as lines of a log."""

from __future__ import annotations

import json
import os
from pathlib import PurePath

import pytest

from checks.documents.report import NODE_REPORT_BYTES
from container.agent.files.log_lines import LogFiles, lines_of
from tasks.launchers.report_lines import ReportLines, reports_of
from tests.tasks.launchers.sagemaker.left import report

TOKEN = "a" * 32
REPORT = b'{"hello": "' + os.urandom(9000).hex().encode() + b'"}'
PATH = f"{TOKEN}/nodes/algo-1.json"


def told(data: bytes = REPORT, node: str = "algo-1") -> list[str]:
    """The agent's own lines."""
    return list(lines_of("gate", TOKEN, node, data))


def test_the_agents_lines_are_put_together() -> None:
    """Among whatever else was printed, and behind a prefix."""
    lines = ["noise", *[f"08:30:00 {line}" for line in told()], "PRELAUNCH_REPORT {broken"]
    assert len(told()) > 2
    assert {PATH: REPORT} == reports_of(lines)


def test_a_part_that_is_missing_is_no_report() -> None:
    """Whichever part it is."""
    assert [{}] * len(told()) == [reports_of([*told()[:n], *told()[n + 1 :]]) for n in range(len(told()))]


LATER = REPORT.replace(b"hello", b"later")


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        # CloudWatch may turn lines of one moment round.
        (told()[::-1], REPORT),
        # It has grown meanwhile.
        ([*told(), *told(LATER)], LATER),
        # The last words may not have reached the log.
        ([*told(), *told(LATER)[:-1]], REPORT),
        # A kubelet keeps only the end of a long log; the report that follows as a whole counts.
        ([*told()[2:], *told(LATER)], LATER),
    ],
)
def test_the_last_whole_report_counts(lines: list[str], found: bytes) -> None:
    """In whatever order its lines come."""
    assert {PATH: found} == reports_of(lines)


def test_a_complete_report_is_not_replaced_by_what_the_training_prints() -> None:
    """The checks have ended before it begins, so that nothing behind them is theirs."""
    begun, ended = report("algo-1", False), report("algo-1")
    printed = ended.replace(b'"c"', b'"x"')
    assert (len(ended) == len(printed), ended != printed) == (True, True)
    assert {PATH: ended} == reports_of([*told(begun), *told(ended), *told(printed)])


@pytest.mark.parametrize(
    "change",
    [
        {"attempt": "../../x"}, {"node": "../x"}, {"part": 0}, {"part": 2}, {"parts": 10**9}, {"part": True},
        {"data": "!"}, {"data": ""}, {"data": None}, {"node": None}, {"path": "../x"}, {"path": "a/../../x"}, {"path": "/etc/x"},
        {"path": ".hidden"}, {"path": 7},
    ],
)  # fmt: skip
def test_a_line_that_cannot_be_true_is_no_report(change: dict[str, object]) -> None:
    """Nothing that a log holds may name a file elsewhere, or fill the memory."""
    (line,) = lines_of("gate", TOKEN, "algo-1", b"{}")
    value = json.loads(line.partition(" ")[2])
    assert read([f"PRELAUNCH_REPORT {json.dumps({**value, **change})}"]) == {}


def test_a_report_that_unpacks_without_end_is_none() -> None:
    """A node report has a limit."""
    assert list(reports_of(told(b"0" * NODE_REPORT_BYTES)).values()) == [b"0" * NODE_REPORT_BYTES]
    assert reports_of(told(b"0" * (NODE_REPORT_BYTES + 1))) == {}


def read(lines: list[str]) -> dict[str, bytes]:
    """What the log told, read line by line."""
    reader = ReportLines()
    for line in lines:
        reader.add(line)
    return reader.files()


def test_every_file_of_an_attempt_can_come_through_the_log(capfd: pytest.CaptureFixture[str]) -> None:
    """A report that grows is written at first, not again at once, and then as it ended; the merged report is left out."""
    log = LogFiles(("gate", TOKEN, "algo-1"), PurePath(TOKEN), "merged.json")
    path, record = PurePath("nodes/algo-1.json"), PurePath("agent/algo-1.json")
    came = [
        log.put(path, report("algo-1", False), False),
        log.put(path, report("algo-1", False) + b" ", False),
        log.put(record, b"{}", False),
        log.put(PurePath("merged.json"), b"large", False),
    ]
    early = read(capfd.readouterr().out.splitlines())
    came += [log.put(path, report("algo-1"), False), log.put(record, b'{"exit_code": 0}', True)]
    late = read(capfd.readouterr().out.splitlines())

    assert came == [True, False, True, True, True, True]
    assert early == {PATH: report("algo-1", False), f"{TOKEN}/agent/algo-1.json": b"{}"}
    assert late == {PATH: report("algo-1"), f"{TOKEN}/agent/algo-1.json": b'{"exit_code": 0}'}
