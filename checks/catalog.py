"""The explicit list of all checks, one line per check. Importing this module does not import torch."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from checks.check import Basis, CatalogError, Check, imported
from checks.facts.instances import Instance
from checks.facts.profile_options import options
from checks.model import Declared, Planned, Profile
from checks.policy import Policy
from checks.probes.collectives import collectives, nccl_tests, transport
from checks.probes.collectives import collectives as nccl
from checks.probes.collectives.ras import job as ras
from checks.probes.compute import (
    gemm,
    memory_bandwidth,
    overlap,
    sdc,
    training_smoke,
    training_step,
    transfer,
)
from checks.probes.dcgm import diag as dcgm_diag
from checks.probes.dcgm import health as dcgm_health
from checks.probes.dcgm import policy as dcgm_policy
from checks.probes.dcgm import xid_events as dcgm_xid_events
from checks.probes.efa import counters as efa_counters
from checks.probes.efa import devices, loopback, pingpong, plugin
from checks.probes.gpu import inventory as found
from checks.probes.gpu import nvlink, start_and_end, state, under_load, xid_events
from checks.probes.host import disk, environment, error_counters, mounts, stress, system
from checks.probes.host import stress as host_memory
from checks.probes.infiniband import counters as ib_counters
from checks.probes.infiniband import ports as ib_ports
from checks.probes.kernel import hardware, sxid, xid
from checks.probes.network import counters as net_counters
from checks.probes.network import mtu, names, reachability
from checks.probes.neuron import collectives as neuron_collectives
from checks.probes.neuron import devices as neuron_devices
from checks.probes.neuron import ecc as neuron_ecc
from checks.probes.neuron import runtime as neuron_runtime
from checks.probes.pairs import pairs

CATALOG: tuple[Check, ...] = (
    system.identity,
    system.resources,
    system.clock,
    environment.environment_lint,
    mounts.responsive,
    stress.cpu_stress,
    host_memory.memory_stress,
    disk.disk_io,
    hardware.hardware,
    xid.xid,
    sxid.sxid,
    error_counters.error_counters,
    found.inventory,
    start_and_end.start_and_end,
    neuron_devices.devices,
    neuron_ecc.ecc,
    neuron_runtime.runtime,
    dcgm_policy.policy,
    dcgm_xid_events.xid_events,
    dcgm_diag.diag,
    neuron_collectives.collectives,
    state.memory,
    state.utilisation,
    state.processes,
    state.modes,
    state.power,
    state.fabric,
    nvlink.nvlink,
    state.ecc,
    state.row_remap,
    state.retired_pages,
    state.recovery_action,
    xid_events.xid_events,
    under_load.clocks,
    under_load.thermal,
    under_load.pcie,
    devices.devices,
    plugin.plugin,
    loopback.loopback,
    ib_ports.ports,
    names.names,
    reachability.reachability,
    reachability.pairs,
    mtu.mtu,
    pingpong.pingpong,
    nccl_tests.tests,
    gemm.gemm,
    sdc.sdc,
    memory_bandwidth.memory_bandwidth,
    transfer.transfer,
    training_smoke.smoke,
    training_step.step,
    # The pair tests run before any collective, because a collective that hangs or fails does not show which rank is at fault.
    pairs.collective_pairs,
    pairs.nccl_pairs,
    collectives.gloo_all_reduce,
    collectives.gloo_all_gather,
    nccl.intra_node,
    nccl.inter_node,
    nccl.all_reduce,
    nccl.all_gather,
    nccl.reduce_scatter,
    nccl.alltoall,
    nccl.sendrecv,
    overlap.overlap,
    training_smoke.ddp,
    transport.transport,
    dcgm_health.health,
    efa_counters.counters,
    ib_counters.counters,
    net_counters.counters,
)
# The watch of a node runs these beside CATALOG, and no gate does: they are about a job that runs, and a gate is before one. Their
# rules are in checks/judge/open_findings/jobs.py.
WATCH_ONLY: tuple[Check, ...] = (ras.job,)


def with_extra(extra: Sequence[str]) -> tuple[Check, ...]:
    """A site's own checks ("package.module:attribute"), followed by the catalogue. Raises CatalogError."""
    catalogue = (*(_extra(path) for path in extra), *CATALOG)
    names = [check.name for check in catalogue]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice:
        raise CatalogError(f"two checks are called {twice!r}. Rename the extra one.")
    return catalogue


def _extra(path: str) -> Check:
    """A site's own check. The path of one of Prelaunch's own checks is refused."""
    extra = imported(path)
    if any(extra is check for check in CATALOG):
        raise CatalogError(
            f"{path!r} is Prelaunch's own check {extra.name}. "
            "The catalogue contains it already: remove it from [checks] extra."
        )
    return extra


def plan(
    catalog: Sequence[Check],
    declared: Declared,
    profile: Profile,
    instance: Instance | None,
    policy: Policy | None = None,
) -> tuple[Planned, ...]:
    """The checks that must be observed, and what each has to measure. They follow from the declaration alone, and the numbers of the
    profile and the policy; `instance` is the instance table's row of the declared type.
    """
    lines = policy.checks if policy else {}

    def planned(check: Check) -> Planned:
        skip = check.skip_for(declared, profile, instance)
        chosen = lines[check.name].options if check.name in lines else {}
        basis = Basis(declared, instance, options(check.name, profile, chosen))
        if skip is not None:
            return Planned(check.name, check.scope, check.metrics, skip)
        return Planned(check.name, check.scope, check.metrics, None, check.holds(basis), check.events)

    return tuple(map(planned, catalog))


def digest(catalog: Sequence[Check]) -> str:
    """A digest of names, scopes and metrics, equal for catalogues whose checks make the same observations."""
    lines = (f"{c.name} {c.scope.value} {','.join(c.metrics)}" for c in catalog)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()
