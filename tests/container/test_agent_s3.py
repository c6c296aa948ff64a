"""S3 over real HTTP: the bundle from there, the reports to there."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from checks.documents.report import load
from tests.container.agents import GATE, fake_python, make_bundle, make_root, run
from tests.container.fake_s3 import BUCKET, FakeS3


def test_bundle_from_s3_reports_to_s3(tmp_path: Path, store: FakeS3) -> None:
    """<prefix>/<gate id>/<attempt token>/nodes/<host>.json, and the merged report beside."""
    store.objects["in/bundle.json"] = make_bundle()
    given = {"PRELAUNCH_BUNDLE": f"s3://{BUCKET}/in/bundle.json", "PRELAUNCH_UPLOAD": f"s3://{BUCKET}/out/"}
    ended = run(make_root(tmp_path, None), python=fake_python(tmp_path), **store.environment(), **given)
    prefix = f"out/{GATE}/{ended.record['attempt']}"

    assert 0 == ended.code
    assert f"{prefix}/nodes/{ended.record['node']}.json" in store.objects
    assert ended.merged == load(store.objects[f"{prefix}/health_check_metrics.json"])
    assert 0 == json.loads(store.objects[f"{prefix}/agent/{ended.record['node']}.json"])["exit_code"]


def test_an_object_that_is_not_there_is_rejected(tmp_path: Path, store: FakeS3) -> None:
    """In S3's words, without credentials."""
    given = {"PRELAUNCH_BUNDLE": f"s3://{BUCKET}/in/none.json"}
    ended = run(make_root(tmp_path, None), python=fake_python(tmp_path), **store.environment(), **given)

    assert (2, True, False) == (ended.code, "NoSuchKey" in ended.failure, "a-secret" in ended.log)


def test_a_bucket_that_refuses_makes_no_go(tmp_path: Path, store: FakeS3) -> None:
    """A report that arrived nowhere is no report."""
    given = {"PRELAUNCH_UPLOAD": "s3://no-such-bucket/x"}
    root = make_root(tmp_path, make_bundle())
    ended = run(root, python=fake_python(tmp_path), **store.environment(), **given)

    assert (3, True) == (ended.code, "NoSuchKey" in ended.failure)


def test_an_s3_that_does_not_answer_delays_the_end_no_longer_than_said(
    tmp_path: Path, store: FakeS3, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It accepts connections and says nothing; SageMaker's SIGKILL would come while the agent waits."""
    monkeypatch.setattr("container.agent.agent_run.UPLOAD_S", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        given = store.environment(f"http://127.0.0.1:{silent.getsockname()[1]}")
        given |= {"PRELAUNCH_UPLOAD": f"s3://{BUCKET}/x"}
        ended = run(make_root(tmp_path, make_bundle()), python=fake_python(tmp_path), **given)

    assert (3, True) == (ended.code, "did not end within 1 s" in ended.failure)
