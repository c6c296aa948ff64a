"""collective.pairs and nccl.pairs: every pair of ranks is measured inside the running job (checks/culprit finds who is to blame).

A rank's row has one entry per test in which it took part, in the order of measurement; a pair that was measured again has several
entries. These checks run after all other checks that need the group: a rank that dies in them is lost to the group, and with NCCL an
exchange that hangs blocks its communicator until torch's watchdog ends the process.

Options: pings; min_bytes, max_bytes (of the messages of a stream); seconds (of one direction's stream); repeats (messages of the
size that counts, of which the fastest is used); round_s (a silence of this length means no answer); budget_s (planned rounds beyond
it are left out); repeat_s (how long the sweep of a few nodes is repeated, checks.culprit.rounds says how often); all_pairs_nodes (with
more nodes there are `matchings` rounds between nodes, then all pairs of the nodes that look bad); confirms (how often each stage of
retests measures the doubtful pairs; retest_rounds has the stages).
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from checks.check import CheckError, Context, Measurement, RankPlace, Turn, check
from checks.culprit import test_rows
from checks.culprit.retest import LOST_SHARE, RATIO, Bounds
from checks.culprit.rounds import Between, planned, sweeps
from checks.culprit.test_rows import METRICS, TCP_METRICS
from checks.model import MachinePart, Scope
from checks.probes.pairs import retest_rounds
from checks.probes.pairs.pair_test import Buffers, Sizes, whole
from checks.probes.pairs.pair_wait import PairWait, WaitLimits
from checks.probes.pairs.rank import RankSchedule
from checks.probes.pairs.rendezvous import NoteStore
from checks.probes.pairs.tcp_counters import NOTHING_SENT, TcpCounters, counted, have_links
from checks.value_types import listed_names

MIB = 1 << 20
SNMP, NETSTAT = Path("/proc/self/net/snmp"), Path("/proc/self/net/netstat")
BUDGET_SHARE = 0.5  # the share of the deadline for planned rounds, so that there is time to measure again

REPEAT_S = 1.0  # how long the sweep of a small cluster is repeated
END_SHARE = 0.8  # the share of the deadline for all tests, so that the row is on disk before the watchdog ends the process
MOST_NAMED = 8
_number = itertools.count()
pairs_check = partial(check, scope=Scope.RANK, cost="seconds", min_ranks=2, group=True, turn=Turn.FIRST)


@pairs_check(
    "collective.pairs", timeout_s=60, metrics=(*METRICS, *TCP_METRICS), needs="torch", part=MachinePart.NO_GPU
)
def collective_pairs(context: Context) -> Measurement:
    """Measures each pair of ranks by itself in rounds of disjoint pairs, both ways, and compares what arrives.

    The pairs are those within a node, and those of equal local rank on two nodes. There is one entry per test: `peers` is the
    other's global rank; `results` how it ended (PairOutcome; "not_run" and "peer_left" say nothing about the pair) and `failures`
    "ok" or the same in words; `bandwidth_gbps` from here to it, 10^9 bytes/s until its acknowledgement was back, and
    `message_bytes` the size of the message that gave it; `latency_us` half the median round trip of a small message and `slowest_us`
    half the slowest one; `wrong_elements` in the data that came from it; `data_segments` the TCP
    segments with new data that this host sent during the test, `retransmits` those that it sent again, and `needless_retransmits`
    how many of these had not been lost, as their receivers said, all 0 where the nodes are processes at loopback addresses, between
    which there is no network; `in_round` the number of the round, the same on all ranks; `began_s` when it began, in seconds since
    this rank's first round; `cpu_wait` the share of its time for which threads of this process waited for a CPU.
    `rounds_left_out` are the rounds for which the time budget was too short.
    """
    return _measure(context, with_segments=True)


@pairs_check("nccl.pairs", timeout_s=120, metrics=METRICS, needs="torch with NCCL", part=MachinePart.GPU)
def nccl_pairs(context: Context) -> Measurement:
    """Measures each pair of GPUs by itself in rounds of disjoint pairs, both ways, and compares what arrives.

    It measures the same as collective.pairs, without TCP segments. An exchange that hangs ends the pair tests of its two ranks.
    """
    return _measure(context, with_segments=False)


def _measure(context: Context, with_segments: bool) -> Measurement:
    import torch

    own = _rank_place(context)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # the ranks of a host measure at the same time, and share its cores
    try:
        schedule = _schedule_of(context, own)
        try:
            return _run_rounds(context, schedule, with_segments)
        finally:
            schedule.leave()
    finally:
        torch.set_num_threads(threads)


def _rank_place(context: Context) -> RankPlace:
    """The rank's place in the process group is returned. Raises CheckError if the group is not the declared one."""
    import torch.distributed as dist

    own = context.rank_place
    if own is None or not dist.is_initialized():
        raise CheckError("there is no process group. Run this check under torchrun.")
    if dist.get_world_size() != context.declared.ranks or dist.get_rank() != own.rank:
        raise CheckError(
            f"the process group has {dist.get_world_size()} ranks, but {context.declared.ranks} are declared"
        )
    return own


