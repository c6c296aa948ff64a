"""The exporters on a monitored node, by the names of their scrape jobs, and the ports on which they usually listen.

Ports: Prometheus' list of default port allocations, and what Amazon's installers for HyperPod use (node exporter 9100, EFA 9109,
DCGM 9400; older ones EFA 9100).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

# A watch that has ended no round for so many of its intervals is stale. It ends a round within 45 of its 60 s, so that the last one is
# never older than 1.75 of them. The rules PrelaunchWatchStale and PrelaunchTextfileStale have the same number.
STALE_INTERVALS = 2.25


class Job(StrEnum):
    """The name of a scrape job; rules and dashboards select by it."""

    WATCH = "prelaunch-watch"
    NODE = "node"
    DCGM = "dcgm"
    EFA = "efa"


PORTS: Mapping[Job, int] = {Job.WATCH: 9402, Job.NODE: 9100, Job.DCGM: 9400, Job.EFA: 9109}
