"""Variables and options of a cluster, for tests."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tasks.parallelcluster.settings import INPUTS, ClusterSettings, Part, cluster_settings

WORKSPACE = "ws-01234567-89ab-cdef-0123-456789abcdef"
VARIABLES = {
    "KEY_PAIR_NAME": "my-key",
    "CAPACITY_RESERVATION_ID": "cr-0123456789abcdef0",
    "INSTANCE": "p5.48xlarge",
    "NUM_INSTANCES": "4",
    "AMPREMOTEWRITEURL": f"https://aps-workspaces.us-west-2.amazonaws.com/workspaces/{WORKSPACE}/api/v1/remote_write",
    "AWS_REGION": "us-west-2",
}
OPTIONS: Mapping[str, str | None] = {
    "subnet": "subnet-0123456789abcdef0",
    "scripts": "s3://my-bucket/prelaunch",
}
SHA256 = "0" * 64


def cluster(
    more: Mapping[str, str] = MappingProxyType({}),
    /,
    without: frozenset[Part] = frozenset(),
    capacity_block: bool = False,
    **options: str,
) -> ClusterSettings:
    """The settings with these options; the variable of an option that is given, or of a part that is lacking, is not set."""
    given = {**OPTIONS, **more, **options}
    unset = {item.variable for item in INPUTS if item.part in without or item.field in {**more, **options}}
    if Part.SCRIPTS in without:
        del given["scripts"]
    environment = {name: value for name, value in VARIABLES.items() if name not in unset}
    return cluster_settings(given, environment, without, capacity_block)
