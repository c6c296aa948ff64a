"""Every error of DCGM x every severity x every status, from dcgmi's document to the verdict of the shipped policy."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any

import pytest

from checks.check import CheckError
from checks.model import Cause, Finding, Level, Observation, Outcome, Value
from checks.probes.dcgm import diag
from checks.probes.dcgm.error_table import dcgm_facts
from checks.process.tool import ToolResult
from tests.corpus.case import Case, Sort
from tests.corpus.judging import verdict_of

NUMBERS = (None, *range(134), 999)
STATUSES = ("Pass", "Fail", "Warn", "Skip", "Not Run", "Aborted")
PERSISTENCE_MODE, CONFIG = 29, 5
ABORTED, DISABLED, EMPTY_LIST, NO_FILE, SKIPPED = 47, 48, 82, 96, 117


@dataclass(frozen=True)
class Told:
    """One error of GPU 0, in one of the tests of level 2."""

    test: str
    number: int | None
    severity: int | None
    status: str

    @property
    def document(self) -> str:
        """As DCGM 4 writes it."""
        warning = {
            "warning": "what the error says",
            **({} if self.number is None else {"error_id": self.number}),
            **({} if self.severity is None else {"error_severity": self.severity}),
        }
        tests = [self._test(name) for name in ("software", "memory", "pcie")]
        own = next(test for test in tests if test["name"] == self.test)
        own["results"][0].update(status=self.status, warnings=[warning])
        entities = [{"entity_id": 0, "device_id": "2330"}]
        return json.dumps(
            {
                "DCGM Diagnostic": {"test_categories": [{"category": "any", "tests": tests}]},
                "entity_groups": [{"entity_group": "GPU", "entity_group_id": 1, "entities": entities}],
                "metadata": {"version": "4.2.3", "Driver Version Detected": "570.133.20"},
            }
        )

    def _test(self, name: str) -> dict[str, Any]:
        status = self.status if name == self.test else "Pass"
        rows = [{"entity_group": "GPU", "entity_id": 0, "status": "Pass"}]
        return {"name": name, "results": rows, "test_summary": {"status": status}}

    def metrics(self) -> dict[str, Value] | None:
        """What dcgm.diag measures, None where it raises; dcgmi's exit code is that of its results."""
        code = 226 if self.status == "Fail" else 0
        try:
            found = diag.read(ToolResult(("dcgmi", "diag"), code, self.document, "", 1.0, False))
        except CheckError:
            return None
        return diag.metrics_of(found, 2, found.gpus, 1)


@cache
def judged(test: str, statuses: tuple[str, ...] = STATUSES) -> tuple[tuple[Told, tuple[Finding, ...]], ...]:
    """Each case with its findings: one report with a node per case, judged once."""
    cases = [
        Told(test, *rest, status)
        for status in statuses
        for rest in product(NUMBERS if status == "Fail" else NUMBERS[::4], (None, *range(7)))
    ]
    rows = {f"node-{place}": case.metrics() for place, case in enumerate(cases)}
    by_node: dict[str, list[Finding]] = {name: [] for name in rows}
    for finding in findings_of(rows):
        by_node[finding.subject].append(finding)
    return tuple((case, tuple(found)) for case, found in zip(cases, by_node.values(), strict=True))


def findings_of(rows: Mapping[str, Mapping[str, Value] | None]) -> Iterator[Finding]:
    """What the shipped policy finds of dcgm.diag in a report with these metrics of each node; None: it raised."""
    seen = tuple(
        Observation("dcgm.diag", name, Outcome.ERRORED, 1.0, reason="it raised")
        if metrics is None
        else Observation("dcgm.diag", name, Outcome.MEASURED, 1.0, metrics)
        for name, metrics in rows.items()
    )
    case = Case("dcgm.diag", Sort.FAULTY, "every error", lambda _: seen, "p5.4xlarge")
    yield from (f for f in verdict_of(case, seen).findings if f.check == "dcgm.diag")


@pytest.mark.parametrize(("test", "statuses"), [("software", ("Fail",)), ("memory", STATUSES)])
def test_a_failed_test_never_ends_in_go_unless_table_and_document_call_it_a_setting(
    test: str, statuses: tuple[str, ...]
) -> None:
    """Exit code 0 needs that no finding is a FAIL. Every id x 8 severities."""
    passed = {
        (case.number, case.severity)
        for case, findings in judged(test, statuses)
        if case.status == "Fail" and not any(f.level is Level.FAIL for f in findings)
    }

    allowed = {(PERSISTENCE_MODE, None), (PERSISTENCE_MODE, CONFIG)} if test == "software" else set()
    assert allowed == passed


def test_a_test_that_did_not_run_is_missing_evidence_whatever_dcgm_calls_it() -> None:
    """Neither a warning nor a broken part: by its status, or by an error that says so."""
    said = {ABORTED, DISABLED, EMPTY_LIST, NO_FILE, SKIPPED}
    for case, findings in judged("memory", STATUSES):
        if case.status in ("Skip", "Not Run", "Aborted") or case.number in said:
            assert {(Level.FAIL, Cause.EVIDENCE)} == {(f.level, f.cause) for f in findings}, case


def test_grave_dcgm_error_fails_in_status_pass_and_warn() -> None:
    """ISOLATE, TRIAGE and RESET, in the document or in the table; a warning of the other does not lessen it."""
    facts = dcgm_facts()
    grave = {facts.severities.index(word) for word in ("isolate", "triage", "reset")}
    for case, findings in judged("memory", STATUSES):
        row = facts.errors.get(str(case.number))
        if case.status in ("Pass", "Warn") and (case.severity in grave or (row and row[0] in grave)):
            assert Level.FAIL in {f.level for f in findings}, case


def test_the_sweeps_own_machine_passes_without_an_error() -> None:
    """What the sweep finds is of the error, not of its document."""
    text = Told("memory", None, None, "Pass").document
    clean = text.replace('"warnings": [{"warning": "what the error says"}]', '"warnings": []')
    found = diag.read(ToolResult(("dcgmi", "diag"), 0, clean, "", 1.0, False))

    assert clean != text
    assert not list(findings_of({"node-0": diag.metrics_of(found, 2, found.gpus, 1)}))


def test_every_id_of_the_table_is_in_the_sweep_and_in_one_group_at_most() -> None:
    """A new version's errors have to be swept too."""
    facts = dcgm_facts()
    groups = (*facts.settings, *facts.not_run, *facts.blocking)

    assert {int(number) for number in facts.errors} <= set(NUMBERS)
    assert len(groups) == len(set(groups)) and {str(number) for number in groups} <= set(facts.errors)
