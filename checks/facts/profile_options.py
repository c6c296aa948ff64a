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
DEADLINE_S: Mapping[Profile, float] = {Profile.QUICK: 120.0, Profile.STANDARD: 1500.0, Profile.DEEP: 4260.0}

Numbers = Mapping[Profile, Mapping[str, float]]


def _by_profile(**numbers: tuple[float | None, float, float]) -> Numbers:
    """Each number in profile quick, standard and deep; None where a profile lacks the check."""
    by_profile: dict[Profile, dict[str, float]] = {}
    for index, profile in enumerate((Profile.QUICK, Profile.STANDARD, Profile.DEEP)):
        values = ((name, of_profiles[index]) for name, of_profiles in numbers.items())
        by_profile[profile] = {name: value for name, value in values if value is not None}
    return by_profile


SWEEP_OF_GLOO = _by_profile(
    min_bytes=(1024, 1024, 1024), max_bytes=(8 * MIB, 64 * MIB, 512 * MIB), budget_s=(1.5, 6.0, 30.0)
)
SWEEP_OF_NCCL = _by_profile(
    min_bytes=(1024, 1024, 1024), max_bytes=(LARGE, LARGE, LARGE), budget_s=(1.0, 3.0, 12.0)
)
EXCHANGE_OF_NCCL = _by_profile(
    min_bytes=(1024, 1024, 1024), max_bytes=(COMPARED, 256 * MIB, 1024 * MIB), budget_s=(1.5, 3.0, 12.0)
)
# All pairs of 64 nodes take 63 rounds between them, of 10 to 100 ms each. repeat_s: judgement: what a second sweep of 64 nodes takes
# at the least, and more where there is more time.
PAIRS: Mapping[str, tuple[float, float, float]] = {
    "all_pairs_nodes": (64, 256, 512),
    "matchings": (12, 20, 20),
    "pings": (10, 20, 40),
    "budget_s": (10.0, 30.0, 60.0),
    "repeat_s": (3.0, 8.0, 16.0),
}

GLOO_SWEPT = ("collective.all_reduce", "collective.all_gather")
NCCL_SWEPT = (
    "nccl.all_reduce",
    "nccl.all_gather",
    "nccl.reduce_scatter",
    "nccl.intra_node",
    "nccl.inter_node",
)
NCCL_EXCHANGED = ("nccl.alltoall", "nccl.sendrecv")
OPTIONS: Mapping[str, Numbers] = {
    "cpu.stress": _by_profile(seconds=(None, 5.0, 60.0)),
    "memory.stress": _by_profile(
        seconds=(None, 5.0, 60.0), share=(None, 0.1, 0.4), max_bytes=(None, 1024 * MIB, 65536 * MIB)
    ),
    "disk.io": _by_profile(size_bytes=(None, 256 * MIB, 4096 * MIB), seconds=(None, 2.0, 15.0)),
    # The first one or two seconds run at boost clocks, with rates that no training reaches.
    "compute.gemm": _by_profile(seconds=(0.5, 2.0, 6.0), warmup_s=(0.1, 0.5, 2.0)),
    "compute.sdc": _by_profile(seconds=(0.2, 2.0, 40.0), seeds=(1, 2, 4)),
    # Three buffers per rank: larger than the caches of a rank's share of the CPU, and small compared with the minimum of
    # system.resources.
    "compute.memory_bandwidth": _by_profile(
        seconds=(0.03, 0.5, 5.0), cpu_mib=(16, 32, 48), gpu_mib=(1024, 1024, 2048)
    ),
    "compute.transfer": _by_profile(seconds=(0.05, 0.2, 1.0), buffer_mib=(64, 128, 256)),
    "compute.overlap": _by_profile(rounds=(6, 40, 200)),
    "training.step": _by_profile(steps=(8, 20, 100)),
    "gpu.clocks": _by_profile(seconds=(1.0, 2.0, 10.0)),
    "gpu.thermal": _by_profile(seconds=(1.0, 2.0, 10.0)),
    "gpu.pcie": _by_profile(seconds=(1.0, 2.0, 3.0)),
    "dcgm.diag": _by_profile(level=(1, 2, 3), deadline_s=(60.0, 900.0, 2700.0)),
    "dcgm.health": _by_profile(watch_s=(60.0, 60.0, 60.0)),
    "dcgm.policy": _by_profile(listen_s=(1.0, 2.0, 10.0)),
    "neuron.collectives": _by_profile(operations=(None, 1, 3), deadline_s=(None, 300.0, 1200.0)),
    "network.pairs": _by_profile(
        seconds=(0.05, 0.2, 0.7), max_bytes=(8 * MIB, 64 * MIB, 512 * MIB), pings=(20, 100, 1000)
    ),
    "network.mtu": _by_profile(stall_s=(2.0, 3.0, 5.0)),
    "network.names": _by_profile(lookup_s=(1.0, 5.0, 10.0)),
    "efa.devices": _by_profile(settle_s=(5.0, 30.0, 60.0)),
    "efa.loopback": _by_profile(each_s=(5.0, 10.0, 20.0)),
    "efa.pingpong": _by_profile(devices=(1, 4, 64), each_s=(10.0, 10.0, 10.0), wait_s=(20.0, 20.0, 30.0)),
    **dict.fromkeys(GLOO_SWEPT, SWEEP_OF_GLOO),
    **dict.fromkeys(NCCL_SWEPT, SWEEP_OF_NCCL),
    **dict.fromkeys(NCCL_EXCHANGED, EXCHANGE_OF_NCCL),
    "nccl.tests": _by_profile(
        programs=(None, 1, 5), min_bytes=(None, 1 * MIB, 1024), max_bytes=(None, 1024 * MIB, 4096 * MIB)
    ),
    # A machine without accelerators sweeps again for a second at most, so that its gate takes hardly longer.
    "collective.pairs": _by_profile(
        **{**PAIRS, "repeat_s": (1.0, 8.0, 16.0), "max_bytes": (MIB, 16 * MIB, 64 * MIB)}
    ),
    "nccl.pairs": _by_profile(**PAIRS),
    "training.smoke": _by_profile(steps=(30, 100, 500), batch=(32, 32, 32)),
    "training.ddp": _by_profile(steps=(20, 100, 500), batch=(32, 32, 32)),
}
# Every number that a check reads: those of the profiles, and those that have one value for all of them, in the check itself.
NAMES = {name for table in OPTIONS.values() for numbers in table.values() for name in numbers}
NAMES |= {"confirms", "repeats", "round_s", "size", "window_s"}


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
    **dict.fromkeys((*GLOO_SWEPT, *NCCL_SWEPT, *NCCL_EXCHANGED), SWEPT),
}
# The order of the products of compute.gemm.
GEMM_ORDER = {"cpu": 512, "cuda": 8192}


def options(check: str, profile: Profile, policy_options: Mapping[str, float]) -> dict[str, float]:
    """The check's numbers: the profile's, overridden by the policy's."""
    return {**OPTIONS.get(check, {}).get(profile, {}), **policy_options}
