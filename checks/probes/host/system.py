"""system.identity, system.resources, system.clock: which machine this node is, which resources it may use, and its time.

The state of the clock is read with adjtimex(2). Nothing is set.
"""

from __future__ import annotations

import ctypes
import os
import platform
import resource
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from checks.check import CheckError, Context, Measurement, Skipped, check
from checks.model import Scope, Skip, Value
from checks.probes.host import machine
from checks.probes.sysfs import required_text
from checks.process.cgroup import CgroupError, CgroupLimits, read_limits
from checks.value_types import byte_size

ROOT = Path("/")
POOL_TOKEN = "PRELAUNCH_POOL_TOKEN"  # noqa: S105 - the name of a variable
# The engine's name for the node: Slurm sets the first, our launcher lets Kubernetes set the second (downward API, spec.nodeName).
ENGINE_NODES = ("SLURMD_NODENAME", "PRELAUNCH_ENGINE_NODE")
# "No limit" as a number larger than any real limit, so that one lower bound serves both. Policies hold 1e18.
UNLIMITED = 10**18


def identity_of_node(root: Path = ROOT) -> dict[str, str]:
    """What says that this is the same machine: host, boot_id, gpu_uuids (sorted), driver, kernel ...

    Made of files alone, so it cannot hang. "" stands for what could not be read, and confirms nothing.
    `boot_id` is the host's even in a container, `host` is the container's name there. `pool_token` is there only where the
    agent found one on this machine, `engine_node` where Slurm or Kubernetes started this process (its name for the node), and
    `instance_id` on EC2.
    """
    optional = {
        "pool_token": os.environ.get(POOL_TOKEN, ""),
        "engine_node": next(filter(None, (os.environ.get(name, "") for name in ENGINE_NODES)), ""),
        "instance_id": machine.instance_id(root),
    }
    return {
        "host": platform.node(),
        "boot_id": machine.boot_id(root),
        "machine_id": machine.machine_id(root),
        "product_uuid": machine.product_uuid(root),
        "gpu_uuids": ",".join(machine.gpu_uuids(root)),
        "driver": machine.driver_version(root),
        "kernel": platform.release(),
        **{name: text for name, text in optional.items() if text},
    }


@check(
    "system.identity",
    Scope.NODE,
    timeout_s=10,
    metrics=(
        "host",
        "boot_id",
        "kernel",
        "architecture",
        "os_release",
        "cpu_model",
        "python",
        "torch",
        "driver",
    ),
    needs="/proc",
    beside_job=True,
)
def identity(context: Context) -> Measurement:
    """Reads which machine, kernel, driver and versions this node has.

    All metrics are text. `torch` and `driver` are "" where there is none; machine_id, product_uuid and
    gpu_uuids are "" where they cannot be read. Raises CheckError for anything else that cannot be.
    """
    return Measurement(identity_metrics(ROOT))


def identity_metrics(root: Path) -> dict[str, Value]:
    """The metrics of system.identity for the tree at `root`. Raises CheckError."""
    metrics = {
        **{key: value for key, value in identity_of_node(root).items() if key != "pool_token"},
        "architecture": platform.machine(),
        "os_release": machine.os_release(root),
        "cpu_model": machine.cpu_model(root),
        "python": platform.python_version(),
        "torch": _version("torch"),
    }
    for name in ("host", "boot_id", "kernel", "architecture", "os_release", "cpu_model"):
        if not metrics[name]:
            raise CheckError(f"{name} cannot be read, and without it two nodes cannot be distinguished")
    return dict(metrics)


@check(
    "system.resources",
    Scope.NODE,
    timeout_s=10,
    metrics=(
        "memory_limit_bytes",
        "memory_available_bytes",
        "swap_total_bytes",
        "swap_free_bytes",
        "cpus",
        "disk_free_bytes",
        "disk_free_fraction",
        "inodes_free_fraction",
        "shm_bytes",
        "shm_free_bytes",
        "memlock_bytes",
        "nofile",
        "pids_limit",
        "oom_kills",
    ),
    needs="/proc, /sys/fs/cgroup",
    beside_job=True,
)
def resources(context: Context) -> Measurement:
    """Reads what this process may use: memory and CPUs as its cgroups allow, disk, inodes, /dev/shm, limits.

    Bytes, and fractions of 1. Limits are the soft ones; UNLIMITED (10^18) stands for none. The disk is that
    of the scratch folder; a filesystem without a fixed number of inodes has 1.0 of them free. `oom_kills`
    counts those of the own cgroup since it was made, or of the machine since its boot where that keeps no
    count. `pids_limit` is the least of the kernel's, the cgroups' and the user's.
    """
    affinity = len(os.sched_getaffinity(0))
    metrics = resource_metrics(ROOT, context.scratch, affinity)
    return Measurement(metrics, resource_evidence(metrics, context.scratch, affinity))


