"""system.*: what cgroups, limits and clocks allow, from captured trees; what cannot be read is said."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from checks import adjtimex, machine, system
from checks.cgroup import CgroupError, Limits, parse_mounts, parse_paths, read_limits
from checks.check import CheckError, Measurement, Skipped, fault_of
from checks.model import Skip
from tests.checks.local_policy import findings, local_policy, verdicts
from tests.checks.worlds import context

GIB = 1 << 30
NONE_V1 = "9223372036854771712\n"
V2 = "30 23 0:27 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
V1 = (
    "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
    "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
    "36 31 0:33 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n"
)
PROC = {
    "proc/meminfo": "MemTotal: 8388608 kB\nMemAvailable: 6291456 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\n",
    "proc/sys/kernel/pid_max": "32768\n",
    "proc/vmstat": "nr_free_pages 12\noom_kill 3\n",
    "dev/shm/.keep": "",
}


def tree(root: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root


def v2(cgroup: str, files: Mapping[str, str], mount: str = V2) -> dict[str, str]:
    return {
        "proc/self/mountinfo": mount,
        "proc/self/cgroup": f"0::{cgroup}\n",
        **{f"sys/fs/cgroup/{name}": text for name, text in files.items()},
    }


def v1(files: Mapping[str, str], path: str = "/docker/abc") -> dict[str, str]:
    return {
        "proc/self/mountinfo": V1,
        "proc/self/cgroup": f"4:memory:{path}\n3:pids:{path}\n2:cpu,cpuacct:{path}\n1:name=systemd:/\n",
        **{f"sys/fs/cgroup/{name}": text for name, text in files.items()},
    }


def memory_v2(folder: str, limit: str, used: int, cache: int) -> dict[str, str]:
    return {
        f"{folder}memory.max": f"{limit}\n",
        f"{folder}memory.current": f"{used}\n",
        f"{folder}memory.stat": f"anon 1\ninactive_file {cache}\nactive_file 5\n",
    }


def test_a_v2_container_has_its_own_limits(tmp_path: Path) -> None:
    """Memory, room without reclaimable cache, quota, processes and OOM kills of the process's cgroup."""
    files = {
        **memory_v2("", str(4 * GIB), 3 * GIB, 2 * GIB),
        "cpu.max": "150000 100000\n",
        "pids.max": "512\n",
        "memory.events": "low 0\nhigh 0\nmax 9\noom 2\noom_kill 1\n",
    }

    assert read_limits(tree(tmp_path, v2("/", files))) == Limits(4 * GIB, 3 * GIB, 1.5, 512, 1)


