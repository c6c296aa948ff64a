"""What has followed a fault so far, from the store and the engine: only what was not there before the fault counts.

Times are those at which it was seen here, so that no clock of another machine can make a drill look faster.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from checks.documents.decode import parse_json
from checks.documents.report import REPORT_BYTES
from checks.documents.report import load as load_report
from checks.model import LINK, Answer, Level
from checks.value_types import DecodeError
from tasks.drills.model import Drill, DrillRefused, Milestone, SeenBy
from tasks.machines.base import REPAIRS, Holder, Machine, MachineError, Machines, Rung, Service
from tasks.notifiers.base import Kind
from tasks.remediation.model import Act, ActState
from tasks.remediation.proof import engine_name
from tasks.remediation.records import JournalError, Records
from tasks.store import records as verdicts
from tasks.store.base import Store, StoreError
from tasks.store.layout import notification_key, verdict_key
from tasks.store.records import KeptFinding
from tasks.text.inert import one_line

NOTE_BYTES = 1 << 20
# So many gates of other clusters may have run in the same store since the last gate of this one.
LOOKED_BACK = 500


@dataclass
class Watch:
    """Looks at a store and an engine for what follows a fault on a node. `begin` is called before the fault, `look` after it."""

    store: Store
    records: Records
    machines: Machines
    drill: Drill
    node: str
    reached: set[Milestone] = field(default_factory=set)
    details: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    gates: dict[str, str] = field(default_factory=dict)
    """The gates that refused because of the fault, and what they found."""
    tested: set[str] = field(default_factory=set)
    """The gates that have ended since the fault, and whose report has the node."""
    machine: Machine | None = None
    healed: bool = False
    """Whether the fault was undone, so that a node which serves again is one that came back."""
    acted_on: bool = False
    """Whether a refusal takes the node out of service, so that a node that was never out has not come back."""
    _was_out: bool = False
    _old_gates: frozenset[str] = frozenset()
    _old_acts: frozenset[str] = frozenset()
    _judged: set[str] = field(default_factory=set)
    _acts: dict[str, Act] = field(default_factory=dict)

    def begin(self) -> None:
        """Remember what is there before the fault. Raises StoreError, JournalError, DecodeError, and DrillRefused if the last gate of
        the cluster has already found what the fault would let it find, because then nothing can be concluded.
        """
        self._old_gates = frozenset(verdicts.recorded(self.store))
        self._old_acts = frozenset(act.id for act in self.records.acts(self.node))
        last = self._last_gate()
        found = self._finding(last) if last else ""
        self.tested.clear()
        if found:
            raise DrillRefused(
                f"the last gate of the cluster, {last}, has found the same already: {found}. A drill could not show that the fault "
                "is noticed. Run the gate until it does not find this any more."
            )

    def _last_gate(self) -> str:
        """The newest of the gates of this cluster that are there already; "" if there is none."""
        ordered = sorted(
            self._old_gates, key=lambda gate_id: verdicts.stamped_at(gate_id) or 0.0, reverse=True
        )
        for gate_id in ordered[:LOOKED_BACK]:
            record = verdicts.read(self.store, gate_id)
            if record is not None and record.cluster == self.records.cluster:
                return gate_id
        return ""

    def look(self) -> None:
        """Look once. What could not be read this time is in `problems`, and `reached` only grows."""
        self.problems.clear()
        self._try("the engine", self._see_engine)
        self._try("the store", self._see_gates)
        self._try("the store", self._see_pages)
        self._try("the records of remediation", self._see_acts)
        self._see_return()

    def _try(self, source: str, see: Callable[[], None]) -> None:
        try:
            see()
        except (StoreError, JournalError, MachineError, DecodeError) as error:
            self.problems.append(f"{source} could not be read: {one_line(str(error), 300)}")

    def _see_engine(self) -> None:
        self.machine = None
        self.machine = self.machines.look().get(self.node, Machine(self.node, Service.GONE))
        out = self.machine.service in (Service.OUT, Service.CHANGING, Service.GONE)
        self._was_out = self._was_out or out
        if self.drill.seen_by is SeenBy.ENGINE and out and Milestone.DETECTED not in self.reached:
            self._reach(Milestone.DETECTED, f"the engine shows {one_line(self.machine.words, 120)!r}")

    def _see_gates(self) -> None:
        for gate_id in verdicts.recorded(self.store):
            if gate_id not in self._old_gates and gate_id not in self._judged:
                self._try(f"the verdict of gate {gate_id}", partial(self._see_gate, gate_id))

    def _see_gate(self, gate_id: str) -> None:
        found = self._finding(gate_id)
        self._judged.add(gate_id)
        if found:
            self.gates[gate_id] = found
            self._reach(Milestone.DETECTED, f"gate {gate_id}: {found}")

    def _finding(self, gate_id: str) -> str:
        """What a gate found on the node that the fault explains; "" if nothing. Raises StoreError, DecodeError."""
        record = verdicts.read(self.store, gate_id)
        if record is None or record.cluster != self.records.cluster or record.reused:
            return ""
        report = self.store.get(record.report)
        if report is None or len(report) > REPORT_BYTES:
            raise DecodeError("its report is missing")
        names = {one.name for one in load_report(report).nodes if self.node in (one.name, engine_name(one))}
        if names:
            self.tested.add(gate_id)
        if record.answer is Answer.GO:
            return ""
        data = self.store.get(verdict_key(gate_id))
        if data is None:
            raise DecodeError("it is missing")
        for one in verdicts.load(data).findings:
            ends = {end.partition("/")[0] for end in one.subject.split(LINK)}
            if one.level is Level.FAIL and ends & {*names, self.node} and explains(self.drill, one):
                return one_line(f"{one.subject}: {one.check}: {one.message}", 200)
        return ""

    def _see_pages(self) -> None:
        if Milestone.PAGED in self.reached:
            return
        for gate_id in self.gates:
            for kind in Kind:
                data = self.store.get(notification_key(gate_id, kind.value))
                note = parse_json(data, NOTE_BYTES) if data else {}
                told = note.get("told") if isinstance(note, dict) else None
                if isinstance(told, list) and told:
                    self._reach(Milestone.PAGED, one_line(f"{kind.value}: {told[0]}", 160))
                    return

    def _see_acts(self) -> None:
        for act in self.records.acts(self.node):
            known = self._acts.get(act.id)
            if act.id in self._old_acts or not self._ours(act) or (known and known.state is act.state):
                continue
            self._acts[act.id] = act
            bad = act.state in (ActState.REFUSED, ActState.FAILED) and act.said
            said = f": {one_line(act.said, 200)}" if bad else ""
            self.details.append(f"{act.rung.value} {act.number} is {act.state.value}{said}")
            if act.rung in (Rung.FENCE, *REPAIRS) and act.state in (ActState.ACCEPTED, ActState.DONE):
                self._reach(Milestone.ACTED, f"{act.rung.value} {act.number} of gate {act.gate_id}")
            elif act.rung is Rung.PAGE and act.state is ActState.DONE:
                self._reach(Milestone.PAGED, f"page of remediation about gate {act.gate_id}")

    def _ours(self, act: Act) -> bool:
        """Whether an act follows from the fault: its gate refused because of it, or the engine alone had to notice it."""
        return act.gate_id in self.gates or self.drill.seen_by is SeenBy.ENGINE

    def _see_return(self) -> None:
        machine = self.machine
        if machine is None or machine.service is not Service.SERVING or machine.holder is not Holder.NOBODY:
            return
        if self.drill.seen_by is SeenBy.ENGINE and not self._acts:
            waits = self.acted_on and bool(self.gates) and not self._was_out
            if self.healed and Milestone.DETECTED in self.reached and not waits:
                self._reach(Milestone.RETURNED, "the engine serves it again")
        elif any((act.rung, act.state) == (Rung.RETURN, ActState.DONE) for act in self._acts.values()):
            self._reach(Milestone.RETURNED, "it was proven and given back")

    def _reach(self, milestone: Milestone, how: str) -> None:
        if milestone not in self.reached:
            self.reached.add(milestone)
            self.details.append(f"{milestone.value}: {how}")


def explains(drill: Drill, found: KeptFinding) -> bool:
    """Whether a finding is one that the fault of the drill leads to. Pure."""
    checks, causes = drill.checks, drill.causes
    return (not checks or found.check.startswith(checks)) and (not causes or found.cause in causes)
