"""A person's answer on its way to the checks that hold: looked for while they hold, and only then."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from checks.documents.answer import AnswerWord, dump_answer
from tests.container.agents import GATE, Agent, Ended, fake_python, make_bundle, make_root, run

FIRST = ("gate", "--ask-s", "30")


def answer(attempt: str, word: AnswerWord = AnswerWord.LAUNCH) -> bytes:
    """Ada's."""
    return dump_answer(GATE, attempt, word, "ada", "it is the clock", "now")


class Store:
    """An S3 of one object, which fails as told: `failing` statuses, one a request, before it answers as it should."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.failing: list[int] = []
        self.asked: list[str] = []
        store = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                store.asked.append(self.path)
                found = store.objects.get(self.path.partition("?")[0])
                status = store.failing.pop(0) if store.failing else 200 if found is not None else 404
                code = {403: "AccessDenied", 404: "NoSuchKey", 503: "SlowDown"}.get(status, "InternalError")
                said = f"<Error><Code>{code}</Code><Message>as told</Message></Error>".encode()
                body = found if status == 200 and found is not None else said
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *given: object) -> None:
                """Quiet."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def environment(self) -> dict[str, str]:
        """What makes it the container's S3."""
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "a-secret-of-the-test",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }


@pytest.fixture
def store() -> Iterator[Store]:
    """One for each test."""
    made = Store()
    yield made
    made.server.shutdown()
    made.server.server_close()


def holding(tmp_path: Path, answers: str, **environment: str) -> Agent:
    """An agent whose checks are about to hold."""
    root = make_root(tmp_path, make_bundle())
    given = {"FAKE": "asks", "FAKE_GATE": GATE, **environment}
    command = (*FIRST, "--answers", answers, "--", "sh", "-c", "echo trained")
    return Agent(root, *command, python=fake_python(tmp_path), environment=given)


def attempt_of(agent: Agent) -> str:
    """The token under which it holds."""
    return agent.until("output/data/*/asking/*").parents[1].name


@pytest.mark.parametrize(
    ("word", "code", "trained"), [(AnswerWord.LAUNCH, 0, True), (AnswerWord.REFUSE, 1, False)]
)
def test_an_answer_reaches_the_checks(tmp_path: Path, word: AnswerWord, code: int, trained: bool) -> None:
    """From a folder here, from S3 below."""
    with holding(tmp_path, str(tmp_path / "answers")) as agent:
        attempt = attempt_of(agent)
        (tmp_path / "answers").mkdir()
        (tmp_path / "answers" / f"{attempt}.json").write_bytes(answer(attempt, word))
        ended = agent.wait()

    assert (code, trained) == (ended.code, "trained" in ended.log)


def test_an_s3_that_fails_for_a_while_only_delays_it(tmp_path: Path, store: Store) -> None:
    """Throttled, broken, not allowed to say that nothing is there: said, and asked again."""
    store.failing = [503, 503, 503, 403, 500, 500, 500]
    with holding(tmp_path, "s3://bucket/job/answers/", **store.environment()) as agent:
        attempt = attempt_of(agent)
        store.objects[f"/bucket/job/answers/{attempt}.json"] = answer(attempt)
        ended = agent.wait()

    assert (0, True, []) == (ended.code, "trained" in ended.log, store.failing)
    assert "AccessDenied" in ended.log and "a-secret" not in ended.log


def test_nobody_is_asked_where_nothing_holds(tmp_path: Path, store: Store) -> None:
    """A go needs no answer, and costs no request."""
    root = make_root(tmp_path, make_bundle())
    words = (*FIRST, "--answers", "s3://bucket/answers", "--", "sleep", "1.5")
    ended: Ended = run(root, *words, python=fake_python(tmp_path), **store.environment())

    assert (0, []) == (ended.code, store.asked)
