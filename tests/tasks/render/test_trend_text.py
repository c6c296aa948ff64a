"""What is missing for a trend: more reports, or nodes that a small cluster will never have."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tasks.render.trend_text import _too_few


@pytest.mark.parametrize(("nodes", "helps"), [(2, False), (4, False), (5, True), (64, True)])
def test_a_cluster_of_few_nodes_is_told_that_more_reports_do_not_help(nodes: int, helps: bool) -> None:
    """A machine is compared with the others of its report."""
    machines = tuple(
        SimpleNamespace(name=f"node-{number}", reports=20, told=False) for number in range(nodes)
    )
    trend: Any = SimpleNamespace(machines=machines)

    (said,) = _too_few(trend)

    assert helps is ("a trend needs 11 reports" in said)
    assert helps is not (f"here are {nodes}: more reports do not change that" in said)
