"""nodes.node_N.nccl: an all_reduce of all processes, timed by the first rank of its node. The tool does not verify the result. Pure.

The tool's `bandwidth_gbps` is bytes over time (10^9 bytes/s), which nccl-tests calls algbw. The bus bandwidth of an all_reduce of n
ranks is 2(n-1)/n times it (nccl-tests, doc/PERFORMANCE.md). Every node received each byte once, so that its network carried at least
8 times algbw, in Gbit/s.
"""

from __future__ import annotations

from collections.abc import Mapping

from checks.model import Value
from checks.seed_report.node import DeclaredCluster, Extracted, NodeTable, Readings, Unread
from checks.seed_report.shape import Communication, NodeInfo, Size, table, taken

CHECKS: Mapping[str, tuple[str, ...]] = {
    "nccl.all_reduce": ("failure", "sizes_bytes", "busbw_gbps"),
    "nccl.inter_node": ("proven_gbit_s",),
}
RANKS: Mapping[str, tuple[str, ...]] = {"nccl.ranks": ("processes",)}
ALL_REDUCE = "distributed_all_reduce"
# The time of smaller messages is latency, and rounding to two decimals changes most of the number.
LEAST_BYTES = 128 << 20
ROUNDING = 0.005  # two decimals
KNOWN = (ALL_REDUCE, "multi_gpu", "single_gpu", "no_gpu")


def read(node: NodeTable, asked: DeclaredCluster) -> Readings:
    """What the all_reduce carried. Every failure that the tool reports counts, wherever it is in the table."""
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
        "nccl.all_reduce": Extracted(
            {"failure": "ok", "sizes_bytes": (largest.size_bytes,), "busbw_gbps": (busbw,)}, said
        ),
        "nccl.inter_node": Extracted({"proven_gbit_s": min(proven, network) if network else proven}, said),
    }


def processes(node: NodeTable, asked: DeclaredCluster) -> Extracted:
    """Whether each declared rank of the node took part: an all_reduce does not complete without one. Raises Unread."""
    world = node.taken(NodeInfo, "node_info").world_size
    took = world
    if asked.declared.ranks > 1:
        tests = _tests(node)
        test = tests.get(ALL_REDUCE)
        if test is None or not test.success:
            raise Unread("no all_reduce completed, so there is no evidence that this rank ran")
        took = test.processes_tested
    if took != asked.declared.ranks or world != took:
        raise Unread(
            f"{took} processes took part, world_size is {world}, and {asked.declared.ranks} ranks are declared"
        )
    return Extracted({"processes": took})


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
        "nccl.all_reduce": Extracted(
            {"failure": words, "sizes_bytes": nothing, "busbw_gbps": nothing}, words
        ),
        "nccl.inter_node": Unread("the collective failed", words),
    }


def _largest(test: Communication) -> Size:
    """The largest message, with its slowest run. Raises Unread if no rate is given, or the numbers contradict each other."""
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
    """Whether bandwidth and time, each rounded to two decimals, are of the same measurement."""
    rate = size.size_bytes / size.latency_ms / 1e6
    slack = ROUNDING + rate * ROUNDING / max(size.latency_ms - ROUNDING, ROUNDING) + 1e-9
    return abs(size.bandwidth_gbps - rate) <= slack
