"""dcgm.health: DCGM's background watches, which are set at the start of the run and read after the rank checks.

`dcgmi health -j` prints which watches are set (-f) and what they saw (-c); reading that is pure. The shape is that of
dcgmi/Health.cpp and DcgmiOutput.cpp: {"header": [...], "body": {"GPU": {"children": {"3": {... "Errors":
{"children": {"NVLINK system": {"value": "Failure", "overflow": [message, broken at 54 characters]}}}}}}}}. Only
entities with incidents are in it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from checks.check import CheckError, Context, Measurement
from checks.model import Profile, Value
from checks.probes.dcgm import dcgmi
from checks.probes.dcgm.dcgmi import by_gpu_and_node, dcgm_check, each_gpu_and_node
from checks.probes.dcgm.diag import gpus_discovered
from checks.probes.dcgm.diag_json import document
from checks.probes.dcgm.diagnosis import DiagnosisError, Problem, known
from checks.process.tool import ToolResult

TITLE = "Health Monitor Report"
OVERALL = "Overall Health"
HEALTHY, WARNING, FAILURE = "Healthy", "Warning", "Failure"
WORDS = (HEALTHY, WARNING, FAILURE)


@dataclass(frozen=True)
class Incident:
    """A problem of one system of one entity. `value` is Warning or Failure."""

    group: str
    entity: int
    system: str
    value: str
    message: str
    line: int = 0


@dataclass(frozen=True)
class Health:
    """The report."""

    overall: str
    incidents: tuple[Incident, ...]


def watches(text: str) -> dict[str, bool]:
    """Which systems are watched, from `dcgmi health -f -j`. Raises DiagnosisError."""
    body = document(text).get("body")
    if not isinstance(body, dict) or not body:
        raise DiagnosisError(f"the output of dcgmi health -f lists no system: {text[:200]!r}")
    made: dict[str, bool] = {}
    for name, said in body.items():
        value = said.get("value") if isinstance(said, dict) else None
        if value not in ("On", "Off"):
            raise DiagnosisError(f"the watch of {name} is neither On nor Off: {value!r}")
        made[name] = value == "On"
    return made


def parse(text: str) -> Health:
    """The report. Raises DiagnosisError if the output is not a report, or contradicts itself."""
    whole = document(text)
    body = whole.get("body")
    if not isinstance(body, dict) or TITLE not in str(whole.get("header")):
        raise DiagnosisError(f"the output has no {TITLE!r}: {text[:200]!r}")
    overall = body[OVERALL].get("value", "") if isinstance(body.get(OVERALL), dict) else ""
    incidents = tuple(_incidents(body, text.splitlines()))
    for value in (overall, *(incident.value for incident in incidents)):
        if value not in WORDS:
            raise DiagnosisError(f"{value!r} is none of {', '.join(WORDS)}")
    worst = max((WORDS.index(incident.value) for incident in incidents), default=0)
    if worst != WORDS.index(overall):
        raise DiagnosisError(f"the overall health is {overall}, its parts say {WORDS[worst]}")
    return Health(overall, incidents)


def _incidents(body: Mapping[str, object], lines: list[str]) -> Iterator[Incident]:
    for group, node in body.items():
        for entity, found in _part(node, "children", {}).items() if group != OVERALL else ():
            if not entity.isdigit():
                raise DiagnosisError(f"{group} {entity!r} is not an entity number")
            errors = _part(_part(found, "children", {}).get("Errors", {}), "children", {})
            for system, said in errors.items():
                overflow = _part(said, "overflow", [])
                words = " ".join(
                    str(one.get("value", one) if isinstance(one, dict) else one) for one in overflow
                )
                message = " ".join(words.split()) or "no message"
                line = next((number for number, one in enumerate(lines, 1) if message[:40] in one), 0)
                yield Incident(group, int(entity), system, str(said.get("value", "")), message, line)
            if found.get("value") != HEALTHY and not errors:
                yield Incident(group, int(entity), "", str(found.get("value", "")), "no system is named")


def _part(value: object, key: str, default: Any) -> Any:
    """What a node of the report has under the key, of the default's type. Raises DiagnosisError for any other type."""
    found = value.get(key, default) if isinstance(value, dict) else None
    if not isinstance(found, type(default)):
        raise DiagnosisError(f"a part of the health report has an unknown form: {value!r:.80}")
    return found


