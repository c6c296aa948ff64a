"""A session in this process: a real lock in a folder, and an engine that answers what a test says. No server, no job."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from checks.judge.cost.cost import CostTerms
from checks.model import Declared, Report
from tasks.gate.context import GateContext
from tasks.gate.lease import lease as leases
from tasks.gate.lease.lease import TTL_S, LauncherAddress, Lease, OpenQuestion
from tasks.gate.lease.owner import this_process
from tasks.gate.lease.renewal import LeaseRenewal
from tasks.gate.outcome import JudgedReport
from tasks.gate.progress import LISTENER, ProgressListener
from tasks.gate.question import AnswerChannel, ApprovalAction, ApprovalAnswer
from tasks.gate.session import Session
from tasks.gate_file.model import Mode
from tasks.gate_file.people import Notify
from tasks.launchers.base import JobState, JobStatus, LaunchError, Placement, RetainedMachines, RetentionState
from tasks.store.folder import FolderStore
from tests.sample_reports import FACTS, POLICY, verdict_of

NOW = 1_800_000_000.0
CHECK_JOB, TRAIN_JOB = "g-1-check-1", "g-1-train-1"
READY = RetainedMachines(RetentionState.READY)


@dataclass
class FakeEngine:
    """The answers of an engine; `calls` is what it was asked to do. `broken` are the jobs that it cannot end or release."""

    placement: Placement = Placement.POOLED
    keeps_s: float | None = 3600.0
    poll_s: float = 0.0
    silence_s: float = 1.0
    delays = SimpleNamespace(ends_s=900.0)
    holds: list[RetainedMachines | LaunchError] = field(default_factory=lambda: [READY])
    states: dict[str, JobStatus] = field(default_factory=dict)
    released: str = ""
    broken: set[str] = field(default_factory=set)
    files: Mapping[str, bytes] = field(default_factory=dict)
    log: str = ""
    calls: list[tuple[str, str]] = field(default_factory=list)

    def without(self, nodes: Sequence[str]) -> str:
        return ""

    def retained_machines(self, name: str) -> RetainedMachines:
        """The next answer; the last one for ever."""
        said = self.holds.pop(0) if len(self.holds) > 1 else self.holds[0]
        if isinstance(said, LaunchError):
            raise said
        return said

    def state(self, name: str) -> JobStatus:
        """What the test says of the job, else that there is none."""
        return self.states.get(name, JobStatus(JobState.UNKNOWN, "no such job", "", {}, absent=True))

    def cancel(self, name: str) -> None:
        """End a job."""
        self._do("cancel", name)

    def release(self, name: str) -> str:
        """Give machines back."""
        self._do("release", name)
        return self.released

    def fetch(self, name: str, into: Path) -> None:
        """The files of the test."""
        into.mkdir(parents=True, exist_ok=True)
        for path, data in self.files.items():
            (into / path).parent.mkdir(parents=True, exist_ok=True)
            (into / path).write_bytes(data)

    def logs(self, name: str, node: str, last_bytes: int = 65536) -> str:
        """The log of every node."""
        return self.log

    def _do(self, verb: str, name: str) -> None:
        self.calls.append((verb, name))
        if name in self.broken:
            raise LaunchError(f"{name}: the engine refused")


def session(
    folder: Path,
    engine: FakeEngine | None = None,
    *,
    nodes: int = 2,
    mode: Mode = Mode.ENFORCE,
    on_fail: str = "refuse",
    launches: bool = True,
    adopted: bool = False,
    asking: OpenQuestion | None = None,
) -> Session:
    """A session that holds the lock of cluster "c"."""
    store, names = FolderStore(folder / "store"), tuple(f"node-{index}" for index in range(nodes))
    wanted = Lease(
        1, "c", "g-1", 1, "d", "g.toml", adopted, LauncherAddress("local", {}, "/nonexistent"), this_process(),
        NOW, NOW, NOW + TTL_S, asking,
    )  # fmt: skip
    held = leases.acquire(store, wanted, lambda lease: (), lambda lease: None)
    gate = SimpleNamespace(
        name="local",
        policy=SimpleNamespace(mode=mode),
        approval=SimpleNamespace(on_fail=on_fail),
        checks=SimpleNamespace(network_s=1.0, stage_s=1.0, max_runtime_minutes=1, whole_deadline_s=1.0),
        training=SimpleNamespace(max_attempts=1, max_runtime_minutes=1, model_trainer="", image=""),
        cluster=SimpleNamespace(name="c", machine=None, launcher="local", options={}),
        notify=Notify(),
        model_dump=lambda mode: {},
        text="",
    )
    context: Any = SimpleNamespace(
        gate=gate, store=store, launcher=engine or FakeEngine(), work=folder / "work", file="g.toml", policy=POLICY,
        facts=FACTS, baseline=None, declared=Declared("cpu", nodes, 0, 1, names), terms=CostTerms(usd_per_node_hour=30.0),
        nodes_cluster="c",
    )  # fmt: skip
    context.bundle = lambda gate_id: context
    return Session(cast(GateContext, context), LeaseRenewal(store, held), launches)


@contextmanager
def listening(listener: ProgressListener) -> Iterator[None]:
    """The listener hears the progress of this block."""
    token = LISTENER.set(listener)
    try:
        yield
    finally:
        LISTENER.reset(token)


def judged(report: Report, reused: str = "", **changes: Any) -> JudgedReport:
    """The report and its verdict, with these fields changed."""
    return JudgedReport(report, replace(verdict_of(report), **changes), reused)


def answer(
    action: ApprovalAction = ApprovalAction.LAUNCH, via: AnswerChannel = AnswerChannel.SLACK, **more: Any
) -> ApprovalAnswer:
    """What Ada says."""
    said = {"reason": "it is the clock", **more}
    return ApprovalAnswer(1, "g-1", "k", action, "ada", via, True, at=NOW, **said)


def cancelled(one: Session) -> bool:
    """Whether the engine was asked to end the training's job."""
    return ("cancel", TRAIN_JOB) in one.context.launcher.calls  # type: ignore[attr-defined]
