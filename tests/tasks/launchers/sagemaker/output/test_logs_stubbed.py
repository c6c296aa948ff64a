"""The end of a host's log, from CloudWatch."""

from __future__ import annotations

from typing import Any

import pytest

from tasks.launchers.base import LaunchRejected
from tests.tasks.launchers.sagemaker.stubbed import JOB, Stubbed

GROUP = "/aws/sagemaker/TrainingJobs"


def streams(aws: Stubbed, *names: str, token: str = "", following: str = "") -> None:
    """DescribeLogStreams gives these."""
    asked: dict[str, Any] = {"logGroupName": GROUP, "logStreamNamePrefix": f"{JOB}/algo-1-", "limit": 50}
    answer: dict[str, Any] = {"logStreams": [{"logStreamName": f"{JOB}/{name}"} for name in names]}
    answer |= {"nextToken": following} if following else {}
    asked |= {"nextToken": token} if token else {}
    aws.logs.add_response("describe_log_streams", answer, asked)


def events(aws: Stubbed, stream: str, *lines: str, token: str = "", following: str = "b/1") -> None:
    """GetLogEvents gives these."""
    asked: dict[str, Any] = {
        "logGroupName": GROUP,
        "logStreamName": f"{JOB}/{stream}",
        "startFromHead": False,
    }
    asked |= {"nextToken": token} if token else {}
    rows = [{"message": line, "timestamp": 1} for line in lines]
    aws.logs.add_response("get_log_events", {"events": rows, "nextBackwardToken": following}, asked)


def test_the_newest_life_speaks(aws: Stubbed) -> None:
    """A container that starts again gets another stream, and those of a job that was repaired often take pages; neighbours and
    strangers are left out. So are lines of reports: they are a channel of their own, and would push the last words out of sight.
    """
    streams(aws, "algo-1-1700000900", "algo-1-x", following="more")
    streams(aws, "algo-1-1700000000", token="more")
    events(aws, "algo-1-1700000900", "one", "the last words", 'PRELAUNCH_REPORT {"data": "H4sI"}')
    events(aws, "algo-1-1700000900", token="b/1")
    assert aws.launcher.logs(JOB, "algo-1") == "one\nthe last words\n"


def test_pages_are_read_from_the_end(aws: Stubbed) -> None:
    """Until enough is there, and no further."""
    streams(aws, "algo-1-1")
    events(aws, "algo-1-1", "c", "d", following="b/2")
    events(aws, "algo-1-1", "a", "b", token="b/2", following="b/3")
    assert aws.launcher.logs(JOB, "algo-1", last_bytes=5) == "\nc\nd\n"[-5:]


def test_no_log_is_empty(aws: Stubbed) -> None:
    """No group yet, no stream yet, or no such host."""
    aws.logs.add_client_error("describe_log_streams", "ResourceNotFoundException", "no group", 400)
    streams(aws)
    assert [aws.launcher.logs(JOB, node) for node in ("algo-1", "algo-1", "../x", "")] == [""] * 4


def test_a_log_that_may_not_be_read_names_the_policy(aws: Stubbed) -> None:
    """Logs are granted apart."""
    aws.logs.add_client_error("describe_log_streams", "AccessDeniedException", "no", 400)
    with pytest.raises(LaunchRejected, match=r"deployments/iam/orchestrator-logs\.json"):
        aws.launcher.logs(JOB, "algo-1")
