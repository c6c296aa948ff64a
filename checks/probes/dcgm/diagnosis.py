"""The result of `dcgmi diag` in any version, and what each problem means. Pure.

Output that is truncated, garbled, of an unknown version, or a refusal of DCGM raises CheckError.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from checks.check import CheckError
from checks.facts.provenance import table_bytes
from checks.probes.dcgm.error_table import dcgm_facts


class DcgmStatus(str, Enum):
    """The statuses of DCGM, in any case. Any other word is UNKNOWN, which does not pass."""

    PASS = "pass"  # noqa: S105 - a status
    FAIL = "fail"
    WARN = "warn"
    SKIP = "skip"
    NOT_RUN = "not run"
    UNKNOWN = "unknown"


class Meaning(str, Enum):
    """What a problem says about the node. The value is the name of the metric."""

    HARDWARE = "hardware_failures"
    SOFTWARE = "software_failures"
    INTERNAL = "test_errors"
    HINT = "hardware_warnings"
    CONFIGURATION = "config_warnings"


@dataclass(frozen=True)
class Problem:
    """One message, with DCGM's error id, severity and category if the version prints them.

    `severity` is a name in checks/facts/dcgm.json, "unknown" for a number without a name, "" if none was printed.
    """

    message: str
    error_id: int | None = None
    severity: str = ""
    category: int | None = None


@dataclass(frozen=True)
class Result:
    """One test on one GPU; `gpu` is None if it is about the node as a whole. `line` counts from 1; 0 means unknown."""

    test: str
    gpu: int | None
    status: DcgmStatus
    printed: str
    problems: tuple[Problem, ...] = ()
    line: int = 0


@dataclass(frozen=True)
class Diagnosis:
    """The whole output. `gpus` are those that it names; `broken` says where it is truncated, "" if it is complete.

    `lines` are the numbers of the table's lines; JSON has none.
    """

    version: str
    driver: str
    form: str
    gpus: tuple[int, ...]
    results: tuple[Result, ...]
    broken: str = ""
    lines: frozenset[int] = frozenset()

    @property
    def major(self) -> int:
        """3 or 4."""
        return major_of(self.version)


# Text tables print no error id, so that the messages are matched with those of dcgm_errors.h; the first that fits counts.
_FORMS: Mapping[str, str] = json.loads(table_bytes(Path(__file__).with_name("messages.json")))
# DCGM 3.3 renumbered the severities, so that the numbers of earlier versions have another meaning.
OLDEST = (3, 3)
_HARDWARE_CATEGORIES = range(9, 16)
# For these, ISOLATE or RESET also means a faulty part: performance, Xids, and NVIDIA's own field diagnostic (EUD).
_ISOLATING_CATEGORIES = (1, 2, 5, 7)
_INTERNAL_CATEGORY = 16
# From harmless to serious. "unknown" is above MONITOR, because DCGM does not say that the problem may wait.
_GRAVITY = ("", "none", "config", "monitor", "unknown", "triage", "reset", "isolate")


def status_of(printed: str) -> DcgmStatus:
    """The status for a word; "Warning" is what text tables of some versions print for Warn."""
    plain = " ".join(printed.lower().replace("_", " ").split())
    if plain == "warning":
        return DcgmStatus.WARN
    return next((status for status in DcgmStatus if status.value == plain), DcgmStatus.UNKNOWN)


def major_of(version: str) -> int:
    """The first number of "3.3.5". Raises CheckError for a version that this program does not know."""
    match = re.fullmatch(r"(\d+)\.(\d+)(?:\.\d+)*(?:[-+~].*)?", version.strip())
    number = (int(match[1]), int(match[2])) if match else (0, 0)
    newest = dcgm_facts().newest_major
    if not OLDEST <= number < (newest + 1, 0):
        raise CheckError(
            f"DCGM version {version!r} is not one of 3.3 to {newest}, so the meaning of its output is unknown"
        )
    return number[0]


def severity_of(number: int) -> str:
    """The name of a severity."""
    names = dcgm_facts().severities
    return names[number] if 0 <= number < len(names) else "unknown"


def completed(problem: Problem) -> Problem:
    """The problem with what the table of errors says about it: the more serious of both severities, and the table's category.

    The error is found by its id, or by its message if it has neither id nor severity.
    """
    number, facts = problem.error_id, dcgm_facts()
    if number is None and not problem.severity:
        forms = (int(id_) for id_, form in _FORMS.items() if re.search(form, problem.message, re.IGNORECASE))
        number = next(forms, None)
    entry = facts.errors.get(str(number), ()) if number else ()
    if len(entry) != 2:
        return problem
    severity = max(problem.severity, facts.severities[entry[0]], key=_GRAVITY.index)
    return Problem(problem.message, number, severity, entry[1])


def meaning_of(problem: Problem, result: Result) -> Meaning:
    """What the problem says about the node. What a failed test reports is never only a warning, except for a setting."""
    complete = completed(problem)
    facts = dcgm_facts()
    if complete.error_id in facts.not_run:
        return Meaning.INTERNAL
    if complete.error_id in facts.blocking:
        return Meaning.SOFTWARE
    if complete.category == _INTERNAL_CATEGORY:
        return Meaning.INTERNAL
    if result.status is DcgmStatus.FAIL:
        # A test that failed because of a setting leaves its GPU usable; for any other reason the GPU did not pass.
        if _is_setting(problem, complete) and dcgm_facts().is_deployment(result.test):
            return Meaning.CONFIGURATION
        if complete.severity == "config":
            return Meaning.SOFTWARE
        if complete.severity == "monitor":
            return Meaning.HARDWARE if complete.category in _HARDWARE_CATEGORIES else Meaning.SOFTWARE
        return _of_severity(complete, result.test)
    if not complete.severity:
        return Meaning.HINT  # a remark for which DCGM itself did not fail the GPU
    if complete.severity == "config":
        return Meaning.CONFIGURATION
    if complete.severity == "monitor":
        return Meaning.HINT if complete.category in _HARDWARE_CATEGORIES else Meaning.CONFIGURATION
    return _of_severity(complete, result.test)


def _is_setting(printed: Problem, complete: Problem) -> bool:
    """Whether the table and the document both call the error a setting. A document without a severity does not contradict."""
    agrees = printed.severity in ("", "config") and printed.category in (None, complete.category)
    return complete.error_id in dcgm_facts().settings and complete.severity == "config" and agrees


def _of_severity(problem: Problem, test: str) -> Meaning:
    if problem.severity in ("isolate", "reset", "triage"):
        is_hardware = problem.category in _HARDWARE_CATEGORIES
        isolating = problem.severity != "triage" and problem.category in _ISOLATING_CATEGORIES
        return Meaning.HARDWARE if is_hardware or isolating else Meaning.SOFTWARE
    return unexplained(test)


# Tests at DCGM's level of deployment that look at the GPU's memory and InfoROM all the same.
_OF_A_PART = ("Page Retirement/Row Remap", "Inforom")


def unexplained(test: str) -> Meaning:
    """The meaning of a failure without a usable reason: a test of hardware failed, or one of software."""
    return (
        Meaning.SOFTWARE if dcgm_facts().is_deployment(test) and test not in _OF_A_PART else Meaning.HARDWARE
    )


def problems_of(result: Result) -> Iterator[tuple[Meaning, str]]:
    """Each problem of a result of a test that ran, with its meaning. A Pass with a recorded error is not a Pass."""
    if result.status in (DcgmStatus.SKIP, DcgmStatus.NOT_RUN, DcgmStatus.UNKNOWN):
        return
    for problem in result.problems:
        number = completed(problem).error_id
        text = f"{result.test}: {'' if number is None else f'error {number}: '}{problem.message}"
        yield meaning_of(problem, result), text
    if not result.problems and result.status is DcgmStatus.FAIL:
        yield unexplained(result.test), f"{result.test}: {result.printed}, no reason given"
    if not result.problems and result.status is DcgmStatus.WARN:
        yield Meaning.HINT, f"{result.test}: {result.printed}, no reason given"
