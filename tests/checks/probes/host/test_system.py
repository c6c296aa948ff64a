"""system.*: what cgroups, limits and clocks allow, from captured trees; what cannot be read is said."""

from __future__ import annotations

import os
import resource
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from checks.check import CheckError, fault_of
from checks.probes.host import machine, system
from checks.runner.in_job.confirm import NAMES_IN_POOL, SAME
from checks.value_types import byte_size
from tests.checks.local_policy import verdicts
from tests.checks.proc_trees import GIB, PROC, memory_v2, tree, v2
from tests.checks.worlds import context
from tests.corpus.case import whole


def resources(root: Path, files: Mapping[str, str]) -> dict[str, Any]:
    return system.resource_metrics(tree(root, {**PROC, **v2("/", {"cgroup.procs": ""}), **files}), root, 8)


def test_the_machine_binds_where_the_cgroup_does_not(tmp_path: Path) -> None:
    """Without a cgroup limit: /proc/meminfo, the affinity, pid_max, and the machine's count of OOM kills."""
    metrics = resources(tmp_path, {})

    assert (metrics["memory_limit_bytes"], metrics["memory_available_bytes"]) == (8 * GIB, 6 * GIB)
    assert (metrics["cpus"], metrics["pids_limit"], metrics["oom_kills"]) == (8.0, 32768, 3)
    assert set(metrics) == set(system.resources.metrics)
    assert fault_of(system.resources, metrics) == ""


def test_the_cgroup_binds_where_it_is_less(tmp_path: Path) -> None:
    """The room of a small container on a large machine."""
    files = {**memory_v2("", str(GIB), GIB // 2, 0), "cpu.max": "50000 100000", "memory.events": "oom_kill 0"}
    metrics = resources(tmp_path, {f"sys/fs/cgroup/{name}": text for name, text in files.items()})

    assert (metrics["memory_limit_bytes"], metrics["memory_available_bytes"]) == (GIB, GIB // 2)
    assert (metrics["cpus"], metrics["oom_kills"]) == (0.5, 0)


@pytest.mark.parametrize(("user", "binds"), [(1000, True), (0, False)], ids=["a user", "root"])
def test_the_limit_of_a_users_processes_binds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, user: int, binds: bool
) -> None:
    """A rank that may start no thread fails in its first kernel, which looks like a fault of its GPU. It does not bind root."""
    real = resource.getrlimit
    monkeypatch.setattr(os, "getuid", lambda: user)
    limits = {resource.RLIMIT_NPROC: (60, 100)}
    monkeypatch.setattr(resource, "getrlimit", lambda which: limits.get(which) or real(which))

    assert resources(tmp_path, {})["pids_limit"] == (60 if binds else 32768)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("proc/meminfo", "MemTotal: 1 kB\n", "MemAvailable"),
        ("proc/meminfo", "", "meminfo"),
        ("proc/sys/kernel/pid_max", "x", "pid_max"),
        ("proc/vmstat", "nr_free_pages 1\n", "oom_kill"),
    ],
)
def test_a_resource_that_cannot_be_read_is_named(tmp_path: Path, name: str, text: str, said: str) -> None:
    """No default that looks healthy."""
    with pytest.raises(CheckError, match=said):
        resources(tmp_path, {name: text})


def test_a_container_without_shared_memory_is_told_how_it_gets_some(tmp_path: Path) -> None:
    """docker run --ipc=none: there is no /dev/shm, and to run the gate again does not help."""
    with pytest.raises(CheckError, match=r"there is no .*/dev/shm; a container gets one with --ipc=host"):
        system.shared_memory(tmp_path / "dev/shm")


def test_this_machine_has_resources(tmp_path: Path) -> None:
    """The check itself, here: everything it promises, and numbers that can be."""
    result = whole(system.resources, context(tmp_path))
    metrics: dict[str, Any] = dict(result.metrics)

    available = f"memory: {byte_size(metrics['memory_available_bytes'])} available of "
    assert result.evidence.startswith(available) and f"disk of {tmp_path}: " in result.evidence
    assert 0 < metrics["memory_available_bytes"] <= metrics["memory_limit_bytes"]
    assert 0 < metrics["cpus"] <= (os.cpu_count() or 1)
    assert 0.0 <= metrics["disk_free_fraction"] <= 1.0
    assert 0.0 <= metrics["inodes_free_fraction"] <= 1.0


def test_this_machine_has_an_identity() -> None:
    """The check itself, here; what confirms a machine is part of it."""
    result = whole(system.identity, context())

    assert {"host", "boot_id", "gpu_uuids", "driver", "kernel"} <= set(system.identity_of_node())
    assert result.metrics.items() >= system.identity_of_node().items()


IDENTITY = {
    "proc/sys/kernel/random/boot_id": "1b32d552-812d-45e9-9772-cc87775ed73f\n",
    "etc/os-release": 'NAME="Debian"\nPRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\n',
    "proc/cpuinfo": "processor\t: 0\nmodel name\t: AMD EPYC\n",
}
# CONSTRUCTED after /proc/driver/nvidia as driver 570 writes it.
GPU = {
    "proc/driver/nvidia/version": (
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build  (dvs-builder)\n"
        "GCC version:  gcc version 11.4.0\n"
    ),
    "proc/driver/nvidia/gpus/0000:53:00.0/information": (
        "Model: \t\t NVIDIA H100 80GB HBM3\n"
        "GPU UUID: \t GPU-ffff1111-2222-3333-4444-555566667777\nBus Type: \t PCIe\n"
    ),
    "proc/driver/nvidia/gpus/0000:64:00.0/information": (
        "Model: \t\t NVIDIA H100 80GB HBM3\nGPU UUID: \t GPU-aaaa1111-2222-3333-4444-555566667777\n"
    ),
    "proc/driver/nvidia/gpus/0000:75:00.0/information": (
        "Model: \t\t NVIDIA H100 80GB HBM3\nGPU UUID: \t GPU-????????-????-????-????-????????????\n"
    ),
}


