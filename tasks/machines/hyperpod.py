"""Machines of a SageMaker HyperPod cluster that Slurm orchestrates.

Slurm takes nodes out of service, lets re-tests run on them and gives them back: that is another back end, which this one wraps.
HyperPod reboots, replaces, and runs deep health checks. While it runs them it keeps jobs off the node with a reservation of its own.
Slurm's node ip-10-1-2-3 is the instance whose private host name begins so; a node for which HyperPod lists no such instance, or two,
is never changed.

HyperPod keeps Slurm's node name when it replaces an instance (AWS's documentation of HyperPod with Slurm), so a replacement shows by
another instance id under the same name.
"""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, Protocol, runtime_checkable

from tasks.launchers.sagemaker.api import Clients
from tasks.machines.base import (
    ActRefused,
    EngineSilent,
    Holder,
    Machine,
    Machines,
    Mark,
    Retest,
    Rung,
    Service,
    Settled,
)
from tasks.machines.hyperpod_api import TESTS, Cluster, HyperPodApi, Instance, Recovery, Status

ACTS = (Rung.REBOOT, Rung.REPLACE)
# HyperPod compares the whole reason, with upper and lower case, and ignores every other one without a word (AWS's documentation of
# HyperPod with Slurm, "Manually replace or reboot a node").
REASONS: Mapping[Rung, str] = {Rung.REBOOT: "Action:Reboot", Rung.REPLACE: "Action:Replace"}
OPERATIONS: Mapping[Rung, str] = {
    Rung.REBOOT: "batch-reboot-cluster-nodes",
    Rung.REPLACE: "batch-replace-cluster-nodes",
}
# A status -> what may be done with the node. RUNNING is left to Slurm, FAILURE and what nobody knows are UNKNOWN.
SERVICES: Mapping[Status, Service] = {
    Status.PENDING: Service.CHANGING,
    Status.SHUTTING_DOWN: Service.CHANGING,
    Status.SYSTEM_UPDATING: Service.CHANGING,
    Status.DEEP_HEALTH_CHECK: Service.CHANGING,
    Status.NOT_FOUND: Service.GONE,
}
LEAVING = (Status.SHUTTING_DOWN, Status.NOT_FOUND)
# Slurm computes a boot time from a node's uptime whenever slurmd registers, so it moves by a second or two without a reboot.
BOOT_TIME_TOLERANCE_S = 5.0


class ActBy(StrEnum):
    """How a reboot or replacement is requested: by SageMaker's API, or by a reason that HyperPod reads in Slurm."""

    API = "api"
    REASON = "reason"


@runtime_checkable
class Failing(Protocol):
    """What Slurm's back end has in addition where HyperPod reads reasons."""

    def fail_with(self, node: str, reason: str, mark: Mark) -> str:
        """Set a node that is fenced under this mark to the state `fail`, with exactly this reason; returns the engine's words.

        Raises as `Machines.act` does.
        """
        ...


@dataclass(frozen=True)
class HyperPodMachine(Machine):
    """A Slurm node with its instance. `status` is HyperPod's, `group` its instance group, `cluster_id` ends the cluster's ARN."""

    status: Status = Status.UNKNOWN
    group: str = ""
    cluster_id: str = ""

    @property
    def engine_health(self) -> str:
        """HyperPod's status of the instance."""
        return self.status.value


