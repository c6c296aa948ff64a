"""Captured shapes of /proc and of cgroup trees, laid under a folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

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
