"""IAM's SimulatePrincipalPolicy (which moto has not): everything is allowed.

IAM API reference, SimulatePrincipalPolicy: a decision for each action on each resource.
"""

from __future__ import annotations

from urllib.parse import parse_qs
from xml.sax.saxutils import escape

ACTION = b"Action=SimulatePrincipalPolicy"


def knows(body: bytes) -> bool:
    """Whether this is a question for here (IAM's protocol is a form)."""
    return ACTION in body.split(b"&")


def answer(body: bytes) -> bytes:
    """One result for every action."""
    given = parse_qs(body.decode())
    actions = [values[0] for key, values in given.items() if key.startswith("ActionNames.member.")]
    entry = "<member><EvalActionName>{}</EvalActionName><EvalDecision>allowed</EvalDecision></member>"
    results = "".join(entry.format(escape(action)) for action in actions)
    return (
        '<SimulatePrincipalPolicyResponse xmlns="https://iam.amazonaws.com/doc/2010-05-08/"><SimulatePrincipalPolicyResult>'
        f"<IsTruncated>false</IsTruncated><EvaluationResults>{results}</EvaluationResults></SimulatePrincipalPolicyResult>"
        "<ResponseMetadata><RequestId>0</RequestId></ResponseMetadata></SimulatePrincipalPolicyResponse>"
    ).encode()
