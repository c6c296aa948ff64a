"""What the execution role may do, and whether the gate's own identity may pass that role and start jobs.

The question goes to IAM's own simulation, which considers identity policies, permission boundaries and organisations' policies,
but no policy of a bucket or repository: if only such a policy permits a role something, the result here is "not seen".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tasks.launchers.base import PreflightCheck
from tasks.launchers.preflight import ok, unseen, wrong
from tasks.launchers.sagemaker.api import Clients
from tasks.launchers.sagemaker.preflight import image as ecr
from tasks.launchers.sagemaker.preflight.requirements import Requirements
from tasks.launchers.sagemaker.preflight.storage import sources
from tasks.launchers.sagemaker.request.locations import bucket_of, key_of
from tasks.launchers.sagemaker.request.validate import at
from tasks.store.aws import AwsRefused

SERVICE = "sagemaker.amazonaws.com"
Entry = Mapping[str, object]  # one of SimulatePrincipalPolicy's ContextEntries
JOBS, INSIDE = "permission to start jobs", "permissions of the role"
ASSUMED = re.compile(r"arn:aws[a-z-]*:sts::\d{12}:assumed-role/(?P<role>[^/]+)/.*")
DENY = "explicitDeny"
NO_POLICY = "Remove the Deny statement, or ask whoever keeps the service control policy: no policy that is attached undoes it."
ATTACH_INSIDE = (
    "Attach deployments/iam/execution-role.json, and execution-role-data.json for the training's own channels, unless the bucket's or "
    "repository's own policy lets it in. They name one repository: add any other one to their Resource."
)


def starts_jobs(needs: Requirements, clients: Clients) -> tuple[PreflightCheck, ...]:
    """Whether the caller may create, watch and end jobs of these names under the role, and let a pool go."""
    principal = _principal(clients)
    wanted = _wanted(needs)
    denied = [line for question in wanted for line in _denied(clients, principal, *question)]
    if not denied:
        names = dict.fromkeys(action.partition(":")[2] for actions, _, _ in wanted for action in actions)
        return (ok(JOBS, f"{principal} may {', '.join(names)}"),)
    files = "orchestrator-jobs.json" + (" and orchestrator-pool.json" if needs.pooled else "")
    attach = f"Attach deployments/iam/{files}, which name the role and whose INSTANCE_TYPES hold {needs.instance_type}."
    remedy = NO_POLICY if any(decision == DENY for _, decision in denied) else attach
    return (wrong(JOBS, _listed(denied), remedy),)


# Service Authorization Reference, CreateTrainingJob: condition key, its kind, and where the request has the value.
CONDITION_KEYS = (
    ("sagemaker:KeepAlivePeriod", "numeric", "ResourceConfig.KeepAlivePeriodInSeconds"),
    ("sagemaker:MaxRuntimeInSeconds", "numeric", "StoppingCondition.MaxRuntimeInSeconds"),
    ("sagemaker:VolumeKmsKey", "string", "ResourceConfig.VolumeKmsKeyId"),
    ("sagemaker:OutputKmsKey", "string", "OutputDataConfig.KmsKeyId"),
    ("sagemaker:VpcSubnets", "stringList", "VpcConfig.Subnets"),
    ("sagemaker:VpcSecurityGroupIds", "stringList", "VpcConfig.SecurityGroupIds"),
)
SWITCHES = (
    ("sagemaker:NetworkIsolation", "EnableNetworkIsolation"),
    ("sagemaker:InterContainerTrafficEncryption", "EnableInterContainerTrafficEncryption"),
)


def context_of(body: Mapping[str, Any]) -> list[Entry]:
    """What CreateTrainingJob tells IAM of a request, in its condition keys (Service Authorization Reference). Pure."""
    entries = (
        ("sagemaker:InstanceTypes", "stringList", [at(body, "ResourceConfig.InstanceType")]),
        *((key, form, at(body, path)) for key, form, path in CONDITION_KEYS),
        *((key, "boolean", bool(body.get(path))) for key, path in SWITCHES),
    )
    return [_entry(key, form, value) for key, form, value in entries if value not in (None, [])] + _tags(body)


def _wanted(needs: Requirements) -> list[tuple[list[str], list[str], list[Entry]]]:
    """(actions, resources, context) of each question. AddTags and UpdateTrainingJob are asked of with their own keys."""
    start = f"{_arn('sagemaker', needs)}:training-job/"
    arns = [f"{start}{job.lower()}" for job in needs.jobs]
    tagging = _entry("sagemaker:TaggingAction", "string", "CreateTrainingJob")
    passed_to = _entry("iam:PassedToService", "string", SERVICE)
    wanted = [
        (["iam:PassRole"], [needs.options.role_arn], [passed_to]),
        *(
            (["sagemaker:CreateTrainingJob"], [f"{start}{body['TrainingJobName'].lower()}"], context_of(body))
            for body in needs.bodies
        ),
    ]
    wanted.append((["sagemaker:AddTags"], arns, [tagging, *_tags(needs.bodies[0])]))
    wanted.append((["sagemaker:DescribeTrainingJob", "sagemaker:StopTrainingJob"], arns, []))
    if needs.pooled:
        letting_go = [_entry("sagemaker:KeepAlivePeriod", "numeric", 0)]
        wanted.append((["sagemaker:UpdateTrainingJob"], arns, letting_go))
    return wanted


def _tags(body: Mapping[str, Any]) -> list[Entry]:
    tags = {tag["Key"]: tag["Value"] for tag in body.get("Tags", ())}
    if not tags:
        return []
    each = [_entry(f"aws:RequestTag/{key}", "string", value) for key, value in tags.items()]
    return [_entry("aws:TagKeys", "stringList", list(tags)), *each]


def _entry(key: str, form: str, value: object) -> Entry:
    """A ContextEntry; IAM takes every value as text."""
    values = value if isinstance(value, list) else [value]
    texts = [str(item).lower() if isinstance(item, bool) else str(item) for item in values]
    return {"ContextKeyName": key, "ContextKeyValues": texts, "ContextKeyType": form}


def inside(needs: Requirements, clients: Clients) -> tuple[PreflightCheck, ...]:
    """Whether the execution role may read the inputs, write reports and pull the images."""
    denied = [
        line
        for action, arn, context in _needed(needs)
        for line in _denied(clients, needs.options.role_arn, (action,), (arn,), context)
    ]
    if not denied:
        message = f"{needs.role} may read its inputs, write reports and output, and pull the image"
        return (ok(INSIDE, message),)
    if any(decision == DENY for _, decision in denied):
        return (wrong(INSIDE, f"{needs.role}: {_listed(denied)}", NO_POLICY),)
    message = f"its own policies do not let {needs.role}: {_listed(denied)}"
    return (unseen(INSIDE, message, ATTACH_INSIDE),)


def _needed(needs: Requirements) -> list[tuple[str, str, list[Entry]]]:
    """(action, resource, context) of what a job does by its execution role: its inputs, the training's own, reports, the image."""
    partition, job = _partition(needs.region), needs.jobs[0]
    places = [f"{needs.root}/{job}/in/", *dict.fromkeys(sources(needs).values())]
    needed: list[tuple[str, str, list[Entry]]] = []
    for url in places:
        bucket = f"arn:{partition}:s3:::{bucket_of(url)}"
        needed.append(("s3:ListBucket", bucket, [_entry("s3:prefix", "string", key_of(url))]))
        needed.append(
            ("s3:GetObject", f"{bucket}/{key_of(url)}" + ("bundle.json" if url == places[0] else ""), [])
        )
    objects = f"arn:{partition}:s3:::{needs.bucket}/{needs.prefix}".rstrip("/")
    needed.append(("s3:PutObject", f"{objects}/output/{job}", []))
    if not needs.options.network_isolation:
        needed.append(("s3:PutObject", f"{objects}/{job}/reports/nodes", []))
    return needed + [("ecr:BatchGetImage", arn, []) for arn in _repositories(needs)]


