"""nccl.*: the five collectives over the GPUs of all nodes, and all_reduce within nodes and between them.

Each verifies every element it receives, at every size (see checks.sweep). NCCL_DEBUG's log of what carried them is
read by nccl.transport.
"""

from __future__ import annotations

from datetime import timedelta

from checks import kinds
from checks.check import CheckError, Context, Measurement, Part, Skipped, check
from checks.kinds import World
from checks.model import Scope, Skip
from checks.sweep import METRICS, measure, measure_in, whole_world

TIMEOUT_S = 120.0
GROUP_SHARE = 0.6  # so that a group's own time-out ends a lost collective before the check's deadline


@check(
    "nccl.all_reduce",
    Scope.RANK,
    timeout_s=TIMEOUT_S,
    metrics=METRICS,
    needs="torch with NCCL",
    cost="seconds",
    min_ranks=2,
    part=Part.GPU,
    group=True,
)
def all_reduce(context: Context) -> Measurement:
    """Sums across all GPUs, compares every element, and takes the bus bandwidth by size.

    `wrong_elements` is this rank's. Arrays have one entry a size: bandwidths in 10^9 bytes/s from the median time
    of the slowest rank. `sizes_left_out` are the largest, which would not have fitted into the budget.
    """
    return measure(context, kinds.ALL_REDUCE)


@check(
    "nccl.all_gather",
    Scope.RANK,
    timeout_s=TIMEOUT_S,
    metrics=METRICS,
    needs="torch with NCCL",
    cost="seconds",
    min_ranks=2,
    part=Part.GPU,
    group=True,
)
def all_gather(context: Context) -> Measurement:
    """Gathers from all GPUs, compares every element, and takes the bus bandwidth by size.

    As nccl.all_reduce; a size is what each rank receives.
    """
    return measure(context, kinds.ALL_GATHER)


@check(
    "nccl.reduce_scatter",
    Scope.RANK,
    timeout_s=TIMEOUT_S,
    metrics=METRICS,
    needs="torch with NCCL",
    cost="seconds",
    min_ranks=2,
    part=Part.GPU,
    group=True,
)
def reduce_scatter(context: Context) -> Measurement:
    """Sums across all GPUs and scatters the sum, compares every element, and takes the bus bandwidth by size.

    As nccl.all_reduce; a size is what each rank sends.
    """
    return measure(context, kinds.REDUCE_SCATTER)


@check(
    "nccl.alltoall",
    Scope.RANK,
    timeout_s=TIMEOUT_S,
    metrics=METRICS,
    needs="torch with NCCL",
    cost="seconds",
    min_ranks=2,
    part=Part.GPU,
    group=True,
)
def alltoall(context: Context) -> Measurement:
    """Sends a part from each GPU to each, compares every element, and takes the bus bandwidth by size.

    As nccl.all_reduce; a size is what each rank sends in all.
    """
    return measure(context, kinds.ALLTOALL)


@check(
    "nccl.sendrecv",
    Scope.RANK,
    timeout_s=TIMEOUT_S,
    metrics=METRICS,
    needs="torch with NCCL",
    cost="seconds",
    min_ranks=2,
    part=Part.GPU,
    group=True,
)
def sendrecv(context: Context) -> Measurement:
    """Sends from each GPU to the next one in a ring, compares every element, and takes the bandwidth by size.

    As nccl.all_reduce; a size is what each rank sends, and bus bandwidth is its rate.
    """
    return measure(context, kinds.SENDRECV)


@check(
    "nccl.intra_node",
    Scope.RANK,
    timeout_s=TIMEOUT_S,
    metrics=METRICS,
    needs="torch with NCCL",
    cost="seconds",
    min_ranks=2,
    part=Part.NVLINK,
    group=True,
)
def intra_node(context: Context) -> Measurement | Skipped:
    """Sums across the GPUs of each node by itself, all nodes at once: NVLink, and no network.

    As nccl.all_reduce, for the node's own ranks.
    """
    world, local = whole_world(context), context.declared.ranks_per_node
    if local < 2:
        return Skipped(Skip.ONE_RANK_DECLARED, "one rank a node: its GPU has no neighbour to reach by NVLink")
    first = world.rank // local * local
    return measure_in(_part_of(context, world, tuple(range(first, first + local))), context, kinds.ALL_REDUCE)


@check(
    "nccl.inter_node",
    Scope.RANK,
    timeout_s=TIMEOUT_S,
    metrics=(*METRICS, "proven_gbit_s"),
    needs="torch with NCCL",
    cost="seconds",
    min_nodes=2,
    part=Part.GPU,
    group=True,
)
def inter_node(context: Context) -> Measurement:
    """Sums across nodes, each GPU with its counterparts on the others, all at once: the network, and no NVLink.

    As nccl.all_reduce, for the ranks that share a local rank. `proven_gbit_s` is the rate (10^9 bit/s, each way) that a
    node reached if all its ranks are as fast as this one; at most what the instance table gives the type, since
    what lies above (NVLink between nodes) proves no more.
    """
    world, local = whole_world(context), context.declared.ranks_per_node
    members = tuple(range(world.rank % local, world.ranks, local))
    made = measure_in(_part_of(context, world, members), context, kinds.ALL_REDUCE)
    peak = made.metrics["busbw_peak_gbps"]
    if not isinstance(peak, float):
        raise CheckError("the sweep gave no bandwidth")
    rate = 8.0 * local * peak
    known = context.instance.network_gbit_s if context.instance else None
    proven = rate if known is None else min(rate, float(known))
    said = f"\na node: {rate:.1f} Gbit/s each way; the instance table: {known or 'no rate'}"
    return Measurement({**made.metrics, "proven_gbit_s": proven}, made.evidence + said)


def _part_of(context: Context, world: World, members: tuple[int, ...]) -> World:
    """The group of these global ranks, which only they call for."""
    import torch.distributed as dist

    wait = timedelta(seconds=GROUP_SHARE * context.timeout_s)
    group = dist.new_group(list(members), timeout=wait, use_local_synchronization=True)
    return World(members.index(world.rank), len(members), world.device, group, members[0], members)
