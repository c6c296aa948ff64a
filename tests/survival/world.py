"""A health job in a small world of real processes, from bundle to verdict, without Prefect."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path

from checks import bundle as bundles
from checks.documents.host_load import Contention
from checks.facts.builtin import builtin
from checks.judge.verdict import decide
from checks.merge import merge
from checks.model import Answer, Cause, Declared, Finding, Level, Profile, Report, Verdict
from checks.policy import CheckPolicy, Policy
from tasks.gate_file.references import read_policy
from tasks.launchers.base import JobSpec, JobStatus, Launcher, Work
from tasks.launchers.registry import launcher_for
from tests.survival import few_checks
from tests.waiting import until

ROOT = Path(__file__).resolve().parents[2]
LOCAL = read_policy(ROOT / "deployments" / "policies" / "local.toml")


@dataclass(frozen=True)
class World:
    """What is declared, what is sabotaged, and how patient everybody is.

    `few`: the nodes run the checks of `few_checks`, with one rank each, which need neither torch nor torchrun.
    `skip`: checks that are left out, as a gate file may, because the test is not about them.
    """

    nodes: int = 1
    ranks_per_node: int = 1
    sabotage: tuple[str, ...] = ()
    timeouts_s: Mapping[str, float] = field(default_factory=dict)
    network_s: float = 6.0
    stage_s: float = 60.0
    max_runtime_s: float = 120.0
    deadline_s: float | None = None
    options: Mapping[str, object] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    few: bool = False
    skip: tuple[str, ...] = ()
    spares: int = 0

    @property
    def policy(self) -> Policy:
        """The local policy with a line for every sabotage, which by itself asks for nothing."""
        lines = {f"sabotage.{name}": CheckPolicy() for name in self.sabotage}
        rules = few_checks.policy(LOCAL) if self.few else LOCAL
        return replace(rules, checks={**rules.checks, **lines})

    def bundle(self, gate_id: str) -> bundles.Bundle:
        """The bundle of this world."""
        names = tuple(f"node-{index}" for index in range(self.nodes))
        declared = Declared("cpu", self.nodes, 0, self.ranks_per_node, names, spares=self.spares)
        extra = tuple(f"prelaunch_sabotage:{name}" for name in self.sabotage)
        if self.few:
            extra = (few_checks.ADDS, *extra)
        return bundles.make(
            gate_id,
            declared,
            Profile.QUICK,
            self.policy,
            builtin(),
            extra=extra,
            timeouts_s=self.timeouts_s,
            network_s=self.network_s,
            stage_s=self.stage_s,
            deadline_s=self.deadline_s,
            skip=self.skip,
        )


@dataclass(frozen=True)
class Ended:
    """How the job ended, and what was judged."""

    report: Report
    verdict: Verdict
    status: JobStatus
    seconds: float
    fetched: Path

    @property
    def exit_code(self) -> int:
        """What `prelaunch gate` would exit with."""
        return {Answer.GO: 0, Answer.NO_GO: 1, Answer.ASK: 1, Answer.CANNOT_TELL: 3}[self.verdict.answer]

    @property
    def busy(self) -> bool:
        """Whether other work on this machine used the CPUs during a check: then slow parts are named, and not condemned."""
        seen = (Contention.from_metrics(row.metrics) for row in self.report.observations)
        return any(one is not None and one.busy for one in seen)

    def slow(self) -> set[str]:
        """Whom the FAILs about speed name: as HARDWARE, or as EVIDENCE where the machine was busy with other work."""
        causes = (Cause.HARDWARE, Cause.EVIDENCE) if self.busy else (Cause.HARDWARE,)
        checks = ("network.pairs", "collective.pairs")
        return {f.subject for f in self.fails() if f.cause in causes and f.check in checks}

    def fails(self, cause: Cause | None = None) -> list[Finding]:
        """The FAIL findings, of one cause if asked."""
        found = [f for f in self.verdict.findings if f.level is Level.FAIL]
        return [f for f in found if cause in (None, f.cause)]


def all_but(*checks: str) -> tuple[str, ...]:
    """What a gate file skips that is about ranks and these checks: each of the others costs every rank or node seconds."""
    return tuple(sorted({*LOCAL.checks} - {"system.identity", "network.reachability", *checks}))


RUN = ("{python}", "-m", "checks", "run", "--bundle", "{job}/bundle.json", "--out", "{out}")


def run(
    world: World,
    folder: Path,
    meanwhile: Callable[[Launcher, str], None] | None = None,
    command: tuple[str, ...] = RUN,
    files: Mapping[str, bytes] | None = None,
    fetched: Path | None = None,
) -> Ended:
    """Run a job of the world to its end and judge its reports. `meanwhile` may break things while it runs."""
    own: dict[str, object] = {}
    path = str(ROOT / "tests" / "sabotage")
    if world.few:
        own["python"] = str(few_checks.interpreter(folder / "python"))
        path = f"{ROOT}:{path}"
    launcher = launcher_for("local", {**own, **world.options}, folder / "work")
    environment = {"PYTHONPATH": path, **world.environment}
    into = fetched or folder / "fetched"
    with few_checks.chosen() if world.few else nullcontext():
        made = world.bundle(f"test-{uuid.uuid4().hex[:12]}")
        name, begun = f"{made.gate_id}-check-1", time.monotonic()
        job = JobSpec(
            name=name,
            command=command,
            nodes=world.nodes,
            ranks_per_node=world.ranks_per_node,
            max_runtime_s=world.max_runtime_s,
            files={"bundle.json": bundles.dump(made), **(files or {})},
            environment=environment,
            work=Work.CHECK if command is RUN else Work.GATE,
        )
        try:
            launcher.submit(launcher.plan(job))
            if meanwhile is not None:
                meanwhile(launcher, name)
            status = wait(launcher, name, world.max_runtime_s + 20)
            into.mkdir(exist_ok=True)
            launcher.fetch(name, into)
        finally:
            launcher.cancel(name)
        reports = {path.stem: path.read_bytes() for path in (into / status.attempt / "nodes").glob("*.json")}
        report = merge(made, status.attempt, reports, "2026-01-01T00:00:00Z")
        verdict = decide(report, world.policy, builtin())
        for node in (f"node-{index}" for index in range(world.nodes)):
            print(f"--- {node}\n{launcher.logs(name, node)[-3000:]}")
        for finding in verdict.findings:
            print(finding.level.value, finding.cause.value, finding.check, finding.subject, finding.message)
        return Ended(report, verdict, status, time.monotonic() - begun, into)


def wait(launcher: Launcher, name: str, seconds: float) -> JobStatus:
    """The job's last status, once it is final."""
    until(lambda: launcher.state(name).state.final, lambda: launcher.state(name), seconds, 0.1)
    return launcher.state(name)
