"""nccl.*: five collectives over the GPUs of all nodes, and all_reduce within nodes and between them; collective.*: two over gloo,
without GPUs.

Each check compares every element that it receives, at every size (see checks.probes.collectives.sweep). nccl.transport reads NCCL's
log (NCCL_DEBUG), which shows what carried the data.
"""

from __future__ import annotations

from datetime import timedelta
from functools import partial

from checks.check import CheckError, Context, Measurement, Skipped
from checks.model import MachinePart, Skip
from checks.probes.collectives import operations
from checks.probes.collectives.operations import World
from checks.probes.collectives.sweep import measure, measure_in, sweep_check, whole_world

TIMEOUT_S = 120.0
GROUP_SHARE = 0.6  # so that the time-out of the group ends a lost collective before the check's deadline
over_gpus = partial(sweep_check, hardware=MachinePart.GPU, needs="torch with NCCL", timeout_s=TIMEOUT_S)


@over_gpus("nccl.all_reduce", operations.ALL_REDUCE)
def all_reduce(context: Context) -> Measurement:
    """Sums across all GPUs, compares every element, and takes the bus bandwidth by size.

    `wrong_elements` is this rank's. Arrays have one entry a size: bandwidths in 10^9 bytes/s from the median time
    of the slowest rank. `sizes_left_out` are the largest, which would not have fitted into the budget.
    """
    return measure(context, operations.ALL_REDUCE)


@over_gpus("nccl.all_gather", operations.ALL_GATHER)
def all_gather(context: Context) -> Measurement:
    """Gathers from all GPUs, compares every element, and takes the bus bandwidth by size.

    As nccl.all_reduce; a size is what each rank receives.
    """
    return measure(context, operations.ALL_GATHER)


@over_gpus("nccl.reduce_scatter", operations.REDUCE_SCATTER)
def reduce_scatter(context: Context) -> Measurement:
    """Sums across all GPUs and scatters the sum, compares every element, and takes the bus bandwidth by size.

    As nccl.all_reduce; a size is what each rank sends.
    """
    return measure(context, operations.REDUCE_SCATTER)


@over_gpus("nccl.alltoall", operations.ALLTOALL)
def alltoall(context: Context) -> Measurement:
    """Sends a part from each GPU to each, compares every element, and takes the bus bandwidth by size.

    As nccl.all_reduce; a size is what each rank sends in all.
    """
    return measure(context, operations.ALLTOALL)


@over_gpus("nccl.sendrecv", operations.SENDRECV)
def sendrecv(context: Context) -> Measurement:
    """Sends from each GPU to the next one in a ring, compares every element, and takes the bandwidth by size.

    As nccl.all_reduce; a size is what each rank sends, and bus bandwidth is its rate.
    """
    return measure(context, operations.SENDRECV)


@over_gpus(
    "nccl.intra_node",
    operations.ALL_REDUCE,
    hardware=MachinePart.NVLINK,
    ranks=lambda declared: declared.ranks_per_node,
)
def intra_node(context: Context) -> Measurement | Skipped:
    """Sums across the GPUs of each node by itself, all nodes at once: NVLink, and no network.

    As nccl.all_reduce, for the node's own ranks.
    """
    world, local = whole_world(context), context.declared.ranks_per_node
    if local < 2:
        return Skipped(
            Skip.ONE_RANK_DECLARED,
            "there is one rank per node, so the GPU has no neighbour to reach over NVLink",
        )
    first = world.rank // local * local
    return measure_in(
        _part_of(context, world, tuple(range(first, first + local))), context, operations.ALL_REDUCE
    )


@over_gpus(
    "nccl.inter_node",
    operations.ALL_REDUCE,
    more=("proven_gbit_s",),
    min_nodes=2,
    min_ranks=1,
    ranks=lambda declared: declared.nodes,
)
def inter_node(context: Context) -> Measurement:
    """Sums across nodes, each GPU with its counterparts on the others, all at once: the network, and no NVLink.

    As nccl.all_reduce, for the ranks that share a local rank. `proven_gbit_s` is the rate (10^9 bit/s, each way) that a
    node reached if all its ranks are as fast as this one; at most what the instance table gives the type, since
    what lies above (NVLink between nodes) proves no more.
    """
    world, local = whole_world(context), context.declared.ranks_per_node
    members = tuple(range(world.rank % local, world.ranks, local))
    sweep = measure_in(_part_of(context, world, members), context, operations.ALL_REDUCE)
    peak = sweep.metrics["busbw_peak_gbps"]
    if not isinstance(peak, float):
        raise CheckError("the sweep produced no bandwidth")
    rate = 8.0 * local * peak
    declared_gbit_s = context.instance.network_gbit_s if context.instance else None
    proven = rate if declared_gbit_s is None else min(rate, float(declared_gbit_s))
    note = f"\nper node: {rate:.1f} Gbit/s each way; the instance table: {declared_gbit_s or 'no rate'}"
    return Measurement({**sweep.metrics, "proven_gbit_s": proven}, sweep.evidence + note)


def _part_of(context: Context, world: World, members: tuple[int, ...]) -> World:
    """The group of these global ranks. Only these ranks call this."""
    import torch.distributed as dist

    wait = timedelta(seconds=GROUP_SHARE * context.timeout_s)
    group = dist.new_group(list(members), timeout=wait, use_local_synchronization=True)
    return World(members.index(world.rank), len(members), world.device, group, members[0], members)


over_gloo = partial(sweep_check, hardware=MachinePart.NO_GPU, needs="torch", timeout_s=60)


@over_gloo("collective.all_reduce", operations.ALL_REDUCE)
def gloo_all_reduce(context: Context) -> Measurement:
    """Sums across all ranks, compares every element, and takes the bus bandwidth by size.

    `wrong_elements` is this rank's. Arrays have one entry a size: bandwidths in 10^9 bytes/s from the
    median time of the slowest rank. `sizes_left_out` are the largest, which would not have fitted into the
    budget.
    """
    return measure(context, operations.ALL_REDUCE)


@over_gloo("collective.all_gather", operations.ALL_GATHER)
def gloo_all_gather(context: Context) -> Measurement:
    """Gathers from all ranks, compares every element, and takes the bus bandwidth by size.

    As collective.all_reduce; a size is what each rank receives.
    """
    return measure(context, operations.ALL_GATHER)
