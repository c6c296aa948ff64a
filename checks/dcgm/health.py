"""dcgm.health: DCGM's background watches, set at the start of the run and read after the ranks."""

from __future__ import annotations

import time
from collections.abc import Mapping

from checks.check import CheckError, Context, Measurement, Part, Skipped, check
from checks.dcgm import host
from checks.dcgm.diag import NODE, gpus_discovered
from checks.dcgm.diagnosis import DiagnosisError, Problem, known
from checks.dcgm.health_report import WARNING, Health, Incident, parse, watches
from checks.model import Profile, Scope, Skip, Value
from checks.tool import Said, ToolMissing

GROUP = ("-g", "0")  # DCGM's own group of all GPUs
# What `-s a` sets in every version; SM is not among them, and PMU and MCU are not implemented.
WATCHED = ("PCIe", "NVLINK", "Memory", "InfoROM", "Thermal", "Power", "Driver")
ASK_S = 20.0
DRIVER = "Driver"
# DCGM_FR_CLOCKS_EVENT_POWER: a GPU at its power limit, which is what full load is; gpu.power judges the limit.
AT_POWER_LIMIT = 12


def set_watches(context: Context) -> Mapping[str, object]:
    """Set all watches, and note when. They stay set in the host engine, as dcgmi means them to. Raises CheckError."""
    said = host.ask("health", *GROUP, "-s", "a", timeout_s=ASK_S)
    if said.code or "successfully" not in said.stdout.lower():
        raise CheckError(f"the watches could not be set: {said.account()[:600]}")
    return {"at_s": time.monotonic()}


@check(
    "dcgm.health",
    Scope.NODE,
    timeout_s=180,
    metrics=("gpus_missing", "watches_off", "watched_s", "failures", "driver_failures", "warnings"),
    needs="dcgmi, nv-hostengine",
    cost="seconds",
    profiles=(Profile.STANDARD, Profile.DEEP),
    part=Part.GPU,
    closing=True,
    before=set_watches,
)
def health(context: Context) -> Measurement | Skipped:
    """Reads what DCGM's health watches (PCIe, NVLink, memory, InfoROM, thermal, power, driver) saw during the run.

    `failures`, `driver_failures` and `warnings` hold a text a GPU and one for the node, "" where there is nothing;
    `remarks` are warnings that a GPU reached its power limit, as full load does. `watches_off` names systems that
    nobody watches. Some watches need a minute of samples, so that a read sooner than `watch_s` (an option) after they
    were set says nothing: it waits. Raises CheckError if they could not be set, or no host engine runs.
    """
    try:
        found = gpus_discovered(host.ask("discovery", "-l", timeout_s=ASK_S).stdout)
        watched_s = _wait(context.before, context.options.get("watch_s", 60.0))
        flags = host.ask("health", *GROUP, "-f", "-j", timeout_s=ASK_S)
        seen = host.ask("health", *GROUP, "-c", "-j", timeout_s=ASK_S)
        off, report = read(flags, seen)
    except ToolMissing as missing:
        return Skipped(Skip.TOOL_MISSING, str(missing))
    metrics: dict[str, Value] = {
        "gpus_missing": context.declared.gpus_per_node - found,
        "watches_off": off,
        "watched_s": watched_s,
        **metrics_of(report, tuple(range(found))),
    }
    return Measurement(metrics, f"{seen.account()}\n{flags.account()}")


def read(flags: Said, seen: Said) -> tuple[str, Health]:
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
    """How long the watches have been set, after at least `enough_s`. Raises CheckError if they were not."""
    at_s = before.get("at_s") if before else None
    if not isinstance(at_s, (int, float)):
        raise CheckError("the watches were not set at the start of the run: see what this node's log says")
    age_s = time.monotonic() - at_s
    if age_s < enough_s:
        time.sleep(enough_s - age_s)
    return time.monotonic() - at_s


def metrics_of(report: Health, gpus: tuple[int, ...]) -> dict[str, Value]:
    """What the watches saw, an element a GPU and one for the node."""
    names = ("failures", "driver_failures", "warnings", "remarks")
    said: dict[str, dict[int | None, list[str]]] = {name: {} for name in names}
    for incident in report.incidents:
        mine = incident.group == "GPU" and incident.entity in gpus
        owner = incident.entity if mine else None
        said[metric_of(incident)].setdefault(owner, []).append(words_of(incident))
    arrays = {
        name: tuple("; ".join(by_owner.get(owner, ())) for owner in (*gpus, None))
        for name, by_owner in said.items()
    }
    return {"gpus": (*(f"GPU {gpu}" for gpu in gpus), NODE), **arrays}


def metric_of(incident: Incident) -> str:
    """Which metric an incident belongs to."""
    if incident.value == WARNING:
        benign = known(Problem(incident.message)).error_id == AT_POWER_LIMIT
        return "remarks" if benign else "warnings"
    return "driver_failures" if incident.system.startswith(DRIVER) else "failures"


def words_of(incident: Incident) -> str:
    """The incident in one line."""
    where = "" if incident.group == "GPU" else f"{incident.group} {incident.entity}, "
    return f"{where}{incident.system or 'unknown system'}: {incident.message}"[:300]