def test_the_least_of_all_ancestors_binds(tmp_path: Path) -> None:
    """A pod's limit holds for its containers, whatever their own files say."""
    files = {
        **memory_v2("pod/", str(2 * GIB), GIB, 0),
        **memory_v2("pod/one/", "max", GIB, 0),
        **memory_v2("pod/one/two/", str(8 * GIB), GIB // 2, 0),
        "pod/cpu.max": "50000 100000\n",
        "pod/one/two/cpu.max": "max 100000\n",
        "pod/one/pids.max": "100\n",
        "pod/one/two/pids.max": "max\n",
    }
    limits = read_limits(tree(tmp_path, v2("/pod/one/two", files)))

    assert (limits.memory_bytes, limits.memory_room_bytes) == (2 * GIB, GIB)
    assert (limits.cpus, limits.pids) == (0.5, 100)


def test_the_least_room_may_be_another_level_than_the_least_limit(tmp_path: Path) -> None:
    """Siblings fill the pod: its room is smaller than the container's, though its limit is larger."""
    files = {
        **memory_v2("pod/", str(8 * GIB), 8 * GIB - 1000, 0),
        **memory_v2("pod/one/", str(4 * GIB), GIB, 0),
    }
    limits = read_limits(tree(tmp_path, v2("/pod/one", files)))

    assert (limits.memory_bytes, limits.memory_room_bytes) == (4 * GIB, 1000)


def test_a_v1_container(tmp_path: Path) -> None:
    """The v1 files, joined controllers, and its way to say that there is no limit."""
    files = {
        "memory/docker/abc/memory.limit_in_bytes": f"{4 * GIB}\n",
        "memory/docker/abc/memory.usage_in_bytes": f"{3 * GIB}\n",
        "memory/docker/abc/memory.stat": f"inactive_file 7\ntotal_inactive_file {GIB}\n",
        "memory/docker/abc/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 4\n",
        "memory/memory.limit_in_bytes": NONE_V1,
        "cpu,cpuacct/docker/abc/cpu.cfs_quota_us": "250000\n",
        "cpu,cpuacct/docker/abc/cpu.cfs_period_us": "100000\n",
        "cpu,cpuacct/cpu.cfs_quota_us": "-1\n",
        "pids/docker/abc/pids.max": "max\n",
    }

    assert read_limits(tree(tmp_path, v1(files))) == Limits(4 * GIB, 2 * GIB, 2.5, None, 4)


def test_a_hybrid_takes_each_controller_where_it_is(tmp_path: Path) -> None:
    """Memory from v1, processes from the unified hierarchy."""
    files = {
        "proc/self/mountinfo": (
            "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
            "38 31 0:35 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
        ),
        "proc/self/cgroup": "4:memory:/job\n0::/user\n",
        "sys/fs/cgroup/memory/job/memory.limit_in_bytes": f"{GIB}\n",
        "sys/fs/cgroup/memory/job/memory.usage_in_bytes": "0\n",
        "sys/fs/cgroup/memory/job/memory.stat": "total_inactive_file 0\n",
        "sys/fs/cgroup/unified/user/pids.max": "64\n",
    }
    limits = read_limits(tree(tmp_path, files))

    assert (limits.memory_bytes, limits.pids, limits.cpus) == (GIB, 64, None)


def test_a_container_that_sees_its_cgroup_at_the_top(tmp_path: Path) -> None:
    """/proc/self/cgroup says the host's path, the mount begins at it."""
    mount = "30 23 0:27 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup2 rw\n"
    files = memory_v2("", str(GIB), 0, 0)

    assert read_limits(tree(tmp_path, v2("/docker/abc", files, mount))).memory_bytes == GIB


@pytest.mark.parametrize("path", ["/docker/abc", "/../../other", "/"])
def test_a_path_that_is_not_visible_falls_back_to_the_mount(tmp_path: Path, path: str) -> None:
    """A private mount shows the container's cgroup at its top, whatever the path says."""
    assert read_limits(tree(tmp_path, v2(path, memory_v2("", str(GIB), 0, 0)))).memory_bytes == GIB


def test_no_limit_is_none(tmp_path: Path) -> None:
    """An unlimited machine, in both versions, has none, and keeps no count of its root's OOM kills."""
    assert read_limits(tree(tmp_path, v2("/", {"cgroup.procs": ""}))) == Limits(None, None, None, None, None)


def test_a_hierarchy_that_is_not_mounted_is_an_error(tmp_path: Path) -> None:
    """There may be a limit that cannot be seen: that is not "no limit"."""
    with pytest.raises(CgroupError, match="no memory hierarchy is mounted"):
        read_limits(tree(tmp_path, v2("/kubepods/pod", {}, mount="22 27 0:21 / /proc rw - proc proc rw\n")))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("memory.max", "a lot"),
        ("memory.current", ""),
        ("memory.stat", "anon 1\n"),
        ("cpu.max", "100000"),
        ("cpu.max", "1 0"),
        ("pids.max", "many"),
    ],
)
def test_a_file_that_makes_no_sense_is_an_error(tmp_path: Path, name: str, text: str) -> None:
    """It is named, and no number is made up."""
    files = {**memory_v2("", str(GIB), 0, 0), "cpu.max": "max 100000", "pids.max": "max", name: text}

    with pytest.raises(CgroupError, match=name):
        read_limits(tree(tmp_path, v2("/", files)))


@pytest.mark.parametrize("name", ["self/mountinfo", "self/cgroup"])
def test_without_proc_there_is_an_error(tmp_path: Path, name: str) -> None:
    """A missing file of /proc is named."""
    root = tree(tmp_path, v2("/", {"cgroup.procs": ""}))
    (root / "proc" / name).unlink()

    with pytest.raises(CgroupError, match=name):
        read_limits(root)


def test_mounts_and_paths_are_parsed() -> None:
    """Blanks in a mount point, joined controllers, and lines that are no cgroups."""
    (mount,) = parse_mounts(
        "1 2 0:3 / /sys/fs/my\\040cgroup rw shared:9 - cgroup2 none rw\n9 9 0:1 / / rw - ext4 x rw\n\n"
    )

    assert (mount.point, mount.v2) == ("/sys/fs/my cgroup", True)
    assert parse_paths("2:cpu,cpuacct:/a:b\n0::/c\n") == {"cpu": "/a:b", "cpuacct": "/a:b", "": "/c"}


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