def resource_evidence(metrics: Mapping[str, Value], scratch: Path, affinity: int) -> str:
    """What a person reads beside a threshold of any of these metrics."""

    def size(name: str) -> str:
        return byte_size(float(str(metrics[name])))

    return (
        f"memory: {size('memory_available_bytes')} available of {size('memory_limit_bytes')}\n"
        f"disk of {scratch}: {size('disk_free_bytes')} free; /dev/shm: {size('shm_free_bytes')} free of "
        f"{size('shm_bytes')}\n{affinity} CPUs by affinity"
    )


def resource_metrics(root: Path, scratch: Path, affinity: int) -> dict[str, Value]:
    """The metrics of system.resources for the tree at `root`. Raises CheckError: what cannot be read."""
    try:
        limits = read_limits(root)
    except CgroupError as error:
        raise CheckError(str(error)) from error
    memory = parse_table(required_text(root / "proc/meminfo"), "proc/meminfo")
    disk, shm = space_of(scratch), shared_memory(root / "dev/shm")
    return {
        **memory_metrics(memory, limits),
        "cpus": float(affinity) if limits.cpus is None else min(float(affinity), limits.cpus),
        "disk_free_bytes": disk.f_bavail * disk.f_frsize,
        "disk_free_fraction": disk.f_bavail / max(1, disk.f_blocks),
        "inodes_free_fraction": disk.f_favail / disk.f_files if disk.f_files else 1.0,
        "shm_bytes": shm.f_blocks * shm.f_frsize,
        "shm_free_bytes": shm.f_bavail * shm.f_frsize,
        "memlock_bytes": soft_limit(resource.RLIMIT_MEMLOCK),
        "nofile": soft_limit(resource.RLIMIT_NOFILE),
        "pids_limit": min(
            _pid_max(root), _users_processes(), UNLIMITED if limits.pids is None else limits.pids
        ),
        "oom_kills": _machine_oom_kills(root) if limits.oom_kills is None else limits.oom_kills,
    }


def memory_metrics(meminfo: dict[str, int], limits: CgroupLimits) -> dict[str, Value]:
    """Memory as it binds: the least of the machine's and the cgroups'. `meminfo` is in kB."""
    for name in ("MemTotal", "MemAvailable", "SwapTotal", "SwapFree"):
        if name not in meminfo:
            raise CheckError(f"/proc/meminfo has no {name}")
    total, available = meminfo["MemTotal"] * 1024, meminfo["MemAvailable"] * 1024
    room = available if limits.memory_room_bytes is None else limits.memory_room_bytes
    return {
        "memory_limit_bytes": total if limits.memory_bytes is None else min(total, limits.memory_bytes),
        "memory_available_bytes": max(0, min(available, room)),
        "swap_total_bytes": meminfo["SwapTotal"] * 1024,
        "swap_free_bytes": meminfo["SwapFree"] * 1024,
    }


def parse_table(text: str, name: str) -> dict[str, int]:
    """ "Key: 12 kB" or "key 12" lines -> numbers. Raises CheckError if there is none at all."""
    lines = (line.replace(":", " ").split() for line in text.splitlines())
    table = {fields[0]: int(fields[1]) for fields in lines if len(fields) >= 2 and fields[1].isdigit()}
    if not table:
        raise CheckError(f"/{name} has no numbers")
    return table


STA_UNSYNC = 0x0040
STA_NANO = 0x2000
TIME_ERROR = 5


@dataclass(frozen=True)
class ClockState:
    """`offset_s` is still to be corrected; `max_error_s` is the kernel's bound, 16 s once nobody keeps it."""

    synchronised: bool
    offset_s: float
    max_error_s: float


class _Timex(ctypes.Structure):
    """struct timex of <sys/timex.h>; what follows `status` is not read."""

    _fields_ = (
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long),
        ("status", ctypes.c_int),
        ("rest", ctypes.c_long * 32),
    )


