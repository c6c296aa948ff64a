"""What a role's trust policy says. Pure."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping
from typing import Any

SERVICE = "sagemaker.amazonaws.com"


def lets_in(policy: Mapping[str, Any], service: str = SERVICE) -> bool:
    """Whether some statement lets the service assume the role. Conditions are not weighed, and a Deny ends it."""
    statements = [one for one in _many(policy.get("Statement")) if _is_of(one, service)]
    effects = {
        one.get("Effect") for one in statements if one.get("Effect") == "Allow" or not one.get("Condition")
    }
    return "Allow" in effects and "Deny" not in effects


def _is_of(statement: Mapping[str, Any], service: str) -> bool:
    principal = statement.get("Principal", {})
    named = ["*"] if principal == "*" else _many(principal.get("Service"))
    # An action of IAM may hold * and ?, and is read without regard to case (IAM, "JSON policy elements: Action").
    actions = (str(action).lower() for action in _many(statement.get("Action")))
    return bool({service, "*"} & set(named)) and any(
        fnmatch.fnmatchcase("sts:assumerole", action) for action in actions
    )


def _many(value: Any) -> list[Any]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]
