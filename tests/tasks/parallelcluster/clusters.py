"""Variables of a cluster, for tests."""

from __future__ import annotations

from tasks.parallelcluster.template import TEMPLATE, filled

WORKSPACE = "ws-01234567-89ab-cdef-0123-456789abcdef"
VARIABLES = {
    "KEY_PAIR_NAME": "my-key",
    "CAPACITY_RESERVATION_ID": "cr-0123456789abcdef0",
    "INSTANCE": "p5.48xlarge",
    "NUM_INSTANCES": "4",
    "AMPREMOTEWRITEURL": f"https://aps-workspaces.us-west-2.amazonaws.com/workspaces/{WORKSPACE}/api/v1/remote_write",
    "AWS_REGION": "us-west-2",
    "SUBNET_ID": "subnet-0123456789abcdef0",
    "SCRIPTS_BUCKET": "my-bucket",
}
SHA256 = "0" * 64


def configuration(template: str = "", **variables: str) -> str:
    """The text that is written for these variables, of the shipped template or another."""
    return filled(template or TEMPLATE.read_text(), {**VARIABLES, **variables}, SHA256)
