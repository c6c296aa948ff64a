"""What is news between gates: each finding once for each time that it was opened, each silence once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from checks.documents.decode import decode, parse_json
from checks.documents.open_findings import FindingKey, OpenFinding, OpenFindings, WatchPage
from checks.documents.report import dump_plain
from checks.model import Action, Cause, Level
from tasks.monitoring.news import SILENT_AFTER, News, NodeLook, Told, calls_for_oncall, news

NOW = 1_800_000_000.0


def an_open(
    part: str = "GPU 5", level: Level = Level.FAIL, cause: Cause = Cause.HARDWARE, at: float = NOW - 60
) -> OpenFinding:
    key = FindingKey("kernel.xid", part, "act", cause)
    return OpenFinding(key, level, Action.REPLACE, "had an Xid", "", True, "watch", at, at, 0.0, "b")


def seen(*found: OpenFinding, node: str = "n1", last: float = NOW - 5, every: float = 60.0) -> NodeLook:
    return NodeLook(node, WatchPage(OpenFindings(open=found), last, every))


def lost(node: str = "n1") -> NodeLook:
    return NodeLook(node, None, "connection refused")


def told(*looks: NodeLook, before: Told | None = None) -> tuple[list[News], Told]:
    known, all_news = before or Told({}), []
    for one in looks:
        found, known = news(known, [one], NOW)
        all_news.append(found)
    return all_news, known


def test_a_healthy_node_is_no_news() -> None:
    found, _ = told(seen(), seen())

    assert [False, False] == [*map(bool, found)]


def test_a_finding_is_news_once() -> None:
    [first, second, third], _ = told(seen(an_open()), seen(an_open()), seen(an_open(), an_open("GPU 6")))

    assert [("n1", an_open())] == [*first.opened]
    assert not second
    assert ["GPU 6"] == [one.key.part for _, one in third.opened]


def test_a_finding_that_was_closed_and_opened_again_is_news_again() -> None:
    [_, closed, again], _ = told(seen(an_open()), seen(), seen(an_open(at=NOW - 1)))

    assert [("n1", an_open().key.name)] == [*closed.closed]
    assert 1 == len(again.opened)


def test_a_restart_of_this_program_tells_nothing_twice() -> None:
    _, known = told(seen(an_open()), lost(), lost())
    read = decode(Told, parse_json(dump_plain(known), 1 << 20))

    assert known == read
    [again], _ = told(seen(an_open()), before=read)
    assert not again


def test_a_warning_waits_for_the_next_gate() -> None:
    [found], _ = told(seen(an_open(level=Level.WARN)))

    assert not found


def test_a_silence_is_news_once_and_so_is_its_end() -> None:
    found, _ = told(*[lost()] * (SILENT_AFTER + 3), seen())

    assert [False] * (SILENT_AFTER - 1) == [*map(bool, found[: SILENT_AFTER - 1])]
    assert (("n1", "connection refused"),) == found[SILENT_AFTER - 1].silent
    assert [False] * 3 == [*map(bool, found[SILENT_AFTER:-1])]
    assert ("n1",) == found[-1].back


def test_one_answer_in_between_begins_the_count_anew() -> None:
    found, _ = told(*([lost()] * (SILENT_AFTER - 1) + [seen()]) * 3)

    assert not any(found)


def test_silence_closes_nothing() -> None:
    found, _ = told(seen(an_open()), *[lost()] * 5, seen(an_open()))

    assert not [one for one in found if one.closed]
    assert 1 == sum(len(one.opened) for one in found)


@pytest.mark.parametrize(("last", "every", "silent"), [
    (NOW - 130, 60.0, False), (NOW - 140, 60.0, True), (0.0, 60.0, True), (NOW - 2, 0.5, False), (NOW - 4, 0.5, True),
])  # fmt: skip
def test_a_watch_that_answers_and_makes_no_rounds_is_silent(last: float, every: float, silent: bool) -> None:
    """An exporter that serves old values for ever is worse than none (gpu-monitoring-tools issue 188)."""
    found, _ = told(*[seen(last=last, every=every)] * SILENT_AFTER)

    assert silent is bool(found[-1].silent)


def test_a_node_that_is_not_looked_at_keeps_what_was_told() -> None:
    _, known = told(seen(an_open()))
    _, other = told(seen(node="n2"), before=known)

    assert known.nodes["n1"] == other.nodes["n1"]


def test_broken_hardware_calls_the_oncall_and_missing_evidence_the_owner() -> None:
    for cause, oncall in (
        (Cause.HARDWARE, True),
        (Cause.APPLICATION, True),
        (Cause.CONFIGURATION, False),
        (Cause.EVIDENCE, False),
    ):
        [found], _ = told(seen(an_open(cause=cause)))
        assert oncall is calls_for_oncall(found), cause
    silent = replace(News(), silent=(("n1", "gone"),))
    assert not calls_for_oncall(silent)