class HyperPodMachines:
    """`slurm` is the back end of the cluster's Slurm. `cluster` is HyperPod's name or ARN of the cluster.

    With ActBy.REASON Slurm's reason no longer is Prelaunch's mark while HyperPod works, and HyperPod may return the node to service
    by itself: `look` then shows a node that nobody holds. ActBy.API leaves state and reason in Slurm as they are.
    """

    name = "hyperpod"

    def __init__(
        self,
        cluster: str,
        region: str,
        slurm: Machines,
        act_by: ActBy = ActBy.API,
        clients: Clients | None = None,
        deep_check: bool = False,
    ) -> None:
        self.cluster, self.region, self.slurm, self.act_by = cluster, region, slurm, act_by
        self.api = HyperPodApi(cluster, region, clients)
        self.rungs = slurm.rungs | frozenset((*ACTS, Rung.DEEP_CHECK) if deep_check else ACTS)
        self.fence_is = slurm.fence_is

    def look(self) -> Mapping[str, HyperPodMachine]:
        """Slurm's nodes with their instances."""
        return self._look(self._cluster())

    def fence(self, node: str, mark: Mark) -> str:
        """Slurm's fence, of a node that neither HyperPod nor anybody else works on."""
        machine = self._known(self.look(), node)
        if machine.holder is Holder.OTHER:
            raise ActRefused(f"{node} is not fenced: {machine.who} has it ({machine.words}).")
        return self.slurm.fence(node, mark)

    def act(self, rung: Rung, node: str, mark: Mark, gpus: Sequence[int] = ()) -> str:
        """One call, after Slurm and HyperPod were asked again."""
        if rung not in self.rungs | {Rung.RESET}:
            raise ActRefused(f"{rung} is no repair of {node} that may be used here.")
        cluster = self._cluster()
        machine = self._fenced(self._look(cluster), node, mark)
        if rung is Rung.RESET:
            return self.slurm.act(rung, node, mark, gpus)
        self._may_change(rung, machine, cluster)
        if rung is Rung.DEEP_CHECK:
            return self.api.test(machine.instance_id, machine.group)
        if self.act_by is ActBy.API:
            return self.api.change(rung, machine.instance_id)
        return self._by_reason(rung, node, mark, cluster)

    def settled(self, rung: Rung, before: Machine, now: Machine) -> Settled:
        """By status, instance id and Slurm's boot time; what none of them shows is PENDING.

        A node was Running when its repair was requested, so the status Failure came afterwards. LaunchTime is not compared:
        HyperPod reboots by EC2's RebootInstances, which keeps the instance and with it the time of its launch. A deep check is over
        once a node that was seen at it runs again, or is another one; a check that was never seen is PENDING.
        """
        if rung not in (*ACTS, Rung.DEEP_CHECK):
            return self.slurm.settled(rung, before, now)
        status = now.status if isinstance(now, HyperPodMachine) else Status.UNKNOWN
        if status is Status.FAILURE:
            return Settled.FAILED
        if status is not Status.RUNNING or not (before.instance_id and now.instance_id):
            return Settled.PENDING
        other = before.instance_id != now.instance_id
        if rung is Rung.DEEP_CHECK:
            seen = before.service is Service.CHANGING or other or _rebooted(before, now)
            return Settled.DONE if seen else Settled.PENDING
        if rung is Rung.REPLACE:
            return Settled.DONE if other else Settled.PENDING
        if other:
            return Settled.FAILED  # it was replaced meanwhile, and what was to be rebooted is gone
        return Settled.DONE if _rebooted(before, now) else Settled.PENDING

    def open_retest(self, node: str, partners: Sequence[str], mark: Mark) -> Retest:
        """Slurm's, on nodes whose instances run."""
        seen = self.look()
        for name in (node, *partners):
            _must_run(self._known(seen, name))
        return self.slurm.open_retest(node, partners, mark)

    def close_retest(self, node: str, mark: Mark) -> None:
        """Slurm's."""
        self.slurm.close_retest(node, mark)

    def free(self, node: str, mark: Mark) -> str:
        """Slurm's, for a node whose instance runs."""
        _must_run(self._known(self.look(), node))
        return self.slurm.free(node, mark)

    def command(self, rung: Rung, node: str, mark: Mark, gpus: Sequence[int] = ()) -> str:
        """A line that finds the instance by the node's name when it is typed, so that it never names an instance that was replaced."""
        if rung is Rung.DEEP_CHECK:
            return test_line(self.cluster, self.region, node)
        if rung not in ACTS:
            return self.slurm.command(rung, node, mark, gpus)
        if self.act_by is ActBy.REASON:
            return (
                f"scontrol update nodename={shlex.quote(node)} state=fail reason={shlex.quote(REASONS[rung])}"
            )
        return command_line(rung, self.cluster, self.region, node)

    def shell(self, machine: Machine) -> str:
        """A session of AWS Systems Manager, for a machine that `look` returned."""
        if not isinstance(machine, HyperPodMachine):
            return ""
        if not (machine.cluster_id and machine.group and machine.instance_id):
            return ""
        target = f"sagemaker-cluster:{machine.cluster_id}_{machine.group}-{machine.instance_id}"
        return f"aws ssm start-session --target {shlex.quote(target)} --region {shlex.quote(self.region)}"

    def _cluster(self) -> Cluster:
        cluster = self.api.describe()
        if cluster.on_eks:
            raise EngineSilent(
                f"HyperPod cluster {self.cluster} is orchestrated by Amazon EKS, and this back end asks Slurm. "
                "Name a cluster with Slurm."
            )
        return cluster

    def _look(self, cluster: Cluster) -> Mapping[str, HyperPodMachine]:
        by_host = defaultdict[str, list[Instance]](list)
        for instance in self.api.instances():
            by_host[instance.host].append(instance)
        return {
            node: _joined(machine, by_host.get(node, []), cluster)
            for node, machine in self.slurm.look().items()
        }

    def _known(self, seen: Mapping[str, HyperPodMachine], node: str) -> HyperPodMachine:
        if node not in seen:
            raise ActRefused(f"Slurm knows no node {node}. Correct the name (sinfo --Node).")
        return seen[node]

    def _fenced(self, seen: Mapping[str, HyperPodMachine], node: str, mark: Mark) -> HyperPodMachine:
        """The machine if it is out of service under this mark, runs, and runs nothing. Raises ActRefused."""
        machine = self._known(seen, node)
        if machine.holder is not Holder.PRELAUNCH or machine.mark != mark:
            holder = machine.who or (f"the mark {str(machine.mark)!r}" if machine.mark else "nobody")
            raise ActRefused(
                f"{node} is not fenced under {str(mark)!r} but held by {holder} ({machine.words})."
            )
        _must_run(machine)
        if machine.service not in (Service.OUT, Service.TESTING):
            raise ActRefused(f"{node} is not out of service ({machine.words}). Fence it first.")
        if machine.jobs:
            raise ActRefused(
                f"{node} runs jobs ({', '.join(machine.jobs)}), which the repair would end. Wait for them, or cancel them."
            )
        return machine

    def _may_change(self, rung: Rung, machine: HyperPodMachine, cluster: Cluster) -> None:
        if machine.group in cluster.service_groups:
            raise ActRefused(
                f"{machine.node} is in instance group {machine.group}, whose nodes are Slurm's controllers or login nodes. "
                "Only a person may repair them."
            )
        if rung in (Rung.REPLACE, Rung.DEEP_CHECK) and not cluster.in_service:
            raise ActRefused(
                f"HyperPod cluster {self.cluster} is {cluster.status}, and nodes are replaced and tested only while it is InService. "
                "Try again then."
            )

    def _by_reason(self, rung: Rung, node: str, mark: Mark, cluster: Cluster) -> str:
        if cluster.recovery is not Recovery.AUTOMATIC:
            raise ActRefused(
                f"HyperPod cluster {self.cluster} has NodeRecovery={cluster.recovery or 'unknown'}, with which HyperPod ignores "
                'reasons in Slurm. Set act_by = "api".'
            )
        if not isinstance(self.slurm, Failing):
            raise ActRefused(
                f'Back end {self.slurm.name} cannot set the state fail with a reason. Set act_by = "api".'
            )
        return self.slurm.fail_with(node, REASONS[rung], mark)


