"""Where reports go: over real HTTP to S3, and where they can go nowhere else, in lines of the log that are put together again."""

from __future__ import annotations

import base64
import gzip
import json
import random
import socket
from pathlib import Path

import pytest

from checks.documents.answer import AnswerWord, dump_answer
from checks.documents.report import NODE_REPORT_BYTES, load, load_node
from container.agent.files.log_lines import lines_of
from tests.container.agents import GATE, Agent, Ended, fake_python, make_bundle, make_root, run, run_usual
from tests.container.fake_s3 import BUCKET, FakeS3
from tests.tasks.store.servers import environment

WORD = "PRELAUNCH_REPORT "


def joined(parts: list[dict[str, object]]) -> bytes:
    """The report in them."""
    assert [part["part"] for part in parts] == list(range(1, int(str(parts[0]["parts"])) + 1))
    return gzip.decompress(base64.b64decode("".join(str(part["data"]) for part in parts)))


def test_an_upload_that_failed_leaves_the_log(tmp_path: Path) -> None:
    """With the reason why it is there; and it is no GO, because whoever waits for the report would wait in vain."""
    (tmp_path / "uploads").write_text("a file where the folder should be")
    ended = run_usual(tmp_path, "check", "--upload", str(tmp_path / "uploads"))

    assert (3, True) == (ended.code, "could not be copied" in ended.failure)
    assert "not copied" in ended.log and load_node(joined(told(ended))).node.complete


@pytest.mark.parametrize(
    "given", [{}, {"TRAINING_JOB_NAME": "job-7", "PRELAUNCH_UPLOAD": "{folder}/uploads"}]
)
def test_a_report_that_is_elsewhere_fills_no_log(tmp_path: Path, given: dict[str, str]) -> None:
    """Copied, or on a host that nobody's control plane started."""
    given = {key: value.format(folder=tmp_path) for key, value in given.items()}
    ended = run_usual(tmp_path, "check", **given)

    assert (0, []) == (ended.code, told(ended))


def test_lines_are_whole_and_short() -> None:
    """The largest report there is, of data that does not shrink: what others print at the same time cuts no line."""
    data = random.Random(1).randbytes(NODE_REPORT_BYTES)
    lines = list(lines_of("g" * 63, "a" * 64, "n" * 253, data))
    parts = [json.loads(line.removeprefix(WORD)) for line in lines]

    assert data == joined(parts)
    # limits.h: a write of so many bytes is not mixed with others'
    assert max(len(line) + 1 for line in lines) <= 4096


def told(ended: Ended) -> list[dict[str, object]]:
    """The values of the lines of the node's report, in the log's order."""
    lines = [line.removeprefix(WORD) for line in ended.log.splitlines() if line.startswith(WORD)]
    return [value for line in lines if "/nodes/" in (value := json.loads(line))["path"]]


def test_isolated_from_the_network_the_report_is_in_the_log(tmp_path: Path) -> None:
    """SageMaker started it, and no place was named to copy to. Who follows the log knows the verdict's reasons while the training
    runs; once is enough.
    """
    words = ("gate", "--", "sh", "-c", "sleep 2; echo trained")
    ended = run_usual(tmp_path, *words, TRAINING_JOB_NAME="job-7")
    parts = told(ended)
    (own,) = (ended.out / str(ended.record["attempt"]) / "nodes").glob("*.json")

    assert ended.log.index("/nodes/") < ended.log.index("trained")
    origins = {(part["gate_id"], part["attempt"], part["node"]) for part in parts}
    assert {(GATE, ended.record["attempt"], ended.record["node"])} == origins
    assert own.read_bytes() == joined(parts)
    assert load_node(joined(parts)).node.complete


def test_bundle_from_s3_reports_to_s3(tmp_path: Path, store: FakeS3) -> None:
    """<prefix>/<gate id>/<attempt token>/nodes/<host>.json, and the merged report beside."""
    store.objects["in/bundle.json"] = make_bundle()
    given = {"PRELAUNCH_BUNDLE": f"s3://{BUCKET}/in/bundle.json", "PRELAUNCH_UPLOAD": f"s3://{BUCKET}/out/"}
    ended = run(make_root(tmp_path, None), python=fake_python(tmp_path), **environment(store.url), **given)
    prefix = f"out/{GATE}/{ended.record['attempt']}"

    assert 0 == ended.code
    assert f"{prefix}/nodes/{ended.record['node']}.json" in store.objects
    assert ended.merged == load(store.objects[f"{prefix}/health_check_metrics.json"])
    assert 0 == json.loads(store.objects[f"{prefix}/agent/{ended.record['node']}.json"])["exit_code"]


def test_an_object_that_is_not_there_is_rejected(tmp_path: Path, store: FakeS3) -> None:
    """In S3's words, without credentials."""
    given = {"PRELAUNCH_BUNDLE": f"s3://{BUCKET}/in/none.json"}
    ended = run(make_root(tmp_path, None), python=fake_python(tmp_path), **environment(store.url), **given)

    assert (2, True, False) == (ended.code, "NoSuchKey" in ended.failure, "a-secret" in ended.log)


def test_a_bucket_that_refuses_makes_no_go(tmp_path: Path, store: FakeS3) -> None:
    """A report that arrived nowhere is no report."""
    given = {"PRELAUNCH_UPLOAD": "s3://no-such-bucket/x"}
    ended = run_usual(tmp_path, **environment(store.url), **given)

    assert (3, True) == (ended.code, "NoSuchKey" in ended.failure)


def test_an_s3_that_does_not_answer_delays_the_end_no_longer_than_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It accepts connections and says nothing; SageMaker's SIGKILL would come while the agent waits."""
    monkeypatch.setattr("container.agent.agent_run.UPLOAD_S", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        given = environment(f"http://127.0.0.1:{silent.getsockname()[1]}")
        given |= {"PRELAUNCH_UPLOAD": f"s3://{BUCKET}/x"}
        ended = run_usual(tmp_path, **given)

    assert (3, True) == (ended.code, "did not end within 1 s" in ended.failure)


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
