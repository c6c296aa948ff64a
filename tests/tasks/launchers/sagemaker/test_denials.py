"""Who has to allow what AWS denies: an explicit deny is undone by whoever keeps that policy, and by nothing that is attached."""

from __future__ import annotations

import pytest

from tasks.launchers.sagemaker.api import explained
from tasks.store.aws import AwsRefused

DENIED = (
    "User: arn:aws:iam::1:user/x is not authorized to perform: sagemaker:CreateTrainingJob on resource: arn:y"
)


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
    text = str(
        explained(AwsRefused("sagemaker:CreateTrainingJob", "AccessDeniedException", 400, DENIED + said))
    )

    assert ("attach deployments/iam" in text) is (not keeper)
    assert (
        f"A {keeper} of this account" in text
        if keeper
        else "attach deployments/iam/orchestrator-jobs.json" in text
    )
