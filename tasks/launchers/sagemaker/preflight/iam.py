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
from tasks.store.aws import Refused

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


def starts_jobs(asked: Requirements, clients: Clients) -> tuple[PreflightCheck, ...]:
    """Whether the caller may create, watch and end jobs of these names under the role, and let a pool go."""
    who = _principal(clients)
    wanted = _wanted(asked)
    denied = [
        line for actions, arns, context in wanted for line in _denied(clients, who, actions, arns, context)
    ]
    if not denied:
        names = dict.fromkeys(action.partition(":")[2] for actions, _, _ in wanted for action in actions)
        return (ok(JOBS, f"{who} may {', '.join(names)}"),)
    files = "orchestrator-jobs.json" + (" and orchestrator-pool.json" if asked.pooled else "")
    attach = (
        f"Attach deployments/iam/{files}, which name the role and whose INSTANCE_TYPES hold {asked.kind}."
    )
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
    said = (
        ("sagemaker:InstanceTypes", "stringList", [at(body, "ResourceConfig.InstanceType")]),
        *((key, kind, at(body, path)) for key, kind, path in CONDITION_KEYS),
        *((key, "boolean", bool(body.get(path))) for key, path in SWITCHES),
    )
    return [_entry(key, kind, value) for key, kind, value in said if value not in (None, [])] + _tags(body)


def _wanted(asked: Requirements) -> list[tuple[list[str], list[str], list[Entry]]]:
    """(actions, resources, context) of each question. AddTags and UpdateTrainingJob are asked of with their own keys."""
    named = f"{_arn('sagemaker', asked)}:training-job/"
    arns = [f"{named}{job.lower()}" for job in asked.jobs]
    tagging = _entry("sagemaker:TaggingAction", "string", "CreateTrainingJob")
    passed_to = _entry("iam:PassedToService", "string", SERVICE)
    wanted = [
        (["iam:PassRole"], [asked.options.role_arn], [passed_to]),
        *(
            (["sagemaker:CreateTrainingJob"], [f"{named}{body['TrainingJobName'].lower()}"], context_of(body))
            for body in asked.bodies
        ),
    ]
    wanted.append((["sagemaker:AddTags"], arns, [tagging, *_tags(asked.bodies[0])]))
    wanted.append((["sagemaker:DescribeTrainingJob", "sagemaker:StopTrainingJob"], arns, []))
    if asked.pooled:
        letting_go = [_entry("sagemaker:KeepAlivePeriod", "numeric", 0)]
        wanted.append((["sagemaker:UpdateTrainingJob"], arns, letting_go))
    return wanted


def _tags(body: Mapping[str, Any]) -> list[Entry]:
    tags = {row["Key"]: row["Value"] for row in body.get("Tags", ())}
    if not tags:
        return []
    each = [_entry(f"aws:RequestTag/{key}", "string", value) for key, value in tags.items()]
    return [_entry("aws:TagKeys", "stringList", list(tags)), *each]


def _entry(key: str, kind: str, value: object) -> Entry:
    """A ContextEntry; IAM takes every value as text."""
    values = value if isinstance(value, list) else [value]
    texts = [str(one).lower() if isinstance(one, bool) else str(one) for one in values]
    return {"ContextKeyName": key, "ContextKeyValues": texts, "ContextKeyType": kind}


def inside(asked: Requirements, clients: Clients) -> tuple[PreflightCheck, ...]:
    """Whether the execution role may read the inputs, write reports and pull the images."""
    denied = [
        line
        for action, arn, context in _needed(asked)
        for line in _denied(clients, asked.options.role_arn, (action,), (arn,), context)
    ]
    if not denied:
        said = f"{asked.role} may read its inputs, write reports and output, and pull the image"
        return (ok(INSIDE, said),)
    if any(decision == DENY for _, decision in denied):
        return (wrong(INSIDE, f"{asked.role}: {_listed(denied)}", NO_POLICY),)
    said = f"its own policies do not let {asked.role}: {_listed(denied)}"
    return (unseen(INSIDE, said, ATTACH_INSIDE),)


def _needed(asked: Requirements) -> list[tuple[str, str, list[Entry]]]:
    """(action, resource, context) of what a job does by its execution role: its inputs, the training's own, reports, the image."""
    partition, job = _partition(asked.region), asked.jobs[0]
    places = [f"{asked.root}/{job}/in/", *dict.fromkeys(sources(asked).values())]
    needed: list[tuple[str, str, list[Entry]]] = []
    for url in places:
        bucket = f"arn:{partition}:s3:::{bucket_of(url)}"
        needed.append(("s3:ListBucket", bucket, [_entry("s3:prefix", "string", key_of(url))]))
        needed.append(
            ("s3:GetObject", f"{bucket}/{key_of(url)}" + ("bundle.json" if url == places[0] else ""), [])
        )
    objects = f"arn:{partition}:s3:::{asked.bucket}/{asked.prefix}".rstrip("/")
    needed.append(("s3:PutObject", f"{objects}/output/{job}", []))
    if not asked.options.network_isolation:
        needed.append(("s3:PutObject", f"{objects}/{job}/reports/nodes", []))
    return needed + [("ecr:BatchGetImage", arn, []) for arn in _repositories(asked)]


def _repositories(asked: Requirements) -> list[str]:
    found = (ecr.parse(uri, asked) for uri in asked.images)
    return [f"{_arn('ecr', asked)}:repository/{one['repositoryName']}" for one in found if one]


def _denied(
    clients: Clients, who: str, actions: Iterable[str], arns: Iterable[str], context: Sequence[Entry]
) -> list[tuple[str, str]]:
    """(action, decision) of what would be refused. A key that the simulation lacks is no refusal, but not seen."""
    answer = clients.request(
        "iam",
        "simulate_principal_policy",
        PolicySourceArn=who,
        ActionNames=list(actions),
        ResourceArns=list(arns),
        ContextEntries=list(context),
    )
    refused = [one for one in answer["EvaluationResults"] if one["EvalDecision"] != "allowed"]
    missing = sorted({key for one in refused for key in one.get("MissingContextValues", ())})
    if missing and all(one["EvalDecision"] == "implicitDeny" for one in refused):
        names = ", ".join(one["EvalActionName"] for one in refused)
        raise Refused(
            "iam:SimulatePrincipalPolicy",
            "",
            0,
            f"{names} rests on {', '.join(missing)}, which it cannot weigh",
        )
    return [(one["EvalActionName"], one["EvalDecision"]) for one in refused]


def _principal(clients: Clients) -> str:
    """The caller as IAM's simulation wants it: the role itself instead of its session, whose ARN lacks the path."""
    arn = str(clients.request("sts", "get_caller_identity")["Arn"])
    session = ASSUMED.fullmatch(arn)
    if not session:
        return arn
    return str(clients.request("iam", "get_role", RoleName=session["role"])["Role"]["Arn"])


def _listed(denied: Iterable[tuple[str, str]]) -> str:
    return ", ".join(dict.fromkeys(f"{action} ({decision})" for action, decision in denied))


def _arn(service: str, asked: Requirements) -> str:
    return f"arn:{_partition(asked.region)}:{service}:{asked.region}:{asked.account}"


def _partition(region: str) -> str:
    """The partition in the ARNs of a region (AWS, "Amazon Resource Names")."""
    if region.startswith("cn-"):
        return "aws-cn"
    return "aws-us-gov" if region.startswith("us-gov-") else "aws"
