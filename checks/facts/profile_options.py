"""How much each profile measures: the numbers that a check gets in its context's options."""

from __future__ import annotations

from collections.abc import Mapping

from checks.model import Profile

MIB = 1 << 20
# Known rates are of such sizes (checks/facts/collectives.json); 8 MiB ran at a sixth of the peak on 2 x p5 (AWS's
# nccl-tests README). It takes 4 ms there, and 3 s a network of 10 Gbit/s: a size that does not fit is left out and said.
LARGE = 1024 * MIB
# Rates are compared from 128 MiB on (checks/judge/rules/expected_questions.py), also after rounding to whole elements
# of an odd number of ranks.
COMPARED = 160 * MIB

# How long all checks of a node may take together. Quick is a promise to the person who waits for it. The others are the sum of
# the deadlines of the long checks that cannot run side by side, and quick's for all the rest. Standard: dcgm.diag 900 s,
# nccl.tests 300, dcgm.health 180. Deep: dcgm.diag 2,700 s, disk.io 360 (cpu.stress and memory.stress run beside it),
# nccl.tests 300, dcgm.health 180, compute.sdc 600.
DEADLINE_S: Mapping[Profile, float] = {
    Profile.QUICK: 120.0,
    Profile.STANDARD: 1500.0,
    Profile.DEEP: 4260.0,
}

SWEEP_OF_GLOO: Mapping[Profile, Mapping[str, float]] = {
    Profile.QUICK: {"min_bytes": 1024, "max_bytes": 8 * MIB, "budget_s": 1.5},
    Profile.STANDARD: {"min_bytes": 1024, "max_bytes": 64 * MIB, "budget_s": 6.0},
    Profile.DEEP: {"min_bytes": 1024, "max_bytes": 512 * MIB, "budget_s": 30.0},
}
SWEEP_OF_NCCL: Mapping[Profile, Mapping[str, float]] = {
    Profile.QUICK: {"min_bytes": 1024, "max_bytes": LARGE, "budget_s": 1.0},
    Profile.STANDARD: {"min_bytes": 1024, "max_bytes": LARGE, "budget_s": 3.0},
    Profile.DEEP: {"min_bytes": 1024, "max_bytes": LARGE, "budget_s": 12.0},
}
EXCHANGE_OF_NCCL: Mapping[Profile, Mapping[str, float]] = {
    Profile.QUICK: {"min_bytes": 1024, "max_bytes": COMPARED, "budget_s": 1.5},
    Profile.STANDARD: {"min_bytes": 1024, "max_bytes": 256 * MIB, "budget_s": 3.0},
    Profile.DEEP: {"min_bytes": 1024, "max_bytes": 1024 * MIB, "budget_s": 12.0},
}
# All pairs of 64 nodes take 63 rounds between them, of 10 to 100 ms each. repeat_s: judgement: what a second sweep of 64 nodes takes
# at the least, and more where there is more time.
PAIRS: Mapping[Profile, Mapping[str, float]] = {
    Profile.QUICK: {"all_pairs_nodes": 64, "matchings": 12, "pings": 10, "budget_s": 10.0, "repeat_s": 3.0},
    Profile.STANDARD: {
        "all_pairs_nodes": 256,
        "matchings": 20,
        "pings": 20,
        "budget_s": 30.0,
        "repeat_s": 8.0,
    },
    Profile.DEEP: {"all_pairs_nodes": 512, "matchings": 20, "pings": 40, "budget_s": 60.0, "repeat_s": 16.0},
}

