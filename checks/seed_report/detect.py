"""Recognises the other tool's report without reading it. Pure; imports nothing, so that every command can use it."""

from __future__ import annotations

from collections.abc import Mapping

TOOL = "sagemaker-training-jobs-cluster-health-check"
OURS = "prelaunch_report"  # checks/documents/report.py writes it, which this module must not import
TABLES = ("cluster_info", "cluster_summary", "nodes")


def recognised(value: object) -> bool:
    """Whether the value has the tool's three tables, and is not a report of Prelaunch with these tables added."""
    if not isinstance(value, Mapping) or OURS in value:
        return False
    return all(isinstance(value.get(key), Mapping) for key in TABLES)