def command_line(rung: Rung, cluster: str, region: str, node: str) -> str:
    """The AWS command for a reboot or a replacement of Slurm's node. Two instances of one name make an id that AWS refuses."""
    where = f"--cluster-name {shlex.quote(cluster)} --region {shlex.quote(region)}"
    return f"aws sagemaker {OPERATIONS[rung]} {where} --node-ids {_found(where, node, 'InstanceId')}"


def test_line(cluster: str, region: str, node: str) -> str:
    """The AWS command for deep health checks of Slurm's node, and of no other."""
    where = f"--cluster-name {shlex.quote(cluster)} --region {shlex.quote(region)}"
    group, instance = (_found(where, node, name) for name in ("InstanceGroupName", "InstanceId"))
    tests = ",".join(TESTS)
    given = f"InstanceGroupName={group},InstanceIds={instance},DeepHealthChecks={tests}"
    return f"aws sagemaker start-cluster-health-check {where} --deep-health-check-configurations {given}"


def _found(where: str, node: str, name: str) -> str:
    """What a shell replaces by a field of the one instance of Slurm's node."""
    quoted = node.replace("\\", "\\\\").replace("'", "\\'")  # a raw string of JMESPath
    query = f"ClusterNodeSummaries[?starts_with(PrivateDnsHostname || '', '{quoted}.')].{name}"
    return f'"$(aws sagemaker list-cluster-nodes {where} --query {shlex.quote(query)} --output text)"'


