"""What is said of the end of a job, and which error it is, where no node reported."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from checks import bundle as bundles
from checks.documents.report import NodeReport, dump_plain
from checks.facts.builtin import builtin
from checks.model import SCHEMA_VERSION, Declared, Node, Profile
from tasks.collect import merge_reports
from tasks.gate.job_failures import end_said, require_reports, starts_said
from tasks.gate.jobs import JobEnd
from tasks.launchers.base import (
    EngineUnavailable,
    JobState,
    JobStatus,
    LaunchError,
    LaunchRejected,
    NoCapacity,
    QuotaExceeded,
    Trouble,
)
from tests.sample_reports import POLICY
from tests.tasks.sessions import CHECK_JOB, FakeEngine, session

CPU = bundles.make("g-1", Declared("cpu", 2, 0, 1, ("node-0", "node-1")), Profile.QUICK, POLICY, builtin())
LATE = "it did not start within 60 s and was ended"


def end(state: JobState, trouble: Trouble = Trouble.NONE, late: str = "") -> JobEnd:
    """A job that ended so."""
    return JobEnd("job", JobStatus(state, "AssocGrpNodeLimit", "", {}, trouble), late)


@pytest.mark.parametrize(
    ("watched", "said"),
    [
        (end(JobState.SUCCEEDED), "its job succeeded"),
        (end(JobState.FAILED, Trouble.ENDED), "its job failed by itself"),
        (end(JobState.FAILED, Trouble.SERVICE), "its job failed because the engine failed"),
        (end(JobState.CANCELLED, Trouble.STOPPED), "its job was cancelled because somebody stopped it"),
        (end(JobState.FAILED, Trouble.NO_CAPACITY), "its job failed because the engine had no machines"),
        (end(JobState.PENDING, late=LATE), "its job never got its machines"),
        (end(JobState.RUNNING, late="its checks were stopped at their deadline of 120 s"), ""),
        (end(JobState.RUNNING), ""),
    ],
)
def test_a_job_that_has_ended_is_not_said_to_run(watched: JobEnd, said: str) -> None:
    """ "its process did not end" is for one that the gate stopped waiting for."""
    assert said == end_said(watched)


@pytest.mark.parametrize(
    ("watched", "kind"),
    [
        (end(JobState.PENDING, late=LATE), NoCapacity),
        (end(JobState.PENDING, Trouble.QUOTA, LATE), QuotaExceeded),
        (end(JobState.FAILED, Trouble.QUOTA), QuotaExceeded),
        (end(JobState.FAILED, Trouble.CONFIGURATION), LaunchRejected),
        (end(JobState.FAILED, Trouble.NO_CAPACITY), NoCapacity),
        (end(JobState.FAILED, Trouble.SERVICE), EngineUnavailable),
    ],
)
def test_no_capacity_is_said_only_where_waiting_can_help(watched: JobEnd, kind: type[LaunchError]) -> None:
    """What the engine said last is in the message."""
    with pytest.raises(kind, match="AssocGrpNodeLimit") as caught:
        require_reports(watched)
    assert kind is type(caught.value)


@pytest.mark.parametrize(
    ("starts", "said"),
    [
        ((("n0", "n1"),), ""),
        ((("n0", "n1"), ("n0", "n2")), "start 2 of 2; n1 was lost"),
        ((("n0", "n1"), ("n2", "n3")), "start 2 of 2; n0, n1 were lost"),
        ((("n0", "n1"), ("n0", "n2"), ("n0", "n3")), "start 3 of 3; n2 was lost"),
        ((("node-0", "node-1"), ("node-0", "node-1")), "start 2 of 2"),
        ((("n0", "n1"), ()), "start 2 of 2"),
    ],
)
def test_a_job_that_was_started_again_says_which_node_was_lost(
    tmp_path: Path, starts: tuple[tuple[str, ...], ...], said: str
) -> None:
    """By the records of its agents. Where the engine gives its nodes the same names again, nobody knows which one it replaced."""
    tokens = [f"start{number}" for number in range(len(starts))]
    for token, nodes in zip(tokens, starts, strict=True):
        for node in nodes:
            (tmp_path / token / "agent").mkdir(parents=True, exist_ok=True)
            (tmp_path / token / "agent" / f"{node}.json").touch()
    status = JobStatus(JobState.RUNNING, "", tokens[-1], {}, earlier=tuple(tokens[:-1]))

    assert said == "".join(starts_said(tmp_path, status))
    assert () == starts_said(tmp_path, replace(status, attempt=tokens[0]))


NO_AGENT = (
    "/usr/bin/python3: No module named container.agent",
    "python3: Error while finding module specification for 'container.agent' (ModuleNotFoundError: No module named 'container')",
)


@pytest.mark.parametrize("trouble", [Trouble.NONE, Trouble.ENDED])
@pytest.mark.parametrize("where", ["log", "engine"])
@pytest.mark.parametrize("words", [*NO_AGENT, "Traceback ...\n" + NO_AGENT[1] + "\n"])
def test_an_image_without_agent_is_wrong(tmp_path: Path, trouble: Trouble, where: str, words: str) -> None:
    """From the log of a node, or from the engine's own words; with the remedy, and without a verdict on any machine."""
    one = session(tmp_path, FakeEngine(log=words if where == "log" else ""))
    one.context.bundle = lambda gate_id: CPU  # type: ignore[method-assign]
    detail = words if where == "engine" else "exit code 1"
    status = JobStatus(JobState.FAILED, detail, "", {"node-0": 1}, trouble)

    with pytest.raises(LaunchRejected, match=r"no container\.agent.*create-image\.sh"):
        merge_reports(one, JobEnd(CHECK_JOB, status))