@pytest.mark.parametrize("name", ["proc/meminfo", "proc/vmstat", "proc/sys/kernel/pid_max", "dev/shm/.keep"])
def test_a_resource_that_is_missing_is_named(tmp_path: Path, name: str) -> None:
    """A file or folder that is not there is an error, too."""
    root = tree(tmp_path, {**PROC, **v2("/", {"cgroup.procs": ""})})
    (root / name).unlink()
    if name == "dev/shm/.keep":
        (root / "dev/shm").rmdir()

    with pytest.raises(CheckError, match=name.removesuffix("/.keep")):
        system.resource_metrics(root, tmp_path, 8)


def test_this_machine_has_resources(tmp_path: Path) -> None:
    """The check itself, here: everything it promises, and numbers that can be."""
    result = system.resources.body(context(tmp_path))
    assert isinstance(result, Measurement)
    metrics: dict[str, Any] = dict(result.metrics)

    assert fault_of(system.resources, metrics) == ""
    assert 0 < metrics["memory_available_bytes"] <= metrics["memory_limit_bytes"]
    assert 0 < metrics["cpus"] <= (os.cpu_count() or 1)
    assert 0.0 <= metrics["disk_free_fraction"] <= 1.0
    assert 0.0 <= metrics["inodes_free_fraction"] <= 1.0


def test_no_limit_is_a_number_that_a_policy_can_hold() -> None:
    """It lies within a rule's range, so that a lower bound accepts it."""
    assert system.UNLIMITED == 10**18


def test_this_machine_has_an_identity() -> None:
    """The check itself, here; what confirms a machine is part of it."""
    result = system.identity.body(context())
    assert isinstance(result, Measurement)

    assert fault_of(system.identity, result.metrics) == ""
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

    assert found["gpu_uuids"] == (
        "GPU-aaaa1111-2222-3333-4444-555566667777,GPU-ffff1111-2222-3333-4444-555566667777"
    )
    assert found["driver"] == "570.86.15"
    assert found["boot_id"] == "1b32d552-812d-45e9-9772-cc87775ed73f"


@pytest.mark.parametrize("name", sorted(IDENTITY))
def test_an_identity_that_cannot_be_read_is_an_error(tmp_path: Path, name: str) -> None:
    """Two nodes that cannot be told apart must not count as equal."""
    root = tree(tmp_path, IDENTITY)
    assert system.identity_metrics(root)["os_release"] == "Debian GNU/Linux 12 (bookworm)"
    (root / name).unlink()

    with pytest.raises(CheckError, match=r"boot_id|os_release|cpu_model"):
        system.identity_metrics(root)


def test_an_unreadable_identity_never_raises(tmp_path: Path) -> None:
    """The runner needs it before anything is known: what cannot be read is ""."""
    found = system.identity_of_node(tmp_path)

    assert {found[key] for key in ("boot_id", "machine_id", "product_uuid", "gpu_uuids", "driver")} == {""}
    assert found["host"]


def test_an_arm_processor_has_a_name(tmp_path: Path) -> None:
    """Its cpuinfo has no model name."""
    root = tree(tmp_path, {"proc/cpuinfo": "processor : 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd40\n"})

    assert machine.cpu_model(root) == "implementer 0x41 part 0xd40"


@pytest.mark.parametrize(
    ("state", "status", "offset", "expected"),
    [
        (0, 0x0001, 1500, adjtimex.ClockState(True, 0.0015, 0.25)),
        (0, 0x2001, 1500, adjtimex.ClockState(True, 0.0000015, 0.25)),
        (5, 0x0040, 0, adjtimex.ClockState(False, 0.0, 0.25)),
        (0, 0x0041, 0, adjtimex.ClockState(False, 0.0, 0.25)),
        (5, 0x0001, 0, adjtimex.ClockState(False, 0.0, 0.25)),
    ],
)
def test_what_adjtimex_says(state: int, status: int, offset: int, expected: adjtimex.ClockState) -> None:
    """Unsynchronised by the flag or by the return value; the offset in ns or us; the bound in us."""
    assert adjtimex.state_of(state, status, offset, 250_000) == expected


def test_this_machine_has_a_clock() -> None:
    """The check itself, here: it runs at its rate, and adjtimex was understood."""
    result = system.clock.body(context())
    assert isinstance(result, Measurement)
    metrics: dict[str, Any] = dict(result.metrics)

    assert fault_of(system.clock, metrics) == ""
    assert metrics["synchronised"] in (0, 1)
    assert 0.0 <= metrics["max_error_s"] <= 1000.0
    assert verdicts("system.clock", metrics) == []


def test_a_clock_that_may_not_be_read_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    """EPERM is a reason that a policy may accept; any other failure is an error."""
    monkeypatch.setattr(adjtimex, "read_state", lambda: _raise(PermissionError(1, "Operation not permitted")))
    result = system.clock.body(context())

    assert isinstance(result, Skipped)
    assert result.skip is Skip.NOT_PERMITTED
    monkeypatch.setattr(adjtimex, "read_state", lambda: _raise(OSError(38, "Function not implemented")))
    with pytest.raises(CheckError, match="not implemented"):
        system.clock.body(context())