GROUP = ("-g", "0")  # DCGM's own group of all GPUs
# The watches that `-s a` sets in every version. SM is not among them, and PMU and MCU are not implemented.
WATCHED = ("PCIe", "NVLINK", "Memory", "InfoROM", "Thermal", "Power", "Driver")
ASK_S = 20.0
DRIVER = "Driver"
# DCGM_FR_CLOCKS_EVENT_POWER: a GPU at its power limit, which is normal under full load; gpu.power judges the limit itself.
AT_POWER_LIMIT = 12


def set_watches(context: Context) -> Mapping[str, object]:
    """Sets all watches and records the time. They stay set in the host engine, as DCGM intends. Raises CheckError."""
    said = dcgmi.ask("health", *GROUP, "-s", "a", timeout_s=ASK_S)
    if said.code or "successfully" not in said.stdout.lower():
        raise CheckError(f"the watches could not be set: {said.account()[:600]}")
    return {"at_s": time.monotonic()}


@dcgm_check(
    "dcgm.health",
    ("gpus_missing", "watches_off", "watched_s", "failures", "driver_failures", "warnings"),
    timeout_s=180,
    cost="seconds",
    profiles=(Profile.STANDARD, Profile.DEEP),
    before=set_watches,
    holds=each_gpu_and_node,
)
def health(context: Context) -> Measurement:
    """Reads what DCGM's health watches (PCIe, NVLink, memory, InfoROM, thermal, power, driver) saw during the run.

    `failures`, `driver_failures` and `warnings` hold a text a GPU and one for the node, "" where there is nothing;
    `remarks` are warnings that a GPU reached its power limit, as full load does. `watches_off` names systems that
    nobody watches. Some watches need a minute of samples, so that a read sooner than `watch_s` (an option) after they
    were set says nothing: it waits. Raises CheckError if they could not be set, or no host engine runs.
    """
    found = gpus_discovered(dcgmi.ask("discovery", "-l", timeout_s=ASK_S).stdout)
    watched_s = _wait(context.before, context.options.get("watch_s", 60.0))
    flags = dcgmi.ask("health", *GROUP, "-f", "-j", timeout_s=ASK_S)
    seen = dcgmi.ask("health", *GROUP, "-c", "-j", timeout_s=ASK_S)
    off, report = read(flags, seen)
    metrics: dict[str, Value] = {
        "gpus_missing": context.declared.gpus_per_node - found,
        "watches_off": off,
        "watched_s": watched_s,
        **metrics_of(report, tuple(range(found))),
    }
    return Measurement(metrics, f"{seen.account()}\n{flags.account()}")


def read(flags: ToolResult, seen: ToolResult) -> tuple[str, Health]:
    """Which systems are not watched, and the report. Raises CheckError."""
    try:
        on = watches(flags.stdout)
        off = ", ".join(name for name in WATCHED if not on.get(name, False))
        report = parse(seen.stdout)
    except DiagnosisError as error:
        raise CheckError(f"{error}\n{seen.account()[:600]}\n{flags.account()[:600]}") from error
    if seen.code or flags.code:
        raise CheckError(f"dcgmi health failed: {seen.account()[:600]}\n{flags.account()[:600]}")
    return off, report


def _wait(before: Mapping[str, object] | None, enough_s: float) -> float:
    """Waits until the watches have been set for at least `enough_s`. Returns for how long they have been. Raises CheckError if they
    were not set.
    """
    at_s = before.get("at_s") if before else None
    if not isinstance(at_s, (int, float)):
        raise CheckError(
            "DCGM's health watches were not set at the start of the run. See this node's log for the reason"
        )
    age_s = time.monotonic() - at_s
    if age_s < enough_s:
        time.sleep(enough_s - age_s)
    return time.monotonic() - at_s


def metrics_of(report: Health, gpus: tuple[int, ...]) -> dict[str, Value]:
    """What the watches saw, with one element per GPU and one for the node."""
    rows = (
        (metric_of(one), one.entity if one.group == "GPU" and one.entity in gpus else None, words_of(one))
        for one in report.incidents
    )
    return by_gpu_and_node(("failures", "driver_failures", "warnings", "remarks"), rows, gpus)


def metric_of(incident: Incident) -> str:
    """The metric to which an incident belongs."""
    if incident.value == WARNING:
        benign = known(Problem(incident.message)).error_id == AT_POWER_LIMIT
        return "remarks" if benign else "warnings"
    return "driver_failures" if incident.system.startswith(DRIVER) else "failures"


def words_of(incident: Incident) -> str:
    """The incident in one line."""
    where = "" if incident.group == "GPU" else f"{incident.group} {incident.entity}, "
    return f"{where}{incident.system or 'unknown system'}: {incident.message}"[:300]
