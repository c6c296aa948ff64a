"""Runs the body of one check in this process, and makes an Observation of any result."""

from __future__ import annotations

import math
import time
import traceback

from checks.check import Check, CheckError, Context, Measurement, NotInstalled, Skipped, fault_of
from checks.documents.report import clip
from checks.model import ErrorKind, Observation, Outcome, Skip, Value
from checks.value_types import listed

RAW_CHARACTERS = 1 << 20


def probe(check: Check, context: Context, subject: str) -> Observation:
    """The check's observation of the subject. Never raises an exception of the check; KeyboardInterrupt passes."""
    begun = time.monotonic()
    try:
        result: object = check.body(context)
    except NotInstalled as error:
        result = Skipped(Skip.TOOL_MISSING, str(error))
    except (Exception, SystemExit) as error:  # noqa: BLE001 - one check's crash costs one observation
        category, reason = ErrorKind.RAISED, f"the check raised {type(error).__name__}: {error}"
        if isinstance(error, CheckError):
            category, reason = ErrorKind.OTHER, str(error)
        return errored(
            check.name, subject, reason, time.monotonic() - begun, traceback.format_exc(), category
        )
    return _observed(check, subject, result, time.monotonic() - begun)


def errored(
    check: str,
    subject: str,
    reason: str,
    seconds: float,
    evidence: str = "",
    error_kind: ErrorKind = ErrorKind.OTHER,
) -> Observation:
    """The observation of a check that could not measure."""
    text, evidence = clip(reason)[0][:1000] or "no reason given", bounded(evidence)
    return Observation(
        check, subject, Outcome.ERRORED, max(seconds, 0.0), {}, None, text, evidence, error_kind=error_kind
    )


def bounded(text: str) -> str:
    """Evidence as text that can be written, at most 1 MiB of characters; checks.runner.journal cuts it to 4 KiB."""
    return text[:RAW_CHARACTERS].encode("utf-8", "replace").decode("utf-8")


def _observed(check: Check, subject: str, result: object, seconds: float) -> Observation:
    if isinstance(result, Skipped):
        reason = clip(result.detail)[0][:1000]
        return Observation(check.name, subject, Outcome.SKIPPED, seconds, {}, result.skip, reason)
    if not isinstance(result, Measurement):
        message = f"the check returned a {type(result).__name__} instead of a Measurement"
        return errored(check.name, subject, message, seconds)
    fault = fault_of(check, result.metrics)
    if fault:
        return errored(check.name, subject, fault, seconds, f"{listed(result.metrics)}\n{result.evidence}")
    metrics = {name: _clean_value(value) for name, value in result.metrics.items()}
    evidence = bounded(result.evidence)
    return Observation(check.name, subject, Outcome.MEASURED, seconds, metrics, None, "", evidence)


def _clean_value(value: Value) -> Value:
    if isinstance(value, str):
        return clip(value)[0]
    if isinstance(value, tuple):
        return tuple(clip(item)[0] if isinstance(item, str) else item for item in value)  # type: ignore[return-value]
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("fault_of lets no such number pass")
    return value
