"""What a machine notes of its gates, for certificates."""

from __future__ import annotations

from pathlib import Path

import pytest

from checks.documents.certificates import MOST_GATES, Gates, WatchRecord, load
from checks.process import machine_state
from checks.process.machine_state import FINDINGS, GATES, RECORD, begin_gate, boot_s, keep_record
from checks.value_types import DecodeError

RECORDED = WatchRecord("boot", "cpu", "a" * 64, "b" * 64, "1.0", 60.0, 3, 1.0, 2.0, 3.0, 4.0, 5.0)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """The state of a machine that is watched."""
    (tmp_path / FINDINGS).write_text("{}")
    return tmp_path


def test_a_machine_that_nobody_watches_gets_no_file(tmp_path: Path) -> None:
    assert begin_gate(tmp_path, "g1") is None
    assert begin_gate(tmp_path / "nowhere", "g1") is None
    assert [] == list(tmp_path.iterdir())


def test_each_gate_sees_those_before_it(state: Path) -> None:
    begun = boot_s()
    keep_record(state, RECORDED)
    seen = [begin_gate(state, gate) for gate in ("g1", "g2", "g2", "g3")]

    assert [(), ("g1",), ("g1", "g2"), ("g1", "g2")] == [one.gates for one in seen if one]
    assert {RECORDED} == {one.record for one in seen if one}
    assert all(one and begun <= one.boot_s <= boot_s() for one in seen)


def test_without_a_record_there_is_none(state: Path) -> None:
    keep_record(state, RECORDED)
    keep_record(state, None)
    keep_record(state, None)
    found = begin_gate(state, "g1")

    assert found is not None
    assert found.record is None


def test_the_oldest_gates_are_forgotten(state: Path) -> None:
    for number in range(MOST_GATES + 5):
        begin_gate(state, f"g{number}")
    kept = load(Gates, (state / GATES).read_bytes()).gates

    assert (MOST_GATES, "g5", f"g{MOST_GATES + 4}") == (len(kept), kept[0], kept[-1])


@pytest.mark.parametrize("name", [GATES, RECORD])
def test_a_file_that_is_not_whole_says_nothing(state: Path, name: str) -> None:
    (state / name).write_text("{")

    with pytest.raises(DecodeError):
        begin_gate(state, "g1")


def test_tests_have_a_folder_of_their_own() -> None:
    """What a gate found on this machine fails no test, and a fault that a test plants is no open finding of the machine."""
    assert machine_state.folder() != machine_state.FOLDER
