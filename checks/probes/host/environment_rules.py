"""Settings of NCCL, libfabric, PyTorch and the shell that are known to break or slow a run, or to hide errors (pure).

Sources: the NCCL user guide (environment variables, troubleshooting), aws-ofi-nccl and the AWS EFA documentation, PyTorch's
documentation of ProcessGroupNCCL's variables, the CUDA programming guide (environment variables, MPS), nccl-tests (README,
src/common.cu), libfabric's fi_efa(7), DCGM's source (NVML injection).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from enum import Enum

MOST_CHARACTERS = 80
SHM = "/dev/shm"  # noqa: S108 - the mount itself is looked at, nothing is written


class Harm(str, Enum):
    """What a setting does to a run: CRIPPLING stops or slows it for certain, MISLEADING may, or hides what happens."""

    CRIPPLING = "crippling"
    MISLEADING = "misleading"


@dataclass(frozen=True)
class LintContext:
    """What a setting is judged by. `efa` is None if nobody knows whether the type has it; sizes are in bytes."""

    gpus: int
    nodes: int
    efa: bool | None
    interfaces: Collection[str] = ()
    kernel: tuple[int, int] = (0, 0)
    shm_bytes: int = 1 << 60
    memlock_bytes: int = 1 << 60
    nofile: int = 1 << 30
    missing_paths: Collection[str] = field(default_factory=frozenset)


@dataclass(frozen=True)
class EnvFault:
    """A harmful setting: "NCCL_P2P_DISABLE=1" and why."""

    variable: str
    harm: Harm
    reason: str


Judge = Callable[[str, LintContext], bool]


@dataclass(frozen=True)
class Variable:
    """Variables of one meaning (`names`, separated by blanks), when they harm, and how."""

    names: str
    harmful: Judge
    harm: Harm
    reason: str


def _is(*values: str) -> Judge:
    return lambda value, world: value.strip().lower() in values


def _on(value: str, world: LintContext) -> bool:
    return value.strip().lower() in ("1", "true", "yes", "y")


def _off(value: str, world: LintContext) -> bool:
    return value.strip().lower() in ("0", "false", "no", "n")


def _any(value: str, world: LintContext) -> bool:
    return True


def _both(first: Judge, second: Judge) -> Judge:
    return lambda value, world: first(value, world) and second(value, world)


def _efa(value: str, world: LintContext) -> bool:
    return world.efa is not False


def _no_efa(value: str, world: LintContext) -> bool:
    return world.efa is False


def _many_gpus(value: str, world: LintContext) -> bool:
    return world.gpus > 1


def _gpus(value: str, world: LintContext) -> bool:
    return world.gpus > 0


def _many_nodes(value: str, world: LintContext) -> bool:
    return world.nodes > 1


def _below(least: int) -> Judge:
    return lambda value, world: value.strip().isdigit() and int(value) < least


def _protocols(value: str) -> set[str]:
    names = {name.strip().lower() for name in value.lstrip("^").split(",")}
    every = {"ll", "ll128", "simple"}
    return every - names if value.startswith("^") else names & every


def _without_simple(value: str, world: LintContext) -> bool:
    return "simple" not in _protocols(value)


def _only_some(value: str, world: LintContext) -> bool:
    return "simple" in _protocols(value) and len(_protocols(value)) < 3


def _no_such_interface(value: str, world: LintContext) -> bool:
    """NCCL's own syntax: a list of prefixes; "=" before it asks for whole names, "^" for all others."""
    wanted = value.strip()
    if wanted.startswith("^") or not world.interfaces:
        return False
    exact = wanted.startswith("=")
    names = [name for name in wanted.lstrip("=").split(",") if name]
    return not any(
        interface == name if exact else interface.startswith(name)
        for name in names
        for interface in world.interfaces
    )


def _loopback_only(value: str, world: LintContext) -> bool:
    return [name for name in value.strip().lstrip("=").split(",") if name] == ["lo"]


def _missing_path(value: str, world: LintContext) -> bool:
    return value in world.missing_paths


def _one_file_for_all(value: str, world: LintContext) -> bool:
    return not re.search(r"%[hp]", value) and value not in ("/dev/stdout", "/dev/stderr")


def _not_enough_gpus(value: str, world: LintContext) -> bool:
    listed = [item for item in value.split(",") if item.strip()]
    return world.gpus > 0 and value.strip().lower() != "all" and len(listed) < world.gpus


def _old_fork_support(value: str, world: LintContext) -> bool:
    # From Linux 5.15 on the kernel copies pinned pages at fork by itself (libfabric's fi_efa(7)).
    return world.kernel >= (5, 15) and not _off(value, world)


def _hides_a_gpu(value: str, world: LintContext) -> bool:
    return value.strip().lower() in ("", "none", "void") or _not_enough_gpus(value, world)


def _selective(value: str, world: LintContext) -> bool:
    return value.strip().lower() not in ("", "all")


def _not_efa(value: str, world: LintContext) -> bool:
    return value.strip().lower() not in ("", "efa") and world.efa is True


