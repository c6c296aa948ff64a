"""What Slurm shows of a whole cluster at one moment, and who holds each node. Pure.

A node is ours if its reason is our mark while it is out of service, or if a reservation of ours was made for it: a reservation's name
has the gate, and 22.05 clears the reason of a node that is resumed. A reason on a node that serves holds nothing: 24.11 leaves it
there until a job starts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tasks.machines import slurm_nodes
from tasks.machines.base import (
    ActAmbiguous,
    ActRefused,
    Holder,
    Machine,
    Mark,
    ServiceState,
    listed,
    require_ours,
)
from tasks.machines.slurm_commands import RESERVATION_FLAGS, gate_of, is_ours, reservation_name
from tasks.text.inert import one_line

SILENT = frozenset(("NOT_RESPONDING",))
UNSEEN_JOB = "a job that this user may not see"
UNSEEN_RESERVATION = "a maintenance reservation that this user may not see"


@dataclass(frozen=True)
class View:
    """Nodes and reservations by name, jobs by node. `user` is whose reservations can be ours."""

    nodes: Mapping[str, slurm_nodes.SlurmNode]
    reservations: Mapping[str, slurm_nodes.Reservation]
    jobs: Mapping[str, tuple[str, ...]]
    user: str

    def machine(self, name: str) -> Machine:
        """One node in the terms of all back ends."""
        node = self.nodes.get(name)
        if node is None:
            return Machine(name, ServiceState.GONE)
        service = self._service(node)
        holder, mark, owner = self._holder(node, service)
        jobs = self.jobs.get(name, ())
        if not jobs and node.flags & slurm_nodes.BUSY:
            jobs = (UNSEEN_JOB,)
        return Machine(
            node=name,
            service=service,
            holder=holder,
            status=one_line(node.status, 500),
            owner=owner,
            mark=mark,
            since=node.reason_at if node.flags & (slurm_nodes.OUT | slurm_nodes.REBOOTING) else None,
            booted_at=node.booted_at,
            instance_id=node.instance_id,
            instance_type=node.instance_type,
            jobs=jobs,
        )

    def listed(self, name: str) -> Machine:
        """The node, if it can be judged. Raises ActRefused."""
        return listed({name: self.machine(name)}, name)

    def status(self, name: str) -> str:
        """State and reason of a node, as Slurm shows them."""
        node = self.nodes.get(name)
        return node.status if node else "no such node"

    def leaves_mark(self, name: str) -> bool:
        """Whether our mark, or our words for HyperPod, are the reason of a node, whatever its state."""
        node = self.nodes.get(name)
        return node is not None and (
            node.mark is not None or slurm_nodes.giver(node.reason, "") == slurm_nodes.HYPERPOD
        )

    def drained(self, name: str, mark: Mark) -> bool:
        """Whether Slurm starts no job on the node until somebody resumes it, for a reason that is our mark."""
        node = self.nodes.get(name)
        return (
            node is not None
            and "DRAIN" in node.flags
            and not node.flags & slurm_nodes.REBOOTING
            and _same(node.mark, mark)
        )

    def is_handed_over(self, name: str) -> bool:
        """Whether the node is in the state in which HyperPod takes it, and has not been given back yet."""
        return name in self.nodes and "FAIL" in self.nodes[name].flags

    def only_reserved(self, name: str, reservation: str) -> bool:
        """Whether nothing but this reservation, ours or changed, keeps jobs off the node."""
        node, reserved = self.nodes.get(name), self.reservations.get(reservation)
        if node is None or reserved is None:
            return False
        return name in reserved.nodes and not node.flags & (slurm_nodes.OUT | slurm_nodes.REBOOTING)

    def reserved_with(self, name: str, mark: Mark) -> frozenset[str]:
        """The nodes that are reserved together with this one, for its re-test."""
        reserved = self.reservations.get(reservation_name(mark.gate_id, name))
        return reserved.nodes - {name} if reserved else frozenset()

    def require_drained(self, name: str, mark: Mark) -> None:
        """Raise ActRefused unless the node is drained with our mark."""
        require_ours(self.listed(name), mark)
        if not self.drained(name, mark):
            message = f"{name} is not drained under the mark {str(mark)!r:.120}: {self.status(name)!r:.200}."
            raise ActRefused(message)

    def require_partner(self, name: str, node: str, mark: Mark) -> None:
        """Raise ActRefused unless the node serves, or is reserved for just this re-test."""
        machine = self.listed(name)
        if machine.service is ServiceState.TESTING and name in self.reserved_with(node, mark):
            return
        if machine.service is not ServiceState.SERVING:
            raise ActRefused(
                f"{name} cannot help to test {node}, because it does not serve: {machine.status!r:.200}."
            )

    def require_unchanged(self, name: str) -> None:
        """Raise ActRefused if somebody changed a reservation of ours."""
        reservation = self.reservations[name]
        if (
            reservation.users != self.user
            or not reservation.flags.issuperset(RESERVATION_FLAGS)
            or not reservation.keeps_others_off
        ):
            raise ActRefused(
                f"Somebody changed reservation {name}: it has Users={reservation.users}, Flags={','.join(sorted(reservation.flags))}, "
                f"State={reservation.state}. A person has to look at it."
            )

    def require_reserved(self, name: str, nodes: frozenset[str]) -> None:
        """Raise ActRefused unless a reservation keeps others off these nodes."""
        if name not in self.reservations:
            raise ActRefused(
                f"Reservation {name} is gone, so that other jobs could start on {', '.join(sorted(nodes))}."
            )
        self.require_unchanged(name)
        if missing := nodes - self.reservations[name].nodes:
            message = f"Somebody took {', '.join(sorted(missing))} out of reservation {name}. A person has to look at it."
            raise ActRefused(message)

    def silent(self, name: str) -> bool:
        """Whether slurmctld waits for an answer of the node's slurmd."""
        return bool(self.nodes[name].flags & SILENT)

    def require_testing(self, name: str, reservation: str) -> None:
        """Raise ActRefused unless the node would serve if its reservation were gone, and nobody else wrote a reason for it."""
        self.require_reserved(reservation, frozenset((name,)))
        node = self.nodes[name]
        if self.machine(name).service is not ServiceState.TESTING:
            raise ActRefused(f"{name} cannot be freed while Slurm shows {node.status!r:.200}.")
        if node.reason and node.mark is None:
            message = f"Somebody wrote a reason for {name} during its re-test: {node.status!r:.200}. It is not freed."
            raise ActRefused(message)

    def require_freed(self, name: str) -> str:
        """The engine's words for a node that was freed. Raises ActAmbiguous if it does not serve and nobody has taken it."""
        machine, node = self.machine(name), self.nodes[name]
        waited_for = machine.holder is Holder.NOBODY and node.flags & slurm_nodes.OUT == SILENT
        if machine.service is ServiceState.SERVING or machine.holder is Holder.OTHER or waited_for:
            return node.status
        raise ActAmbiguous(f"{name} was freed, and does not serve: Slurm shows {node.status!r:.200}.")

    def _service(self, node: slurm_nodes.SlurmNode) -> ServiceState:
        if node.flags - slurm_nodes.FLAGS:
            return ServiceState.UNKNOWN
        if node.flags & slurm_nodes.REBOOTING:
            return ServiceState.CHANGING
        if any(self._ours(node.name)):
            return ServiceState.OUT if node.flags & slurm_nodes.OUT - SILENT else ServiceState.TESTING
        if node.flags & slurm_nodes.OUT or self._maintainer(node):
            return ServiceState.OUT
        return ServiceState.SERVING

    def _holder(self, node: slurm_nodes.SlurmNode, service: ServiceState) -> tuple[Holder, Mark | None, str]:
        """Who holds a node, our mark, and the name of another holder."""
        if maintainer := self._maintainer(node):
            return Holder.OTHER, None, maintainer
        gate_id = next(filter(None, (gate_of(each.name, node.name) for each in self._ours(node.name))), "")
        tested = Mark(gate_id, "") if gate_id else None
        if service is ServiceState.TESTING:
            current = node.mark if tested and _same(node.mark, tested) else tested
            return (Holder.PRELAUNCH, current, "") if current else (Holder.NOBODY, None, "")
        if not node.flags & (slurm_nodes.OUT | slurm_nodes.REBOOTING):
            return Holder.NOBODY, None, ""
        if node.mark:
            return Holder.PRELAUNCH, node.mark, ""
        if tested and (not node.reason or slurm_nodes.given_by_slurm(node.reason)):
            return Holder.PRELAUNCH, tested, ""
        if node.reason or "FAIL" in node.flags:
            return Holder.OTHER, None, slurm_nodes.giver(node.reason, node.reason_by)
        return Holder.NOBODY, None, ""

    def _ours(self, name: str) -> Iterator[slurm_nodes.Reservation]:
        """The reservations that keep all but our own re-tests off a node."""
        for own in self.reservations.values():
            if name in own.nodes and own.keeps_others_off and is_ours(own.name) and own.users == self.user:
                yield own

    def _maintainer(self, node: slurm_nodes.SlurmNode) -> str:
        """Whose maintenance reservation a node is in; "" if it is in none, or in ours."""
        ours = [each.name for each in self._ours(node.name)]
        for each in self.reservations.values():
            if node.name in each.nodes and each.keeps_others_off and each.name not in ours:
                return f"reservation {each.name} of {each.users or 'an account'}"
        return UNSEEN_RESERVATION if "MAINTENANCE" in node.flags and not ours else ""


def _same(other: Mark | None, mark: Mark) -> bool:
    """Whether a mark is of the same gate. A later finding of a gate may have another check."""
    return other is not None and other.gate_id == mark.gate_id