OPTIONS: Mapping[str, Mapping[Profile, Mapping[str, float]]] = {
    "cpu.stress": {
        Profile.STANDARD: {"seconds": 5.0},
        Profile.DEEP: {"seconds": 60.0},
    },
    "memory.stress": {
        Profile.STANDARD: {"seconds": 5.0, "share": 0.1, "max_bytes": 1024 * MIB},
        Profile.DEEP: {"seconds": 60.0, "share": 0.4, "max_bytes": 65536 * MIB},
    },
    "disk.io": {
        Profile.STANDARD: {"size_bytes": 256 * MIB, "seconds": 2.0},
        Profile.DEEP: {"size_bytes": 4096 * MIB, "seconds": 15.0},
    },
    "compute.gemm": {
        Profile.QUICK: {"seconds": 0.5, "warmup_s": 0.1},
        Profile.STANDARD: {"seconds": 2.0, "warmup_s": 0.5},
        # The first one or two seconds run at boost clocks, with rates that no training reaches.
        Profile.DEEP: {"seconds": 6.0, "warmup_s": 2.0},
    },
    "compute.sdc": {
        Profile.QUICK: {"seconds": 0.2, "seeds": 1},
        Profile.STANDARD: {"seconds": 2.0, "seeds": 2},
        Profile.DEEP: {"seconds": 40.0, "seeds": 4},
    },
    "compute.memory_bandwidth": {
        # Three buffers per rank: larger than the caches of a rank's share of the CPU, and small compared with the minimum of
        # system.resources.
        Profile.QUICK: {"seconds": 0.03, "cpu_mib": 16, "gpu_mib": 1024},
        Profile.STANDARD: {"seconds": 0.5, "cpu_mib": 32, "gpu_mib": 1024},
        Profile.DEEP: {"seconds": 5.0, "cpu_mib": 48, "gpu_mib": 2048},
    },
    "compute.transfer": {
        Profile.QUICK: {"seconds": 0.05, "buffer_mib": 64},
        Profile.STANDARD: {"seconds": 0.2, "buffer_mib": 128},
        Profile.DEEP: {"seconds": 1.0, "buffer_mib": 256},
    },
    "compute.overlap": {
        Profile.QUICK: {"rounds": 6},
        Profile.STANDARD: {"rounds": 40},
        Profile.DEEP: {"rounds": 200},
    },
    "training.step": {
        Profile.QUICK: {"steps": 8},
        Profile.STANDARD: {"steps": 20},
        Profile.DEEP: {"steps": 100},
    },
    "gpu.clocks": {
        Profile.QUICK: {"seconds": 1.0},
        Profile.STANDARD: {"seconds": 2.0},
        Profile.DEEP: {"seconds": 10.0},
    },
    "gpu.thermal": {
        Profile.QUICK: {"seconds": 1.0},
        Profile.STANDARD: {"seconds": 2.0},
        Profile.DEEP: {"seconds": 10.0},
    },
    "gpu.pcie": {
        Profile.QUICK: {"seconds": 1.0},
        Profile.STANDARD: {"seconds": 2.0},
        Profile.DEEP: {"seconds": 3.0},
    },
    "dcgm.diag": {
        Profile.QUICK: {"level": 1, "deadline_s": 60.0},
        Profile.STANDARD: {"level": 2, "deadline_s": 900.0},
        Profile.DEEP: {"level": 3, "deadline_s": 2700.0},
    },
    "dcgm.health": {
        Profile.QUICK: {"watch_s": 60.0},
        Profile.STANDARD: {"watch_s": 60.0},
        Profile.DEEP: {"watch_s": 60.0},
    },
    "dcgm.policy": {
        Profile.QUICK: {"listen_s": 1.0},
        Profile.STANDARD: {"listen_s": 2.0},
        Profile.DEEP: {"listen_s": 10.0},
    },
    "neuron.collectives": {
        Profile.STANDARD: {"operations": 1, "deadline_s": 300.0},
        Profile.DEEP: {"operations": 3, "deadline_s": 1200.0},
    },
    "network.pairs": {
        Profile.QUICK: {"seconds": 0.05, "max_bytes": 8 * MIB, "pings": 20},
        Profile.STANDARD: {"seconds": 0.2, "max_bytes": 64 * MIB, "pings": 100},
        Profile.DEEP: {"seconds": 0.7, "max_bytes": 512 * MIB, "pings": 1000},
    },
    "network.mtu": {
        Profile.QUICK: {"stall_s": 2.0},
        Profile.STANDARD: {"stall_s": 3.0},
        Profile.DEEP: {"stall_s": 5.0},
    },
    "network.names": {
        Profile.QUICK: {"lookup_s": 1.0},
        Profile.STANDARD: {"lookup_s": 5.0},
        Profile.DEEP: {"lookup_s": 10.0},
    },
    "efa.devices": {
        Profile.QUICK: {"settle_s": 5.0},
        Profile.STANDARD: {"settle_s": 30.0},
        Profile.DEEP: {"settle_s": 60.0},
    },
    "efa.loopback": {
        Profile.QUICK: {"each_s": 5.0},
        Profile.STANDARD: {"each_s": 10.0},
        Profile.DEEP: {"each_s": 20.0},
    },
    "efa.pingpong": {
        Profile.QUICK: {"devices": 1, "each_s": 10.0, "wait_s": 20.0},
        Profile.STANDARD: {"devices": 4, "each_s": 10.0, "wait_s": 20.0},
        Profile.DEEP: {"devices": 64, "each_s": 10.0, "wait_s": 30.0},
    },
    **dict.fromkeys(
        (
            "collective.all_reduce",
            "collective.all_gather",
        ),
        SWEEP_OF_GLOO,
    ),
    **dict.fromkeys(
        (
            "nccl.all_reduce",
            "nccl.all_gather",
            "nccl.reduce_scatter",
            "nccl.intra_node",
            "nccl.inter_node",
        ),
        SWEEP_OF_NCCL,
    ),
    **dict.fromkeys(
        (
            "nccl.alltoall",
            "nccl.sendrecv",
        ),
        EXCHANGE_OF_NCCL,
    ),
    "nccl.tests": {
        Profile.STANDARD: {"programs": 1, "min_bytes": 1 * MIB, "max_bytes": 1024 * MIB},
        Profile.DEEP: {"programs": 5, "min_bytes": 1024, "max_bytes": 4096 * MIB},
    },
    # A machine without accelerators sweeps again for a second at most, so that its gate takes hardly longer.
    "collective.pairs": {
        Profile.QUICK: {**PAIRS[Profile.QUICK], "repeat_s": 1.0, "max_bytes": MIB},
        Profile.STANDARD: {**PAIRS[Profile.STANDARD], "max_bytes": 16 * MIB},
        Profile.DEEP: {**PAIRS[Profile.DEEP], "max_bytes": 64 * MIB},
    },
    "nccl.pairs": PAIRS,
    "training.smoke": {
        Profile.QUICK: {"steps": 30, "batch": 32},
        Profile.STANDARD: {"steps": 100, "batch": 32},
        Profile.DEEP: {"steps": 500, "batch": 32},
    },
    "training.ddp": {
        Profile.QUICK: {"steps": 20, "batch": 32},
        Profile.STANDARD: {"steps": 100, "batch": 32},
        Profile.DEEP: {"steps": 500, "batch": 32},
    },
}


