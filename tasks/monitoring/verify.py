"""Looks at every exporter that the declared nodes should have, and says of each whether it serves what the rules need now."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from enum import StrEnum

from prometheus_client.samples import Sample

from checks.watch import families
from tasks.monitoring.endpoint import EndpointError, fetched, samples
from tasks.monitoring.exporters import (
    NODE_EXPORTERS,
    SLURM_EXPORTER,
    SLURM_PREFIX,
    STALE_INTERVALS,
    STORE_EXPORTER,
    TEXTFILE_MTIME,
    Exporter,
    Hardware,
    Job,
)
from tasks.monitoring.targets import Target

AT_ONCE = 64
ENDPOINT_S = 5.0
ALL_S = 120.0
# The textfile has no interval of its own where the watch is not scraped; a round is every minute by default.
TEXTFILE_S = STALE_INTERVALS * 60.0
# Samples that carry a time may be as old as Prometheus' own look-back.
LOOK_BACK_S = 300.0


class ExporterState(StrEnum):
    """UP: it serves every family that the rules need, with current values. DOWN: it serves no metrics. LACKS: it serves some families,
    and others or some GPUs are missing. STALE: its values are old.
    """

    UP = "UP"
    LACKS = "LACKS"
    STALE = "STALE"
    DOWN = "DOWN"


@dataclass(frozen=True)
class Endpoint:
    """Where an exporter should answer, and for whom. `node` is "" for one that belongs to no node."""

    exporter: Exporter
    host: str
    ports: tuple[int, ...]
    node: str = ""
    cluster: str = ""
    hardware: Hardware | None = None


@dataclass(frozen=True)
class ExporterResult:
    """What was found at an endpoint. `lacks` names families or GPUs; `reason` is a sentence for people, "" if it is UP.

    `asked` is False if the time for all was over before; the state then is DOWN.
    """

    job: Job
    cluster: str
    node: str
    address: str
    state: ExporterState
    reason: str = ""
    lacks: tuple[str, ...] = ()
    asked: bool = True


def endpoints(
    targets: Sequence[Target],
    exporters: Sequence[str] = (),
    slurms: Sequence[str] = (),
    ports: dict[Job, int] | None = None,
) -> tuple[Endpoint, ...]:
    """Every endpoint that should answer. `exporters` and `slurms` are HOST:PORT; `ports` replace those of the table."""
    chosen = ports or {}
    found = [
        Endpoint(
            one,
            target.address,
            (chosen[one.job],) if one.job in chosen else one.ports,
            target.node,
            target.cluster,
            target.hardware,
        )
        for target in targets
        for one in NODE_EXPORTERS
        if one.runs_on(target.hardware)
    ]
    for one, places in ((STORE_EXPORTER, exporters), (SLURM_EXPORTER, slurms)):
        for place in places:
            host, _, port = place.rpartition(":")
            found.append(Endpoint(one, host, (int(port),)))
    return tuple(found)


def verified(
    wanted: Sequence[Endpoint],
    seconds: float = ENDPOINT_S,
    all_s: float = ALL_S,
    clock: Callable[[], float] = time.time,
) -> tuple[ExporterResult, ...]:
    """The result of each endpoint, in their order. Each port has `seconds` to answer, and it ends within `all_s` and `seconds`."""
    ends_at = time.monotonic() + all_s
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return tuple(pool.map(lambda one: _looked_at(one, seconds, ends_at, clock), wanted))


def _looked_at(
    endpoint: Endpoint, seconds: float, ends_at: float, clock: Callable[[], float]
) -> ExporterResult:
    """The result at the first port that serves what is needed, else the best one."""
    results = []
    for port in endpoint.ports:
        if time.monotonic() >= ends_at:
            break
        results.append(_at_port(endpoint, port, seconds, clock))
        if results[-1].state is ExporterState.UP:
            return results[-1]
    if not results:
        said = "the time for all exporters was over before it was asked"
        return replace(
            _result(endpoint, endpoint.ports[0]), state=ExporterState.DOWN, reason=said, asked=False
        )
    order = list(ExporterState)
    return min(results, key=lambda result: order.index(result.state))


def _result(endpoint: Endpoint, port: int) -> ExporterResult:
    return ExporterResult(
        endpoint.exporter.job, endpoint.cluster, endpoint.node, f"{endpoint.host}:{port}", ExporterState.UP
    )


def _at_port(endpoint: Endpoint, port: int, seconds: float, clock: Callable[[], float]) -> ExporterResult:
    result = _result(endpoint, port)
    try:
        found = samples(fetched(endpoint.host, port, seconds))
    except EndpointError as error:
        return replace(result, state=ExporterState.DOWN, reason=str(error))
    if lacks := tuple(_lacking(endpoint, found)):
        said = f"it serves {len(found)} series, and lacks {', '.join(lacks)}"
        return replace(result, state=ExporterState.LACKS, reason=said, lacks=lacks)
    if stale := _staleness(endpoint.exporter.job, found, clock()):
        return replace(result, state=ExporterState.STALE, reason=stale)
    return result


def _lacking(endpoint: Endpoint, found: Sequence[Sample]) -> Iterable[str]:
    exporter, hardware = endpoint.exporter, endpoint.hardware
    present = {sample.name for sample in found}
    needed = list(exporter.families)
    if exporter.job is Job.WATCH and hardware and hardware.gpus:
        needed.append(families.FOUND_GPUS.name)
    yield from (name for name in needed if name not in present)
    if exporter.job is Job.SLURM and not any(name.startswith(SLURM_PREFIX) for name in present):
        yield f"{SLURM_PREFIX}*"
    if exporter.gpu_family and hardware and hardware.gpus:
        gpus = {sample.labels.get("gpu", "") for sample in found if sample.name == exporter.gpu_family}
        if exporter.gpu_family in present and len(gpus) < hardware.gpus:
            yield f"{hardware.gpus - len(gpus)} of {hardware.gpus} GPUs"


def _staleness(job: Job, found: Sequence[Sample], now: float) -> str:
    """Why the values are not of now; "" if they are."""
    values: dict[str, float] = {}
    for sample in found:
        if sample.timestamp is not None and not now - float(sample.timestamp) <= LOOK_BACK_S:
            return f"its samples are {now - float(sample.timestamp):.0f} s old"
        values[sample.name] = sample.value
    if job is Job.WATCH:
        age_s = now - values[families.LAST_ROUND.name]
        if not abs(age_s) <= STALE_INTERVALS * values[families.INTERVAL.name]:
            return f"the last round ended {_seconds(age_s)} ago, and a round is due every {values[families.INTERVAL.name]:g} s"
    if job is Job.EXPORTER and values[families.STORE_READ.name] != 1:
        return "it cannot read its store"
    if job is Job.NODE:
        return _textfile_staleness(found, now)
    return ""


def _textfile_staleness(found: Sequence[Sample], now: float) -> str:
    for sample in found:
        file = sample.labels.get("file", "").rsplit("/", 1)[-1]
        if sample.name == TEXTFILE_MTIME and file.startswith("prelaunch"):
            if not now - sample.value <= TEXTFILE_S:
                return f"{file} was last written {_seconds(now - sample.value)} ago"
        elif sample.name == "node_textfile_scrape_error" and sample.value != 0:
            return "it cannot read a file of its textfile collector, and drops it"
    return ""


def _seconds(age_s: float) -> str:
    return f"{age_s:.0f} s" if math.isfinite(age_s) else "an unknown time"
