"""dcgm.health's and dcgm.policy's parsers, and how they meet a host engine."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from checks.check import CheckError
from checks.probes.dcgm import health, policy
from checks.probes.dcgm.health import parse, watches
from tests.corpus.case import context, recordings_of
from tests.fakes.tools import Reply, install, on_path

text_of = recordings_of("dcgm")


def test_an_incident_has_its_gpu_system_and_whole_message() -> None:
    """DCGM breaks the message over several strings."""
    (incident,) = parse(text_of("health_nvlink.json")).incidents

    assert ("GPU", 2) == (incident.group, incident.entity)
    assert ("NVLINK system", "Failure") == (incident.system, incident.value)
    assert "GPU 2's NvLink link 9 is currently down Run a field diagnostic on the GPU." == incident.message


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        "|  Health Monitor Report                                                    |\n",
        "Error: Health watches not enabled. Please enable watches. \n",
        text_of("health_ok.json").replace("Healthy", "Internal error"),
        text_of("health_nvlink.json").replace('"2"', '"two"'),
    ],
)
def test_health_parser_rejects_text_that_is_no_whole_report(text: str) -> None:
    """Unknown words, contradictions and DCGM's own refusals give no answer."""
    with pytest.raises(CheckError):
        parse(text)


def test_an_incident_of_a_switch_is_the_nodes() -> None:
    """Its number is no GPU's."""
    report = parse(text_of("health_nvlink.json").replace('"GPU" : {', '"NvSwitch" : {'))
    failures = health.metrics_of(report, (0, 1, 2))["failures"]

    assert isinstance(failures, tuple)
    assert ["", "", "", "NvSwitch 2, NVLINK system"] == [str(words).partition(":")[0] for words in failures]


def test_the_watches_that_are_off_are_named() -> None:
    """SM is off in every version, and not asked for."""
    on = watches(text_of("watches_no_memory.json"))

    assert ["Memory", "InfoROM"] == [name for name in health.WATCHED if not on[name]]
    with pytest.raises(CheckError):
        watches(text_of("watches.json").replace("On", "Maybe", 1))


def test_watches_that_cannot_be_set_are_said(tmp_path: Path) -> None:
    """So that the closing check finds no first look."""
    install(tmp_path, "dcgmi", [Reply("Error: Unable to set health watches.\n")])
    with on_path(tmp_path), pytest.raises(CheckError, match="could not be set"):
        health.set_watches(context(health.health, tmp_path))


def test_the_read_waits_until_the_watches_have_seen_something(tmp_path: Path) -> None:
    """A read sooner than `watch_s` says nothing."""
    begun = time.monotonic()

    assert health._wait({"at_s": begun}, 0.2) >= 0.2
    assert time.monotonic() - begun >= 0.2


def test_a_policys_conditions_and_action_are_read() -> None:
    """Several conditions stand in value and overflow."""
    found = policy.parse(text_of("policy_set.json"))

    assert "Double-bit ECC errors; PCI errors and replays; XID error detected." == found.conditions
    assert ("None", "Reset GPU") == (found.action, policy.parse(text_of("policy_reset.json")).action)


@pytest.mark.parametrize("name", ["Violation conditions", "Action on violation", "Isolation mode"])
def test_a_policy_that_lacks_a_field_is_no_answer(name: str) -> None:
    """Its absence is not None."""
    with pytest.raises(CheckError):
        policy.parse(text_of("policy_none.json").replace(name, "Something else"))


def test_violations_are_read_from_what_was_heard() -> None:
    """Each with its line; counts and times beside them are no violations."""
    ecc = "A double-bit ECC error has violated policy manager values."
    assert ["XID error 63 detected.", ecc] == policy.violations(text_of("violations.txt"))
