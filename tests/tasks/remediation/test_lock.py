"""The lock of a cluster's remediation."""

from __future__ import annotations

import re

from tasks.gate_file.model import NAME_FORM
from tasks.remedy import lock_name
from tasks.store.base import KEY
from tasks.store.layout import lease_key


def test_the_lock_of_a_remediation_is_that_of_no_other_cluster() -> None:
    """No gate of a cluster has it, whatever its name, and no remediation of another cluster."""
    names = [lock_name(cluster) for cluster in ("p5", "a" * 62 + "b", "a" * 62 + "c")]
    assert 3 == len(set(names))
    assert not any(re.fullmatch(NAME_FORM, name) for name in names)
    assert all(KEY.fullmatch(lease_key(name)) for name in names)