C, M = Harm.CRIPPLING, Harm.MISLEADING
RULES: tuple[Variable, ...] = (
    Variable("NCCL_P2P_DISABLE", _both(_on, _many_gpus), C, "the GPUs of a node do not use NVLink or PCIe to reach each other"),
    Variable("NCCL_P2P_LEVEL", _both(_is("0", "loc"), _many_gpus), C, "the GPUs of a node cannot communicate directly"),
    Variable("NCCL_SHM_DISABLE", _both(_on, _many_gpus), C, "the ranks of a node use the network instead of shared memory"),
    Variable("NCCL_NET", _both(_is("socket"), _efa), C, "collectives between nodes use TCP instead of EFA"),
    Variable("NCCL_NET_PLUGIN", _both(_is("none"), _efa), C, "aws-ofi-nccl is not loaded, so EFA is not used"),
    Variable("NCCL_NET_GDR_LEVEL", _both(_is("0", "loc"), _efa), C, "every transfer goes through the host's memory"),
    Variable("NCCL_IB_DISABLE", _on, M, "InfiniBand and RoCE are disabled; this setting does not affect EFA"),
    Variable("NCCL_PROTO", _without_simple, C, "without the protocol Simple large messages are slow, or wrong on EFA"),
    Variable("NCCL_PROTO", _only_some, M, "NCCL cannot choose the protocol that is fastest for small messages"),
    Variable("NCCL_ALGO", _any, M, "NCCL cannot choose an algorithm: slow, or an error where it does not fit"),
    Variable("NCCL_NVLS_ENABLE", _off, M, "NVSwitch does not do reductions, so all_reduce within a node is slower"),
    Variable("NCCL_MAX_NCHANNELS NCCL_MAX_CTAS", _below(8), M, "NCCL has too few channels to use the full bandwidth of NVLink or EFA"),
    Variable("NCCL_BUFFSIZE", _below(1 << 20), M, "small buffers limit the bandwidth (NCCL's default is 4 MiB)"),
    Variable("NCCL_SOCKET_IFNAME GLOO_SOCKET_IFNAME", _no_such_interface, C, "this node has no interface of that name"),
    Variable("NCCL_SOCKET_IFNAME GLOO_SOCKET_IFNAME", _both(_loopback_only, _many_nodes), C, "loopback reaches no other node"),
    Variable("NCCL_TOPO_FILE", _missing_path, C, "the file does not exist, so NCCL does not know the machine's topology"),
    Variable("NCCL_DEBUG", _is("trace"), M, "NCCL logs every call, which is slow"),
    Variable("NCCL_DEBUG_FILE", _missing_path, M, "its folder does not exist, so NCCL's log is lost"),
    Variable("NCCL_DEBUG_FILE", _one_file_for_all, M, "without %h and %p all ranks overwrite the same file, so NCCL's log is lost"),
    Variable("NCCL_CHECK_POINTERS", _on, M, "NCCL checks the pointers of each call, which is slow"),
    Variable("NCCL_TUNER_PLUGIN", _both(_is("none"), _efa), M, "NCCL is not tuned for EFA"),
    Variable("FI_PROVIDER", _both(lambda value, world: "efa" not in value.lower(), _efa), C, "libfabric does not use EFA"),
    Variable("FI_PROVIDER", _both(lambda value, world: "efa" in value.lower(), _no_efa), M, "this instance type has no EFA"),
    Variable("FI_EFA_USE_DEVICE_RDMA", _both(_off, _efa), C, "EFA copies through the host instead of using RDMA"),
    Variable("FI_EFA_FORK_SAFE RDMAV_FORK_SAFE", _old_fork_support, M, "not needed since Linux 5.15, and it costs performance"),
    Variable("CUDA_LAUNCH_BLOCKING", _on, C, "every CUDA kernel waits for the previous one, so nothing overlaps"),
    Variable("CUDA_VISIBLE_DEVICES", _not_enough_gpus, C, "fewer GPUs are visible than are declared"),
    Variable("NVIDIA_VISIBLE_DEVICES", _both(_hides_a_gpu, _gpus), C, "fewer GPUs are given to this container than are declared"),
    Variable("NEURON_RT_VISIBLE_CORES", _any, M, "cores that are not in this list are not measured"),
    Variable("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", _below(100), C, "programs get only a part of each GPU, so it is not measured whole"),
    Variable("NVIDIA_TF32_OVERRIDE", _off, M, "TF32 is disabled, so the measured speed may differ from that of the training"),
    Variable("TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", _on, M, "float32 products are computed in TF32, which is faster but less exact"),
    Variable("PYTORCH_NO_CUDA_MEMORY_CACHING", _on, M, "PyTorch allocates each tensor through the driver, which is slow"),
    Variable("NCCL_TESTS_SPLIT NCCL_TESTS_SPLIT_MASK", _any, C, "nccl-tests measures only within groups of ranks"),
    Variable("NCCL_TESTS_MIN_BW", _any, M, "nccl-tests applies this bandwidth threshold, whatever the policy says"),
    Variable("NCCL_HOSTID", _any, M, "NCCL takes this value as the host's identity, so one node may look like two, or two like one"),
    Variable("OFI_NCCL_FORCE_NUM_RAILS", _efa, M, "aws-ofi-nccl uses only this many EFA devices, and the others are not measured"),
    Variable("FI_EFA_IFACE", _both(_selective, _efa), C, "libfabric sees only these EFA devices"),
    Variable("NVML_INJECTION_MODE", _any, C, "DCGM reads injected NVML data instead of the GPUs"),
    Variable("PRELAUNCH_KERNEL_LOG", _any, C, "the kernel log is read from this file instead of the machine"),
    Variable("PRELAUNCH_FABRIC_PROVIDER", _not_efa, C, "the fabric checks measure this provider instead of EFA"),
    Variable("TORCH_NCCL_BLOCKING_WAIT NCCL_BLOCKING_WAIT", _on, M, "every collective blocks its rank's thread"),
    Variable("TORCH_NCCL_ASYNC_ERROR_HANDLING NCCL_ASYNC_ERROR_HANDLING", _off, M, "a failed collective hangs forever"),
    Variable("TORCH_NCCL_ENABLE_MONITORING", _off, M, "a rank whose watchdog hangs is never ended"),
    Variable("TORCH_DISTRIBUTED_DEBUG", _is("detail"), M, "PyTorch compares every collective between the ranks first, which is slow"),
)  # fmt: skip


