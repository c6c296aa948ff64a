"""How much each profile measures: the numbers that a check finds in its context's options."""

from __future__ import annotations

from collections.abc import Mapping

from checks.model import Profile

MIB = 1 << 20

OPTIONS: Mapping[str, Mapping[Profile, Mapping[str, float]]] = {
    "compute.gemm": {
        Profile.QUICK: {"seconds": 0.5},
        Profile.STANDARD: {"seconds": 2.0},
        Profile.DEEP: {"seconds": 6.0},
    },
    "network.pairs": {
        Profile.QUICK: {"seconds": 0.05, "max_bytes": 8 * MIB, "pings": 20},
        Profile.STANDARD: {"seconds": 0.2, "max_bytes": 64 * MIB, "pings": 100},
        Profile.DEEP: {"seconds": 0.7, "max_bytes": 512 * MIB, "pings": 1000},
    },
    "collective.all_reduce": {
        Profile.QUICK: {"min_bytes": 1024, "max_bytes": 8 * MIB, "budget_s": 1.5},
        Profile.STANDARD: {"min_bytes": 1024, "max_bytes": 64 * MIB, "budget_s": 6.0},
        Profile.DEEP: {"min_bytes": 1024, "max_bytes": 512 * MIB, "budget_s": 30.0},
    },
    "collective.all_gather": {
        Profile.QUICK: {"min_bytes": 1024, "max_bytes": 8 * MIB, "budget_s": 1.5},
        Profile.STANDARD: {"min_bytes": 1024, "max_bytes": 64 * MIB, "budget_s": 6.0},
        Profile.DEEP: {"min_bytes": 1024, "max_bytes": 512 * MIB, "budget_s": 30.0},
    },
    "training.smoke": {
        Profile.QUICK: {"steps": 30},
        Profile.STANDARD: {"steps": 100},
        Profile.DEEP: {"steps": 500},
    },
    "training.ddp": {
        Profile.QUICK: {"steps": 20},
        Profile.STANDARD: {"steps": 100},
        Profile.DEEP: {"steps": 500},
    },
}


def options(check: str, profile: Profile, policy_options: Mapping[str, float]) -> dict[str, float]:
    """The check's numbers: the profile's, overridden by the policy's."""
    return {**OPTIONS.get(check, {}).get(profile, {}), **policy_options}
