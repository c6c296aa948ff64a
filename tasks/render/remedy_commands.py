"""The commands to type for a finding, on the cluster that the gate runs on (pure). Prelaunch itself never runs any of them.

Names of nodes are quoted for a shell. If a launcher has no row for an action there is no command, only the finding's remedy
in words. Sources: scontrol(1) of Slurm 24; kubectl's reference of Kubernetes 1.30;
AWS, SageMaker HyperPod developer guide, "Manually replace or reboot a node" (2026); AWS CLI, sagemaker
batch-replace-cluster-nodes and update-training-job; nvidia-smi(1).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field

from checks.facts.own_machine import SUFFIX
from checks.model import CLUSTER, LINK, Action, Answer, Cause, Finding, Level, Verdict, node_of
from tasks.render.findings import Group

_LABEL = "kubectl label node {node} sagemaker.amazonaws.com/node-health-status={state} --overwrite"
_DRAIN = "scontrol update nodename={node} state=drain reason={reason}"
_FAIL = "scontrol update nodename={node} state=fail reason={action}"
_CORDON = "kubectl cordon {node}"
_EMPTY = "kubectl drain {node} --ignore-daemonsets --delete-emptydir-data"
RESET = "nvidia-smi --gpu-reset -i {gpu}"
_RELEASE = (
    "aws sagemaker update-training-job --training-job-name {job} --resource-config KeepAlivePeriodInSeconds=0"
)
_DEEP = "prelaunch check --instance-type {kind} --profile deep"
# Slurm starts nothing on a node that is drained: srun would wait there for ever.
_RESET_ON_NODE, _DEEP_ON_NODE = f"ssh {{node}} sudo {RESET}", f"ssh {{node}} {_DEEP}"

# launcher, or the engine that `engine_of` makes of it -> action -> what to type, in this order.
COMMANDS: Mapping[str, Mapping[Action, tuple[str, ...]]] = {
    "local": {
        Action.RESET_GPU: (f"sudo {RESET}  # on {{node}}",),
        Action.REBOOT: ("sudo systemctl reboot  # on {node}",),
        Action.INSPECT: (_DEEP,),
    },
    # A node that was rebooted serves again only when a person says so: with nextstate=RESUME Slurm 22.05 lets a node serve whose
    # RebootProgram did nothing (seen with it, November 2026).
    "slurm": {
        Action.RESET_GPU: (_DRAIN, _RESET_ON_NODE),
        Action.REBOOT: ("scontrol reboot ASAP nextstate=DOWN reason={reason} {node}",),
        Action.REPLACE: (_DRAIN,),
        Action.INSPECT: (_DRAIN, _DEEP_ON_NODE),
        Action.CONTACT: (_DRAIN,),
    },
    # HyperPod reboots and replaces for these two reasons. It compares the whole reason and its case, and ignores all others.
    "hyperpod-slurm": {
        Action.RESET_GPU: (_DRAIN, _RESET_ON_NODE),
        Action.REBOOT: (_FAIL.replace("{action}", "Action:Reboot"),),
        Action.REPLACE: (_FAIL.replace("{action}", "Action:Replace"),),
        Action.INSPECT: (_DRAIN, _DEEP_ON_NODE),
        Action.CONTACT: (_DRAIN,),
    },
    "kubernetes": {
        **dict.fromkeys((Action.RESET_GPU, Action.INSPECT, Action.CONTACT), (_CORDON,)),
        **dict.fromkeys((Action.REBOOT, Action.REPLACE), (_CORDON, _EMPTY)),
    },
    # HyperPod with Amazon EKS.
    "hyperpod": {
        Action.RESET_GPU: (_LABEL.replace("{state}", "UnschedulablePendingReboot"),),
        Action.REBOOT: (_LABEL.replace("{state}", "UnschedulablePendingReboot"),),
        Action.REPLACE: (_LABEL.replace("{state}", "UnschedulablePendingReplacement"),),
        Action.INSPECT: (_CORDON,),
        Action.CONTACT: (_CORDON,),  # a replacement would destroy what the provider has to look at
    },
    "sagemaker": dict.fromkeys(
        (Action.RESET_GPU, Action.REBOOT, Action.REPLACE, Action.INSPECT, Action.CONTACT), (_RELEASE,)
    ),
}
# Launchers of whose machines nobody can do what a remedy says.
IRREPARABLE = frozenset({"sagemaker"})
TEST_OF_ONE = (
    "The command checks one of them by itself: if that passes, the gate's image or policy is wrong; if it fails, the fault is in "
    "the machines or in what they have in common."
)
TYPED = "The command of the other finding is for this one, too."
# Of commands that run on the node: Slurm lets what runs on a drained node go on.
SSH = "Run the ssh command when no job runs on the node any more (squeue -w NODE)."
_OBEYS = (
    "HyperPod obeys {what} only while NodeRecovery of the cluster is Automatic; otherwise use aws sagemaker "
    "batch-reboot-cluster-nodes or batch-replace-cluster-nodes. A replacement destroys the node's volumes."
)
# What the commands of a launcher do, where a reader of the remedy could not tell.
PURPOSES: Mapping[str, str] = {
    "slurm": "When the checks pass on the node: scontrol update nodename=NODE state=resume.",
    "local": "Run the command on the machine that was tested, when nothing else runs there.",
    "kubernetes": "The commands only keep pods off the node; the rest of the remedy is still to be done.",
    "sagemaker": "The command ends the warm pool and gives back all of its machines, also the healthy ones: SageMaker can neither "
    "restart nor replace one. The next job waits for machines, and may get the same ones.",
    "hyperpod": "HyperPod cannot reset one GPU: the label UnschedulablePendingReboot reboots the whole node. "
    + _OBEYS.format(what="the labels"),
    "hyperpod-slurm": _OBEYS.format(what="the reasons Action:Reboot and Action:Replace"),
}
# Of several findings of a node only the commands of the strongest action are shown: others would take them back.
STRENGTH = (Action.INSPECT, Action.CONTACT, Action.RESET_GPU, Action.REBOOT, Action.REPLACE)
# The label of a GPU in a report, with its number as NVML counts: "GPU 3", "GPU 5 (0000:b9:00.0)".
_GPU = re.compile(r"GPU (\d{1,2})(?: \([^()]*\))?")


@dataclass(frozen=True)
class RemedyContext:
    """Where the finding's machines are. `launcher` is a row of COMMANDS or "".

    `instance_type` is the declared type, and `machine` the text of the file that describes it to a node, "" for a known type. `job` is
    the job whose machines are kept, or "". `engine_nodes` are the engine's names of nodes for which the gate has others, and `gpus`
    the labels of the GPUs of ranks. `logs` is the place of the nodes' logs, "" where nobody knows; `shared` is what all nodes have in
    common; `after` says until when a remedy has to wait.
    """

    launcher: str = ""
    instance_type: str = ""
    job: str = ""
    engine_nodes: Mapping[str, str] = field(default_factory=dict)
    machine: str = ""
    gpus: Mapping[str, str] = field(default_factory=dict)
    shared: tuple[str, ...] = ()
    logs: str = ""
    after: str = ""


NOWHERE = RemedyContext()


def engine_of(launcher: str, options: Mapping[str, object]) -> str:
    """The row of COMMANDS for a launcher with these options. auto_resume is for HyperPod, which repairs the nodes of its cluster."""
    hyperpod = {"slurm": "hyperpod-slurm", "kubernetes": "hyperpod"}
    return hyperpod.get(launcher, launcher) if options.get("auto_resume") is True else launcher


def commands(
    finding: Finding | Group, subject: str, verdict: Verdict, site: RemedyContext
) -> tuple[str, ...]:
    """What to type for a failure of a subject. Nothing for a warning, a link or the whole cluster, and nothing while the image is
    suspect. Nothing either beside a training that starts, or may: these commands take its node away, and "kubectl drain" would end it.
    """
    node = node_of(subject)
    blamed = finding.cause in (Cause.HARDWARE, Cause.APPLICATION) and finding.level is Level.FAIL
    trains = verdict.answer in (Answer.GO, Answer.ASK)
    if trains or not blamed or node == CLUSTER or LINK in node or verdict.suspect_policy:
        return ()
    gpus = ",".join(gpu_numbers(finding.elements))
    values = {
        "node": shlex.quote(site.engine_nodes.get(node, node)),
        "reason": shlex.quote(f"prelaunch: {finding.check}"),
        "gpu": gpus,
        "kind": shlex.quote(f"{site.instance_type or 'TYPE'}{SUFFIX if site.machine else ''}"),
        "job": shlex.quote(site.job),
    }
    lacking = {f"{{{name}}}" for name, value in (("gpu", gpus), ("job", site.job)) if not value}
    lines = COMMANDS.get(site.launcher, {}).get(finding.action, ())
    typed = tuple(line.format_map(values) for line in lines if not any(name in line for name in lacking))
    if site.machine and any("{kind}" in line for line in lines):
        echo, file = f"echo {shlex.quote(site.machine)}", values["kind"]
        is_remote = runs_on_node(finding, site)
        writes = f"{echo} | ssh {values['node']} tee {file}" if is_remote else f"{echo} > {file}"
        return (*typed[:-1], writes, typed[-1])
    return typed


def runs_on_node(finding: Finding | Group, site: RemedyContext) -> bool:
    """Whether a command for the finding runs on the node itself, from elsewhere."""
    lines = COMMANDS.get(site.launcher, {}).get(finding.action, ())
    return _DEEP_ON_NODE in lines or (_RESET_ON_NODE in lines and bool(gpu_numbers(finding.elements)))


def gpu_numbers(elements: tuple[str, ...]) -> tuple[str, ...]:
    """The numbers of those elements that are GPUs; evidence lists GPUs that are well, too."""
    matches = map(_GPU.fullmatch, elements)
    return tuple(dict.fromkeys(match[1] for match in matches if match))