# Variables that may change what is measured, by the beginning of their names; those that are set are listed in a report.
FAMILIES = (
    "PRELAUNCH_", "NCCL_", "GLOO_", "OFI_NCCL_", "FI_", "RDMAV_", "NVIDIA_", "CUDA_", "CUBLAS_", "PYTORCH_", "TORCH_", "DCGM_",
    "__DCGM_", "NVML_", "NEURON_", "LD_PRELOAD",
)  # fmt: skip
_SECRET = re.compile(r"^PRELAUNCH_|KEY|TOKEN|SECRET|PASS|CRED|AUTH|URL|URI", re.IGNORECASE)


def listed(variables: Mapping[str, str]) -> dict[str, str]:
    """The variables of FAMILIES that are set, by name; "" for a value that may be a secret."""
    names = (name for name in sorted(variables) if name.startswith(FAMILIES))
    return {name: "" if _SECRET.search(name) else _display(variables[name]) for name in names}


# Bytes. A connection over shared memory takes about 10 MB; NVIDIA's guide wants at least 1 GiB for a container.
SHM_FAIL, SHM_WARN = 256 << 20, 1 << 30
# EFA registers the memory it sends from; the AWS EFA documentation asks for "unlimited".
MEMLOCK = 16 << 30
NOFILE = 65536


def lint(variables: Mapping[str, str], world: LintContext) -> tuple[EnvFault, ...]:
    """What is harmful among the variables that are set, and in the limits."""
    faults = [
        EnvFault(f"{name}={_display(variables[name])}", rule.harm, rule.reason)
        for rule in RULES
        for name in rule.names.split()
        if name in variables and rule.harmful(variables[name], world)
    ]
    return (*faults, *_limits(world))


def parse_file(text: str) -> dict[str, str]:
    """The variables of an nccl.conf: NAME=VALUE lines, "#" begins a comment (NCCL user guide)."""
    assignments = (line.partition("#")[0].partition("=") for line in text.splitlines())
    return {name.strip(): value.strip() for name, equals, value in assignments if equals and name.strip()}


def _limits(world: LintContext) -> list[EnvFault]:
    shm = f"{SHM} has {world.shm_bytes >> 20} MiB"
    memlock = f"the memlock limit is {world.memlock_bytes >> 10} KiB"
    start = "NCCL and data loaders use it as shared memory: start the container with --shm-size=8g or more"
    raise_it = f"EFA cannot register memory: raise the limit of locked memory {_where('memlock=-1', 'LimitMEMLOCK=infinity')}"
    few = (
        f"it is too low for many ranks and peers: raise it {_where('nofile=1048576', 'LimitNOFILE=1048576')}"
    )
    limits = (
        (
            world.gpus > 1 and world.shm_bytes < SHM_WARN,
            EnvFault(shm, C if world.shm_bytes < SHM_FAIL else M, start),
        ),
        (world.efa and world.memlock_bytes < MEMLOCK, EnvFault(memlock, C, raise_it)),
        (
            world.gpus > 1 and world.nofile < NOFILE,
            EnvFault(f"the limit of open files is {world.nofile}", M, few),
        ),
    )
    return [fault for too_low, fault in limits if too_low]


def _where(container: str, unit: str) -> str:
    """Where a limit of the job's processes is set: a shell's own is not theirs."""
    return (
        f"for the job, not for your shell: {unit} of its systemd unit, /etc/security/limits.conf with PAM, PropagateResourceLimits of "
        f"Slurm, or --ulimit {container} of its container"
    )


def _display(value: str) -> str:
    return value if len(value) <= MOST_CHARACTERS else f"{value[:MOST_CHARACTERS]}..."
