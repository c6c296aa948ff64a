"""The explicit list of checks: one line each. Importing it loads no torch."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from checks import collectives, error_counters, gpu, hostpairs, network, pairs, system, training
from checks.check import CatalogError as CatalogError
from checks.check import Check, imported
from checks.compute import gemm, memory, overlap, sdc, training_step, transfer
from checks.dcgm import diag as dcgm_diag
from checks.dcgm import health as dcgm_health
from checks.dcgm import policy as dcgm_policy
from checks.dcgm import xid_events as dcgm_xid_events
from checks.efa import counters as efa_counters
from checks.efa import devices, loopback, pingpong, plugin
from checks.facts.table import Instance
from checks.host import cpu, disk, environment, mounts
from checks.host import memory as host_memory
from checks.kernel import hardware, sxid, xid
from checks.model import Declared, Planned, Profile
from checks.nccl import collectives as nccl
from checks.nccl import perf, transport
from checks.net import counters as net_counters
from checks.net import mtu, names
from checks.neuron import collectives as neuron_collectives
from checks.neuron import devices as neuron_devices
from checks.neuron import ecc as neuron_ecc
from checks.neuron import runtime as neuron_runtime

CATALOG: tuple[Check, ...] = (
    system.identity,
    system.resources,
    system.clock,
    environment.environment_lint,
    mounts.responsive,
    cpu.cpu_stress,
    host_memory.memory_stress,
    disk.disk_io,
    hardware.hardware,
    xid.xid,
    sxid.sxid,
    error_counters.error_counters,
    gpu.inventory,
    gpu.start_and_end,
    neuron_devices.devices,
    neuron_ecc.ecc,
    neuron_runtime.runtime,
    dcgm_policy.policy,
    dcgm_xid_events.xid_events,
    dcgm_diag.diag,
    neuron_collectives.collectives,
    gpu.memory,
    gpu.utilisation,
    gpu.processes,
    gpu.modes,
    gpu.power,
    gpu.fabric,
    gpu.nvlink,
    gpu.ecc,
    gpu.row_remap,
    gpu.retired_pages,
    gpu.recovery_action,
    gpu.xid_events,
    gpu.clocks,
    gpu.thermal,
    gpu.pcie,
    devices.devices,
    plugin.plugin,
    loopback.loopback,
    names.names,
    network.reachability,
    hostpairs.pairs,
    mtu.mtu,
    pingpong.pingpong,
    perf.tests,
    gemm.gemm,
    sdc.sdc,
    memory.memory_bandwidth,
    transfer.transfer,
    training.smoke,
    training_step.step,
    # Before any collective: one that hangs or fails says of nobody who is to blame.
    pairs.collective_pairs,
    pairs.nccl_pairs,
    collectives.all_reduce,
    collectives.all_gather,
    nccl.intra_node,
    nccl.inter_node,
    nccl.all_reduce,
    nccl.all_gather,
    nccl.reduce_scatter,
    nccl.alltoall,
    nccl.sendrecv,
    overlap.overlap,
    training.ddp,
    transport.transport,
    dcgm_health.health,
    efa_counters.counters,
    net_counters.counters,
)


def with_extra(extra: Sequence[str]) -> tuple[Check, ...]:
    """The catalogue, preceded by a site's own checks ("package.module:attribute"). Raises CatalogError."""
    made = (*(imported(path) for path in extra), *CATALOG)
    names = [check.name for check in made]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice:
        raise CatalogError(f"two checks are called {twice!r}. Rename the extra one.")
    return made


def plan(
    catalog: Sequence[Check], declared: Declared, profile: Profile, instance: Instance | None
) -> tuple[Planned, ...]:
    """What must be observed, from what is declared alone; `instance` is the declared type's row of the table."""
    return tuple(
        Planned(c.name, c.scope, c.metrics, c.skip_for(declared, profile, instance)) for c in catalog
    )


def digest(catalog: Sequence[Check]) -> str:
    """Equal for catalogues that make equal observations: names, scopes and metrics."""
    lines = (f"{c.name} {c.scope.value} {','.join(c.metrics)}" for c in catalog)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()
