"""What cgroups of either version allow, from captured trees."""

from __future__ import annotations

from pathlib import Path

import pytest

from checks.process.cgroup import CgroupError, CgroupLimits, parse_mounts, parse_paths, read_limits
from tests.checks.proc_trees import GIB, NONE_V1, memory_v2, tree, v1, v2


def test_a_v2_container_has_its_own_limits(tmp_path: Path) -> None:
    """Memory, room without reclaimable cache, quota, processes and OOM kills of the process's cgroup."""
    files = {
        **memory_v2("", str(4 * GIB), 3 * GIB, 2 * GIB),
        "cpu.max": "150000 100000\n",
        "pids.max": "512\n",
        "memory.events": "low 0\nhigh 0\nmax 9\noom 2\noom_kill 1\n",
    }

    assert read_limits(tree(tmp_path, v2("/", files))) == CgroupLimits(4 * GIB, 3 * GIB, 1.5, 512, 1)


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

    assert read_limits(tree(tmp_path, v1(files))) == CgroupLimits(4 * GIB, 2 * GIB, 2.5, None, 4)


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
    assert read_limits(tree(tmp_path, v2("/", {"cgroup.procs": ""}))) == CgroupLimits(
        None, None, None, None, None
    )


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
