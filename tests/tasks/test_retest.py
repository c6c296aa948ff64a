"""The gate of a re-test: how thorough it is, and how long it may take."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from checks.facts.profile_options import DEADLINE_S
from checks.model import Profile
from tasks.gate_file.model import Checks
from tasks.machines.base import Retest
from tasks.retest import retest_context
from tests.flows.gates import write_gate
from tests.tasks.gate_file.gate_files import opened
from tests.tasks.remediation.test_steps import a_case

LONGER = Checks(profile=Profile.STANDARD, max_runtime_minutes=120.0, stage_s=7000.0)


@pytest.mark.parametrize(
    ("file", "condemned", "profile"),
    [
        (Checks(), Profile.DEEP, Profile.DEEP),
        (Checks(deadline_s=60.0, stage_s=30.0), Profile.STANDARD, Profile.STANDARD),
        (Checks(profile=Profile.DEEP), Profile.QUICK, Profile.DEEP),
        (LONGER, Profile.QUICK, Profile.STANDARD),
    ],
)
def test_a_re_test_has_the_time_that_its_profile_needs(
    tmp_path: Path, file: Checks, condemned: Profile, profile: Profile
) -> None:
    """Also where a gate of a deeper profile, or with other limits, condemned the node; never less than the gate file allows."""
    context = opened(write_gate(tmp_path, fake=False))
    context = replace(context, gate=context.gate.model_copy(update={"checks": file}))
    retest = retest_context(context, replace(a_case(), profile=condemned), Retest(("node-0",)))
    checks = retest.gate.checks

    assert (profile, "test") == (checks.profile, retest.nodes_cluster)
    assert DEADLINE_S[profile] <= checks.whole_deadline_s <= checks.longest_deadline_s
    assert checks.max_runtime_minutes >= file.max_runtime_minutes
    assert checks.stage_s >= max(file.stage_s, DEADLINE_S[profile] / 2)
