"""nodes.node_N.nccl: an all_reduce of all processes, timed by its node's first rank; nothing was verified (pure).

The tool's `bandwidth_gbps` is bytes over time (10^9 bytes/s), which nccl-tests calls algbw. The bus bandwidth of an
all_reduce of n ranks is 2(n-1)/n times it (nccl-tests, doc/PERFORMANCE.md); every node received each byte once, so
that 8 times algbw is what its network proved, in Gbit/s.
"""

from __future__ import annotations

from collections.abc import Mapping

from checks.model import Value
from checks.seed_report.node import Asked, NodeTable, Readings, Shown, Unread
from checks.seed_report.shape import Communication, NodeInfo, Size, table, taken

CHECKS: Mapping[str, tuple[str, ...]] = {
    "nccl.all_reduce": ("failure", "sizes_bytes", "busbw_gbps"),
    "nccl.inter_node": ("proven_gbit_s",),
}
RANKS: Mapping[str, tuple[str, ...]] = {"nccl.ranks": ("processes",)}
ALL_REDUCE = "distributed_all_reduce"
# Of smaller ones the time is latency, and the two decimals that the tool keeps are most of the number.
LEAST_BYTES = 128 << 20
ROUNDING = 0.005  # two decimals
KNOWN = (ALL_REDUCE, "multi_gpu", "single_gpu", "no_gpu")


def read(node: NodeTable, asked: Asked) -> Readings:
    """What the all_reduce carried. A failure that the tool wrote down is one, wherever it stands."""
    tests = _tests(node)
    failed = {name: test for name, test in tests.items() if not test.success}
    if failed:
        return _failed(failed)
    if ALL_REDUCE not in tests:
        raise Unread(
            f"no collective was tested, only {', '.join(tests) or 'nothing'}: the tool ran as one process"
        )
    largest = _largest(tests[ALL_REDUCE])
    ranks = tests[ALL_REDUCE].processes_tested
    busbw = largest.bandwidth_gbps * 2 * (ranks - 1) / ranks
    said = "\n".join(
        f"{size.size_bytes} bytes: {size.bandwidth_gbps:g} GB/s (algbw), {size.latency_ms:g} ms"
        for size in tests[ALL_REDUCE].results
    )
    network = asked.instance.network_gbit_s if asked.instance else None
    proven = 8 * largest.bandwidth_gbps
    return {
        "nccl.all_reduce": Shown(
            {"failure": "ok", "sizes_bytes": (largest.size_bytes,), "busbw_gbps": (busbw,)}, said
        ),
        "nccl.inter_node": Shown({"proven_gbit_s": min(proven, network) if network else proven}, said),
    }


def processes(node: NodeTable, asked: Asked) -> Shown:
    """That each declared rank of the node took part: an all_reduce does not end without one. Raises Unread."""
    world = node.taken(NodeInfo, "node_info").world_size
    took = world
    if asked.declared.ranks > 1:
        tests = _tests(node)
        test = tests.get(ALL_REDUCE)
        if test is None or not test.success:
            raise Unread("no all_reduce ended, so that nothing shows that this rank ever ran")
        took = test.processes_tested
    if took != asked.declared.ranks or world != took:
        raise Unread(
            f"{took} processes took part, world_size is {world}, and {asked.declared.ranks} ranks are declared"
        )
    return Shown({"processes": took})


def _tests(node: NodeTable) -> dict[str, Communication]:
    path = f"nodes.{node.name}.nccl"
    found = table(node.section("nccl"), path)
    node.unknown.extend(
        (f"{path}.{key}", item)
        for key, item in found.items()
        if key not in ("nccl_tests_available", "communication_tests")
    )
    tests = table(found.get("communication_tests"), f"{path}.communication_tests")
    node.unknown.extend(
        (f"{path}.communication_tests.{name}", test) for name, test in tests.items() if name not in KNOWN
    )
    return {
        name: taken(Communication, test, f"{path}.communication_tests.{name}", node.unknown)
        for name, test in tests.items()
    }


def _failed(failed: Mapping[str, Communication]) -> Readings:
    words = "; ".join(
        f"{name}: {' '.join(test.error.split())[:300] or 'success is false'}" for name, test in failed.items()
    )
    nothing: Value = (None,)
    return {
        "nccl.all_reduce": Shown({"failure": words, "sizes_bytes": nothing, "busbw_gbps": nothing}, words),
        "nccl.inter_node": Unread("the collective failed", words),
    }


def _largest(test: Communication) -> Size:
    """The largest message, its slowest run. Raises Unread where none tells a rate, or the numbers contradict each other."""
    for size in test.results:
        if size.latency_ms and not _agree(size):
            raise Unread(
                f"{size.size_bytes} bytes in {size.latency_ms:g} ms are not {size.bandwidth_gbps:g} GB/s"
            )
    largest = max(test.results, key=lambda size: (size.size_bytes, -size.bandwidth_gbps), default=None)
    if largest is None or largest.size_bytes < LEAST_BYTES:
        raise Unread(f"no message of {LEAST_BYTES >> 20} MiB or more was sent")
    if largest.latency_ms == 0 or test.processes_tested < 2:
        raise Unread(
            f"{largest.size_bytes} bytes in {largest.latency_ms:g} ms by {test.processes_tested} processes"
        )
    peak = max(size.bandwidth_gbps for size in test.results)
    if test.peak_bandwidth_gbps is not None and test.peak_bandwidth_gbps != peak:
        raise Unread(f"peak_bandwidth_gbps is {test.peak_bandwidth_gbps:g}, and the highest result {peak:g}")
    return largest


def _agree(size: Size) -> bool:
    """Whether bandwidth and time, each rounded to two decimals, are of one measurement."""
    rate = size.size_bytes / size.latency_ms / 1e6
    slack = ROUNDING + rate * ROUNDING / max(size.latency_ms - ROUNDING, ROUNDING) + 1e-9
    return abs(size.bandwidth_gbps - rate) <= slack
