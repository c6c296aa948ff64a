"""The exporters of a monitored cluster: which nodes run each, on which ports, and the families that our rules need of it.

Ports: Prometheus' list of default port allocations, and what Amazon's installers for HyperPod use (node exporter 9100, EFA 9109,
DCGM 9400, Slurm 9341; older ones EFA 9100 and Slurm 8080).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from checks.watch import families

# A watch that has ended no round for so many of its intervals is stale. It ends a round within 45 of its 60 s, so that the last one is
# never older than 1.75 of them. The rules PrelaunchWatchStale and PrelaunchTextfileStale have the same number.
STALE_INTERVALS = 2.25


class Job(StrEnum):
    """The name of a scrape job; rules and dashboards select by it."""

    WATCH = "prelaunch-watch"
    NODE = "node"
    DCGM = "dcgm"
    EFA = "efa"
    EXPORTER = "prelaunch-exporter"
    SLURM = "slurm"


@dataclass(frozen=True)
class Hardware:
    """What a declared node has; None if the table of instance types does not say. `gpus` are NVIDIA GPUs."""

    gpus: int | None
    efa_devices: int | None


@dataclass(frozen=True)
class Exporter:
    """One exporter. `ports` are tried in their order; the first is the one that is scraped.

    `families` must have a sample. `gpu_family` has one for each GPU (label `gpu`), "" if there is none.
    """

    job: Job
    ports: tuple[int, ...]
    families: tuple[str, ...]
    gpu_family: str = ""
    runs_on: Callable[[Hardware], bool] = lambda hardware: True


GPU_TEMPERATURE = "DCGM_FI_DEV_GPU_TEMP"
GPU_ENERGY = "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"
TEXTFILE_MTIME = "node_textfile_mtime_seconds"


def _names(*found: families.Family) -> tuple[str, ...]:
    return tuple(family.name for family in found)


# On every declared node that has the part.
NODE_EXPORTERS = (
    Exporter(
        Job.WATCH,
        (9402,),
        _names(
            *(families.LAST_ROUND, families.INTERVAL, families.REQUIRED),
            *(families.OBSERVATIONS, families.DECLARED_GPUS, families.OMITTED),
        ),
    ),
    Exporter(Job.NODE, (9100,), ("node_uname_info", "node_textfile_scrape_error")),
    Exporter(
        Job.DCGM,
        (9400,),
        (GPU_TEMPERATURE, GPU_ENERGY, "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL"),
        GPU_TEMPERATURE,
        lambda hardware: hardware.gpus != 0,
    ),
    Exporter(
        Job.EFA, (9109, 9100), ("node_amazonefa_info",), runs_on=lambda hardware: hardware.efa_devices != 0
    ),
)
# One for a cluster or for several.
STORE_EXPORTER = Exporter(
    Job.EXPORTER,
    (9403,),
    _names(
        *(families.STORE_READ, families.STORE_READ_TIME, families.STORE_OMITTED),
        *(families.GATE_END, families.DECLARED_NODE),
    ),
)
# The exporters of Slurm have no family in common; each has some of its own.
SLURM_EXPORTER = Exporter(Job.SLURM, (9341, 8080), ())
SLURM_PREFIX = "slurm_"


def exporter_of(job: Job) -> Exporter:
    """The exporter of a job."""
    return next(one for one in (*NODE_EXPORTERS, STORE_EXPORTER, SLURM_EXPORTER) if one.job is job)
