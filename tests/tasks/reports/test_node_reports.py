"""Node reports as the gate follows them: each content is decoded once, from the first look to the merged report."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from checks import bundle as bundles
from checks.documents import report as documents
from checks.documents.certificates import NO_CERTIFICATES
from checks.documents.decode import decode
from checks.documents.report import NodeReport, dump_plain, load_node
from checks.facts.builtin import builtin
from checks.model import Declared, ErrorKind, Node, Observation, Outcome, Profile
from checks.policy import OnWarn, Policy
from tasks import collect
from tasks.collect import CheckDeadline, merge_reports, poll_action
from tasks.gate.jobs import JobEnd
from tasks.launchers.base import Delays, EngineUnavailable, JobState, JobStatus, Placement
from tasks.reports.node_reports import (
    NodeProgress,
    NodeReports,
    ReportCounts,
    WaitLog,
    count_observations,
    read_files,
    waited_for,
)
from tasks.store.folder import FolderStore
from tests.tasks.sessions import FakeEngine, session

DECLARED = Declared("cpu", 2, 0, 1, ("node-0", "node-1"))
POLICY = Policy("none", ("cpu",), OnWarn.GO, 0.25, {})
BUNDLE = bundles.make("gate-1", DECLARED, Profile.QUICK, POLICY, builtin())


class Shown:
    """A progress artifact that nobody reads."""

    async def show(self, percent: float, said: str) -> None:
        """Nothing."""


class Folder:
    """A launcher whose jobs wrote what lies in `files`; each fetch copies all of it anew."""

    placement = Placement.PINNED

    def __init__(self, **files: bytes) -> None:
        self.files = files

    def fetch(self, job: str, folder: Path) -> None:
        """Copy."""
        nodes = folder / "a1" / "nodes"
        nodes.mkdir(parents=True, exist_ok=True)
        for name, data in self.files.items():
            (nodes / f"{name}.json").write_bytes(data)

    def logs(self, job: str, node: str, size: int) -> str:
        """Nothing."""
        return ""


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The node of each report that is decoded from now on, in turn; "" for one that cannot be."""
    seen: list[str] = []
    load = decode

    def counted(kind: Any, value: Any, path: str = "") -> Any:
        if kind is NodeReport:
            seen.append(value.get("node", {}).get("name", ""))
        return load(kind, value, path)

    monkeypatch.setattr(documents, "decode", counted)
    for name in ("keep_evidence", "keep_logs"):
        monkeypatch.setattr(collect, name, lambda *more: None)
    return seen


def report(rank: int, complete: bool = True, outcome: Outcome = Outcome.MEASURED) -> bytes:
    """What a node wrote."""
    name = f"node-{rank}"
    row = Observation("system.clock", name, outcome, 0.1, {"year": 2026})
    if outcome is Outcome.ERRORED:
        row = replace(row, metrics={}, reason="not reached: killed", error_kind=ErrorKind.NOT_REACHED)
    node = Node(name, rank, "a1", BUNDLE.catalogue, complete, {})
    when, plan = "2026-11-21T08:00:00+00:00", bundles.plan_of(BUNDLE)[1]
    return dump_plain(NodeReport(1, "gate-1", when, Profile.QUICK, DECLARED, plan, node, (row,)))


def session_of(folder: Path, launcher: Folder) -> Any:
    """As much of a session as watching and collecting need."""
    limits = SimpleNamespace(profile=Profile.QUICK, max_runtime_minutes=1.0)
    cluster, training = SimpleNamespace(options={}), SimpleNamespace(model_trainer=None, image="")
    context = SimpleNamespace(
        launcher=launcher, bundle=lambda gate_id: BUNDLE, declared=DECLARED, facts=builtin(),
        gate=SimpleNamespace(checks=limits, cluster=cluster, training=training),
    )  # fmt: skip
    lease = SimpleNamespace(taken_at=0.0)
    return SimpleNamespace(
        context=context, gate_id="gate-1", folder=folder, answer_by=0.0,
        renewal=SimpleNamespace(lease=lease), left_s=lambda: 30.0, certificates=NO_CERTIFICATES, proof=[],
    )  # fmt: skip


def looked(look: Callable[[JobStatus], Awaitable[None]], status: JobStatus) -> None:
    """One look, to its end."""

    async def once() -> None:
        await look(status)

    asyncio.run(once())


