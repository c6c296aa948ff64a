"""What fio's JSON and stress-ng's lines tell, and when nobody can tell."""

from __future__ import annotations

from pathlib import Path

import pytest

from checks.explain.reading import Broken, Kind, NotRecognised, ReadOptions
from checks.probes.host import explain
from tasks.reports.exit_codes import exit_code
from tasks.reports.explain import explain_text

RECORDINGS = Path(__file__).parents[3] / "recordings/host"
COMMAND = "$ stress-ng --cpu 2 --verify --timeout 2s --metrics-brief\n"


def recorded(name: str) -> str:
    return (RECORDINGS / name).read_text(encoding="utf-8")


def code(text: str) -> int:
    return int(exit_code(explain_text("-", "-", text.encode(), None, None, ReadOptions()).verdict))


@pytest.mark.parametrize(
    ("name", "before", "expected"),
    [
        ("fio_sequential.json", "", 0),
        ("fio_random.json", "", 0),
        ("fio_corrupt.txt", "", 1),
        ("fio_full.txt", "", 3),
        ("stress_cpu.txt", COMMAND, 0),
        ("stress_cpu.txt", "", 3),
        ("stress_cpu.txt", "$ stress-ng --cpu 2 --timeout 2s\n", 3),
        ("stress_cpu_wrong.txt", "", 1),
        ("stress_vm.txt", COMMAND, 0),
        ("stress_vm_wrong.txt", "", 1),
    ],
)
def test_a_recording_has_its_answer(name: str, before: str, expected: int) -> None:
    """A run that was not verified, as far as the text shows, is no go."""
    assert expected == code(before + recorded(name))


@pytest.mark.parametrize("name", ["fio_sequential.json", "fio_random.json"])
def test_a_cut_fio_is_no_pass(name: str) -> None:
    """At each tenth."""
    text = recorded(name)

    assert [3] * 9 == [code(text[: len(text) * tenth // 10]) for tenth in range(1, 10)]


def test_a_cut_stress_ng_is_no_pass() -> None:
    """Without any one of its lines, but for those that tell nothing."""
    lines = (COMMAND + recorded("stress_cpu.txt")).splitlines(keepends=True)
    codes = {
        index: code("".join(lines[:index] + lines[index + 1 :]))
        for index, line in enumerate(lines)
        if "setting to a" not in line and "stressor  " not in line and "(secs)" not in line
    }

    assert {3} == set(codes.values())


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"error": 0', '"error": 5'),
        ('"io_bytes": 33554432', '"io_bytes": 1048576'),
        ('"verify": "crc32c"', '"verify": "null"'),
        ('"rw": "write"', '"rw": "trim"'),
    ],
    ids=["an I/O error", "not the whole file", "not verified", "another job"],
)
def test_a_changed_fio_is_judged_as_changed(old: str, new: str) -> None:
    """An error fails; what was not verified or written whole is not judged as if it had been."""
    text = recorded("fio_sequential.json")
    assert old in text
    changed = text.replace(old, new, 1)
    try:
        reading = explain.read(changed, ReadOptions())
    except Broken:
        return
    metrics = reading.parts[0].metrics

    assert metrics["io_errors"] == 1 or "corrupt" not in metrics or "write_gbps" not in metrics


@pytest.mark.parametrize(
    "text",
    [
        recorded("fio_sequential.json") + recorded("fio_random.json"),
        recorded("fio_sequential.json") + recorded("stress_cpu.txt"),
        COMMAND + recorded("stress_cpu.txt") + recorded("stress_cpu_wrong.txt"),
        COMMAND + recorded("stress_cpu.txt").replace("2 cpu", "2 cpu, 2 vm"),
        COMMAND + recorded("stress_cpu.txt").replace("2 cpu", "2 fork"),
    ],
    ids=["two of fio", "fio and stress-ng", "two of stress-ng", "two stressors", "another stressor"],
)
def test_several_in_one_are_broken(text: str) -> None:
    """Only the first would be read."""
    with pytest.raises(Broken):
        explain.read(text, ReadOptions())


def test_what_neither_wrote_is_not_recognised() -> None:
    """A text that speaks of them is not theirs."""
    text = "run fio version 3.33, then stress-ng: it takes a minute\n"

    assert not explain.detect(text)
    with pytest.raises(NotRecognised):
        explain.read(text, ReadOptions())


def test_kinds() -> None:
    """Each by its name."""
    assert Kind.FIO is explain.read(recorded("fio_random.json"), ReadOptions()).kind
    assert Kind.STRESS_NG is explain.read(recorded("stress_vm.txt"), ReadOptions()).kind