def _run_rounds(context: Context, schedule: RankSchedule, with_segments: bool) -> Measurement:
    options, declared = context.options, context.declared
    most = int(options.get("all_pairs_nodes", 256))
    rounds = planned(declared.nodes, declared.ranks_per_node, most, int(options.get("matchings", 12)))
    schedule.run(rounds)
    planned_s = time.monotonic() - schedule.begun
    swept = 0
    if declared.nodes <= most and not schedule.left_out:
        sweep = [round_ for round_ in rounds if isinstance(round_, Between)]
        swept = schedule.repeat(sweep, sweeps(declared.nodes) - 1, options.get("repeat_s", REPEAT_S))
    bounds = _bounds(context)
    again = [0, 0]
    if declared.nodes > most:
        again[0] = retest_rounds.suspects(schedule, declared.nodes, declared.ranks_per_node, bounds)
    if confirms := int(options.get("confirms", 3)):
        again[1] = retest_rounds.confirm(schedule, declared.ranks_per_node, confirms, bounds)
    if again[1] or not confirms:
        retest_rounds.final_stage(schedule)
    if schedule.gone:
        context.lose_group(_lost(schedule.gone))
    if not schedule.tests:
        raise CheckError(f"rank {schedule.me} tested no pair in {schedule.index} rounds")
    without = sum(not test.ending.is_ok for test in schedule.tests)
    note = (
        f"rank {schedule.me}: {len(schedule.tests)} tests, {without} of them without a number\n"
        f"{schedule.index} rounds in {time.monotonic() - schedule.begun:.2f} s, {len(rounds)} planned in {planned_s:.2f} s,"
        f" {schedule.left_out} left out; the sweep between nodes was repeated {swept} times; {again[0]} suspicious and {again[1]}"
        " doubtful pairs measured again"
    )
    if schedule.note_store.lost:
        note += f"\nthe ranks could not exchange notes: {schedule.note_store.lost}"
    metrics = test_rows.metrics(schedule.tests, schedule.index, schedule.left_out, with_segments)
    return Measurement(metrics, note)


def _bounds(context: Context) -> Bounds:
    """The thresholds with which the policy will compare, so that what it would call bad is measured again first."""
    options, instance = context.options, context.instance
    floor = options.get("floor_gbps", 0.0)
    if instance is not None and instance.network_gbit_s is not None:
        share_gbps = float(instance.network_gbit_s) / 8 / context.declared.ranks_per_node
        floor = max(floor, options.get("floor_share", 0.0) * share_gbps)
    inside = options.get("floor_inside_gbps", 0.0)
    return Bounds(options.get("slow_ratio", RATIO), floor, inside, options.get("lost_share", LOST_SHARE))


def _lost(gone: Sequence[int]) -> str:
    ranks = f"rank{'' if len(gone) == 1 else 's'} {listed_names([str(rank) for rank in gone], MOST_NAMED)}"
    return f"{ranks} stopped answering in the pair tests, or hang with a rank that did: no collective of all ranks can complete"


def _schedule_of(context: Context, own: RankPlace) -> RankSchedule:
    """The rank, ready for its tests: with NCCL the communicator of all ranks is initialised."""
    options, number, begun = context.options, next(_number), time.monotonic()
    gpu = own.device.startswith("cuda")
    limits = WaitLimits(options.get("round_s", 2.0), begun + END_SHARE * context.timeout_s)
    sizes = Sizes(
        pings=int(options.get("pings", 10)),
        least_bytes=whole(options.get("min_bytes", MIB if gpu else MIB // 16)),
        most_bytes=whole(options.get("max_bytes", 256 * MIB if gpu else MIB)),
        seconds=options.get("seconds", 0.01),
        repeats=int(options.get("repeats", 3)),
    )
    if wrong := sizes.wrong() or ("round_s must be more than 0" if limits.round_s <= 0 else ""):
        raise CheckError(f"{wrong}. Correct the options of this check in the policy.")
    if gpu:
        _connect(own.device, END_SHARE / 2 * context.timeout_s)
    note_store = NoteStore(context.store, f"pairs/{number}/", max(limits.round_s, 1.0), limits.end)
    return RankSchedule(
        own.world_size,
        sizes,
        Buffers(sizes, own.device),
        PairWait(own.rank, note_store, limits, fragile=gpu),
        number,
        min(options.get("budget_s", 2.0), BUDGET_SHARE * context.timeout_s),
        _counters
        if have_links([member.address for member in context.roster.members])
        else lambda: NOTHING_SENT,
    )


def _counters() -> TcpCounters:
    return counted(SNMP.read_text(encoding="ascii"), NETSTAT.read_text(encoding="ascii"))


def _connect(device: str, seconds: float) -> None:
    """Initialises NCCL's communicator of all ranks, for which every rank is needed. Raises CheckError."""
    import torch
    import torch.distributed as dist

    def together() -> None:
        torch.cuda.set_device(device)
        dist.all_reduce(torch.zeros(1, device=device))
        torch.cuda.synchronize(device)
        done.set()

    done = threading.Event()
    threading.Thread(target=together, name="first collective", daemon=True).start()
    if not done.wait(seconds):
        message = f"the ranks formed no communicator within {seconds:g} s: at least one rank does not answer"
        raise CheckError(message)
