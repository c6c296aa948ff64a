"""What the objects of operators may hold beside the template of a pod, as JSON Schema: a table of this project's own.

Names and types are those of the models in the operators' own clients: kubeflow-training 1.9.4 (Kubeflow's Training Operator v1) and
sagemaker-hyperpod 3.12.0 (HyperPodPyTorchJob of sagemaker.amazonaws.com/v1). The operators' CRDs themselves are not here, and neither
client can be installed beside the packages of this project. What passes here has not passed an operator.
"""

from __future__ import annotations

import functools
from typing import Any

import jsonschema
from kubernetes_validate import utils

# The package reads two megabytes of definitions for each object that it compares.
utils.schema_contents = functools.cache(utils.schema_contents)
utils.all_versions = functools.cache(utils.all_versions)
Schema = dict[str, Any]
TEXT, WHOLE, YES_NO = {"type": "string"}, {"type": "integer"}, {"type": "boolean"}
# The metadata, and the template of a pod, which are compared with the API's own schemas.
ANY: Schema = {"type": "object"}


def table(fields: Schema, required: tuple[str, ...] = ()) -> Schema:
    """An object with these fields and no others."""
    return {"type": "object", "properties": fields, "additionalProperties": False, "required": list(required)}


def job(api_version: str, kind: str, spec: Schema) -> Schema:
    """A whole object of an operator."""
    head = {"apiVersion": {"const": api_version}, "kind": {"const": kind}, "metadata": ANY, "spec": spec}
    return table({**head, "status": ANY}, tuple(head))


PYTORCH_RUN_POLICY = table({
    "activeDeadlineSeconds": WHOLE, "backoffLimit": WHOLE, "cleanPodPolicy": {"enum": ["All", "Running", "None"]}, "managedBy": TEXT,
    "schedulingPolicy": ANY, "suspend": YES_NO, "ttlSecondsAfterFinished": WHOLE,
})  # fmt: skip
POLICIES = {"enum": ["Always", "OnFailure", "Never", "ExitCode"]}
PYTORCH_REPLICA = table({"replicas": WHOLE, "restartPolicy": POLICIES, "template": ANY})
HYPERPOD_RUN_POLICY = table({
    "activeDeadlineSeconds": WHOLE, "cleanPodPolicy": TEXT, "faultDeadlineSeconds": WHOLE, "jobMaxRetryCount": WHOLE,
    "logMonitoringConfiguration": {"type": "array"}, "restartPolicy": ANY, "startupDeadlineSeconds": WHOLE, "suspend": YES_NO,
    "ttlSecondsAfterFinished": WHOLE, "workloadMode": TEXT,
})  # fmt: skip
COUNTS = dict.fromkeys(("replicas", "maxReplicas", "spares"), WHOLE)
HYPERPOD_REPLICA = table({"name": TEXT, **COUNTS, "template": ANY}, ("name",))
SCHEMAS: dict[str, Schema] = {
    "PyTorchJob": job("kubeflow.org/v1", "PyTorchJob", table({
        "elasticPolicy": ANY, "nprocPerNode": TEXT, "runPolicy": PYTORCH_RUN_POLICY,
        "pytorchReplicaSpecs": table({"Master": PYTORCH_REPLICA, "Worker": PYTORCH_REPLICA}),
    }, ("pytorchReplicaSpecs",))),
    "HyperPodPyTorchJob": job("sagemaker.amazonaws.com/v1", "HyperPodPyTorchJob", table({
        "elasticPolicy": ANY, "nprocPerNode": TEXT, "replicaSpecs": {"type": "array", "items": HYPERPOD_REPLICA},
        "runPolicy": HYPERPOD_RUN_POLICY,
    })),
}  # fmt: skip


def problem_of(body: dict[str, Any]) -> str:
    """What is wrong with the object of an operator; "" if nothing is."""
    found = jsonschema.Draft7Validator(SCHEMAS[body["kind"]]).iter_errors(body)
    error = jsonschema.exceptions.best_match(found)
    return "" if error is None else f"{error.json_path}: {error.message[:300]}"
