"""S3 over real HTTP: the bundle from there, the reports to there."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

from checks.documents.report import load
from tests.container.agents import GATE, fake_python, make_bundle, make_root, run, run_alone

BUCKET = "prelaunch-test"


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """An S3 on a port of its own."""
    from moto.server import ThreadedMotoServer  # half a second that only these tests pay

    made = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    made.start()
    host, port = made.get_host_and_port()
    yield f"http://{host}:{port}"
    made.stop()


def environment(server: str) -> dict[str, str]:
    """What a container gets from SageMaker, with this server for AWS."""
    return {
        "AWS_ENDPOINT_URL": server,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "a-secret-of-the-test",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }


@pytest.fixture(scope="module")
def s3(server: str) -> Any:
    """A client of it, and the bucket."""
    given = environment(server)
    client = boto3.client(
        "s3",
        endpoint_url=server,
        region_name="us-east-1",
        aws_access_key_id=given["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=given["AWS_SECRET_ACCESS_KEY"],
    )
    client.create_bucket(Bucket=BUCKET)
    client.put_object(Bucket=BUCKET, Key="in/bundle.json", Body=make_bundle())
    return client


def keys(s3: Any, prefix: str) -> dict[str, bytes]:
    """Every object below the prefix."""
    found = s3.list_objects_v2(Bucket=BUCKET, Prefix=prefix).get("Contents", [])
    return {item["Key"]: s3.get_object(Bucket=BUCKET, Key=item["Key"])["Body"].read() for item in found}


def test_bundle_from_s3_reports_to_s3(tmp_path: Path, server: str, s3: Any) -> None:
    """<prefix>/<gate id>/<attempt token>/nodes/<host>.json, and the merged report beside."""
    given = {"PRELAUNCH_BUNDLE": f"s3://{BUCKET}/in/bundle.json", "PRELAUNCH_UPLOAD": f"s3://{BUCKET}/out/"}
    ended = run(make_root(tmp_path, None), python=fake_python(tmp_path), **environment(server), **given)
    found = keys(s3, "out/")
    prefix = f"out/{GATE}/{ended.record['attempt']}"

    assert 0 == ended.code
    assert {f"{prefix}/nodes/{ended.record['node']}.json", f"{prefix}/health_check_metrics.json"} <= set(
        found
    )
    assert ended.merged == load(found[f"{prefix}/health_check_metrics.json"])
    assert 0 == json.loads(found[f"{prefix}/agent/{ended.record['node']}.json"])["exit_code"]


@pytest.mark.parametrize("place", ["in/none.json", "in"])
def test_an_object_that_is_not_there_is_rejected(tmp_path: Path, server: str, s3: Any, place: str) -> None:
    """In S3's words, without credentials."""
    given = {"PRELAUNCH_BUNDLE": f"s3://{BUCKET}/{place}"}
    ended = run(make_root(tmp_path, None), python=fake_python(tmp_path), **environment(server), **given)

    assert (2, True, False) == (ended.code, "NoSuchKey" in ended.failure, "a-secret" in ended.log)


def test_a_bucket_that_refuses_makes_no_go(tmp_path: Path, server: str, s3: Any) -> None:
    """A report that arrived nowhere is no report."""
    given = {"PRELAUNCH_UPLOAD": "s3://no-such-bucket/x"}
    root = make_root(tmp_path, make_bundle())
    ended = run(root, python=fake_python(tmp_path), **environment(server), **given)

    assert (3, True) == (ended.code, "NoSuchBucket" in ended.failure)


def test_an_s3_that_does_not_answer_delays_the_end_no_longer_than_said(tmp_path: Path, server: str) -> None:
    """It accepts connections and says nothing; SageMaker's SIGKILL would come while the agent waits."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        given = environment(f"http://127.0.0.1:{silent.getsockname()[1]}")
        given |= {"PRELAUNCH_UPLOAD": f"s3://{BUCKET}/x", "PRELAUNCH_UPLOAD_S": "1"}
        ended = run_alone(make_root(tmp_path, make_bundle()), python=fake_python(tmp_path), **given)

    assert (3, True) == (ended.code, "did not end within 1 s" in ended.failure)
