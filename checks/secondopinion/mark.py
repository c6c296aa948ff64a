"""How the other tool's report is known, without reading it (pure; imports nothing, so that every command can ask)."""

from __future__ import annotations

from collections.abc import Mapping

TOOL = "sagemaker-training-jobs-cluster-health-check"
TABLES = ("cluster_info", "cluster_summary", "nodes")


def recognised(value: object) -> bool:
    """Whether the value has the tool's three tables."""
    return isinstance(value, Mapping) and all(isinstance(value.get(key), Mapping) for key in TABLES)