# What a person may raise for one run (`prelaunch check --option`), and how far. To lower it would be to ask for less evidence than the
# profile has.
HOUR_S = 3600.0
SWEPT: Mapping[str, float] = {"budget_s": HOUR_S, "max_bytes": 65536 * MIB}
# check -> number -> the most, an int where only whole numbers make sense. What is above it was a mistake, which would take all memory
# or days. compute.gemm.size has no number in the profiles: by itself the check takes GEMM_ORDER.
RAISABLE: Mapping[str, Mapping[str, float]] = {
    "compute.gemm": {"seconds": HOUR_S, "size": 32768},
    "compute.sdc": {"seconds": HOUR_S, "seeds": 1000},
    "compute.memory_bandwidth": {"seconds": HOUR_S},
    "compute.overlap": {"rounds": 100_000},
    "training.smoke": {"batch": 65536, "steps": 1_000_000},
    "training.ddp": {"batch": 65536, "steps": 1_000_000},
    "training.step": {"steps": 100_000},
    **dict.fromkeys(
        (
            "collective.all_reduce",
            "collective.all_gather",
            "nccl.all_reduce",
            "nccl.all_gather",
            "nccl.reduce_scatter",
            "nccl.alltoall",
            "nccl.sendrecv",
            "nccl.intra_node",
            "nccl.inter_node",
        ),
        SWEPT,
    ),
}
# The order of the products of compute.gemm.
GEMM_ORDER = {"cpu": 512, "cuda": 8192}


def options(check: str, profile: Profile, policy_options: Mapping[str, float]) -> dict[str, float]:
    """The check's numbers: the profile's, overridden by the policy's."""
    return {**OPTIONS.get(check, {}).get(profile, {}), **policy_options}
