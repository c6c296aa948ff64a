"""The report of brunopistone/sagemaker-training-jobs-cluster-health-check (scripts/train.py and train_mpi.py), as tables.

Read of the versions 520d59b to 0e72868, and of the sample output that its README showed. Its `*_gbps` are 10^9 bytes/s,
its `*_gb` are 2^30 bytes, its `*_mb` MiB as nvidia-smi prints them. What a later version adds is listed, never refused.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Annotated, Any, TypeVar, get_args, get_type_hints

from checks.documents.decode import decode
from checks.value_types import DecodeError, Range

T = TypeVar("T")
Count = Annotated[int, Range(0, 10_000_000)]
Rate = Annotated[float, Range(0, 1e9)]
# (path, value) of every key that is not known here.
Unknown = list[tuple[str, object]]


@dataclass(frozen=True)
class Topology:
    """cluster_info.cluster_topology: what SageMaker's variables told the job."""

    total_nodes: Annotated[int, Range(1, 100_000)]
    gpus_per_node: Annotated[int, Range(0, 64)]
    processes_per_node: Count = 0


@dataclass(frozen=True)
class ClusterInfo:
    """cluster_info."""

    cluster_topology: Topology
    data_completeness: str = ""
    note: str = ""
    expected_total_gpus: Count = 0


@dataclass(frozen=True)
class Summary:
    """The tool's own status, of a node or of the cluster."""

    overall_status: str
    issues: tuple[str, ...] = ()
    recommendations: tuple[str, ...] = ()
    test_results: Mapping[str, object] = field(default_factory=dict)
    performance_summary: Mapping[str, object] = field(default_factory=dict)
    cluster_info: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class NodeInfo:
    """node_info, as the node's first rank wrote it."""

    world_size: Count
    host_rank: Count
    rank: Count = 0
    local_rank: Count = 0
    hostname: str = ""
    current_host: str = ""
    host_count: Count = 0
    gpus_per_host: Count = 0


@dataclass(frozen=True)
class Gpu:
    """One line of nvidia-smi --query-gpu; None if it printed [Not Supported], or the second query failed."""

    name: str
    driver_version: str
    memory_total_mb: Count
    memory_used_mb: Count
    memory_free_mb: Count
    temperature_c: Annotated[int, Range(-1000, 1000)] | None = None
    utilization_percent: Count | None = None
    power_draw_w: Rate | None = None


@dataclass(frozen=True)
class Memory:
    """psutil.virtual_memory."""

    total_gb: Rate
    available_gb: Rate
    used_percent: Rate = 0.0


@dataclass(frozen=True)
class Disk:
    """psutil.disk_usage of the root."""

    total_gb: Rate
    free_gb: Rate
    used_percent: Rate = 0.0


@dataclass(frozen=True)
class Cpu:
    """psutil.cpu_count."""

    count: Count
    usage_percent: Rate = 0.0


@dataclass(frozen=True)
class System:
    """system."""

    memory: Memory
    disk: Disk
    cpu: Cpu


@dataclass(frozen=True)
class Plugin:
    """Whether `find /opt/amazon -name libnccl-net.so` found a file."""

    installed: bool
    path: str = ""


@dataclass(frozen=True)
class Pingpong:
    """fi_pingpong: the first node is the server, which takes one client and ends."""

    success: bool
    raw_output: str | None = None
    test_role: str = ""
    rank: Count = 0
    message: str = ""


@dataclass(frozen=True)
class Network:
    """network: fi_info ended with 0, how many lines with "provider: efa" it printed, and the first five of them."""

    efa_available: bool
    aws_ofi_nccl_plugin: Plugin | None = None
    efa_error: str = ""
    efa_providers: tuple[str, ...] = ()
    efa_provider_count: Count | None = None
    efa_communication_test: Pingpong | None = None


@dataclass(frozen=True)
class Size:
    """One message size: `bandwidth_gbps` is bytes over time (nccl-tests' algbw), `latency_ms` the time of one call."""

    size_bytes: Annotated[int, Range(1, 1 << 50)]
    bandwidth_gbps: Rate
    latency_ms: Rate


@dataclass(frozen=True)
class Communication:
    """One test of nccl.communication_tests."""

    success: bool
    test_type: str = ""
    processes_tested: Count = 0
    results: tuple[Size, ...] = ()
    peak_bandwidth_gbps: Rate | None = None
    error: str = ""
    message: str = ""
    gpus_tested: Count = 0
    bandwidth_gbps: Rate = 0.0


@dataclass(frozen=True)
class Parsed:
    """What the tool itself read from a table of dcgmi diag."""

    overall_status: str = ""
    test_results: Mapping[str, object] = field(default_factory=dict)
    dcgm_version: str | None = None
    driver_version: str | None = None
    gpu_device_ids: str | None = None


@dataclass(frozen=True)
class Diagnostic:
    """One run of dcgmi diag. `raw_output` is its stdout, or stderr if it printed no table."""

    success: bool
    raw_output: str | None = None
    parsed_output: Parsed | None = None
    stdout: str | None = None
    stderr: str | None = None
    exit_code_zero: bool | None = None
    skipped: bool = False
    message: str = ""


def taken(kind: type[T], value: object, path: str, unknown: Unknown) -> T:
    """The value as `kind`; keys that the kind does not have are added to `unknown`. Raises DecodeError."""
    return decode(kind, _known(kind, value, path, unknown), path)


def table(value: object, path: str) -> Mapping[str, object]:
    """The value, if it is a table. Raises DecodeError."""
    if not isinstance(value, Mapping):
        raise DecodeError(f"expected a table, found {type(value).__name__}", path)
    return value


def _known(kind: Any, value: object, path: str, unknown: Unknown) -> object:
    """The value without the keys that `kind` does not have."""
    if not isinstance(value, Mapping):
        return value
    nested = _nested(kind)
    unknown += [(f"{path}.{key}", item) for key, item in value.items() if key not in nested]
    return {
        key: item if nested[key] is None else _inside(nested[key], item, f"{path}.{key}", unknown)
        for key, item in value.items()
        if key in nested
    }


def _inside(kind: Any, value: object, path: str, unknown: Unknown) -> object:
    """The same for a field that holds a table, or a list of them."""
    if isinstance(value, list):
        return [_known(kind, item, f"{path}[{at}]", unknown) for at, item in enumerate(value)]
    return _known(kind, value, path, unknown)


@lru_cache(maxsize=64)
def _nested(kind: Any) -> dict[str, Any]:
    """Each key of the kind, with the kind of the tables that it holds, or None."""
    hints = get_type_hints(kind, include_extras=True)
    return {
        name: next((part for part in (hint, *get_args(hint)) if dataclasses.is_dataclass(part)), None)
        for name, hint in hints.items()
    }