@pytest.mark.parametrize(
    "words", ["No module named 'torch'", "No module named 'containers'", "mycontainer.agent is missing"]
)
def test_another_missing_module_is_not_the_agent(words: str) -> None:
    """It is what it was: no reports, so nothing is known."""
    status = JobStatus(JobState.FAILED, words, "", {"node-0": 1}, Trouble.ENDED)

    require_reports(JobEnd(CHECK_JOB, status), [words])


MACHINES = (
    ("instance_id", "i-0aa1", "i-0bb2"),
    ("engine_node", "worker-1", "worker-7"),
    ("product_uuid", "ec2a", "ec2b"),
)


@pytest.mark.parametrize("token", ["start1", "start2"])
@pytest.mark.parametrize(
    ("before", "now", "said"),
    [
        *(({key: old}, {key: new}, f"; node-1 ({old}) was lost") for key, old, new in MACHINES),
        *(({key: old}, {key: old}, "") for key, old, _ in MACHINES),
        *(({key: old}, {}, "") for key, old, _ in MACHINES),
        ({}, {"instance_id": "i-0bb2"}, ""),
        ({"instance_id": "i-0aa1"}, {"engine_node": "worker-1"}, ""),  # not comparable
        ({"instance_id": "i-0a", "engine_node": "w1"}, {"instance_id": "i-0b", "engine_node": "w7"}, "; node-1 (i-0a) was lost"),
        ({"product_uuid": "ec2a"}, {"product_uuid": "ec20"}, "; node-1 (ec2a) was lost"),
    ],
)  # fmt: skip
def test_a_machine_that_was_replaced_below_its_name_is_named(
    tmp_path: Path, token: str, before: dict[str, str], now: dict[str, str], said: str
) -> None:
    """Pods and hosts of SageMaker have the same names in each start; their reports say which machines they were."""
    first = {"node-0": dict.fromkeys(before, "ec20"), "node-1": before}
    wrote(tmp_path, "start0", first)
    wrote(tmp_path, "start1", first if token == "start2" else {**first, "node-1": now})
    wrote(tmp_path, "start2", {**first, "node-1": now})
    earlier = tuple(f"start{number}" for number in range(int(token[-1])))
    status = JobStatus(JobState.RUNNING, "", token, {}, earlier=earlier)

    assert f"start {len(earlier) + 1} of {len(earlier) + 1}{said}" == "".join(starts_said(tmp_path, status))


def wrote(folder: Path, token: str, nodes: dict[str, dict[str, str]]) -> None:
    """What the nodes of a start left: their agents' records, and the reports of those that know their machine."""
    declared = Declared("cpu", len(nodes), 0, 1, tuple(nodes))
    for rank, (name, identity) in enumerate(nodes.items()):
        node = Node(name, rank, token, "", False, identity)
        report = NodeReport(SCHEMA_VERSION, "gate", "", Profile.QUICK, declared, (), node, ())
        for path, data in (("agent", b"{}"), ("nodes", dump_plain(report))):
            (folder / token / path).mkdir(parents=True, exist_ok=True)
            if path == "agent" or identity:
                (folder / token / path / f"{name}.json").write_bytes(data)