def _repositories(needs: Requirements) -> list[str]:
    parsed = (ecr.parse(uri, needs) for uri in needs.images)
    return [f"{_arn('ecr', needs)}:repository/{image['repositoryName']}" for image in parsed if image]


def _denied(
    clients: Clients, principal: str, actions: Iterable[str], arns: Iterable[str], context: Sequence[Entry]
) -> list[tuple[str, str]]:
    """(action, decision) of what would be refused. A key that the simulation lacks is no refusal, but not seen."""
    answer = clients.request(
        "iam",
        "simulate_principal_policy",
        PolicySourceArn=principal,
        ActionNames=list(actions),
        ResourceArns=list(arns),
        ContextEntries=list(context),
    )
    refused = [result for result in answer["EvaluationResults"] if result["EvalDecision"] != "allowed"]
    missing = sorted({key for result in refused for key in result.get("MissingContextValues", ())})
    if missing and all(result["EvalDecision"] == "implicitDeny" for result in refused):
        names = ", ".join(result["EvalActionName"] for result in refused)
        message = f"{names} depends on {', '.join(missing)}, which the simulation of IAM cannot evaluate"
        raise AwsRefused("iam:SimulatePrincipalPolicy", "", 0, message)
    return [(result["EvalActionName"], result["EvalDecision"]) for result in refused]


def _principal(clients: Clients) -> str:
    """The caller as IAM's simulation wants it: the role itself instead of its session, whose ARN lacks the path."""
    arn = str(clients.request("sts", "get_caller_identity")["Arn"])
    session = ASSUMED.fullmatch(arn)
    if not session:
        return arn
    return str(clients.request("iam", "get_role", RoleName=session["role"])["Role"]["Arn"])


def _listed(denied: Iterable[tuple[str, str]]) -> str:
    return ", ".join(dict.fromkeys(f"{action} ({decision})" for action, decision in denied))


def _arn(service: str, needs: Requirements) -> str:
    return f"arn:{_partition(needs.region)}:{service}:{needs.region}:{needs.account}"


def _partition(region: str) -> str:
    """The partition in the ARNs of a region (AWS, "Amazon Resource Names")."""
    if region.startswith("cn-"):
        return "aws-cn"
    return "aws-us-gov" if region.startswith("us-gov-") else "aws"
