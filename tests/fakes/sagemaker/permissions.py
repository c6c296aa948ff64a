"""IAM's SimulatePrincipalPolicy (which moto has not): everything is allowed but what the dial `denied` names.

IAM API reference, SimulatePrincipalPolicy: EvalDecision is allowed, explicitDeny or implicitDeny, for each action on each resource.
"""

from __future__ import annotations

from urllib.parse import parse_qs
from xml.sax.saxutils import escape

from tests.fakes.sagemaker.dials import Dials

ACTION = b"Action=SimulatePrincipalPolicy"


def knows(body: bytes) -> bool:
    """Whether this is a question for here (IAM's protocol is a form)."""
    return ACTION in body.split(b"&")


def answer(dials: Dials, body: bytes) -> bytes:
    """One result for every action and resource."""
    given = {key: values[0] for key, values in parse_qs(body.decode()).items()}
    actions = _members(given, "ActionNames")
    resources = _members(given, "ResourceArns") or ["*"]
    results = "".join(_result(dials, action, arn) for action in actions for arn in resources)
    return (
        '<SimulatePrincipalPolicyResponse xmlns="https://iam.amazonaws.com/doc/2010-05-08/"><SimulatePrincipalPolicyResult>'
        f"<IsTruncated>false</IsTruncated><EvaluationResults>{results}</EvaluationResults></SimulatePrincipalPolicyResult>"
        "<ResponseMetadata><RequestId>0</RequestId></ResponseMetadata></SimulatePrincipalPolicyResponse>"
    ).encode()


def _members(given: dict[str, str], name: str) -> list[str]:
    return [value for key, value in given.items() if key.startswith(f"{name}.member.")]


def _result(dials: Dials, action: str, arn: str) -> str:
    decision = dials.denied.get(action, "allowed")
    return (
        f"<member><EvalActionName>{escape(action)}</EvalActionName><EvalResourceName>{escape(arn)}</EvalResourceName>"
        f"<EvalDecision>{decision}</EvalDecision></member>"
    )
