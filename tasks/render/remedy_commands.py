"""What to type for a finding, on the cluster that the gate runs on (pure). Nothing here is ever run by Prelaunch itself.

Names of nodes are quoted for a shell. Where a launcher has no row for an action there is no command, and the finding's
remedy, in words, has to do. Sources: scontrol(1) and srun(1) of Slurm 24; kubectl's reference of Kubernetes 1.30;
AWS, SageMaker HyperPod developer guide, "Manually replace or reboot a node" (2026); AWS CLI, sagemaker
batch-replace-cluster-nodes and update-training-job; nvidia-smi(1).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from checks.model import CLUSTER, LINK, Action, Cause, Finding, Level, Verdict, node_of

_LABEL = "kubectl label node {node} sagemaker.amazonaws.com/node-health-status={state} --overwrite"
_DRAIN = "scontrol update nodename={node} state=drain reason={reason}"
_CORDON = "kubectl cordon {node}"
_RESET = "nvidia-smi --gpu-reset -i {gpu}"
_RELEASE = (
    "aws sagemaker update-training-job --training-job-name {job} --resource-config KeepAlivePeriodInSeconds=0"
)
_DEEP = "prelaunch check --instance-type {kind} --profile deep"

# launcher -> action -> what to type, in this order.
COMMANDS: Mapping[str, Mapping[Action, tuple[str, ...]]] = {
    "local": {
        Action.RESET_GPU: (f"sudo {_RESET}",),
        Action.REBOOT: ("sudo systemctl reboot",),
        Action.INSPECT: (_DEEP,),
    },
    "slurm": {
        Action.RESET_GPU: (_DRAIN, f"srun --nodelist={{node}} sudo {_RESET}"),
        Action.REBOOT: ("scontrol reboot ASAP nextstate=RESUME reason={reason} {node}",),
        Action.REPLACE: (_DRAIN,),
        Action.INSPECT: (_DRAIN, f"srun --nodelist={{node}} --exclusive {_DEEP}"),
        Action.CONTACT: (_DRAIN,),
    },
    "kubernetes": {
        Action.RESET_GPU: (_CORDON,),
        Action.REBOOT: (_CORDON, "kubectl drain {node} --ignore-daemonsets --delete-emptydir-data"),
        Action.REPLACE: (_CORDON, "kubectl drain {node} --ignore-daemonsets --delete-emptydir-data"),
        Action.INSPECT: (_CORDON,),
        Action.CONTACT: (_CORDON,),
    },
    "hyperpod": {
        Action.RESET_GPU: (_LABEL.replace("{state}", "UnschedulablePendingReboot"),),
        Action.REBOOT: (_LABEL.replace("{state}", "UnschedulablePendingReboot"),),
        Action.REPLACE: (_LABEL.replace("{state}", "UnschedulablePendingReplacement"),),
        Action.INSPECT: (_CORDON,),
        Action.CONTACT: (_LABEL.replace("{state}", "UnschedulablePendingReplacement"),),
    },
    "sagemaker": dict.fromkeys(
        (Action.RESET_GPU, Action.REBOOT, Action.REPLACE, Action.INSPECT, Action.CONTACT), (_RELEASE,)
    ),
}
# A GPU that a finding is about, with its number as NVML counts: "GPU 3: ...", "GPU 5 (0000:b9:00.0) is ...".
_GPU = re.compile(r"\bGPU (\d{1,2})(?: \([^()]*\))?(?=:| is )")
# Where a finding says what each of several GPUs calls for (checks.probes.kernel.xid_rows).
_CALLS, _FOR_RESET = " calls for ", " calls for a reset of the GPU"


@dataclass(frozen=True)
class Place:
    """Where the finding's machines are: the launcher's name, the declared type, and the job whose machines are kept, or ""."""

    launcher: str = ""
    instance_type: str = ""
    job: str = ""


NOWHERE = Place()


def commands(finding: Finding, verdict: Verdict, place: Place) -> tuple[str, ...]:
    """What to type for one finding. Nothing for a link or the whole cluster, and nothing while the image is suspect."""
    node = node_of(finding.subject)
    blamed = finding.cause in (Cause.HARDWARE, Cause.APPLICATION) and finding.level is not Level.PASS
    if not blamed or node == CLUSTER or LINK in node or verdict.suspect_policy:
        return ()
    gpus = ",".join(_to_reset(finding.message))
    values = {
        "node": shlex.quote(node),
        "reason": shlex.quote(f"prelaunch: {finding.check}"),
        "gpu": gpus,
        "kind": shlex.quote(place.instance_type or "TYPE"),
        "job": shlex.quote(place.job),
    }
    lacking = {f"{{{name}}}" for name, value in (("gpu", gpus), ("job", place.job)) if not value}
    rows = COMMANDS.get(place.launcher, {}).get(finding.action, ())
    return tuple(row.format_map(values) for row in rows if not any(name in row for name in lacking))


def _to_reset(message: str) -> tuple[str, ...]:
    """The numbers of the GPUs that the finding is about; evidence lists those that are well, too."""
    parts = message.split("; ") if _CALLS in message else [message]
    meant = [part for part in parts if _CALLS not in message or _FOR_RESET in part]
    return tuple(dict.fromkeys(found[1] for part in meant for found in _GPU.finditer(part)))
