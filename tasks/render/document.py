"""A verdict as a JSON document: the same on stdout and in the store."""

from __future__ import annotations

from checks.model import Count, Verdict
from checks.report import plain


def verdict_json(verdict: Verdict) -> dict[str, object]:
    """The verdict as the command line prints it; no key is ever absent."""
    c = verdict.coverage
    return {
        "level": verdict.level.value,
        "answer": verdict.answer.value,
        "coverage": {
            "nodes": _count(c.nodes, "declared"),
            "gpus": _count(c.gpus, "declared"),
            "ranks": _count(c.ranks, "declared"),
            "checks": _count(c.checks, "required"),
        },
        "findings": plain(verdict.findings),
        "condemned": list(verdict.condemned),
        "suspect_policy": verdict.suspect_policy,
        "digests": plain(verdict.digests),
    }


def _count(count: Count, of: str) -> dict[str, int]:
    return {"observed": count.observed, of: count.required}
