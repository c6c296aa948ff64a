"""A cloud's own answers to Xids, over reports that exist already."""

from __future__ import annotations

from dataclasses import replace

import pytest

from checks.documents.report import plain
from checks.facts.builtin import builtin
from checks.judge import xid_overlay
from checks.judge.rules import apply
from checks.judge.rules.values import RuleContext
from checks.judge.xid_overlay import answer
from checks.model import Action, Cause, Finding, Level, Observation, Outcome, Value
from checks.policy import Overlay, load
from checks.probes.kernel.xid import measured
from checks.probes.kernel.xid_catalogue import table
from checks.probes.kernel.xid_rows import ARRAYS, LISTED, incidents_of
from checks.value_types import DecodeError
from tasks.gate_file.references import read_policy
from tests.checks.probes.kernel.test_xid_scores import ROOT, policy_line
from tests.checks.probes.kernel.world import log_of

GPU = "NVRM: Xid (PCI:0000:b9:00): "
LINK = f"{GPU}74, NVLink: fatal error detected on link 6(0x10000, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0)"
RESET_ASKED = f"{GPU}154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)"
CLOUDS = [one for one in Overlay if one is not Overlay.NVIDIA]


def row(*said: str) -> Observation:
    """What a node saw that said these things."""
    text = "".join(f"[ {8000 + index}.0] {line}\n" for index, line in enumerate(said))
    seen = measured(log_of(f"[ 1.0] all well\n{text}"), ())
    return Observation("kernel.xid", "node-0", Outcome.MEASURED, 0.1, seen.metrics, evidence=seen.evidence)


def changed(seen: Observation, **metrics: Value | None) -> Observation:
    """The same row with other metrics; None leaves one out."""
    kept = {name: value for name, value in {**seen.metrics, **metrics}.items() if value is not None}
    return replace(seen, metrics=kept)


def judged(seen: Observation, by: Overlay, instance_type: str = "p5.48xlarge") -> list[Finding]:
    """What the shipped policy says of it under an overlay."""
    known = RuleContext(builtin().instances[instance_type])
    return list(apply.apply("kernel.xid", replace(policy_line(), overlay=by), [seen], 1, known))


def gravest(found: list[Finding]) -> tuple[Level, Action]:
    """Its level, and what it calls for."""
    worst = max(found, key=lambda finding: finding.level.rank)
    return worst.level, worst.action


@pytest.mark.parametrize(
    ("said", "by", "expected"),
    [
        (f"{GPU}73, x", Overlay.NVIDIA, (Level.WARN, Action.CONTACT)),
        (f"{GPU}73, x", Overlay.HYPERPOD, (Level.FAIL, Action.REBOOT)),
        (LINK, Overlay.NVIDIA, (Level.FAIL, Action.INSPECT)),
        (LINK, Overlay.HYPERPOD, (Level.FAIL, Action.REPLACE)),
        (LINK, Overlay.EKS, (Level.FAIL, Action.REPLACE)),
        (f"{GPU}63, x", Overlay.EKS, (Level.FAIL, Action.REPLACE)),
        (f"{GPU}142, x", Overlay.EKS, (Level.FAIL, Action.REPLACE)),
        (f"{GPU}57, x", Overlay.AZURE, (Level.FAIL, Action.CONTACT)),
        (f"{GPU}79, x", Overlay.HYPERPOD, (Level.FAIL, Action.REBOOT)),
    ],
)
def test_a_cloud_answers_for_itself(said: str, by: Overlay, expected: tuple[Level, Action]) -> None:
    """HyperPod restarts for 73 and replaces for 74; what a cloud does not speak of is NVIDIA's to say."""
    assert gravest(judged(row(said), by)) == expected


@pytest.mark.parametrize("by", CLOUDS)
@pytest.mark.parametrize(
    "said", [LINK, RESET_ASKED, f"{GPU}171, x", f"{GPU}151", f"{GPU}109, x", "NVRM: Xid"]
)
def test_no_cloud_makes_a_fail_less(said: str, by: Overlay) -> None:
    """A cloud that would repair nothing has not said that the machine is well."""
    assert gravest(judged(row(said), by))[0] is Level.FAIL


def test_a_milder_answer_is_told_as_it_is() -> None:
    """Side by side the cloud's own words stand, though the judgement is NVIDIA's."""
    told = incidents_of(row(RESET_ASKED).metrics)
    assert told

    answers = {by: answer(told[0], by).level for by in (Overlay.EKS, Overlay.NVIDIA)}
    assert {Overlay.EKS: Level.WARN, Overlay.NVIDIA: Level.FAIL} == answers
    assert not answer(told[0], Overlay.HYPERPOD).speaks


def test_a_reset_is_no_replacement() -> None:
    """What was handled for NVIDIA may not be for a cloud that calls for another machine."""
    reset = "GPU reset executed: GPU-7d1be7a0-1111-4222-8333-944455566677, success: true"
    named = "NVRM: GPU at PCI:0000:b9:00: GPU-7d1be7a0-1111-4222-8333-944455566677"
    seen = row(named, f"{GPU}119, x", reset)

    assert gravest(judged(seen, Overlay.NVIDIA))[0] is Level.WARN
    assert gravest(judged(seen, Overlay.EKS)) == (Level.FAIL, Action.REPLACE)


