"""What a policy expects of a collective, its profile measures: a comparison that no profile could make is no rule."""

from __future__ import annotations

from dataclasses import replace

import pytest

from checks.facts.profile_options import options
from checks.judge.rules.apply import apply
from checks.judge.rules.expected_questions import LEAST_BYTES
from checks.model import Cause, Level, Observation, Outcome, Profile, Value, rank_subject
from checks.policy import Expect
from checks.probes.collectives.sweep import Sweep, _fits, sweep_sizes
from tasks.gate_file.references import default_policy

POLICY = default_policy("p5.48xlarge")[1]
HELD = [
    (name, profile)
    for name, line in POLICY.checks.items()
    for profile in line.profiles
    if any(rule.expect is Expect.COLLECTIVE for rule in line.rules)
]
MIB, GIB = 1 << 20, 1 << 30


@pytest.mark.parametrize(("name", "profile"), HELD, ids=lambda of: str(of))
def test_every_profile_measures_a_size_that_is_known(name: str, profile: Profile) -> None:
    """1 GiB, where public runs are; what no public run is known of, from where rates are compared, for odd numbers of ranks too."""
    numbers = options(name, profile, {})
    on_floor = all(
        rule.accept_floor for rule in POLICY.checks[name].rules if rule.expect is Expect.COLLECTIVE
    )
    for shares in (16, 24, 56) if on_floor else (16,):
        sizes = sweep_sizes(int(numbers["min_bytes"]), int(numbers["max_bytes"]), shares)

        assert (LEAST_BYTES if on_floor else GIB) <= max(size for size in sizes if size <= GIB)


@pytest.mark.parametrize(
    ("gbps", "largest"), [(400.0, GIB), (30.0, GIB), (6.0, GIB), (1.2, 256 * MIB), (0.12, 64 * MIB)]
)
def test_a_size_is_left_out_only_where_the_network_is_too_slow_for_it(gbps: float, largest: int) -> None:
    """In profile quick, by its budget: EFA, InfiniBand and PCIe take 1 GiB; 10 Gbit/s of TCP does not."""
    numbers = options("nccl.all_reduce", Profile.QUICK, {})
    sweep, spent_s = Sweep(), 0.0
    for size in sweep_sizes(int(numbers["min_bytes"]), int(numbers["max_bytes"]), 1):
        if sweep.sizes and not _fits(sweep, size, spent_s, numbers["budget_s"]):
            break
        seconds = 40e-6 + size / gbps / 1e9
        sweep.sizes.append(size)
        sweep.seconds.append(seconds)
        spent_s += 9 * seconds

    assert largest == sweep.sizes[-1]
    assert spent_s < 10, "far below the check's deadline of 120 s"


def test_sizes_that_were_left_out_are_said_once() -> None:
    """Not by each of a thousand ranks."""
    line = POLICY.checks["nccl.all_reduce"]
    metrics: dict[str, Value] = {"sizes_left_out": 2, "wrong_elements": 0, "busbw_peak_gbps": 1.0}
    metrics |= {"sizes_bytes": (GIB,), "busbw_gbps": (1.0,)}
    row = Observation("nccl.all_reduce", "", Outcome.MEASURED, 0.0, metrics)
    rows = [replace(row, subject=rank_subject("node-0", rank)) for rank in range(8)]
    found = {one for one in apply("nccl.all_reduce", line, rows, 8) if one.metric == "sizes_left_out"}

    assert [("cluster", Level.WARN, Cause.EVIDENCE)] == [(one.subject, one.level, one.cause) for one in found]
