"""Which start of a job counts, from what lies in S3."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tasks.launchers.attempts import (
    Written,
    exit_code_of,
    finished,
    plain,
    safe,
    starts_of,
    told_all,
)

A, B, C = "a" * 32, "b" * 32, "c" * 32


def at(second: int, *paths: str) -> list[Written]:
    """Files written then."""
    return [Written(path, datetime(2026, 11, 21, tzinfo=UTC) + timedelta(seconds=second)) for path in paths]


def tokens(files: list[Written]) -> list[list[str]]:
    """The starts, by their tokens."""
    return [[attempt.token for attempt in start] for start in starts_of(files)]


def test_a_second_life_comes_after_the_first() -> None:
    """Its hosts are the same, under another token."""
    files = at(9, f"{B}/agent/algo-1.json", f"{B}/nodes/algo-2.json") + at(
        0, f"{A}/agent/algo-1.json", f"{A}/nodes/algo-2.json"
    )
    assert tokens(files) == [[A], [B]]


def test_a_straggler_of_the_first_life_does_not_bring_it_back() -> None:
    """An attempt is as old as its oldest file: a host that was cut off may still write."""
    files = at(0, f"{A}/agent/algo-1.json", f"{A}/agent/algo-2.json") + at(5, f"{B}/agent/algo-1.json")
    assert tokens([*files, *at(99, f"{A}/nodes/algo-2.json")]) == [[A], [B]]


def test_a_host_that_found_nobody_belongs_to_the_same_start() -> None:
    """Of one start's tokens the one that most hosts share counts."""
    files = at(0, f"{A}/agent/algo-1.json", f"{A}/agent/algo-3.json") + at(60, f"{B}/agent/algo-2.json")
    assert tokens(files) == [[B, A]]


def test_three_lives_keep_their_order() -> None:
    """As S3's own clock has them."""
    files = [
        file
        for second, token in ((20, C), (0, A), (10, B))
        for file in at(second, f"{token}/agent/algo-1.json")
    ]
    assert tokens(files) == [[A], [B], [C]]


def test_what_is_no_attempt_is_left_out() -> None:
    """Neither another folder nor another name makes one."""
    assert tokens(at(0, "algo-1", f"{A}/secrets/x", "../x/nodes/y.json", "nodes/algo-1.json")) == []


@pytest.mark.parametrize(
    "path", [f"{A}/nodes/algo-1.json", f"{A}/health_check_metrics.json", f"{A}/evidence/ab.gz"]
)
def test_an_attempts_files_are_safe(path: str) -> None:
    """What agent and checks write."""
    assert safe(path)


@pytest.mark.parametrize(
    "path",
    [
        f"{A}/nodes/../../x", f"/{A}/nodes/x", f"{A}/nodes/.x.tmp", f"{A}/other/x", f"{A}//nodes/x", f"{A}/nodes/",
        f"{A}/nodes/a/b", f"{A}/nodes/x\n", f"{A}/nodes/x.tmp", f"../{A}/nodes/x", "nodes/x", f"{A.upper()}/nodes/x", "",
    ],
)  # fmt: skip
def test_nothing_else_is_safe(path: str) -> None:
    """Nothing leaves the folder, and nothing half written comes in."""
    assert not safe(path)


@pytest.mark.parametrize("path", ["algo-1", "a/b/c.json"])
def test_a_commands_own_files_are_plain(path: str) -> None:
    """A job without checks may write under any plain name."""
    assert plain(path)


@pytest.mark.parametrize(
    "path", ["", ".", "..", "a/../b", "/a", "a/", "a//b", ".a", "a/.b", "a.tmp", "x" * 300, "a\\b"]
)
def test_a_key_that_is_no_plain_path_is_not(path: str) -> None:
    """A key in S3 may be anything."""
    assert not plain(path)


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
