"""nodes.node_N.network: fi_info, the NCCL plugin, fi_pingpong. Pure.

The tool only keeps the number of fi_info's "provider: efa" lines. libfabric prints one EFA device as one, two or three endpoints
(see checks/probes/efa/fi_info.py), so that the number must be one, two or three times that of the devices.
"""

from __future__ import annotations

from collections.abc import Mapping

from checks.check import CheckError
from checks.model import Skip, Value
from checks.probes.efa.fi_pingpong import DATAGRAM, parse
from checks.seed_report.node import DeclaredCluster, Extracted, NodeTable, Readings, Unread, bounded
from checks.seed_report.shape import Network

CHECKS: Mapping[str, tuple[str, ...]] = {
    "efa.devices": ("failure", "endpoints", "devices"),
    "efa.plugin": ("installed",),
    "efa.pingpong": ("failure",),
}
LINE = "provider: efa"
SHOWN = 5  # how many provider lines the tool keeps
EACH = (1, 2, 3)  # endpoints of a device


def read(node: NodeTable, asked: DeclaredCluster) -> Readings:
    """The three checks."""
    network = node.taken(Network, "network")
    return {
        "efa.devices": _devices(network, asked),
        "efa.plugin": _plugin(network),
        "efa.pingpong": _pingpong(network, asked),
    }


def _devices(network: Network, asked: DeclaredCluster) -> Extracted | Unread:
    listed = sum(LINE in line for line in network.efa_providers)
    count = network.efa_provider_count
    if network.efa_available and (count is None or listed != min(count, SHOWN)):
        return Unread(f"efa_provider_count is {count}, and {listed} such lines are listed")
    endpoints, expected = count or 0, asked.instance.efa_devices if asked.instance else None
    words = network.efa_error.strip()[:300] or "no error text"
    metrics: dict[str, Value] = {
        "failure": "ok" if network.efa_available else f"fi_info failed: {words}",
        "endpoints": endpoints,
        "devices": devices_of(endpoints, expected),
    }
    return Extracted(metrics, f"{endpoints} lines of fi_info name the provider efa")


def devices_of(endpoints: int, expected: int | None) -> int:
    """The greatest number of devices, at most the expected one, that can have this many endpoints; all endpoints' devices if there
    are more.
    """
    if expected is None:
        return endpoints
    whole = [endpoints // each for each in EACH if endpoints % each == 0 and endpoints // each <= expected]
    return max(whole, default=endpoints // max(EACH))


def _plugin(network: Network) -> Extracted | Unread:
    if network.aws_ofi_nccl_plugin is None:
        return Unread("aws_ofi_nccl_plugin is missing")
    return Extracted({"installed": network.aws_ofi_nccl_plugin.installed}, network.aws_ofi_nccl_plugin.path)


def _pingpong(network: Network, asked: DeclaredCluster) -> Extracted | Unread:
    test = network.efa_communication_test
    if test is None or test.raw_output is None:
        return Unread(
            f"the output of fi_pingpong is missing{f': {test.message}' if test and test.message else ''}"
        )
    try:
        tables = parse(bounded(test.raw_output), DATAGRAM)
    except Unread as error:
        return error
    except CheckError as error:
        return _without_table(test.raw_output, test.success, test.test_role, str(error), asked)
    failure = "ok" if test.success else "fi_pingpong printed a table and failed"
    lost = sum(table.acks_missing for table in tables)
    return Extracted({"failure": failure, "acks_missing": lost}, test.raw_output)


def _without_table(
    text: str, success: bool, role: str, why: str, asked: DeclaredCluster
) -> Extracted | Unread:
    if success or not text.strip():
        return Unread(why if text.strip() else "fi_pingpong ended without output", text)
    if role == "client" and asked.declared.nodes > 2:
        said = "the tool's server accepts one client and then ends, so only two of the nodes can be measured"
        return Unread(said, text, Skip.PREREQUISITE)
    return Extracted({"failure": " ".join(text.split())[:300]}, text)