def test_a_finding_names_code_action_and_source() -> None:
    """Whose it is, what for, by which row, and what to type."""
    (found,) = judged(row(f"{GPU}119, x", f"{GPU}119, x", f"{GPU}62, x"), Overlay.NVIDIA)

    said = "GPU at 0000:b9:00.0: Xid 119 (GSP_RPC_TIMEOUT), seen 2 times, calls for a reset of the GPU"
    assert found.message.startswith(f"{said}; last seen 33 min before the check, and Xid 62 (")
    assert found.source.startswith("NVIDIA Xid catalogue, row 119: RESET_GPU; then INVESTIGATE_SW; ")
    assert "nvidia-smi --gpu-reset -i 0000:b9:00.0" in found.remedy


def test_xid_finding_before_a_restart_is_a_warning_in_the_past_tense() -> None:
    """A restart since: what it called for, what happened, and the policy's own remedy."""
    (found,) = judged(row(f"{GPU}79, x", "Linux version 6.1.119 (x)"), Overlay.NVIDIA)

    assert found.level is Level.WARN
    assert "called for a restart of the node; the machine was restarted afterwards" in found.message
    assert "profile deep" in found.remedy


def test_every_action_has_its_remedy() -> None:
    """Two GPUs of one node may call for different things: the gravest first."""
    (found,) = judged(row(f"{GPU}54", "NVRM: Xid (PCI:0000:53:00): 119, x"), Overlay.NVIDIA)

    assert found.action is Action.RESET_GPU
    assert 0 < found.remedy.index("gpu-reset -i 0000:53:00.0") < found.remedy.index("dcgmi diag")
    assert "0000:b9" not in found.remedy
    assert found.elements == ("GPU at 0000:53:00.0",)  # that is what its action is for


def test_a_code_that_this_gpu_does_not_report_is_odd() -> None:
    """149 is of NVLink 5: on an H100 node it is said, on a B200 node not."""
    seen = row(f"{GPU}149, NETIR_LINK_EVT  Fatal   XC0 i0 Link 09 (0x025525c6 0x00000000)")

    assert "odd: the catalogue does not list it for H100" in judged(seen, Overlay.NVIDIA)[0].message
    assert "odd" not in judged(seen, Overlay.NVIDIA, "p6-b200.48xlarge")[0].message
    assert "lists it for none" in judged(row(f"{GPU}73, x"), Overlay.NVIDIA)[0].message


@pytest.mark.parametrize(
    "broken",
    [
        *({"incidents": value} for value in (None, 0, 2)),
        *({"event_codes": value} for value in (None, (79, 79), (79.5,))),
        *({"event_counts": (value,)} for value in (0, 2)),
        {"event_gpus": ("another GPU",)},
        *({"event_needs": (value,)} for value in ("fine", "routine")),
        {"event_actions": ("dance",)},
        {"event_since": ("yesterday",)},
        {"act": (1, 1)},
        {"gpus": ("another GPU",)},
    ],
    ids=str,
)
def test_xid_row_with_incomplete_lists_is_missing_evidence_for_hyperpod(
    broken: dict[str, Value | None],
) -> None:
    """An old report, or one that was tampered with: nobody can tell; NVIDIA's answer needs only the counts."""
    seen = changed(row(f"{GPU}79, x"), **broken)
    blind = [finding for finding in judged(seen, Overlay.HYPERPOD) if finding.cause is Cause.EVIDENCE]

    assert blind
    assert blind[0].level is Level.FAIL
    assert gravest(judged(seen, Overlay.NVIDIA))[0] is Level.FAIL


def test_more_incidents_than_are_listed_are_still_counted() -> None:
    """The gravest are listed; a cloud cannot answer for the others."""
    seen = row(*[f"NVRM: Xid (PCI:0000:{bus:02x}:00): 79, x" for bus in range(LISTED + 9)])

    assert seen.metrics["incidents"] == LISTED + 9
    assert len(seen.metrics["event_codes"]) == LISTED  # type: ignore[arg-type]
    assert gravest(judged(seen, Overlay.NVIDIA))[0] is Level.FAIL
    assert Cause.EVIDENCE in {finding.cause for finding in judged(seen, Overlay.EKS)}


def test_a_quiet_log_is_quiet_under_every_overlay() -> None:
    """No incident, no finding."""
    assert [judged(row(), by) for by in Overlay] == [[]] * len(Overlay)
    assert not any(name in row().metrics for name in ARRAYS)


def test_every_overlay_has_rows_of_known_codes() -> None:
    """A name without a row would be NVIDIA's answer under another name; a code that is not in the table a slip."""
    for by in CLOUDS:
        rows = xid_overlay.table()[by]
        named = [code for row in rows for code in row.codes]

        assert rows
        assert len(named) == len(set(named))
        assert set(named) <= set(table())


def test_the_policy_chooses() -> None:
    """By name, with the nearest one where it is misspelt, and only for kernel.xid."""
    policy = plain(read_policy(ROOT / "deployments/policies/nvidia.toml"))
    assert isinstance(policy, dict)
    for check, name, message in (
        ("kernel.xid", "hyperpot", "Did you mean 'hyperpod'"),
        ("kernel.sxid", "hyperpod", "only kernel.xid has overlays"),
    ):
        lines = {**policy["checks"], check: {**policy["checks"][check], "overlay": name}}
        with pytest.raises(DecodeError, match=message):
            load({**policy, "checks": lines})
