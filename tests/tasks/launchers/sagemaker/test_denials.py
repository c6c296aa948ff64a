"""Who has to allow what AWS denies: an explicit deny is undone by whoever keeps that policy, and by nothing that is attached."""

from __future__ import annotations

import pytest

from tasks.launchers.sagemaker.api import explained
from tasks.store.aws import AwsRefused

ACTION = "sagemaker:CreateTrainingJob"
DENIED = f"User: arn:aws:iam::1:user/x is not authorized to perform: {ACTION} on resource: arn:y"


@pytest.mark.parametrize(
    ("said", "keeper"),
    [
        (" with an explicit deny in a service control policy", "service control policy"),
        (" with an explicit deny in a service control policy: arn:aws:organizations::1:policy/p-1", "service control policy"),
        (" with an explicit deny in a resource control policy", "resource control policy"),
        (" with an explicit deny in a permissions boundary", "permissions boundary"),
        (" with an explicit deny in an identity-based policy", "identity-based policy"),
        (" with an explicit deny in a session policy", "session policy"),
        (" with an explicit deny in a VPC endpoint policy", "vpc endpoint policy"),
        (" because no identity-based policy allows the sagemaker:CreateTrainingJob action", ""),
        (" because no service control policy allows the sagemaker:CreateTrainingJob action", "service control policy"),
        ("", ""),
    ],
)  # fmt: skip
def test_an_explicit_deny_is_answered_as_such(said: str, keeper: str) -> None:
    """To attach another policy would change nothing."""
    text = str(explained(AwsRefused(ACTION, "AccessDeniedException", 400, DENIED + said)))
    attach = "attach deployments/iam/orchestrator-jobs.json"

    assert ("attach deployments/iam" in text) is (not keeper)
    assert (f"A {keeper} of this account" if keeper else attach) in text
