"""Makes rounds: one child process each, with a deadline, judged by the same code as a gate."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from checks import bundle as bundles
from checks import catalog
from checks.command_line import PlaceError
from checks.documents.decode import decode, parse_json
from checks.documents.report import dump_plain
from checks.facts.builtin import builtin
from checks.facts.instances import not_for
from checks.judge.open_findings.update import LatestEvidence
from checks.judge.open_findings.view import seen_alone, view, watched
from checks.model import Declared, ErrorKind, Node, Observation, Profile, Report
from checks.policy import Policy
from checks.probes.host import machine, system
from checks.process import own_packages
from checks.process.isolate import RESULT_BYTES, Output, end_child, piped
from checks.process.observe import errored
from checks.process.tree import with_pdeathsig
from checks.roster import Member, Roster
from checks.runner.journal import now
from checks.runner.single_node import host_name
from checks.value_types import DecodeError

FOUND_BY = "watch"
KILL_S = 2.0
SCRATCH = "watch"


@dataclass(frozen=True)
class RoundResult:
    """One round. `began_at` and `ended_at` are Unix times; `in_time` is False if it was ended at its deadline.

    `observations` has one for each check that had to be measured, and `machine` is what they say of the machine.
    """

    began_at: float
    ended_at: float
    in_time: bool
    observations: tuple[Observation, ...]
    machine: LatestEvidence


class Rounds:
    """The rounds of this machine. `state` is the folder of machine_state; what one boot left there is not compared with another's.

    Raises PlaceError for an instance type that the policy does not know.
    """

    def __init__(self, state: Path, declared: Declared, policy: Policy, deadline_s: float) -> None:
        facts = builtin().merged(declared)
        self.declared = declared
        if not facts.are_for(policy.instance_types, declared):
            problem = not_for(policy.instance_types, declared.instance_type)
            raise PlaceError(f"the policy {policy.name} {problem}.")
        instance = facts.instances.get(declared.instance_type)
        checks_known = (*catalog.CATALOG, *catalog.WATCH_ONLY)
        self.policy = view(policy, checks_known)
        checks = watched(checks_known, policy)
        self.paths = tuple(
            check.path for check in checks if check.skip_for(self.declared, Profile.QUICK, instance) is None
        )
        self.plan = catalog.plan(checks, self.declared, Profile.QUICK, instance)
        self.node, self.deadline_s = host_name(), deadline_s
        self.boot_id = machine.boot_id(system.ROOT)
        self.scratch = state / SCRATCH / (self.boot_id or "boot")
        self._prepare(state)

    @property
    def required(self) -> int:
        """How many observations a round has to make."""
        return sum(line.skip is None for line in self.plan)

    def make_round(self) -> RoundResult:
        """One round. Raises OSError if no process can be started or nothing can be written."""
        began_at, attempt = time.time(), uuid.uuid4().hex
        path = self.scratch / f"{attempt}.jsonl"
        try:
            output, in_time = self._run(path)
            records = self._completed(dict(_read(path)), output, in_time)
        finally:
            path.unlink(missing_ok=True)
        ended_at = time.time()
        return RoundResult(began_at, ended_at, in_time, records, self._judged(records, attempt, ended_at))

    def _prepare(self, state: Path) -> None:
        self.scratch.mkdir(parents=True, exist_ok=True)
        for other in (state / SCRATCH).iterdir():
            if other != self.scratch:
                shutil.rmtree(other, ignore_errors=True)
        bundle = bundles.make(
            f"watch-{uuid.uuid4().hex[:8]}", self.declared, Profile.QUICK, self.policy, builtin()
        )
        roster = Roster((Member(self.node, "127.0.0.1", 1),), 1, "lo")
        self.gate_id, self.catalogue = bundle.gate_id, bundle.catalogue
        (self.scratch / "bundle.json").write_bytes(bundles.dump(bundle))
        (self.scratch / "roster.json").write_bytes(dump_plain(roster))

    def _run(self, path: Path) -> tuple[str, bool]:
        """What the child printed, and whether it ended in time."""
        files = (str(self.scratch / "bundle.json"), str(self.scratch / "roster.json"))
        where = (*files, self.node, str(self.scratch), str(path))
        argv = own_packages.module("checks.watch.round_child", *where, *self.paths)
        child = subprocess.Popen(
            with_pdeathsig((sys.executable, *argv)), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        output, in_time = Output(piped(child)), True
        try:
            child.wait(self.deadline_s)
        except subprocess.TimeoutExpired:
            in_time = False
        finally:
            end_child(child, KILL_S, kill_s=KILL_S)
        return output.text(0.1), in_time

    def _completed(
        self, done: Mapping[str, Observation], output: str, in_time: bool
    ) -> tuple[Observation, ...]:
        """One observation for each planned check: what the round did not come to is ERRORED."""
        reason = (
            "its process ended early" if in_time else f"it was ended at its deadline of {self.deadline_s:g} s"
        )
        category = ErrorKind.NOT_RUN if in_time else ErrorKind.DEADLINE
        missed = f"the round did not come to it: {reason}"
        wanted = [line.check for line in self.plan if line.skip is None]
        return tuple(
            done.get(name) or errored(name, self.node, missed, 0.0, output, category) for name in wanted
        )

    def _judged(self, observations: tuple[Observation, ...], attempt: str, ended_at: float) -> LatestEvidence:
        whole = Report(
            self.gate_id,
            attempt,
            now(),
            Profile.QUICK,
            self.declared,
            self.catalogue,
            self.plan,
            (Node(self.node, 0, attempt, self.catalogue, True, system.identity_of_node()),),
            observations,
        )
        return seen_alone(whole, self.policy, builtin(), ended_at, FOUND_BY, self.boot_id)


def _read(path: Path) -> Iterator[tuple[str, Observation]]:
    """The observations that the child has written; a line that is not completely one is as good as none."""
    try:
        lines = path.read_bytes().splitlines()
    except OSError:
        return
    for line in lines:
        try:
            observation = decode(Observation, parse_json(line, RESULT_BYTES))
        except DecodeError:
            continue
        yield observation.check, observation
