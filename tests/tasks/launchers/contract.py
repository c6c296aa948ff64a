"""What every launcher keeps, as functions that a launcher's tests run over it: see CONTRACT at the end.

    @pytest.mark.parametrize("promise", CONTRACT, ids=name_of)
    def test_contract(promise, bench): promise(bench)

The commands need nothing but Python on the nodes.
"""

from __future__ import annotations

import json
import os
import re
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tasks.launchers.base import JobSpec, JobState, JobStatus, Launcher


@dataclass(frozen=True)
class Bench:
    """A launcher over an engine that exists. `again` makes another launcher over the same engine.

    `seconds` is how long the engine may take for a job that does nothing; `folder` is the test's own.
    `ends_together` says that the first node to fail ends the others, `agent` that an agent in the container prints as well.
    """

    again: Callable[[], Launcher]
    folder: Path
    seconds: float = 15.0
    instance_type: str = ""
    ends_together: bool = False
    agent: bool = False

    def job(self, code: str, nodes: int = 2, max_runtime_s: float = 60.0) -> JobSpec:
        """A job of another name each time, whose nodes run `code`."""
        return JobSpec(
            name=f"contract-{uuid.uuid4().hex[:12]}",
            command=("{python}", "-c", code, "{out}", "{job}"),
            nodes=nodes,
            ranks_per_node=1,
            max_runtime_s=max_runtime_s,
            files={"bundle.json": b'{"hello": 1}'},
            environment={"CONTRACT": "kept"},
            instance_type=self.instance_type,
        )


REPORT = """
import json, os, sys, time
out, job = sys.argv[1:3]
node = os.environ["PRELAUNCH_NODE"]
def tell(name, **said):
    temporary = os.path.join(out, f".{name}.tmp")
    with open(temporary, "w") as file: json.dump(said, file)
    os.replace(temporary, os.path.join(out, name))
"""
SAY = (
    REPORT
    + """
tell(node, attempt=os.environ["PRELAUNCH_ATTEMPT"], contract=os.environ["CONTRACT"],
     bundle=json.load(open(os.path.join(job, "bundle.json"))),
     roster=json.load(open(os.environ["PRELAUNCH_ROSTER"])),
     omp=os.environ.get("OMP_NUM_THREADS"), foreign=[n for n in os.environ if n.startswith("PREFECT_")])
print("said", node, flush=True)
"""
)
WAIT = REPORT + "tell(node, pid=os.getpid()); time.sleep(300)"
SECOND_FAILS = (
    REPORT
    + """
members = json.load(open(os.environ["PRELAUNCH_ROSTER"]))["members"]
sys.exit(7 if node == members[1]["name"] else 0)
"""
)


def until_final(launcher: Launcher, name: str, seconds: float) -> JobStatus:
    """The status once it is final."""
    return until(launcher, name, seconds, lambda status: status.state.final)


def until(launcher: Launcher, name: str, seconds: float, so: Callable[[JobStatus], bool]) -> JobStatus:
    """The status once it is as asked."""
    deadline = time.monotonic() + seconds
    while not so(status := launcher.state(name)):
        assert time.monotonic() < deadline, f"{name} is {status}\n{launcher.logs(name, 'node-0')}"
        time.sleep(min(launcher.poll_s, 0.1))  # of Slurm each look is a process
    return status


def told(launcher: Launcher, name: str, into: Path) -> Mapping[str, Mapping[str, object]]:
    """What the nodes have written so far."""
    launcher.fetch(name, into)
    texts = {path.name: path.read_bytes() for path in into.iterdir() if path.is_file()}
    return {file: json.loads(text) for file, text in texts.items() if text}


def until_told(bench: Bench, launcher: Launcher, name: str, nodes: int) -> Mapping[str, Mapping[str, object]]:
    """The same, once every node wrote."""
    deadline = time.monotonic() + bench.seconds
    while len(said := told(launcher, name, bench.folder / "early")) < nodes:
        assert time.monotonic() < deadline, f"{said}: {launcher.state(name)}"
        time.sleep(0.05)
    return said


def planning_is_pure(bench: Bench) -> None:
    """The same job gives the same plan, a request a node, and nothing starts."""
    launcher, job = bench.again(), bench.job(SAY)
    plan = launcher.plan(job)

    assert plan == bench.again().plan(job)
    assert {request.name for request in plan.requests} == {job.name}
    assert launcher.state(job.name).state is JobState.UNKNOWN