def read_state() -> ClockState:
    """The state now. Raises OSError (EPERM where a sandbox forbids it, ENOSYS where there is none)."""
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "adjtimex"):
        raise OSError(38, "the C library has no adjtimex")
    timex = _Timex()
    state = libc.adjtimex(ctypes.byref(timex))
    if state < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return state_of(state, timex.status, timex.offset, timex.maxerror)


def state_of(state: int, status: int, offset: int, maxerror: int) -> ClockState:
    """The meaning of adjtimex's numbers: offset in ns with STA_NANO, else us; maxerror always in us."""
    synchronised = not status & STA_UNSYNC and state != TIME_ERROR
    return ClockState(synchronised, offset / (1e9 if status & STA_NANO else 1e6), maxerror / 1e6)


@check(
    "system.clock",
    Scope.NODE,
    timeout_s=10,
    metrics=("synchronised", "offset_s", "max_error_s", "clocksource", "year", "wall_rate"),
    needs="adjtimex",
    beside_job=True,
)
def clock(context: Context) -> Measurement | Skipped:
    """Reads whether the clock is disciplined, and whether it runs.

    `synchronised` is 1 or 0. `offset_s` (absolute) means something only while synchronised; `max_error_s` is
    the kernel's bound. `year` is the wall clock's, UTC; `wall_rate` is wall seconds a monotonic second, 1.0
    if well.
    """
    try:
        state = read_state()
    except PermissionError as error:
        return Skipped(Skip.NOT_PERMITTED, f"adjtimex: {error.strerror}")
    except OSError as error:
        raise CheckError(f"adjtimex: {error.strerror}") from error
    return Measurement(
        {**clock_metrics(ROOT, state), "wall_rate": _wall_rate(), "year": time.gmtime().tm_year}
    )


def clock_metrics(root: Path, state: ClockState) -> dict[str, Value]:
    """What is in files and in adjtimex's answer. Raises CheckError."""
    return {
        "synchronised": int(state.synchronised),
        "offset_s": abs(state.offset_s),
        "max_error_s": state.max_error_s,
        "clocksource": required_text(
            root / "sys/devices/system/clocksource/clocksource0/current_clocksource"
        ).strip(),
    }


def _wall_rate(span_s: float = 0.2) -> float:
    first = _both_clocks()
    time.sleep(span_s)
    last = _both_clocks()
    return (last[1] - first[1]) / (last[0] - first[0])


def _both_clocks() -> tuple[float, float]:
    # The pair that was read closest together: a process that is put aside between two reads must not look
    # like drift.
    readings = [(time.monotonic(), time.time(), time.monotonic()) for _ in range(20)]
    before, wall, after = min(readings, key=lambda reading: reading[2] - reading[0])
    return (before + after) / 2, wall


def _version(distribution: str) -> str:
    from importlib import metadata

    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return ""


def shared_memory(folder: Path) -> os.statvfs_result:
    """The space of /dev/shm. Raises CheckError, which says how a container gets one."""
    if not folder.exists():
        raise CheckError(f"there is no {folder}; a container gets one with --ipc=host or --shm-size=8g")
    return space_of(folder)


def space_of(folder: Path) -> os.statvfs_result:
    """The space of the filesystem. Raises CheckError."""
    try:
        return os.statvfs(folder)
    except OSError as error:
        raise CheckError(f"the space of {folder} cannot be read: {error.strerror}") from error


def soft_limit(limit: int) -> int:
    """The soft limit of this process. UNLIMITED stands for none."""
    soft, _ = resource.getrlimit(limit)
    return UNLIMITED if soft == resource.RLIM_INFINITY else soft


def _users_processes() -> int:
    """How many processes and threads this user may have; the limit does not bind root (RLIMIT_NPROC in getrlimit(2))."""
    return UNLIMITED if os.getuid() == 0 else soft_limit(resource.RLIMIT_NPROC)


def _pid_max(root: Path) -> int:
    text = required_text(root / "proc/sys/kernel/pid_max").strip()
    if not text.isdigit():
        raise CheckError(f"/proc/sys/kernel/pid_max is {text!r:.80}, which is not a number")
    return int(text)


def _machine_oom_kills(root: Path) -> int:
    table = parse_table(required_text(root / "proc/vmstat"), "proc/vmstat")
    if "oom_kill" not in table:
        message = "neither the cgroup nor /proc/vmstat has the counter oom_kill (Linux 4.13 or later has it)"
        raise CheckError(message)
    return table["oom_kill"]
