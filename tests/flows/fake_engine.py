"""An engine in this process that behaves like one which keeps machines: pools, repairs, troubles, each by a dial.

A job goes a step further each time somebody asks for its state. Its nodes are made up (tests/flows/fake_python.py), and
their verdicts are those of the checks' own judge.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from checks import bundle as bundles
from checks.documents.answer import ANSWER, AnswerWord, GateAnswer, load_answer
from checks.documents.report import dump_plain
from checks.facts.builtin import builtin
from checks.judge.verdict import decide
from checks.merge import merge
from checks.model import Answer
from checks.runner.in_job.spares import choose, next_attempt, without_spares
from checks.value_types import DecodeError
from tasks.launchers.base import (
    Delays,
    EngineUnavailable,
    JobHandle,
    JobSpec,
    JobState,
    JobStatus,
    Launcher,
    LaunchError,
    Placement,
    Plan,
    PreflightCheck,
    RetainedMachines,
    RetentionState,
    Trouble,
    Work,
)
from tests.flows.fake_python import write

UNKNOWN = JobStatus(JobState.UNKNOWN, "no such job", "", {}, absent=True)
SILENT = JobStatus(JobState.UNKNOWN, "ThrottlingException", "", {})
PAID = (RetentionState.READY, RetentionState.COMING)
KEPT = RetainedMachines(RetentionState.READY, "Available")


@dataclass(frozen=True)
class Options:
    """None."""


@dataclass
class Engine(Launcher):
    """The dials, and what was asked of it. `parts` are what the nodes of each start play, the last one for all that follow; `roles`
    are what those of a gate of this name always play.

    `pools` say what becomes of each check job's machines: ready, coming, gone, or the name of a thief. `endings` are for
    jobs that end without any report. `refusals` are raised by `submit`. `train_refusals` and `train_endings` are the same for
    trainings alone: one that ends so never ran, and one that is PENDING stays so. The next look at a job in `silent` is not
    answered. With `repairs` a refused job is started again. As often as `interruptions` says the machines of a job that trains
    are taken away, and it is started again. Output cannot be fetched while the job is `unreadable`. `hook` is called with each
    verb and job. `chosen` are the nodes of a job with spares that go on; if it `forgets`, none do.
    """

    placement: Placement = Placement.POOLED
    keeps_s: float | None = 3600.0
    poll_s: float = 0.005
    start_s: float = 5.0
    silence_s: float = 1.0
    delays: Delays = field(default_factory=lambda: Delays(1.0))
    parts: list[str] = field(default_factory=lambda: ["healthy"])
    roles: dict[str, str] = field(default_factory=dict)
    pools: list[str] = field(default_factory=lambda: ["ready"])
    training: str = "healthy"
    endings: list[JobStatus] = field(default_factory=list)
    refusals: list[LaunchError] = field(default_factory=list)
    train_refusals: list[LaunchError] = field(default_factory=list)
    train_endings: list[JobStatus] = field(default_factory=list)
    lines: tuple[PreflightCheck, ...] = ()
    silent: list[str] = field(default_factory=list)
    repairs: bool = False
    interruptions: int = 0
    unreadable: Callable[[str], bool] = lambda job: False
    excludes_failed: bool = False
    machines: dict[str, dict[str, str]] = field(default_factory=dict)
    holds_release: bool = False
    matches: bool = True
    nodes_say: Answer | None = None
    chosen: tuple[str, ...] = ()
    forgets: bool = False
    hook: Callable[[str, str], None] = lambda verb, job: None
    root: Path = Path()
    calls: list[tuple[str, str]] = field(default_factory=list)
    jobs: dict[str, JobSpec] = field(default_factory=dict)
    last: dict[str, JobStatus] = field(default_factory=dict)
    kept: dict[str, RetainedMachines] = field(default_factory=dict)
    handed: dict[str, bytes] = field(default_factory=dict)
    answers: list[GateAnswer] = field(default_factory=list)
    steps: dict[str, Iterator[JobStatus]] = field(default_factory=dict)

    @property
    def offers(self) -> dict[Placement, float]:
        return {self.placement: self.keeps_s or 0.0}

    def node_names(self, nodes: int) -> tuple[str, ...]:
        return tuple(f"node-{index}" for index in range(nodes))

    def plan(self, job: JobSpec) -> Plan:
        return Plan(job, ())

    def submit(self, plan: Plan) -> JobHandle:
        job = plan.job
        self._called("submit", job.name)
        if job.name in self.jobs:
            return JobHandle(job.name, True)
        if self.refusals:
            raise self.refusals.pop(0)
        if self.train_refusals and job.work is Work.CONFIRM:
            raise self.train_refusals.pop(0)
        self.jobs[job.name], self.last[job.name] = job, JobStatus(JobState.PENDING, "Starting", "", {})
        steps = {Work.CHECK: self._check, Work.GATE: self._gate}.get(job.work, self._train)
        self.steps[job.name] = steps(job)
        pool = self.kept.get(job.predecessor)
        if pool is not None and pool.state is RetentionState.READY and self.matches:
            self.kept[job.predecessor] = RetainedMachines(RetentionState.REUSED, "Reused", job.name)
        return JobHandle(job.name, False)

    def state(self, name: str) -> JobStatus:
        self._called("state", name)
        if name in self.silent:
            self.silent.remove(name)
            return SILENT
        if name not in self.jobs:
            return UNKNOWN
        if not self.last[name].state.final:
            self.last[name] = next(self.steps[name], self.last[name])
        return replace(self.last[name], machines=self.machines)

    def fetch(self, name: str, into: Path) -> None:
        self._called("fetch", name)
        into.mkdir(parents=True, exist_ok=True)
        if self.unreadable(name):
            raise EngineUnavailable("AccessDenied: the reports cannot be read")
        if (self.root / name).is_dir():
            shutil.copytree(self.root / name, into, dirs_exist_ok=True)

    def logs(self, name: str, node: str, last_bytes: int = 65536) -> str:
        return f"the last words of {node}"

    def cancel(self, name: str) -> None:
        self._called("cancel", name)
        if name in self.jobs and not self.last[name].state.final:
            self._end(name, JobStatus(JobState.CANCELLED, "Stopped", self.last[name].attempt, {}))
        self.release(name)

    def preflight(self, plans: tuple[Plan, ...]) -> tuple[PreflightCheck, ...]:
        self._called("preflight", plans[0].job.name)
        return self.lines

    def retained_machines(self, name: str) -> RetainedMachines:
        self._called("retained_machines", name)
        found = self.kept.get(name, RetainedMachines(RetentionState.NOTHING))
        if found.state is RetentionState.COMING:
            self.kept[name] = KEPT
        return found

    def release(self, name: str) -> str:
        self._called("release", name)
        found = self.kept.get(name)
        if found is None or found.state not in PAID:
            return ""
        if self.holds_release:
            raise EngineUnavailable(f"{name}: UpdateTrainingJob was not answered. Release it by hand.")
        self.kept[name] = RetainedMachines(RetentionState.GONE, "Terminated")
        return "released"

    def answer(self, name: str, attempt: str, data: bytes) -> None:
        self._called("answer", name)
        folder = self.root / name / attempt
        folder.mkdir(parents=True, exist_ok=True)
        (folder / ANSWER).write_bytes(data)
        gate_id = bundles.load(self.jobs[name].files["bundle.json"]).gate_id
        self.answers.append(load_answer(data, gate_id, attempt))

    def hand_out(self, name: str, report: bytes) -> str:
        self._called("hand_out", name)
        self.handed[name] = report
        return f"fake://{name}/health_check_metrics.json"

    @property
    def idle(self) -> bool:
        """Whether nothing runs, and nothing is kept for anybody."""
        paid = [pool for pool in self.kept.values() if pool.state in PAID]
        return not paid and all(status.state.final for status in self.last.values())

    def count(self, verb: str) -> int:
        """How often it was asked."""
        return sum(called == verb for called, _ in self.calls)

    def _called(self, verb: str, job: str) -> None:
        self.calls.append((verb, job))
        self.hook(verb, job)

    def _end(self, name: str, status: JobStatus) -> None:
        self.last[name] = status
        if self.placement is Placement.POOLED and self.jobs[name].work is Work.CHECK:
            pool = self.pools.pop(0) if len(self.pools) > 1 else self.pools[0]
            named = {state.value: state for state in (*PAID, RetentionState.GONE)}
            state = named.get(pool, RetentionState.REUSED)
            self.kept[name] = RetainedMachines(state, "", "" if pool in named else pool)

    def _final(self, job: JobSpec, status: JobStatus) -> JobStatus:
        self._end(job.name, status)
        return status

    def _part(self, job: JobSpec) -> str:
        if role := self.roles.get(job.name.partition("-")[0]):
            return role
        return self.parts.pop(0) if len(self.parts) > 1 else self.parts[0]

    def _check(self, job: JobSpec) -> Iterator[JobStatus]:
        yield JobStatus(JobState.RUNNING, "Training", "t1", {})
        if self.endings:
            yield self._final(job, self.endings.pop(0))
            return
        part = self._part(job)
        while part == "hang":
            yield JobStatus(JobState.RUNNING, "Training", "t1", {})
        self._report(job, "t1", part)
        codes = dict.fromkeys(self.node_names(job.nodes), 0)
        yield self._final(job, JobStatus(JobState.SUCCEEDED, "Completed", "t1", codes, history=("Starting",)))

    def _train(self, job: JobSpec) -> Iterator[JobStatus]:
        if self.train_endings:
            status = self.train_endings.pop(0)
            yield JobStatus(JobState.PENDING, "Starting", "", {})
            while not status.state.final:
                yield status
            yield self._final(job, status)
            return
        yield JobStatus(JobState.RUNNING, "Training", "r1", {})
        while self.training == "hang":
            yield JobStatus(JobState.RUNNING, "Training", "r1", {})
        go = self.training == "healthy" or self._report(job, "r1", self.training) is Answer.GO
        yield self._trained(job, "r1", go)

    def _trained(self, job: JobSpec, token: str, go: bool, *earlier: str) -> JobStatus:
        names = tuple(name for name in self._leave(job, token, go) if name in (self.chosen or (name,)))
        codes = dict.fromkeys(names, 0 if go else 1)
        status = JobStatus(JobState.SUCCEEDED, "", token, codes, earlier=earlier)
        if not go and not job.observe:
            status = replace(status, state=JobState.FAILED, trouble=Trouble.ENDED)
        return self._final(job, status)

    def _leave(self, job: JobSpec, token: str, go: bool) -> tuple[str, ...]:
        """What the nodes write last: that they become the command, or why not. Returns their names."""
        names = self.node_names(job.nodes)
        for node in self.chosen if go and self.chosen else names:
            path = self.root / job.name / token / ("started" if go else "failure") / node
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("" if go else "no_go: it refused")
        return names

    def _gate(self, job: JobSpec) -> Iterator[JobStatus]:
        earlier: tuple[str, ...] = ()
        if self.endings:
            yield self._final(job, self.endings.pop(0))
            return
        while True:
            token = f"s{len(earlier) + 1}"
            running = JobStatus(JobState.RUNNING, "Training", token, {}, earlier=earlier)
            yield running
            said = self._report(job, token, self._part(job))
            yield running
            if said is Answer.NO_GO and self.chosen:
                earlier, token = (*earlier, token), next_attempt(token)
                running = replace(running, attempt=token, earlier=earlier)
                yield running
                said = self._report(job, token, self._part(job))
                yield running
            while said is Answer.ASK and job.ask_s:
                said = self._word(job, token)
                yield running
            if said is Answer.GO and self.interruptions:
                self.interruptions -= 1
                self._leave(job, token, True)
                yield running
            elif said is Answer.GO or not self.repairs:
                yield self._trained(job, token, said is Answer.GO, *earlier)
                return
            yield JobStatus(JobState.PENDING, "Interrupted", token, {}, earlier=earlier)
            earlier = (*earlier, token)

    def _word(self, job: JobSpec, token: str) -> Answer:
        gate_id = bundles.load(job.files["bundle.json"]).gate_id
        try:
            found = load_answer((self.root / job.name / token / ANSWER).read_bytes(), gate_id, token)
        except (OSError, DecodeError):
            return Answer.ASK
        return Answer.GO if found.word is AnswerWord.LAUNCH else Answer.NO_GO

    def _report(self, job: JobSpec, token: str, part: str) -> Answer:
        """What the nodes write, and the answer that they come to."""
        bundle, out = bundles.load(job.files["bundle.json"]), self.root / job.name
        nodes = self.node_names(job.nodes)
        if len(token) > 2:
            bundle, nodes = replace(bundle, declared=without_spares(bundle.declared)), self.chosen
        for node in nodes:
            if part != "silent" and (part != "lone" or node == "node-0"):
                write(part, node, bundle, out, token, nodes)
        files = {path.stem: path.read_bytes() for path in (out / token / "nodes").glob("*.json")}
        merged = merge(bundle, token, files, "2026-11-22T00:00:00Z")
        verdict = decide(merged, bundle.policy, builtin())
        answer = self.nodes_say or verdict.answer
        self.chosen = choose(merged, verdict) if bundle.declared.spares and not self.forgets else self.chosen
        if job.work is not Work.CHECK:
            said = dump_plain(replace(verdict, answer=answer))
            for node in files:
                path = out / token / "verdicts" / f"{node}.json"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(said)
        return answer


CURRENT: list[Engine] = [Engine()]


def launcher(options: Options, root: Path) -> Engine:
    """What the registry calls: one engine, however often it is asked."""
    return CURRENT[0]
