"""What nccom-test's table tells, and when nobody can tell."""

from __future__ import annotations

from pathlib import Path

import pytest

from checks.explain.reading import Broken, NotRecognised, ReadOptions
from checks.probes.neuron import explain_nccom
from tasks.reports.exit_codes import exit_code
from tasks.reports.explain import explain_text

RECORDINGS = Path(__file__).parents[3] / "recordings/neuron"
COMMAND = "$ nccom-test -r 32 --minbytes 1MB --maxbytes 64MB --stepfactor 4 --datatype fp32 --check allr\n"


def recorded(name: str) -> str:
    return (RECORDINGS / name).read_text(encoding="utf-8")


def code(text: str) -> int:
    return int(exit_code(explain_text("-", "-", text.encode(), None, None, ReadOptions()).verdict))


@pytest.mark.parametrize(
    ("name", "before", "expected"),
    [
        ("nccom_allr.txt", COMMAND, 0),
        ("nccom_allr.txt", "", 3),
        ("nccom_allr.txt", COMMAND.replace("--check ", ""), 3),
        ("nccom_allr_failure.txt", COMMAND, 1),
        ("nccom_allr_slow.txt", COMMAND, 1),
        ("nccom_allr_wrong.txt", "", 1),
        ("nccom_no_driver.txt", COMMAND, 3),
    ],
)
def test_a_recording_has_its_answer(name: str, before: str, expected: int) -> None:
    """A run whose results were not checked, as far as the text shows, is no go."""
    assert expected == code(before + recorded(name))


def test_a_table_without_a_line_is_no_pass() -> None:
    """The command says with which size it begins; without the command nobody can tell anyway."""
    lines = (COMMAND + recorded("nccom_allr.txt")).splitlines(keepends=True)
    codes = [code("".join(lines[:index] + lines[index + 1 :])) for index in range(len(lines))]

    assert [3] * len(lines) == codes


def test_two_tables_are_broken() -> None:
    """Only one would be read."""
    with pytest.raises(Broken):
        explain_nccom.read(recorded("nccom_allr.txt") + recorded("nccom_allr_wrong.txt"), ReadOptions())


def test_another_text_is_not_recognised() -> None:
    """nccl-tests prints a table of sizes too."""
    text = "#       size         count      type   redop    root     time   algbw   busbw #wrong\n"

    assert not explain_nccom.detect(text)
    with pytest.raises(NotRecognised):
        explain_nccom.read(text, ReadOptions())
