"""Whether SageMaker may assume the execution role, and who runs the gate may pass it and start jobs.

Asked of IAM's own simulation, which weighs identity policies, permission boundaries and organisations' policies, but no
bucket's or repository's own policy: a role that these alone would let in is "not seen" here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from tasks.launchers.base import Line
from tasks.launchers.sagemaker.preflight import image as ecr
from tasks.launchers.sagemaker.preflight.asked import Asked, Role
from tasks.launchers.sagemaker.preflight.looking import Clients, Unseen, ask, ok, unseen, wrong
from tasks.launchers.sagemaker.preflight.trust import SERVICE, lets_in

TRUST, PASS, JOBS, INSIDE = "role", "role passable", "right to start jobs", "role's own rights"
ASSUMED = re.compile(r"arn:aws[a-z-]*:sts::\d{12}:assumed-role/(?P<role>[^/]+)/.*")
PASSED_TO = [
    {"ContextKeyName": "iam:PassedToService", "ContextKeyValues": [SERVICE], "ContextKeyType": "string"}
]


def trust(asked: Asked, clients: Clients) -> tuple[Line, ...]:
    """A line for each role: it is there, and its trust policy names SageMaker."""
    return tuple(_trust(role, clients) for role in asked.roles)


def passable(asked: Asked, clients: Clients) -> tuple[Line, ...]:
    """Whether the caller may hand the roles to SageMaker (iam:PassRole)."""
    who = _principal(clients)
    arns = [role.arn for role in asked.roles]
    denied = _denied(clients, who, ("iam:PassRole",), arns, PASSED_TO)
    if not denied:
        return (ok(PASS, f"{who} may pass {', '.join(role.name for role in asked.roles)} to SageMaker"),)
    said = f"{who} may not pass it to SageMaker: {_listed(denied)}"
    return (
        wrong(PASS, said, "Attach deployments/iam/orchestrator-jobs.json, whose PassRole names this role."),
    )


def starts_jobs(asked: Asked, clients: Clients) -> tuple[Line, ...]:
    """Whether the caller may create, watch and end jobs of these names, and let a pool go."""
    who = _principal(clients)
    account = asked.roles[0].account
    arns = [f"{_arn('sagemaker', asked.region, account)}:training-job/{job.lower()}" for job in asked.jobs]
    actions = ["CreateTrainingJob", "AddTags", "DescribeTrainingJob", "StopTrainingJob"]
    actions += ["UpdateTrainingJob"] if asked.pooled else []
    denied = _denied(clients, who, [f"sagemaker:{action}" for action in actions], arns, [])
    if not denied:
        return (ok(JOBS, f"{who} may {', '.join(actions)}"),)
    files = "orchestrator-jobs.json" + (" and orchestrator-pool.json" if asked.pooled else "")
    return (wrong(JOBS, _listed(denied), f"Attach deployments/iam/{files}."),)


def inside(asked: Asked, clients: Clients) -> tuple[Line, ...]:
    """Whether the execution roles may read the inputs, write reports and pull the images."""
    return tuple(_inside(role, asked, clients) for role in asked.roles)


def _trust(role: Role, clients: Clients) -> Line:
    try:
        found = ask(clients.iam, "get_role", RoleName=role.name)["Role"]
    except Unseen as error:
        if error.code in ("NoSuchEntity", "NoSuchEntityException"):
            remedy = "Create it (docs/sagemaker.md), or correct role_arn in the gate file."
            return wrong(TRUST, f"there is no role {role.name}", remedy)
        return error.line(TRUST)
    if found["Arn"] != role.arn:
        return wrong(
            TRUST, f"the role's ARN is {found['Arn']}, not {role.arn}", "Correct role_arn in the gate file."
        )
    if not lets_in(found["AssumeRolePolicyDocument"]):
        change = f"aws iam update-assume-role-policy --role-name {role.name} --policy-document"
        remedy = f"{change} file://trust.json, from deployments/iam/execution-role-trust.json."
        return wrong(TRUST, f"{role.name} does not let {SERVICE} assume it", remedy)
    return ok(TRUST, f"{role.name} is there, and {SERVICE} may assume it")


def _inside(role: Role, asked: Asked, clients: Clients) -> Line:
    objects = f"arn:{_partition(asked.region)}:s3:::{asked.bucket}/{asked.prefix}".rstrip("/")
    job = asked.jobs[0]
    wanted = [
        ("s3:GetObject", f"{objects}/{job}/in/bundle.json"),
        ("s3:PutObject", f"{objects}/output/{job}"),
    ]
    wanted += [] if asked.isolated else [("s3:PutObject", f"{objects}/{job}/reports/nodes")]
    wanted += [("ecr:BatchGetImage", arn) for arn in _repositories(asked)]
    denied = [line for action, arn in wanted for line in _denied(clients, role.arn, (action,), (arn,), [])]
    if not denied:
        return ok(INSIDE, f"{role.name} may read its inputs, write reports and output, and pull the image")
    remedy = "Attach deployments/iam/execution-role.json, unless the bucket's or repository's own policy lets it in."
    if any(decision == "explicitDeny" for _, decision in denied):
        return wrong(INSIDE, f"{role.name}: {_listed(denied)}", "Remove the Deny statement.")
    return unseen(INSIDE, f"its own policies do not let {role.name}: {_listed(denied)}", remedy)


def _repositories(asked: Asked) -> Iterable[str]:
    found = (ecr.parse(uri) for uri in asked.images)
    return [
        f"{_arn('ecr', one.region, one.account)}:repository/{one.repository}"
        for one in found
        if one and one.account == asked.roles[0].account
    ]


def _denied(
    clients: Clients, who: str, actions: Iterable[str], arns: Iterable[str], context: list[Any]
) -> list[tuple[str, str]]:
    """(action, decision) of what would be refused. A key that the simulation lacks is no refusal, but not seen."""
    answer = ask(
        clients.iam,
        "simulate_principal_policy",
        PolicySourceArn=who,
        ActionNames=list(actions),
        ResourceArns=list(arns),
        ContextEntries=context,
    )
    refused = [one for one in answer["EvaluationResults"] if one["EvalDecision"] != "allowed"]
    missing = sorted({key for one in refused for key in one.get("MissingContextValues", ())})
    if missing and all(one["EvalDecision"] == "implicitDeny" for one in refused):
        names = ", ".join(one["EvalActionName"] for one in refused)
        raise Unseen(
            "iam:SimulatePrincipalPolicy", "", f"{names} rests on {', '.join(missing)}, which it cannot weigh"
        )
    return [(one["EvalActionName"], one["EvalDecision"]) for one in refused]


def _principal(clients: Clients) -> str:
    """The caller as IAM's simulation wants it: the role itself instead of its session, whose ARN lacks the path."""
    arn = str(ask(clients.sts, "get_caller_identity")["Arn"])
    session = ASSUMED.fullmatch(arn)
    if not session:
        return arn
    return str(ask(clients.iam, "get_role", RoleName=session["role"])["Role"]["Arn"])


def _listed(denied: Iterable[tuple[str, str]]) -> str:
    return ", ".join(dict.fromkeys(f"{action} ({decision})" for action, decision in denied))


def _arn(service: str, region: str, account: str) -> str:
    return f"arn:{_partition(region)}:{service}:{region}:{account}"


def _partition(region: str) -> str:
    """AWS, "Amazon Resource Names": the partition is the first part of every ARN."""
    if region.startswith("cn-"):
        return "aws-cn"
    return "aws-us-gov" if region.startswith("us-gov-") else "aws"
