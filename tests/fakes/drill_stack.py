"""A stack that a drill tests, played: a gate that really looks for the fault, pages, and a remediation that keeps its records.

Each step of the drill lets the stack take one step. A deaf stack looks away.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from checks.documents.report import dump, dump_plain
from checks.exit_codes import Exit
from checks.facts.builtin import builtin
from checks.judge.verdict import conclude
from checks.model import (
    SCHEMA_VERSION,
    Action,
    Cause,
    Count,
    Coverage,
    Declared,
    Digests,
    Finding,
    Level,
    Verdict,
)
from tasks.drills.interruption import Interruption
from tasks.machines.base import Mark, Rung
from tasks.remediation.model import Act, ActState, Proof
from tasks.remediation.records import Records
from tasks.reports.read import NO_POLICY
from tasks.store import records as verdicts
from tasks.store.base import Store
from tasks.store.layout import notification_key, report_key, verdict_key
from tasks.store.open import open_store
from tests.fakes.machines import PlayedMachines, serving
from tests.sample_reports import healthy

CLUSTER = "c"
GATE = "gate-20261125-120000-abcd"
COMPLETE = Coverage(Count(2, 2), Count(0, 0), Count(2, 2), Count(1, 1))
BLAME = Finding(
    Level.FAIL, Cause.HARDWARE, "kernel.xid", "n2", "Xid 79 calls for a restart", action=Action.REBOOT
)


def gate_record(
    store: Store, gate_id: str, findings: list[Finding], cluster: str = CLUSTER, node: str = "n2"
) -> Verdict:
    """Keep what a gate of two nodes leaves behind: report, verdict and record."""
    report = healthy()
    nodes = (replace(report.nodes[0], name="n1"), replace(report.nodes[1], name=node))
    report = replace(
        report,
        gate_id=gate_id,
        nodes=nodes,
        observations=(),
        plan=(),
        declared=Declared("cpu", 2, 0, 1, ("n1", node)),
    )
    digests = Digests("a" * 64, "b" * 64, builtin().digest, None, "0")
    verdict = conclude(findings, COMPLETE, NO_POLICY, 2, digests, None)
    store.put(report_key(gate_id), dump(report))
    store.put(verdict_key(gate_id), dump_plain(verdict))
    record = verdicts.record_of(
        gate_id, report, verdicts.of(verdict), report_key(gate_id), 1e9, "gate", cluster
    )
    verdicts.keep(store, record)
    return verdict


@dataclass
class PlayedStack:
    """`faulty` says whether the fault is there. `deaf` sees nothing, `pages` and `acts` say what it does about what it sees."""

    folder: Path
    faulty: Callable[[], bool]
    deaf: bool = False
    pages: bool = True
    acts: bool = True
    returns: bool = True
    blame: Finding = BLAME
    machines: PlayedMachines = field(default_factory=lambda: serving("n1", "n2"))
    steps: int = 0
    ended: bool = False
    exit_code: int | None = None

    def __post_init__(self) -> None:
        self.store = open_store(str(self.folder / "store"))
        self.records = Records(self.store, CLUSTER)

    def code(self) -> int | None:
        """The exit code of its gate, which ends at the first step."""
        return self.exit_code

    def end(self) -> None:
        """Its gate is ended."""
        self.ended = True

    def step(self) -> None:
        """A gate that ends, then a page, a fence, and a return."""
        self.steps += 1
        if self.steps == 1:
            self.exit_code = self._gate()
        seen = self.exit_code == Exit.NO_GO
        if self.steps == 2 and seen and self.pages:
            note = {"kind": "refused", "title": "t", "told": ["log: pages/x"], "failed": []}
            self.store.put(notification_key(GATE, "refused"), dump_plain(note))
        if self.steps == 3 and seen and self.acts:
            self.machines.fence("n2", Mark(GATE, "kernel.xid"))
            self._act(Rung.FENCE)
        if self.steps == 4 and seen and self.acts and self.returns:
            self._act(Rung.RECHECK, proof=Proof.PASSED)
            self.machines.free("n2", Mark(GATE, "kernel.xid"))
            self._act(Rung.RETURN)

    def _gate(self) -> int:
        found = [self.blame] if self.faulty() and not self.deaf else []
        gate_record(self.store, GATE, found)
        return int(Exit.NO_GO if found else Exit.GO)

    def _act(self, rung: Rung, proof: Proof | None = None) -> None:
        act_id = f"{GATE}-n2-{rung.value}-1"
        state = (ActState.DONE, 1e9, 1e9, "w", "v", "kernel.xid")
        self.records.create(Act(SCHEMA_VERSION, act_id, CLUSTER, "n2", GATE, rung, 1, *state, proof=proof))


class PlayedTime(Interruption):
    """Time goes on only while the drill waits, by as much as it waits for; each wait is a step of the stack."""

    def __init__(self, stack: PlayedStack, signal_at: int = 0, number: int = 15) -> None:
        super().__init__()
        self.stack, self.signal_at, self.signal = stack, signal_at, number
        self.now, self.waits = 100.0, 0

    def clock(self) -> float:
        """In seconds."""
        return self.now

    def wait(self, seconds: float) -> None:
        """The stack takes a step; at the chosen one a signal comes."""
        self.waits += 1
        self.now += seconds
        self.stack.step()
        if self.waits == self.signal_at:
            self.number = self.signal

    def rest(self, seconds: float) -> None:
        """Time goes on, and the stack does nothing."""
        self.now += seconds
