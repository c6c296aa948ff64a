"""Whether the KMS keys are there and enabled."""

from __future__ import annotations

from tasks.launchers.base import Line
from tasks.launchers.sagemaker.preflight.asked import Asked
from tasks.launchers.sagemaker.preflight.looking import Clients, Unseen, ask, ok, wrong

WHAT = "KMS key"


def keys(asked: Asked, clients: Clients) -> tuple[Line, ...]:
    """A line for each key; whether the role may use it is not asked."""
    return tuple(_key(key, asked.region, clients) for key in asked.keys)


def _key(key: str, region: str, clients: Clients) -> Line:
    try:
        found = ask(clients.kms, "describe_key", KeyId=key)["KeyMetadata"]
    except Unseen as error:
        if error.code == "NotFoundException":
            remedy = "Correct volume_kms_key or output_kms_key in the gate file."
            return wrong(WHAT, f"{key} is not there in {region}", remedy)
        return error.line(WHAT)
    if not found.get("Enabled"):
        remedy = f"aws kms enable-key --region {region} --key-id {found['KeyId']}"
        return wrong(WHAT, f"{key} is {found.get('KeyState', 'not enabled')}", remedy)
    return ok(WHAT, f"{key} is enabled")
