"""Whatever a check does, it becomes one observation."""

from __future__ import annotations

import dataclasses

import pytest

from checks.check import Check, CheckError, Context, Measurement, Skipped
from checks.model import Outcome, Skip
from checks.process.observe import probe
from checks.process.tool import ToolMissing
from tests.checks.worlds import context
from tests.sample_reports import toy_check

CONTEXT = context()


def doing(result: object) -> Check:
    """The check, returning or raising this."""

    def body(context: Context) -> Measurement:
        if isinstance(result, BaseException):
            raise result
        return result  # type: ignore[return-value]

    return dataclasses.replace(toy_check(), body=body)


def test_a_measurement_is_measured() -> None:
    """The healthy case, so that the others mean something."""
    row = probe(toy_check(), CONTEXT, "n")

    assert (Outcome.MEASURED, {"value": 1}) == (row.outcome, row.metrics)


@pytest.mark.parametrize(
    ("result", "said"),
    [
        (CheckError("no such file"), "no such file"),
        (ValueError("bad"), "ValueError: bad"),
        (SystemExit(0), "SystemExit"),
        (MemoryError(), "MemoryError"),
        (None, "NoneType"),
        (True, "bool"),
        (Measurement({}), "did not return value"),
        (Measurement({"value": float("nan")}), "nan in value"),
        (Measurement({"value": float("inf")}), "inf in value"),
        (Measurement({"value": (1.0, float("nan"))}), "nan in value"),
        (Measurement({"value": ()}), "empty list in value"),
        (Measurement({"value": (True, 1.0)}), "mixed kinds in value"),
        (Measurement({"value": ("a", None)}), "mixed kinds in value"),  # type: ignore[dict-item]
        (Measurement({"value": 10**400}), "out of range in value"),
        (Measurement({"value": {}}), "dict in value"),  # type: ignore[dict-item]
    ],
)
def test_probe_result_that_is_no_measurement_is_errored(result: object, said: str) -> None:
    """No return value, however odd, is taken for a measurement."""
    row = probe(doing(result), CONTEXT, "n")

    assert Outcome.ERRORED is row.outcome
    assert said in row.reason


@pytest.mark.parametrize(
    ("result", "skip"),
    [(Skipped(Skip.NOT_PERMITTED, "why"), Skip.NOT_PERMITTED), (ToolMissing("why"), Skip.TOOL_MISSING)],
)
def test_a_skip_keeps_its_reason(result: object, skip: Skip) -> None:
    """The policy decides whether it is accepted."""
    row = probe(doing(result), CONTEXT, "n")

    assert (Outcome.SKIPPED, skip, "why") == (row.outcome, row.skip, row.reason)


def test_evidence_is_bounded() -> None:
    """A MiB is the limit here; the journal cuts it to 4 KiB and keeps the whole beside the report."""
    row = probe(doing(Measurement({"value": 1}, "e" * 3_000_000)), CONTEXT, "n")

    assert 1 << 20 == len(row.evidence)
