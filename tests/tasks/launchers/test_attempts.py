"""Which start of a job counts, from what lies in S3 or in a folder."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tasks.launchers import attempts
from tasks.launchers.attempt_folder import attempts_in
from tests.tasks.parameters import spread

A, B, C = "a" * 32, "b" * 32, "c" * 32


def at(second: int, *paths: str, restarts: int = 0) -> list[attempts.Written]:
    """Files written then."""
    when = datetime(2026, 11, 21, tzinfo=UTC) + timedelta(seconds=second)
    return [attempts.Written(path, when, restarts) for path in paths]


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
        # A start on other machines is another one where the engine counts them, also if it has fewer or its records are older.
        (FIRST + at(60, f"{B}/agent/algo-3.json", restarts=1), [[A], [B]]),
        (at(-9, f"{B}/agent/algo-3.json", restarts=1) + FIRST + at(60, f"{C}/agent/algo-4.json", restarts=1), [[A], [B, C]]),
        # Neither another folder nor another name makes an attempt.
        (at(0, "algo-1", f"{A}/secrets/x", "../x/nodes/y.json", "nodes/algo-1.json"), []),
    ],
    ids=["second life", "three lives", "straggler", "alone", "other machines", "clocks", "none"],
)  # fmt: skip
def test_starts_are_known_and_in_their_order(files: list[attempts.Written], starts: list[list[str]]) -> None:
    """By the tokens of their files, and the oldest file of each."""
    assert [[attempt.token for attempt in start] for start in attempts.starts_of(files)] == starts


@pytest.mark.parametrize(("restarts", "earlier"), [("1", (A,)), ("", ())])
def test_a_start_of_fewer_nodes_on_other_machines_is_the_current_one(
    tmp_path: Path, restarts: str, earlier: tuple[str, ...]
) -> None:
    """Its agents' records say which start they belong to. A job whose engine counts none is as it was."""
    for token, node, code, count in ((A, "n1", 143, ""), (A, "n2", 143, ""), (B, "n3", 3, restarts)):
        path = tmp_path / token / "agent" / f"{node}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"exit_code": code, "restarts": count}))
    found = attempts_in(tmp_path)

    assert (found.current, found.earlier) == ((B, earlier) if earlier else (A, ()))
    assert dict(found.exit_codes) == ({"n3": 3} if earlier else {"n1": 143, "n2": 143})


SAFE = [f"{A}/nodes/algo-1.json", f"{A}/health_check_metrics.json", f"{A}/evidence/ab.gz"]
UNSAFE = [
    f"{A}/nodes/../../x", f"/{A}/nodes/x", f"{A}/nodes/.x.tmp", f"{A}/other/x", f"{A}//nodes/x", f"{A}/nodes/",
    f"{A}/nodes/a/b", f"{A}/nodes/x\n", f"{A}/nodes/x.tmp", f"../{A}/nodes/x", "nodes/x", f"{A.upper()}/nodes/x", "",
]  # fmt: skip
NOT_PLAIN = ["", ".", "..", "a/../b", "/a", "a/", "a//b", ".a", "a/.b", "a.tmp", "x" * 300, "a\\b"]


def test_only_an_attempts_files_are_safe_and_only_plain_names_are_plain() -> None:
    """Nothing leaves the folder, and nothing half written comes in; a key in S3 may be anything."""
    assert SAFE == [path for path in SAFE + UNSAFE if attempts.safe(path)]
    assert ["algo-1", "a/b/c.json"] == [
        path for path in (*NOT_PLAIN, "algo-1", "a/b/c.json") if attempts.plain(path)
    ]


@pytest.mark.parametrize(
    ("code", "record"),
    spread(
        (0, (b'{"exit_code": 0, "restarts": "1"}',)),
        (7, (b'{"exit_code": 7, "restarts": Infinity}',)),
        (None, (b'{"exit_code": null}', b'{"exit_code": true}', b'{"exit_code": "0"}', b"{}", b"[]")),
        (None, (b'{"exit_code": 0',)),
    ),
)
def test_an_agents_record_says_how_it_ended(record: bytes, code: int | None) -> None:
    """One that is garbled or has no end yet says nothing, and its host may still write."""
    assert (code, int(code == 0)) == (attempts.exit_code_of(record), attempts.restarts_of(record))
    assert (code is not None) is attempts.finished(f"{A}/agent/algo-1.json", record)
    files = {f"{A}/agent/algo-1.json": record, f"{A}/started/algo-1": b""}
    assert (code is not None) is attempts.told_all(files, A, "algo-1")


@pytest.mark.parametrize(
    ("path", "expected"), [(f"{A}/nodes/algo-1.json", False), (f"{A}/evidence/x.gz", True), ("x", True)]
)
def test_a_report_that_cannot_be_read_is_not_finished(path: str, expected: bool) -> None:
    """Files of other kinds stay as they are."""
    assert expected is attempts.finished(path, b"{")


def test_a_host_without_report_and_command_has_not_told_all() -> None:
    """Its agent has ended, and something is still on its way."""
    assert not attempts.told_all({f"{A}/agent/algo-1.json": b'{"exit_code": 0}'}, A, "algo-1")
    assert not attempts.told_all({f"{A}/started/algo-1": b""}, A, "algo-1")
