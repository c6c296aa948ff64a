"""The GPU checks' registry, in the order in which they run."""

from checks.gpu.found import inventory
from checks.gpu.health import ecc, recovery_action, retired_pages, row_remap
from checks.gpu.idle import memory, processes, utilisation
from checks.gpu.links import nvlink
from checks.gpu.settings import fabric, modes, power
from checks.gpu.start_and_end import start_and_end
from checks.gpu.under_load import clocks, pcie, thermal
from checks.gpu.xid_events import xid_events

__all__ = [
    "clocks",
    "ecc",
    "fabric",
    "inventory",
    "memory",
    "modes",
    "nvlink",
    "pcie",
    "power",
    "processes",
    "recovery_action",
    "retired_pages",
    "row_remap",
    "start_and_end",
    "thermal",
    "utilisation",
    "xid_events",
]