def test_a_clock_without_a_source_is_an_error(tmp_path: Path) -> None:
    """The file is named."""
    with pytest.raises(CheckError, match="current_clocksource"):
        system.clock_metrics(tmp_path, adjtimex.ClockState(True, 0.0, 0.0))


GOOD: dict[str, dict[str, Any]] = {
    "system.resources": {
        "memory_available_bytes": 4 * GIB,
        "cpus": 2.0,
        "disk_free_bytes": 20 * GIB,
        "inodes_free_fraction": 0.5,
        "shm_free_bytes": 64 << 20,
        "nofile": 1024,
        "pids_limit": 4096,
    },
    "system.clock": {"wall_rate": 1.0, "year": 2026, "clocksource": "tsc"},
    "system.identity": dict.fromkeys(
        ("torch", "driver", "architecture", "kernel", "python", "cpu_model"), "1"
    ),
}


def test_an_ordinary_container_passes() -> None:
    """Two CPUs, 4 GiB, Docker's /dev/shm, Linux's default limits: no finding, so no WARN."""
    assert [verdicts(check, metrics) for check, metrics in GOOD.items()] == [[], [], []]


@pytest.mark.parametrize(
    ("check", "metric", "good", "bad"),
    [
        ("system.resources", "memory_available_bytes", 2_000_000_000, 1_999_999_999),
        ("system.resources", "cpus", 1.0, 0.9),
        ("system.resources", "disk_free_bytes", 500_000_000, 499_999_999),
        ("system.resources", "inodes_free_fraction", 0.01, 0.009),
        ("system.resources", "shm_free_bytes", 16_000_000, 15_999_999),
        ("system.resources", "nofile", 1024, 1023),
        ("system.resources", "pids_limit", 256, 255),
        ("system.clock", "wall_rate", 0.91, 0.89),
        ("system.clock", "wall_rate", 1.09, 1.11),
        ("system.clock", "year", 2026, 2025),
    ],
)
def test_the_bounds_of_the_local_policy(check: str, metric: str, good: float, bad: float) -> None:
    """A value on either side of each."""
    assert verdicts(check, {**GOOD[check], metric: good}) == []
    assert verdicts(check, {**GOOD[check], metric: bad}) == [("FAIL", "CONFIGURATION", metric)]


@pytest.mark.parametrize(
    ("check", "metric", "level"),
    [
        ("system.identity", "torch", "FAIL"),
        ("system.identity", "driver", "FAIL"),
        ("system.identity", "architecture", "FAIL"),
        ("system.identity", "kernel", "WARN"),
        ("system.identity", "python", "WARN"),
        ("system.identity", "cpu_model", "WARN"),
        ("system.clock", "clocksource", "WARN"),
    ],
)
def test_drift_between_nodes(check: str, metric: str, level: str) -> None:
    """Equal everywhere is nothing; one that differs from two is named."""
    good = GOOD[check]
    found = findings(check, good, {**good, metric: "another"}, good)

    assert verdicts(check, good, good, good) == []
    assert [(f.level.value, f.cause.value) for f in found] == [(level, "CONFIGURATION")]
    assert f"{metric} is another, on 2 of 3" in found[0].message


@pytest.mark.parametrize(
    ("metric", "bad", "cause"),
    [("other_catalogues", 1, "CONFIGURATION"), ("rendezvous", "timed out", "EVIDENCE")],
)
def test_the_network_lines_of_the_local_policy(metric: str, bad: int | str, cause: str) -> None:
    """Another catalogue is a mistake; an unreached rendezvous is no fault of this node's hardware."""
    good: dict[str, Any] = {"other_catalogues": 0, "rendezvous": "ok"}

    assert verdicts("network.reachability", good) == []
    assert verdicts("network.reachability", {**good, metric: bad}) == [("FAIL", cause, metric)]


def test_every_rule_of_the_local_policy_has_a_metric_and_a_remedy() -> None:
    """A rule about a metric that no check promises never speaks; one without a remedy helps nobody."""
    from checks.catalog import CATALOG

    lines = local_policy().checks
    assert set(lines) == {check.name for check in CATALOG}
    for check in CATALOG:
        for rule in lines[check.name].rules:
            assert rule.metric in check.metrics, (check.name, rule.metric)
            assert rule.remedy, (check.name, rule.metric)


def _raise(error: OSError) -> adjtimex.ClockState:
    raise error
