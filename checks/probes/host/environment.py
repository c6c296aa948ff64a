"""environment.lint: the settings with which this process, and so the training, starts."""

from __future__ import annotations

import os
import platform
import re
import resource
from collections.abc import Mapping
from pathlib import Path

from checks.check import CheckError, Context, Measurement, check
from checks.facts.instances import Instance
from checks.model import Scope
from checks.model_details import Contents
from checks.probes.host.environment_rules import SHM, EnvFault, Harm, LintContext, lint, listed, parse_file
from checks.probes.host.system import UNLIMITED, shared_memory, soft_limit
from checks.process.environment import home_folder

INTERFACES = Path("/sys/class/net")
FILE_VARIABLE = "NCCL_CONF_FILE"
PATHS = ("NCCL_TOPO_FILE", "NCCL_DEBUG_FILE")
NONE = "none"
STATUS, UID_MAP = Path("/proc/self/status"), Path("/proc/self/uid_map")
CAP_IPC_LOCK = 14  # include/uapi/linux/capability.h


@check(
    "environment.lint",
    Scope.NODE,
    timeout_s=10,
    metrics=("settings", *(harm.value for harm in Harm)),
    needs=f"{SHM}, /sys/class/net",
    holds=lambda basis: (Contents("settings"), Contents("variables")),
)
def environment_lint(context: Context) -> Measurement:
    """Finds settings that cripple or mislead a run: of NCCL, libfabric and PyTorch, /dev/shm, and the shell's limits.

    NCCL's own files (/etc/nccl.conf, ~/.nccl.conf) count where the environment does not set the variable. `crippling`
    and `misleading` hold 1 or 0 for each of `settings`, which is one text "none" where nothing was found. `variables` names
    those that are set and may change what is measured (environment_rules.FAMILIES), or is "none"; the evidence shows
    their values, unless one may be a secret.
    """
    # NCCL reads no file of a user without a home folder either (param.cc: getpwuid is NULL).
    variables, files = settings(os.environ, home_folder())
    world = lint_context_of(context, variables)
    return measured(lint(variables, world), files, world, listed(variables))


def settings(environ: Mapping[str, str], home: Path | None) -> tuple[dict[str, str], tuple[str, ...]]:
    """The variables that count, and the files that were read. Raises CheckError for a file that cannot be."""
    file_name = environ.get(FILE_VARIABLE)
    own = Path(file_name) if file_name else home and home / ".nccl.conf"
    files = [Path("/etc/nccl.conf"), *([own] if own else [])]
    variables: dict[str, str] = {}
    read = []
    for path in files:
        try:
            variables.update(parse_file(path.read_text(encoding="utf-8", errors="replace")))
            read.append(str(path))
        except FileNotFoundError:
            if str(path) == file_name:
                raise CheckError(f"{FILE_VARIABLE} names {path}, which does not exist") from None
        except OSError as error:
            raise CheckError(f"{path} cannot be read: {error.strerror}; NCCL might read it") from error
    return {**variables, **environ}, tuple(read)


def lint_context_of(context: Context, variables: Mapping[str, str]) -> LintContext:
    """What the settings are judged by, as this node has it. Raises CheckError for what cannot be read."""
    try:
        interfaces = frozenset(path.name for path in INTERFACES.iterdir())
    except OSError as error:
        raise CheckError(f"{error.filename} cannot be read: {error.strerror}") from error
    shm = shared_memory(Path(SHM))
    return LintContext(
        gpus=context.declared.gpus_per_node,
        nodes=context.declared.nodes,
        efa=has_efa(context.instance),
        interfaces=interfaces,
        kernel=kernel_version(platform.release()),
        shm_bytes=shm.f_blocks * shm.f_frsize,
        memlock_bytes=UNLIMITED if may_lock(STATUS, UID_MAP) else soft_limit(resource.RLIMIT_MEMLOCK),
        nofile=soft_limit(resource.RLIMIT_NOFILE),
        missing_paths=frozenset(
            value for name in PATHS if (value := variables.get(name)) and _missing(name, value)
        ),
    )


def may_lock(status: Path, uid_map: Path) -> bool:
    """Whether RLIMIT_MEMLOCK does not bind this process: with CAP_IPC_LOCK of the first user namespace
    (Linux, drivers/infiniband/core/umem.c: capable(CAP_IPC_LOCK)).
    """
    try:
        match = re.search(r"^CapEff:\s*([0-9a-f]+)$", status.read_text(), re.MULTILINE)
        whole = uid_map.read_text().split() == ["0", "0", "4294967295"]
    except OSError:
        return False
    return whole and match is not None and bool(int(match[1], 16) >> CAP_IPC_LOCK & 1)


def has_efa(instance: Instance | None) -> bool | None:
    """Whether the type has EFA; None if the table does not say."""
    return None if instance is None or instance.efa_devices is None else instance.efa_devices > 0


def kernel_version(release: str) -> tuple[int, int]:
    """ "6.1.119-129.amzn2023" -> (6, 1). Raises CheckError."""
    match = re.match(r"(\d+)\.(\d+)", release)
    if match is None:
        raise CheckError(f"the kernel's release is {release!r:.80}")
    return int(match[1]), int(match[2])


def measured(
    faults: tuple[EnvFault, ...], files: tuple[str, ...], world: LintContext, variables: Mapping[str, str]
) -> Measurement:
    """One column per kind of harm, with 1 for each setting that does it; `variables` are those to be listed."""
    faulty = tuple(fault.variable for fault in faults) or (NONE,)
    columns = {harm.value: tuple(int(fault.harm is harm) for fault in faults) or (0,) for harm in Harm}
    fault_lines = [f"{fault.variable} ({fault.harm.value}): {fault.reason}" for fault in faults]
    sources = (
        f"read: the environment{''.join(f', {path}' for path in files)}; /dev/shm {world.shm_bytes} bytes"
    )
    names = tuple(variables) or (NONE,)
    variables_text = ", ".join(f"{name}={value}" if value else name for name, value in variables.items())
    evidence = [*fault_lines, sources, f"set: {variables_text or NONE}"]
    return Measurement({"settings": faulty, **columns, "variables": names}, "\n".join(evidence))


def _missing(name: str, value: str) -> bool:
    path = Path(value)
    return not (path.parent if name == "NCCL_DEBUG_FILE" else path).exists()