def an_unknown_job_is_unknown(bench: Bench) -> None:
    """Neither final nor an error, for whatever name; to end or fetch it is fine."""
    launcher = bench.again()
    for name in ("nobody-1", "../jobs", "", "x" * 300, "a/b"):
        launcher.cancel(name)
        launcher.fetch(name, bench.folder / "nothing")

        assert (launcher.state(name).state, launcher.logs(name, "node-0")) == (JobState.UNKNOWN, "")
        assert launcher.state(name).absent
    assert list((bench.folder / "nothing").iterdir()) == []


def every_node_runs_and_reports(bench: Bench) -> None:
    """Once each, with its name, the files, the roster, one token, and nothing of the flow's environment.

    What a node printed is found under its name, by any launcher over the same engine; a cancel comes too late to change anything.
    """
    launcher, job = bench.again(), bench.job(SAY)
    handle = launcher.submit(launcher.plan(job))
    status = until_final(launcher, job.name, bench.seconds)
    said = told(launcher, job.name, bench.folder / "out")

    assert (handle.name, handle.adopted, status.state) == (job.name, False, JobState.SUCCEEDED)
    assert len(said) == job.nodes and set(status.exit_codes.values()) == {0}
    for node in said.values():
        roster = node["roster"]
        assert isinstance(roster, dict)
        assert {member["name"] for member in roster["members"]} == set(said)
        assert (node["attempt"], node["contract"], node["bundle"]) == (status.attempt, "kept", {"hello": 1})
        assert node["foreign"] == [] and node["omp"] == os.environ.get("OMP_NUM_THREADS")
    logs = {node: bench.again().logs(job.name, node) for node in said}
    if bench.agent:
        logs = {node: "".join(re.findall(r"(?m)^said .*\n", log)) for node, log in logs.items()}
    assert logs == {node: f"said {node}\n" for node in said}
    launcher.cancel(job.name)
    assert launcher.state(job.name).state is JobState.SUCCEEDED


def a_second_submit_adopts(bench: Bench) -> None:
    """The job that bears the name is returned, while it runs and after; its token stays. Whole files are fetched meanwhile, by any
    launcher over the same engine. The first cancel ends the job, the second finds it ended.
    """
    launcher, job = bench.again(), bench.job(WAIT, nodes=1)
    launcher.submit(launcher.plan(job))
    other = bench.again()
    before = until_told(bench, other, job.name, job.nodes)
    handle = other.submit(other.plan(job))
    after = told(other, job.name, bench.folder / "late")
    until(launcher, job.name, bench.seconds, lambda status: status.state is JobState.RUNNING)
    other.cancel(job.name)
    ended = other.state(job.name).state
    launcher.cancel(job.name)

    assert (handle.adopted, len(before)) == (True, job.nodes)
    assert before == after
    assert other.submit(other.plan(job)).adopted
    assert (ended, other.state(job.name).state) == (JobState.CANCELLED, JobState.CANCELLED)


def a_failed_node_is_named_and_the_job_failed(bench: Bench) -> None:
    """By its exit code; the others are not touched, where the engine leaves them alone."""
    launcher, job = bench.again(), bench.job(SECOND_FAILS)
    launcher.submit(launcher.plan(job))
    status = until_final(launcher, job.name, bench.seconds)

    codes = [0 if bench.ends_together and code != 7 else code for code in status.exit_codes.values()]
    assert (status.state, sorted(codes)) == (JobState.FAILED, [0, 7])
    assert next(node for node, code in status.exit_codes.items() if code == 7) in status.detail


def a_job_ends_at_its_max_runtime(bench: Bench) -> None:
    """It is ended, FAILED, and says why."""
    launcher = bench.again()
    job = bench.job(WAIT, nodes=1, max_runtime_s=1.0)
    launcher.submit(launcher.plan(job))
    status = until_final(launcher, job.name, bench.seconds)

    assert (status.state, "max runtime" in status.detail) == (JobState.FAILED, True)


CONTRACT: tuple[Callable[[Bench], None], ...] = (
    planning_is_pure,
    an_unknown_job_is_unknown,
    every_node_runs_and_reports,
    a_second_submit_adopts,
    a_failed_node_is_named_and_the_job_failed,
    a_job_ends_at_its_max_runtime,
)


def name_of(promise: Callable[[Bench], None]) -> str:
    """For pytest's list."""
    return promise.__name__