def test_a_gpu_node_is_known_by_its_uuids(tmp_path: Path) -> None:
    """Sorted, and without a GPU that the driver has not initialised; with the driver's version."""
    found = system.identity_of_node(tree(tmp_path, {**IDENTITY, **GPU}))

    uuids = ["GPU-aaaa1111-2222-3333-4444-555566667777", "GPU-ffff1111-2222-3333-4444-555566667777"]
    assert uuids == found["gpu_uuids"].split(",")
    assert found["driver"] == "570.86.15"
    assert found["boot_id"] == "1b32d552-812d-45e9-9772-cc87775ed73f"


def test_a_node_of_an_engine_has_the_names_by_which_that_engine_knows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slurm's own, and EC2's; what confirms a machine does not depend on them."""
    monkeypatch.setenv("SLURMD_NODENAME", "p5-dy-gpu-3")
    root = tree(tmp_path, {**IDENTITY, "sys/class/dmi/id/board_asset_tag": "i-0123456789abcdef0\n"})
    found = system.identity_of_node(root)
    monkeypatch.delenv("SLURMD_NODENAME")

    assert (found["engine_node"], found["instance_id"]) == ("p5-dy-gpu-3", "i-0123456789abcdef0")
    other = system.identity_of_node(tree(tmp_path / "other", IDENTITY))
    assert not {"engine_node", "instance_id"} & {*other, *SAME} and "instance_id" not in NAMES_IN_POOL


def test_a_pod_has_the_name_of_its_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kubernetes sets it (downward API); a pod's own name is none that a machine has."""
    monkeypatch.delenv("SLURMD_NODENAME", raising=False)
    monkeypatch.setenv("PRELAUNCH_ENGINE_NODE", "ip-10-0-0-1.ec2.internal")

    assert system.identity_of_node(tree(tmp_path, IDENTITY))["engine_node"] == "ip-10-0-0-1.ec2.internal"


def test_an_unreadable_identity_never_raises(tmp_path: Path) -> None:
    """The runner needs it before anything is known: what cannot be read is ""."""
    found = system.identity_of_node(tmp_path)

    assert {found[key] for key in ("boot_id", "machine_id", "product_uuid", "gpu_uuids", "driver")} == {""}
    assert found["host"]


@pytest.mark.parametrize(
    ("uuid", "known"),
    [
        ("4C4C4544-0042-3510-8052-B3C04F4B4E32", "4c4c4544-0042-3510-8052-b3c04f4b4e32"),
        ("00000000-0000-0000-0000-ac1f6b7e2d90", "00000000-0000-0000-0000-ac1f6b7e2d90"),
        ("03000200-0400-0500-0006-000700080009", ""),
        ("00020003-0004-0005-0006-000700080009", ""),
        ("03020100-0504-0706-0809-0A0B0C0D0E0F", ""),
        ("10000000-0000-8000-0040-000000000000", ""),
        ("FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF", ""),
    ],
)
def test_a_placeholder_of_the_firmware_identifies_no_machine(tmp_path: Path, uuid: str, known: str) -> None:
    """Every unit of such a board has it. Lists of them: osquery's core/system.cpp, FOGProject issue 196."""
    root = tree(tmp_path, {"sys/class/dmi/id/product_uuid": f"{uuid}\n"})

    assert known == machine.product_uuid(root)


def test_an_arm_processor_has_a_name(tmp_path: Path) -> None:
    """Its cpuinfo has no model name."""
    root = tree(tmp_path, {"proc/cpuinfo": "processor : 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd40\n"})

    assert machine.cpu_model(root) == "implementer 0x41 part 0xd40"


@pytest.mark.parametrize(
    ("state", "status", "offset", "expected"),
    [
        (0, 0x0001, 1500, system.ClockState(True, 0.0015, 0.25)),
        (0, 0x2001, 1500, system.ClockState(True, 0.0000015, 0.25)),
        (5, 0x0040, 0, system.ClockState(False, 0.0, 0.25)),
        (0, 0x0041, 0, system.ClockState(False, 0.0, 0.25)),
        (5, 0x0001, 0, system.ClockState(False, 0.0, 0.25)),
    ],
)
def test_clock_state_matches_what_adjtimex_returned(
    state: int, status: int, offset: int, expected: system.ClockState
) -> None:
    """Unsynchronised by the flag or by the return value; the offset in ns or us; the bound in us."""
    assert system.state_of(state, status, offset, 250_000) == expected


def test_this_machine_has_a_clock() -> None:
    """The check itself, here: it runs at its rate, and adjtimex was understood."""
    metrics: dict[str, Any] = dict(whole(system.clock, context()).metrics)

    assert metrics["synchronised"] in (0, 1)
    assert 0.0 <= metrics["max_error_s"] <= 1000.0
    assert verdicts("system.clock", metrics) == []


def test_a_clock_without_a_source_is_an_error(tmp_path: Path) -> None:
    """The file is named."""
    with pytest.raises(CheckError, match="current_clocksource"):
        system.clock_metrics(tmp_path, system.ClockState(True, 0.0, 0.0))
