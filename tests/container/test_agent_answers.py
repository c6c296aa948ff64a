"""A person's answer on its way to the checks that hold: looked for while they hold, and only then."""

from __future__ import annotations

from pathlib import Path

from checks.documents.answer import AnswerWord, dump_answer
from tests.container.agents import GATE, Agent, fake_python, make_bundle, make_root, run_usual
from tests.container.fake_s3 import BUCKET, FakeS3
from tests.tasks.store.servers import environment

FIRST = ("gate", "--ask-s", "30")


def answer(attempt: str, word: AnswerWord = AnswerWord.LAUNCH) -> bytes:
    """Ada's."""
    return dump_answer(GATE, attempt, word, "ada", "it is the clock", "now")


def holding(tmp_path: Path, answers: str, **environment: str) -> Agent:
    """An agent whose checks are about to hold."""
    root = make_root(tmp_path, make_bundle())
    given = {"FAKE": "asks", "FAKE_GATE": GATE, **environment}
    command = (*FIRST, "--answers", answers, "--", "sh", "-c", "echo trained")
    return Agent(root, *command, python=fake_python(tmp_path), environment=given)


def attempt_of(agent: Agent) -> str:
    """The token under which it holds."""
    return agent.until("output/data/*/asking/*").parents[1].name


def test_an_s3_that_fails_for_a_while_only_delays_it(tmp_path: Path, store: FakeS3) -> None:
    """Throttled, broken, not allowed to say that nothing is there: said, and asked again."""
    store.failing = [503, 503, 503, 403, 500, 500, 500]
    with holding(tmp_path, f"s3://{BUCKET}/job/answers/", **environment(store.url)) as agent:
        attempt = attempt_of(agent)
        store.objects[f"job/answers/{attempt}.json"] = answer(attempt)
        ended = agent.wait()

    assert (0, True, []) == (ended.code, "trained" in ended.log, store.failing)
    assert "AccessDenied" in ended.log and "a-secret" not in ended.log


def test_agent_polls_for_no_answer_when_no_check_holds(tmp_path: Path, store: FakeS3) -> None:
    """A go needs no answer, and costs no request."""
    words = (*FIRST, "--answers", f"s3://{BUCKET}/answers", "--", "sleep", "1.5")
    ended = run_usual(tmp_path, *words, **environment(store.url))

    assert (0, []) == (ended.code, store.asked)


def test_a_refusal_in_a_folder_reaches_the_checks(tmp_path: Path) -> None:
    """From a folder here, from S3 above."""
    with holding(tmp_path, str(tmp_path / "answers")) as agent:
        attempt = attempt_of(agent)
        (tmp_path / "answers").mkdir()
        (tmp_path / "answers" / f"{attempt}.json").write_bytes(answer(attempt, AnswerWord.REFUSE))
        ended = agent.wait()

    assert (1, False) == (ended.code, "trained" in ended.log)
