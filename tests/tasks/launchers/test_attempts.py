"""Which start of a job counts, from what lies in S3."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tasks.launchers.attempts import Written, exit_code_of, finished, plain, safe, starts_of, told_all

A, B, C = "a" * 32, "b" * 32, "c" * 32


def at(second: int, *paths: str) -> list[Written]:
    """Files written then."""
    return [Written(path, datetime(2026, 11, 21, tzinfo=UTC) + timedelta(seconds=second)) for path in paths]


FIRST = at(0, f"{A}/agent/algo-1.json", f"{A}/agent/algo-2.json")


@pytest.mark.parametrize(
    ("files", "starts"),
    [
        # A second life has the same hosts, under another token; three keep their order, as S3's own clock has them.
        (at(9, f"{B}/agent/algo-1.json", f"{B}/nodes/algo-2.json") + FIRST, [[A], [B]]),
        ([file for s, token in ((20, C), (0, A), (10, B)) for file in at(s, f"{token}/agent/algo-1.json")], [[A], [B], [C]]),
        # An attempt is as old as its oldest file: a host that was cut off may still write.
        (FIRST + at(5, f"{B}/agent/algo-1.json") + at(99, f"{A}/nodes/algo-2.json"), [[A], [B]]),
        # A host that found nobody: of one start's tokens the one that most hosts share counts.
        (at(0, f"{A}/agent/algo-1.json", f"{A}/agent/algo-3.json") + at(60, f"{B}/agent/algo-2.json"), [[B, A]]),
        # Neither another folder nor another name makes an attempt.
        (at(0, "algo-1", f"{A}/secrets/x", "../x/nodes/y.json", "nodes/algo-1.json"), []),
    ],
    ids=["second life", "three lives", "straggler", "alone", "none"],
)  # fmt: skip
def test_starts_are_told_apart_and_in_their_order(files: list[Written], starts: list[list[str]]) -> None:
    """By the tokens of their files, and the oldest file of each."""
    assert [[attempt.token for attempt in start] for start in starts_of(files)] == starts


SAFE = [f"{A}/nodes/algo-1.json", f"{A}/health_check_metrics.json", f"{A}/evidence/ab.gz"]
UNSAFE = [
    f"{A}/nodes/../../x", f"/{A}/nodes/x", f"{A}/nodes/.x.tmp", f"{A}/other/x", f"{A}//nodes/x", f"{A}/nodes/",
    f"{A}/nodes/a/b", f"{A}/nodes/x\n", f"{A}/nodes/x.tmp", f"../{A}/nodes/x", "nodes/x", f"{A.upper()}/nodes/x", "",
]  # fmt: skip
NOT_PLAIN = ["", ".", "..", "a/../b", "/a", "a/", "a//b", ".a", "a/.b", "a.tmp", "x" * 300, "a\\b"]


def test_only_an_attempts_files_are_safe_and_only_plain_names_are_plain() -> None:
    """Nothing leaves the folder, and nothing half written comes in; a key in S3 may be anything."""
    assert ([path for path in SAFE + UNSAFE if safe(path)], [path for path in NOT_PLAIN if plain(path)]) == (
        SAFE,
        [],
    )
    assert plain("algo-1") and plain("a/b/c.json")


@pytest.mark.parametrize(
    ("record", "code"),
    [
        (b'{"exit_code": 0}', 0),
        (b'{"exit_code": 7}', 7),
        (b'{"exit_code": null}', None),
        (b'{"exit_code": true}', None),
        (b'{"exit_code": "0"}', None),
        (b"{}", None),
        (b"[]", None),
        (b'{"exit_code": 0', None),
    ],
)
def test_an_agents_record_says_how_it_ended(record: bytes, code: int | None) -> None:
    """One that is garbled or has no end yet says nothing, and its host may still write."""
    assert code == exit_code_of(record)
    assert (code is not None) is finished(f"{A}/agent/algo-1.json", record)
    assert (code is not None) is told_all(
        {f"{A}/agent/algo-1.json": record, f"{A}/started/algo-1": b""}, A, "algo-1"
    )


@pytest.mark.parametrize(
    ("path", "expected"), [(f"{A}/nodes/algo-1.json", False), (f"{A}/evidence/x.gz", True), ("x", True)]
)
def test_a_report_that_cannot_be_read_is_not_finished(path: str, expected: bool) -> None:
    """Files of other kinds stay as they are."""
    assert expected is finished(path, b"{")


def test_a_host_without_report_and_command_has_not_told_all() -> None:
    """Its agent has ended, and something is still on its way."""
    assert not told_all({f"{A}/agent/algo-1.json": b'{"exit_code": 0}'}, A, "algo-1")
    assert not told_all({f"{A}/started/algo-1": b""}, A, "algo-1")
