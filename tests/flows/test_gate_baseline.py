"""The regression gate: what is worse than this cluster was before is a warning, and a policy may refuse it."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest

from checks.documents.report import load
from checks.facts.builtin import builtin
from checks.judge.baseline.bands import Band, Baseline, digest_of, dump
from checks.judge.baseline.learn import ReportCase, learn
from checks.judge.verdict import decide
from tasks.gate.context import open_gate_context
from tasks.gate.outcome import GateOutcome
from tasks.gate_file.read import GateFileError
from tasks.gate_file.request import Advanced, GateRequest
from tests.flows.driving import gate_it, request_of, run
from tests.flows.fake_engine import Engine
from tests.flows.gates import write_gate
from tests.flows.pools import fake_gate


def doctored(gate_file: Path, outcome: GateOutcome, factor: float) -> Baseline:
    """What the gate measured, three times over, as if the cluster had been so many times as fast."""
    context = open_gate_context(GateRequest(gate_file=str(gate_file)))
    file = gate_file.parent / "store" / "gates" / outcome.gate_id / "health_check_metrics.json"
    report = load(file.read_bytes())
    reports = [replace(report, gate_id=f"before-{index}") for index in range(4)]
    made = learn([ReportCase(one, decide(one, context.policy, builtin()), context.policy) for one in reports])
    groups = tuple(
        replace(group, bands=tuple(faster(b, factor) for b in group.bands)) for group in made.groups
    )
    return replace(made, groups=groups)


def faster(band: Band, factor: float) -> Band:
    """A band of so many times these values."""
    return replace(band, median=band.median * factor, low=band.low * factor, high=band.high * factor)


@pytest.mark.usefixtures("without_prefect")
def test_a_gate_below_its_baseline_warns_and_may_refuse(tmp_path: Path, engine: Engine) -> None:
    """The same nodes: fit by themselves, refused beside a faster baseline.

    An older PASS does not stand for it: it was found without the baseline.
    """
    path = fake_gate(tmp_path, on_warn="refuse", policy="reuse_pass_minutes = 60")
    _, first = gate_it(path)
    baseline, file = doctored(path, first, 2.0), tmp_path / "times.json"
    file.write_bytes(dump(baseline))
    request = GateRequest(gate_file=str(path), advanced=Advanced(baseline=str(file), ask_minutes=0))
    _, outcome = asyncio.run(run(request))

    assert [0, 1] == [first.code, outcome.code]
    assert outcome.judged is not None and outcome.judged.verdict.digests.baseline == digest_of(baseline)
    assert any("below the learned band" in finding.message for finding in outcome.judged.verdict.findings)
    assert 2 == sum("-check-" in job for job in engine.jobs)
    kept = tmp_path / "store" / "gates" / outcome.gate_id / "verdict.json"
    assert json.loads(kept.read_bytes())["digests"]["baseline"]


def test_a_gate_file_may_name_its_baseline(tmp_path: Path) -> None:
    """Relative to its own folder; with it a PASS means something else than without. The request's goes before it: whoever starts the
    gate knows which it shall be.
    """
    empty = learn([])
    newer = replace(empty, measured_at="2026-11-22T00:00:00Z")
    for name, baseline in (("b.json", empty), ("new.json", newer)):
        (tmp_path / name).write_bytes(dump(baseline))
    plain = open_gate_context(GateRequest(gate_file=str(write_gate(tmp_path))))
    file = str(write_gate(tmp_path, policy='baseline = "b.json"'))
    context = open_gate_context(GateRequest(gate_file=file))
    advanced = Advanced(baseline=str(tmp_path / "new.json"))
    asked = open_gate_context(GateRequest(gate_file=file, advanced=advanced))

    assert (None, empty, newer) == (plain.baseline, context.baseline, asked.baseline)
    assert plain.fingerprint != context.fingerprint


@pytest.mark.parametrize("asked", ["", "missing.json"])
def test_a_baseline_that_cannot_be_read_stops_the_gate(tmp_path: Path, asked: str) -> None:
    """Before anything starts, by name: no gate runs without the baseline that it was to be held to."""
    path = write_gate(tmp_path, policy='baseline = "none.json"')
    advanced = Advanced(baseline=str(tmp_path / asked) if asked else "")

    with pytest.raises(GateFileError) as error:
        open_gate_context(GateRequest(gate_file=str(path), advanced=advanced))

    assert (asked or "none.json") in str(error.value) and "cannot be read" in str(error.value)


def test_a_baseline_is_not_set_from_a_command_line_s_override(tmp_path: Path) -> None:
    """It is a path: --baseline is how to name one."""
    with pytest.raises(GateFileError, match="--baseline"):
        open_gate_context(request_of(write_gate(tmp_path), "policy.baseline=x.json"))