def _joined(machine: Machine, instances: Sequence[Instance], cluster: Cluster) -> HyperPodMachine:
    """Slurm's view of a node with HyperPod's. An instance that is leaving counts only if there is no other."""
    staying = [one for one in instances if one.status not in LEAVING]
    candidates = staying or instances
    values: dict[str, Any] = {one.name: getattr(machine, one.name) for one in fields(Machine)}
    if len(candidates) != 1:
        names = ", ".join(one.id for one in candidates)
        said = f"HyperPod lists {len(candidates)} instances of this name" + (f" ({names})" if names else "")
        values |= {"words": _words(machine, said), "service": Service.UNKNOWN, "instance_id": ""}
        return HyperPodMachine(**values)
    (instance,) = candidates
    values |= {
        "words": _words(machine, f"HyperPod: {instance.words}"),
        "instance_id": instance.id,
        "instance_type": instance.kind,
        "status": instance.status,
        "group": instance.group,
        "cluster_id": cluster.id,
    }
    if instance.status is not Status.RUNNING:
        values["service"] = SERVICES.get(instance.status, Service.UNKNOWN)
        if machine.holder is not Holder.PRELAUNCH and values["service"] is Service.CHANGING:
            values |= {"holder": Holder.OTHER, "who": _worker(instance.status, cluster), "mark": None}
    return HyperPodMachine(**values)


def _words(machine: Machine, said: str) -> str:
    return f"{machine.words}; {said}" if machine.words else said


def _worker(status: Status, cluster: Cluster) -> str:
    """Who changes an instance that we did not fence."""
    if status is Status.DEEP_HEALTH_CHECK:
        return "HyperPod's deep health check"
    if cluster.recovery is Recovery.AUTOMATIC:
        return "HyperPod's node recovery"
    return "somebody who uses HyperPod's API"


def _must_run(machine: HyperPodMachine) -> None:
    if not machine.instance_id:
        raise ActRefused(
            f"{machine.node} cannot be matched with one instance ({machine.words}). "
            "Compare sinfo with aws sagemaker list-cluster-nodes."
        )
    if machine.status is not Status.RUNNING:
        raise ActRefused(
            f"The instance of {machine.node} is not Running ({machine.words}). Wait until HyperPod has finished with it; "
            "if it stays so, ask AWS."
        )


def _rebooted(before: Machine, now: Machine) -> bool:
    if before.booted_at is None or now.booted_at is None:
        return False
    return now.booted_at > before.booted_at + BOOT_TIME_TOLERANCE_S
