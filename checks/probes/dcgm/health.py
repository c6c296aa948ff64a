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

from checks.check import CheckError, Context, Measurement
from checks.model import Profile, Value
from checks.probes.dcgm import dcgmi
from checks.probes.dcgm.dcgmi import DcgmiCell, by_gpu_and_node, dcgm_check, each_gpu_and_node
from checks.probes.dcgm.diag import gpus_discovered
from checks.probes.dcgm.diagnosis import Problem, completed
from checks.process.tool import ToolResult

TITLE = "Health Monitor Report"
OVERALL = "Overall Health"
HEALTHY, WARNING, FAILURE = "Healthy", "Warning", "Failure"
LEVELS = (HEALTHY, WARNING, FAILURE)


@dataclass(frozen=True)
class HealthIncident:
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
    incidents: tuple[HealthIncident, ...]


def watches(text: str) -> dict[str, bool]:
    """Which systems are watched, from `dcgmi health -f -j`. Raises CheckError."""
    cells = dcgmi.table(text)
    for name, cell in cells.items():
        if cell.value not in ("On", "Off"):
            raise CheckError(f"the watch of {name} is neither On nor Off: {cell.value!r}")
    return {name: cell.value == "On" for name, cell in cells.items()}


def parse(text: str) -> Health:
    """The report. Raises CheckError if the output is not a report, or contradicts itself."""
    body = dcgmi.table(text, TITLE)
    overall = body[OVERALL].value if OVERALL in body else ""
    incidents = tuple(_incidents(body, text.splitlines()))
    for value in (overall, *(incident.value for incident in incidents)):
        if value not in LEVELS:
            raise CheckError(f"{value!r} is none of {', '.join(LEVELS)}")
    worst = max((LEVELS.index(incident.value) for incident in incidents), default=0)
    if worst != LEVELS.index(overall):
        raise CheckError(f"the overall health is {overall}, its parts say {LEVELS[worst]}")
    return Health(overall, incidents)


def _incidents(body: Mapping[str, DcgmiCell], lines: list[str]) -> Iterator[HealthIncident]:
    for group, entity, details in (
        (group, *item) for group, cell in body.items() if group != OVERALL for item in cell.children.items()
    ):
        if not entity.isdigit():
            raise CheckError(f"{group} {entity!r} is not an entity number")
        errors = details.children.get("Errors", DcgmiCell()).children
        for system, cell in errors.items():
            message = " ".join(" ".join(cell.rest).split()) or "no message"
            line = next((number for number, text in enumerate(lines, 1) if message[:40] in text), 0)
            yield HealthIncident(group, int(entity), system, cell.value, message, line)
        if details.value != HEALTHY and not errors:
            yield HealthIncident(group, int(entity), "", details.value, "no system is named")


GROUP = ("-g", "0")  # DCGM's own group of all GPUs
# The watches that `-s a` sets in every version. SM is not among them, and PMU and MCU are not implemented.
WATCHED = ("PCIe", "NVLINK", "Memory", "InfoROM", "Thermal", "Power", "Driver")
ASK_S = 20.0
DRIVER = "Driver"
# DCGM_FR_CLOCKS_EVENT_POWER: a GPU at its power limit, which is normal under full load; gpu.power judges the limit itself.
AT_POWER_LIMIT = 12


def set_watches(context: Context) -> Mapping[str, object]:
    """Sets all watches and records the time. They stay set in the host engine, as DCGM intends. Raises CheckError."""
    result = dcgmi.ask("health", *GROUP, "-s", "a", timeout_s=ASK_S)
    if result.code or "successfully" not in result.stdout.lower():
        raise CheckError(f"the watches could not be set: {result.account()[:600]}")
    return {"at_s": time.monotonic()}


@dcgm_check(
    "dcgm.health",
    ("gpus_missing", "watches_off", "watched_s", "failures", "driver_failures", "warnings"),
    timeout_s=180,
    cost="seconds",
    profiles=(Profile.STANDARD, Profile.DEEP),
    before=set_watches,
    events=("failures", "warnings"),
    holds=each_gpu_and_node,
)
def health(context: Context) -> Measurement:
    """Reads what DCGM's health watches (PCIe, NVLink, memory, InfoROM, thermal, power, driver) saw during the run.

    `failures`, `driver_failures` and `warnings` hold a text a GPU and one for the node, "" where there is nothing;
    `remarks` are warnings that a GPU reached its power limit, as full load does. `watches_off` names systems that
    nobody watches. Some watches need a minute of samples, so that a read sooner than `watch_s` (an option) after they
    were set says nothing: it waits. Raises CheckError if they could not be set, or no host engine runs.
    """
    gpu_count = gpus_discovered(dcgmi.ask("discovery", "-l", timeout_s=ASK_S).stdout)
    watched_s = _wait(context.before, context.options.get("watch_s", 60.0))
    flags = dcgmi.ask("health", *GROUP, "-f", "-j", timeout_s=ASK_S)
    result = dcgmi.ask("health", *GROUP, "-c", "-j", timeout_s=ASK_S)
    off, report = read(flags, result)
    metrics: dict[str, Value] = {
        "gpus_missing": context.declared.gpus_per_node - gpu_count,
        "watches_off": off,
        "watched_s": watched_s,
        **metrics_of(report, tuple(range(gpu_count))),
    }
    return Measurement(metrics, f"{result.account()}\n{flags.account()}")


def read(flags: ToolResult, result: ToolResult) -> tuple[str, Health]:
    """Which systems are not watched, and the report. Raises CheckError."""
    on, report = flags.parsed(watches), result.parsed(parse)
    if result.code or flags.code:
        raise CheckError(f"dcgmi health failed: {result.account()[:600]}\n{flags.account()[:600]}")
    return ", ".join(name for name in WATCHED if not on.get(name, False)), report


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
    texts = (
        (
            metric_of(incident),
            incident.entity if incident.group == "GPU" and incident.entity in gpus else None,
            words_of(incident),
        )
        for incident in report.incidents
    )
    return by_gpu_and_node(("failures", "driver_failures", "warnings", "remarks"), texts, gpus)


def metric_of(incident: HealthIncident) -> str:
    """The metric to which an incident belongs."""
    if incident.value == WARNING:
        benign = completed(Problem(incident.message)).error_id == AT_POWER_LIMIT
        return "remarks" if benign else "warnings"
    return "driver_failures" if incident.system.startswith(DRIVER) else "failures"


def words_of(incident: HealthIncident) -> str:
    """The incident in one line."""
    where = "" if incident.group == "GPU" else f"{incident.group} {incident.entity}, "
    return f"{where}{incident.system or 'unknown system'}: {incident.message}"[:300]