def test_unchanged_reports_are_decoded_once(tmp_path: Path, decoded: list[str]) -> None:
    """Over several looks, the merge, and the search for what is missing: one decoding for each content."""
    launcher = Folder(**{"node-0": report(0), "node-1": report(1, complete=False)})
    session, reports, clock = session_of(tmp_path, launcher), NodeReports(), CheckDeadline(60.0, Delays(5.0))
    look = poll_action(session, "job", Shown(), clock, reports)  # type: ignore[arg-type]
    running = JobStatus(JobState.RUNNING, "", "a1", {})

    for _ in range(3):
        looked(look, running)
    unfinished = list(decoded)
    launcher.files["node-1"] = report(1)
    for _ in range(3):
        looked(look, running)
    ended = replace(running, state=JobState.SUCCEEDED)
    made = merge_reports(session, JobEnd("job", ended, decoded=reports))

    assert ["node-0", "node-1"] == unfinished
    assert ["node-0", "node-1", "node-1"] == decoded
    assert (2, True, ()) == (len(made.nodes), clock.complete, made.collection)


def test_a_report_that_cannot_be_decoded_is_tried_once_and_its_reason_is_told(
    tmp_path: Path, decoded: list[str]
) -> None:
    """The merge tells why, from what was remembered."""
    wrong = report(1).replace(b'"complete":true', b'"complete":7')
    launcher = Folder(**{"node-0": report(0), "node-1": wrong})
    session, reports = session_of(tmp_path, launcher), NodeReports()
    look = poll_action(session, "job", Shown(), CheckDeadline(60.0, Delays(5.0)), reports)  # type: ignore[arg-type]
    ended = JobStatus(JobState.SUCCEEDED, "", "a1", {})

    looked(look, ended)
    made = merge_reports(session, JobEnd("job", ended, decoded=reports))

    assert ["node-0", "node-1"] == decoded
    assert "node-1: its report cannot be read: node.complete" in made.collection[0]


def test_only_the_newest_content_of_each_node_is_remembered() -> None:
    """A report grows from look to look: what it was before is dropped."""
    reports = NodeReports()
    for number in range(5):
        reports.readable({"node-0": report(0), "node-1": report(1) + b" " * number})

    assert 2 == len(reports)


def test_each_node_has_its_own_progress() -> None:
    """Of its own checks and those of its ranks; one that is done does nothing more."""
    wanted = [row.check for row in bundles.plan_of(BUNDLE)[1] if row.skip is None]
    files = {"node-0": report(0), "node-1": report(1, complete=False)}
    seen = count_observations(BUNDLE, files, NodeReports())
    done, busy = seen.by_node

    assert (done.name, done.doing) == ("node-0", "")
    assert busy == NodeProgress("node-1", int("system.clock" in wanted), busy.total, busy.doing)
    assert busy.doing in wanted and busy.doing != "system.clock"


def test_errored_observation_counts_as_failed_and_not_as_done() -> None:
    """The ranks of a node were killed: its report is whole, and says of each of their checks that it was not reached."""
    files = {"node-0": report(0), "node-1": report(1, outcome=Outcome.ERRORED)}
    seen = count_observations(BUNDLE, files, NodeReports())
    lost = seen.by_node[1]

    assert (0, 1, "") == (lost.done, lost.failed, lost.doing)
    assert seen.done == seen.by_node[0].done


def _counts(complete: int, *nodes: NodeProgress) -> ReportCounts:
    return ReportCounts(0, 0, len(nodes), complete, "", nodes)


DONE, BUSY = NodeProgress("n-0", 9, 9, ""), NodeProgress("n-10", 4, 9, "compute.gemm")
NAMED = Declared("cpu", 12, 0, 1, tuple(f"n-{number}" for number in range(12)))


@pytest.mark.parametrize(
    ("declared", "seen", "said"),
    [
        (NAMED, _counts(0), ""),
        (NAMED, _counts(1, DONE, *(replace(DONE, name=f"n-{n}") for n in range(1, 11))), "no report yet from n-11"),
        (NAMED, _counts(1, DONE, BUSY), "no report yet from n-1, n-2, n-3 and 7 more nodes"),
        (NAMED, _counts(0, *(replace(BUSY, name=f"n-{n}") for n in range(12))), ""),
        (NAMED, _counts(11, *(replace(DONE, name=f"n-{n}") for n in range(10)), BUSY, replace(DONE, name="n-11")),
         "waiting for n-10 (4 of 9, now compute.gemm)"),
        (replace(NAMED, nodes=2, node_names=("n-0", "n-10")), _counts(1, replace(DONE, done=5, failed=4), BUSY),
         "n-0 could not measure 4 of 9; waiting for n-10 (4 of 9, now compute.gemm)"),
        (replace(NAMED, node_names=()), _counts(1, DONE), ""),
        (replace(NAMED, nodes=1, node_names=("n-0",)), _counts(1, DONE), ""),
    ],
)  # fmt: skip
def test_the_nodes_that_are_waited_for_are_named(declared: Declared, seen: ReportCounts, said: str) -> None:
    """Those that are silent while others report, else those that measure while others are done; before that nobody is late."""
    assert said == waited_for(declared, seen)


