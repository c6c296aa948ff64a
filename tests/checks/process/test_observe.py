"""Whatever a check does, it becomes one observation."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from checks.check import Check, CheckError, Context, Measurement, Skipped, check
from checks.model import Declared, Outcome, Profile, Scope, Skip
from checks.process.observe import probe
from checks.process.tool import ToolMissing
from checks.roster import Roster
from tests.exchanges import access

CONTEXT = Context(
    access("n"), "c", Declared("cpu", 1, 0, 1), Profile.QUICK, "n", 0, Roster((), 1, ""), Path(), 1.0
)


@check("a.b", Scope.NODE, timeout_s=1, metrics=("x",))
def healthy(context: Context) -> Measurement:
    """Measures."""
    return Measurement({"x": 1.0})


def doing(result: object) -> Check:
    """The check, returning or raising this."""

    def body(context: Context) -> Measurement:
        if isinstance(result, BaseException):
            raise result
        return result  # type: ignore[return-value]

    return dataclasses.replace(healthy, body=body)


def test_a_measurement_is_measured() -> None:
    """The healthy case, so that the others mean something."""
    row = probe(healthy, CONTEXT, "n")

    assert (Outcome.MEASURED, {"x": 1.0}) == (row.outcome, row.metrics)


@pytest.mark.parametrize(
    ("result", "said"),
    [
        (CheckError("no such file"), "no such file"),
        (ValueError("bad"), "ValueError: bad"),
        (SystemExit(0), "SystemExit"),
        (MemoryError(), "MemoryError"),
        (None, "NoneType"),
        (True, "bool"),
        (Measurement({}), "did not return x"),
        (Measurement({"x": float("nan")}), "nan in x"),
        (Measurement({"x": float("inf")}), "inf in x"),
        (Measurement({"x": (1.0, float("nan"))}), "nan in x"),
        (Measurement({"x": ()}), "empty list in x"),
        (Measurement({"x": (True, 1.0)}), "mixed kinds in x"),
        (Measurement({"x": ("a", None)}), "mixed kinds in x"),  # type: ignore[dict-item]
        (Measurement({"x": 10**400}), "out of range in x"),
        (Measurement({"x": {}}), "dict in x"),  # type: ignore[dict-item]
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
    row = probe(doing(Measurement({"x": 1}, "e" * 3_000_000)), CONTEXT, "n")

    assert 1 << 20 == len(row.evidence)
