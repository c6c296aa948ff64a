"""What policies allow: IAM's rules for identity policies, as far as the shipped ones use them. It is a fake of IAM's simulation.

"Policy evaluation logic", "IAM JSON policy elements: Condition operators" and "Creating a condition with multiple keys or
values", IAM User Guide. It stands in for SimulatePrincipalPolicy, which moto has not: a condition whose key the request lacks
does not hold, and the key is listed as missing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

Policy = Mapping[str, Any]
Context = Mapping[str, Sequence[str]]
ACCOUNT = "123456789012"


def weigh(policies: Iterable[Policy], action: str, arn: str, context: Context) -> tuple[str, set[str]]:
    """The decision on one action on one resource, and the condition keys that the request lacked."""
    missing: set[str] = set()
    decision = "implicitDeny"
    for policy in policies:
        for statement in policy["Statement"]:
            if not _names(statement, action, arn):
                continue
            lacking = _lacking(statement, context)
            missing |= lacking
            if not lacking and _holds(statement, context):
                if statement["Effect"] == "Deny":
                    return "explicitDeny", missing
                decision = "allowed"
    return decision, missing


def simulated(policies: Sequence[Policy]) -> Any:
    """The clients of somebody to whom these policies are attached."""

    def simulate(**asked: Any) -> dict[str, Any]:
        context = {row["ContextKeyName"]: row["ContextKeyValues"] for row in asked["ContextEntries"]}
        rows = []
        for action in asked["ActionNames"]:
            for arn in asked["ResourceArns"]:
                decision, missing = weigh(policies, action, arn, context)
                rows.append(
                    {
                        "EvalActionName": action,
                        "EvalDecision": decision,
                        "MissingContextValues": sorted(missing),
                    }
                )
        return {"EvaluationResults": rows}

    caller = {"Account": ACCOUNT, "Arn": f"arn:aws:iam::{ACCOUNT}:user/ops"}
    answers = {"get_caller_identity": lambda: caller, "simulate_principal_policy": simulate}
    return SimpleNamespace(request=lambda _service, operation, **asked: answers[operation](**asked))


def _names(statement: Policy, action: str, arn: str) -> bool:
    actions = (one.lower() for one in _many(statement["Action"]))
    allowed = any(_like(one, action.lower()) for one in actions)
    return allowed and any(_like(one, arn) for one in _many(statement["Resource"]))


def _lacking(statement: Policy, context: Context) -> set[str]:
    """Keys without which a condition cannot hold: IfExists and ForAllValues hold without."""
    return {
        key
        for operator, pairs in statement.get("Condition", {}).items()
        for key in pairs
        if key not in context
        and not operator.endswith("IfExists")
        and not operator.startswith("ForAllValues:")
    }


def _holds(statement: Policy, context: Context) -> bool:
    for operator, pairs in statement.get("Condition", {}).items():
        plain = operator.removeprefix("ForAllValues:").removesuffix("IfExists")
        for key, wanted in pairs.items():
            values = context.get(key, ())
            held = [any(_compare(plain, value, one) for one in _many(wanted)) for value in values]
            if not all(held):
                return False
    return True


def _compare(operator: str, value: str, wanted: str) -> bool:
    if operator in ("StringEquals", "Bool"):
        return value == wanted
    if operator in ("StringLike", "ArnLike"):
        return _like(wanted, value)
    if operator == "NumericLessThanEquals":
        return float(value) <= float(wanted)
    raise AssertionError(f"{operator} is no operator of the shipped policies")


def _like(pattern: str, text: str) -> bool:
    """ "*" is any text, "?" any character."""
    return bool(re.fullmatch(re.escape(pattern).replace(r"\*", ".*").replace(r"\?", "."), text))


def _many(value: Any) -> list[str]:
    return list(value) if isinstance(value, list) else [value]