def test_the_log_names_them_after_a_minute_and_then_ever_less_often() -> None:
    """A gate of hours leaves a few lines; when nobody is waited for it begins anew."""
    log, said = WaitLog(), []
    for second in range(0, 1000, 5):
        said.append(log.due("waiting for n-1" if second != 500 else "", float(second)))

    assert [60, 120, 240, 480, 565, 625, 745, 985] == [place * 5 for place, line in enumerate(said) if line]
    assert "after 60 s: waiting for n-1" == said[12]


def test_a_silent_node_is_named_in_the_progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the sentence that the terminal, the log of CI, Prefect's artifact and messages show."""
    shown: list[str] = []
    monkeypatch.setattr(collect, "report_progress", lambda progress: shown.append(progress.detail))
    session = session_of(tmp_path, Folder(**{"node-0": report(0)}))
    look = poll_action(session, "job", Shown(), CheckDeadline(60.0, Delays(5.0)), NodeReports())  # type: ignore[arg-type]
    looked(look, JobStatus(JobState.RUNNING, "", "a1", {}))

    assert shown[0].startswith("1 of 2 nodes report") and shown[0].endswith("; no report yet from node-1")


def test_logs_are_kept_of_nodes_that_ended_and_then_of_one_that_hangs(
    tmp_path: Path, decoded: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that hung has not ended when its checks are given up, and somebody needs its log; but its engine may not answer for it."""
    kept: list[str] = []
    monkeypatch.setattr(collect, "keep_logs", lambda context, gate_id, job, nodes, seen: kept.extend(nodes))
    launcher = Folder(**{"node-0": report(0, complete=False), "node-1": report(1)})
    session, ended = session_of(tmp_path, launcher), JobStatus(JobState.RUNNING, "", "a1", {"node-1": 0})
    merge_reports(session, JobEnd("job", ended, "its checks were stopped at their deadline of 60 s"))
    launcher.files["node-0"] = report(0)
    merge_reports(session, JobEnd("job", replace(ended, exit_codes={"node-0": 0, "node-1": 0})))

    assert ["node-1", "node-0", "node-0", "node-1"] == kept


def test_a_log_that_cannot_be_had_costs_no_other_log(tmp_path: Path) -> None:
    """The engine answers for one node and not for another."""

    class Partly(Folder):
        """It has no answer for the first node."""

        def logs(self, job: str, node: str, size: int) -> str:
            """An error, or the node's name."""
            if node == "node-0":
                raise EngineUnavailable("no answer")
            return node

    session = session_of(tmp_path, Partly())
    session.context.store = FolderStore(tmp_path / "store")
    collect.keep_logs(session.context, session.gate_id, "job", ["node-0", "node-1"])

    assert [path.read_text() for path in (tmp_path / "store").rglob("node-*")] == ["node-1"]


@pytest.mark.parametrize("key", ["host", "boot_id", "product_uuid", "gpu_uuids", "pool_token", "driver"])
def test_an_id_that_equals_a_secret_stays_in_an_identity(monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    """The training starts only where the machine still says the same of itself; text in its place loses the secret."""
    found = "ip-10-0-7-3a48c2f1"
    monkeypatch.setenv("NODE_AUTH_KEY", found)
    made = load_node(report(0))
    texts = {key: found, "kernel": f"panic with {found}"}

    kept = NodeReports().load(dump_plain(replace(made, node=replace(made.node, identity=texts))))

    assert {key: found, "kernel": "panic with [removed]"} == kept.node.identity


def test_a_report_that_came_earlier_is_not_lost_at_the_end(tmp_path: Path) -> None:
    """Its file cannot be read any more (EIO), or its pod is gone; what can be read counts."""
    paths = [f"abcdef12/nodes/node-{index}.json" for index in (0, 1)]
    engine = FakeEngine(files=dict.fromkeys(paths, b"before"))
    one = session(tmp_path, engine)
    collect.fetch_output(one, "job")
    engine.files = {paths[0]: b"now"}
    last = read_files(collect.fetch_final_output(one, "job"), "abcdef12")

    assert {"node-0": b"now", "node-1": b"before"} == last
