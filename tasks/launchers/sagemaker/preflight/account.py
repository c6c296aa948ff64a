"""Whose credentials these are, and whether the execution role is of the same account."""

from __future__ import annotations

from typing import Any

from tasks.launchers.base import Line
from tasks.launchers.sagemaker.preflight.asked import Asked
from tasks.launchers.sagemaker.preflight.looking import Clients, Unseen, ask, ok, silent, wrong

WHAT = "credentials"


def credentials(asked: Asked, clients: Clients) -> tuple[Line, ...]:
    """Valid, and of the account whose role the jobs run under: no role is passed from another account (IAM, PassRole)."""
    try:
        caller = ask(_sts(clients), "get_caller_identity")
    except Unseen as error:
        if not error.no_login:
            raise
        remedy = "Log in (aws sso login, AWS_PROFILE), or renew the credentials."
        return (wrong(WHAT, f"there are none that AWS takes: {error.said}", remedy),)
    account = str(caller["Account"])
    strange = [role for role in asked.roles if role.account and role.account != account]
    if strange:
        said = f"they are of account {account}, and the role {strange[0].name} is of {strange[0].account}"
        return (wrong(WHAT, said, "Use credentials of the role's account, or a role of this one."),)
    return (ok(WHAT, f"account {account}, {caller['Arn']}"),)


def _sts(clients: Clients) -> Any:
    """A profile that is not there shows when the client is made."""
    from botocore.exceptions import BotoCoreError

    try:
        return clients.sts
    except BotoCoreError as error:
        raise silent("sts:GetCallerIdentity", error) from error
