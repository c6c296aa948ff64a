"""Machines of a Kubernetes cluster: cordoned with a taint and a mark of our own, and repaired by HyperPod where that has them.

Kubernetes itself reboots and replaces nothing, so that without HyperPod only a person can. Every change is a merge patch that holds
for the very version of the node that was looked at: to a node that was changed since nothing is done until it is looked at again.

A re-test runs on the cordoned node: its pods tolerate the cordon and our taint, and everybody else's do not.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tasks.launchers.base import EngineUnavailable, LaunchError
from tasks.launchers.kubernetes.api import NODE, Api, ApiRefused, ObjectKind, clean, grant
from tasks.machines.base import (
    ActAmbiguous,
    ActRefused,
    EngineSilent,
    Holder,
    Machine,
    Mark,
    Retest,
    Rung,
    ServiceState,
    Settled,
    after_change,
    listed,
    require_free_or_ours,
    require_ours,
    require_quiet,
)
from tasks.machines.kubernetes_nodes import (
    HEALTH,
    PENDING_REBOOT,
    PENDING_REPLACEMENT,
    SCHEDULABLE,
    KubernetesMachine,
    dumped,
    fence_change,
    free_change,
    health_change,
    machine_of,
    testing_change,
)

# The pods of all namespaces, to see what runs on a node.
PODS = ObjectKind("v1", "Pod", "pods", namespaced=False)
RIGHTS: tuple[tuple[ObjectKind, tuple[str, ...]], ...] = ((NODE, ("get", "list", "patch")), (PODS, ("list",)))
RBAC = "deployments/kubernetes/remediation"
LABELS: Mapping[Rung, str] = {Rung.REBOOT: PENDING_REBOOT, Rung.REPLACE: PENDING_REPLACEMENT}
ENDED = ("Succeeded", "Failed")
# Before the name of a DeviceClass: a limit for which the scheduler itself makes a claim (Kubernetes, "Dynamic Resource Allocation").
DEVICE_CLASS = "deviceclass.resource.kubernetes.io/"


@dataclass(frozen=True)
class KubernetesMachineOptions:
    """`context` and `kubeconfig_file` choose the cluster. `hyperpod` says that HyperPod with EKS repairs nodes that bear its label."""

    context: str = ""
    kubeconfig_file: str = ""
    hyperpod: bool = False


class KubernetesMachines:
    """`api` is asked and patched, `now` is the time."""

    name = "kubernetes"
    fence_is = Rung.FENCE

    def __init__(
        self,
        options: KubernetesMachineOptions | None = None,
        api: Api | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.options = options or KubernetesMachineOptions()
        self.api = api or Api("default", self.options.kubeconfig_file, self.options.context)
        self._now = now
        self.rungs = frozenset((Rung.REBOOT, Rung.REPLACE) if self.options.hyperpod else ())

    def by_name(self) -> Mapping[str, KubernetesMachine]:
        """Every node, with the pods on it that hold a device."""
        jobs = self._jobs()
        nodes = (machine_of(node, jobs.get(str(node["metadata"]["name"]), ())) for node in self._list(NODE))
        return {machine.node: machine for machine in nodes}

    def fence(self, node: str, mark: Mark) -> str:
        """Cordon, taint and mark the node in one patch, unless it is fenced under this mark already."""
        machine = self._listed(node)
        require_free_or_ours(machine, mark)
        if machine.service is not ServiceState.OUT:
            self._change(machine, fence_change(machine, mark, self._now().isoformat(timespec="seconds")))
        return self._again(node).status

    def act(self, rung: Rung, node: str, mark: Mark, gpus: Sequence[int] = ()) -> str:
        """A label that HyperPod reads."""
        if rung not in self.rungs:
            raise ActRefused(f"Kubernetes cannot {rung} a node. A person has to do it for {node}.")
        machine = self._ours(node, mark)
        if machine.service is not ServiceState.OUT:
            raise ActRefused(f"{node} is not out of service ({machine.status}). Fence it first.")
        require_quiet(machine)
        if machine.health != SCHEDULABLE:
            raise ActRefused(
                f"{node} has no label {HEALTH}={SCHEDULABLE}, so HyperPod would not read another value of it."
            )
        self._change(machine, health_change(machine, LABELS[rung]))
        return f"{HEALTH}={LABELS[rung]}"

    def settled(self, rung: Rung, before: Machine, now: Machine) -> Settled:
        """A reboot is done once the kubelet reports another boot id, a replacement once the node is gone, for ever."""
        if rung is Rung.REPLACE:
            return Settled.DONE if now.service is ServiceState.GONE else Settled.PENDING
        if rung is not Rung.REBOOT:
            return Settled.FAILED
        if now.service is ServiceState.GONE:
            return Settled.FAILED  # it was replaced meanwhile, and what was to be rebooted is gone
        if (
            now.holder is Holder.OTHER
            or now.service in (ServiceState.CHANGING, ServiceState.UNKNOWN)
            or not (before.boot_id and now.boot_id)
        ):
            return Settled.PENDING
        if now.boot_id != before.boot_id:
            return Settled.DONE
        return Settled.FAILED if before.service is ServiceState.CHANGING else Settled.PENDING

    def open_retest(self, node: str, partners: Sequence[str], mark: Mark) -> Retest:
        """Fence the partners under marks of their own, and say on the node that it is tested."""
        machine = self._ours(node, mark)
        for partner in partners:
            require_quiet(self._listed(partner))
            self.fence(partner, _partner(mark, node))
        if machine.service is not ServiceState.TESTING:
            if machine.service is not ServiceState.OUT:
                raise ActRefused(f"{node} is not out of service ({machine.status}). Fence it first.")
            self._change(machine, testing_change(machine, True))
        nodes = tuple(sorted({node, *partners}))
        return Retest(nodes, {"only_nodes": ",".join(nodes)})

    def close_retest(self, node: str, mark: Mark) -> None:
        """The node stays fenced; its partners serve again."""
        self._free_partners(node, mark)
        machine, tested = self.by_name().get(node), (ServiceState.TESTING, ServiceState.UNKNOWN)
        if machine is not None and machine.mark == mark and machine.service in tested:
            self._change(machine, testing_change(machine, False))

    def free(self, node: str, mark: Mark) -> str:
        """Remove our taint, our mark and the cordon that came with them."""
        self._free_partners(node, mark)
        machine = self._ours(node, mark)
        self._change(machine, free_change(machine))
        freed = self._again(node)
        if freed.service is not ServiceState.SERVING:
            raise ActRefused(f"{node} does not serve again: {freed.status}.")
        return freed.status

    def command(self, rung: Rung, node: str, mark: Mark, gpus: Sequence[int] = ()) -> str:
        """What a person would type with kubectl."""
        name, empty = shlex.quote(node), KubernetesMachine(node, ServiceState.UNKNOWN)
        if rung is Rung.FENCE:
            change = fence_change(empty, mark, self._now().isoformat(timespec="seconds"))
            return f"kubectl patch node {name} --type=merge --patch {shlex.quote(dumped(change))}"
        if rung is Rung.RETURN:
            return (
                f"kubectl taint node {name} prelaunch.dev/unfit- && kubectl uncordon {name} && "
                f"kubectl annotate node {name} prelaunch.dev/mark- prelaunch.dev/since- prelaunch.dev/testing-"
            )
        if rung in LABELS and self.options.hyperpod:
            return f"kubectl label node {name} {HEALTH}={LABELS[rung]} --overwrite"
        return ""

    def shell(self, machine: Machine) -> str:
        """A pod in the namespaces of the node."""
        return f"kubectl debug node/{shlex.quote(machine.node)} -it --image=ubuntu -- chroot /host"

    # -------------------------------------------------------------------------------------------- questions

    def _listed(self, node: str) -> KubernetesMachine:
        """The machine of that name. Raises ActRefused, and EngineSilent while its state is not known."""
        machines = self.by_name()
        machine = machines.get(node)
        if machine is not None and machine.service is ServiceState.UNKNOWN:
            raise EngineSilent(f"The state of {node} is not known now ({machine.status}). It is left alone.")
        return listed(machines, node)

    def _ours(self, node: str, mark: Mark) -> KubernetesMachine:
        """The machine if it is under this mark, and nobody else has it. Raises ActRefused."""
        machine = self._listed(node)
        require_ours(machine, mark)
        return machine

    def _jobs(self) -> dict[str, list[str]]:
        """The pods that hold a device, by their nodes."""
        pods: dict[str, list[str]] = {}
        for pod in self._list(PODS):
            meta, spec = pod.get("metadata") or {}, pod.get("spec") or {}
            ended = (pod.get("status") or {}).get("phase") in ENDED
            if not ended and _holds_device(spec):
                name = f"{meta.get('namespace')}/{meta.get('name')}"
                pods.setdefault(str(spec.get("nodeName") or ""), []).append(name)
        return pods

    def _list(self, resource: ObjectKind) -> list[Mapping[str, Any]]:
        try:
            return list(self.api.items(resource))
        except ApiRefused as refusal:
            rule = grant("list", resource.plural, resource.group) if refusal.status == 403 else ""
            raise EngineSilent(f"{refusal}. {rule}".strip()) from refusal
        except LaunchError as error:
            raise EngineSilent(f"Kubernetes does not answer: {error}") from error

    def _again(self, node: str) -> KubernetesMachine:
        """The machine after a change that was taken. Raises ActAmbiguous if it cannot be seen."""
        with after_change(node):
            return self._listed(node)

    # -------------------------------------------------------------------------------------------- changes

    def _change(self, machine: KubernetesMachine, change: Mapping[str, Any]) -> None:
        try:
            changed = self.api.patch(NODE, machine.node, change)
        except EngineUnavailable as error:
            text = f"It is not known whether the change of {machine.node} was taken: {clean(error)}"
            raise ActAmbiguous(text) from error
        except ApiRefused as refusal:
            if refusal.status == 409:
                # Each status of a kubelet changes the version: what was decided may be right at the next look.
                message = (
                    f"{machine.node} was changed meanwhile, and nothing was done to it. Look at it again."
                )
                raise EngineSilent(message) from refusal
            rule = f"{RBAC} has the rights." if refusal.status == 403 else ""
            raise ActRefused(f"{refusal}. {rule}".strip()) from refusal
        except LaunchError as error:
            raise EngineSilent(str(error)) from error
        if changed is None:
            raise ActRefused(f"Kubernetes knows no node {machine.node} any more.")

    def _free_partners(self, node: str, mark: Mark) -> None:
        for machine in self.by_name().values():
            if machine.mark == _partner(mark, node):  # also if somebody else has claimed it meanwhile
                self._change(machine, free_change(machine))


def _partner(mark: Mark, node: str) -> Mark:
    """Under what a node is fenced that is healthy, and only a partner of a re-test: no mark of a gate."""
    return Mark(f"{mark.gate_id}-partner-of-{node}", "")


def _holds_device(spec: Mapping[str, Any]) -> bool:
    """Whether the pod claims a device, or a container asks for one of a plug-in, whose resources have a domain of their own
    ("nvidia.com/gpu"). An init container may be a sidecar, and what it asks for stays with the pod in any case.
    """
    if spec.get("resourceClaims"):  # dynamic resource allocation: only the claim itself says which device
        return True
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        for name, count in ((container.get("resources") or {}).get("limits") or {}).items():
            of_device = "/" in name and ("kubernetes.io/" not in name or name.startswith(DEVICE_CLASS))
            if of_device and str(count) != "0":
                return True
    return False
