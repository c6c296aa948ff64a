"""`prelaunch explain` on output of ncclras: what one output shows, and what two of them show."""

from __future__ import annotations

import pytest

from checks.explain.reading import Broken, Kind, NotRecognised, Reading, ReadOptions
from checks.explain.registry import claimed_by
from checks.model import Answer, Cause, Level, Verdict
from checks.probes.collectives.ras import explain
from tasks.reports.explain import explain_text
from tests.corpus.case import RECORDINGS_FOLDER
from tests.fakes.nccl_ras import job_of


def recorded(name: str) -> str:
    return (RECORDINGS_FOLDER / "nccl_ras" / name).read_text(encoding="utf-8")


def read(text: str) -> Reading:
    return explain.read(text, ReadOptions())


def verdict(text: str) -> Verdict:
    return explain_text("-", "-", text.encode(), None, None, ReadOptions()).verdict


def said(found: Verdict) -> list[tuple[Level, Cause]]:
    return [(one.level, one.cause) for one in found.findings]


@pytest.mark.parametrize("name", ["moves.json", "hangs.json", "silent.txt", "ok.txt", "diagnostics.txt"])
def test_it_is_recognised(name: str) -> None:
    assert "checks.probes.collectives.ras.explain" == claimed_by(recorded(name))
    assert Kind.NCCL_RAS is read(recorded(name)).kind


def test_two_outputs_of_a_job_that_goes_on_are_a_go() -> None:
    assert Answer.GO is verdict(recorded("moves.json")).answer


@pytest.mark.parametrize("name", ["ok.txt", "one_look.json"])
def test_ok_alone_is_no_go(name: str) -> None:
    """NCCL issue 1730."""
    found = verdict(recorded(name))

    assert Answer.CANNOT_TELL is found.answer
    assert explain.ONE in {one.message for one in found.findings}


def test_two_outputs_of_a_hung_job_name_the_rank() -> None:
    found = verdict(recorded("hangs.json"))
    [named] = [one for one in found.findings if one.cause is Cause.APPLICATION]

    assert Answer.CANNOT_TELL is found.answer
    assert (Level.WARN, ("rank 3 on 10.0.0.1 (GPU 3)",)) == (named.level, named.elements)
    assert (
        "is behind the other ranks by 12 all-reduces and has not moved between the two outputs"
        in named.message
    )
    assert '"pid": 7003' in named.evidence
    assert explain.STILL in {one.message for one in found.findings}


def test_a_rank_that_is_behind_in_one_output_is_named_and_not_judged() -> None:
    reading = read(recorded("behind.txt"))

    assert any("rank 6 on 10.0.0.1 (GPU 6) is behind by 12 all-reduces" in why for why in reading.unread)
    assert "behind" not in reading.parts[0].metrics


def test_a_silent_rank_is_a_no_go_with_its_line() -> None:
    found = verdict(recorded("silent.txt"))
    [named] = [one for one in found.findings if one.cause is Cause.APPLICATION]

    assert Answer.NO_GO is found.answer
    assert "rank 5 on 10.0.0.1 (GPU 5) does not answer" in named.message
    assert "Rank 5 -- GPU 5 managed by process 7005 on node 10.0.0.1" in named.evidence


def test_two_texts_do_not_show_that_a_job_goes_on() -> None:
    """RAS prints no counts where it says OK."""
    assert explain.NO_COUNTS in read(recorded("ok.txt") * 2).unread


def test_two_texts_of_a_hung_job_name_the_rank() -> None:
    found = verdict(recorded("behind.txt") * 2)

    assert (Level.WARN, Cause.APPLICATION) in said(found)
    assert Answer.CANNOT_TELL is found.answer


def test_outputs_of_two_jobs_are_not_compared() -> None:
    other = job_of(4)
    other.step(times=90)
    text = other.as_json().replace('"hash": "0xa1"', '"hash": "0xa9"')

    assert explain.OTHERS in read(recorded("one_look.json") + text).unread


def test_outputs_in_the_wrong_order_are_not_compared() -> None:
    later = job_of(4)
    later.step(times=90)

    assert explain.BACKWARDS in read(later.as_json() + recorded("one_look.json")).unread


def test_diagnostics_that_ask_for_a_review_are_shown() -> None:
    reading = read(recorded("diagnostics.txt"))

    assert any("line 3" in why and "NCCL_DEBUG" in why for why in reading.unread)
    assert "2 to review, 8 RAS peers" in reading.title


def test_diagnostics_that_are_all_ok_prove_nothing() -> None:
    lines = recorded("diagnostics.txt").splitlines(keepends=True)
    found = verdict("".join(line for line in lines if "[INFO]" not in line))

    assert Answer.CANNOT_TELL is found.answer
    assert explain.DIAGNOSED in {one.message for one in found.findings}


@pytest.mark.parametrize("name", ["hangs.json", "silent.txt", "diagnostics.txt"])
def test_a_truncated_output_is_broken(name: str) -> None:
    text = recorded(name)

    with pytest.raises(Broken):
        read(text[: len(text) * 2 // 3])


def test_other_text_is_not_recognised() -> None:
    with pytest.raises(NotRecognised):
        read("NCCL version 2.30.3\n")


def test_text_between_two_outputs_is_not_passed_over() -> None:
    with pytest.raises(Broken):
        read(recorded("one_look.json") + "rank 3 crashed\n" + recorded("one_look.json"))
