"""The limits of this process: memory, CPUs and number of processes under cgroup v1, v2 or both.

Every limit is the smallest of the process's own cgroup and its ancestors, as far as they are visible from here. All paths are below
a given `root`, so that recorded trees can be read. A limit that cannot be read raises CgroupError, which names the file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TypeVar

# In a v1 file "no limit" is the greatest multiple of the page size: 9223372036854771712.
V1_UNLIMITED = 1 << 60
Number = TypeVar("Number", int, float)


class CgroupError(Exception):
    """A limit that could not be read."""


@dataclass(frozen=True)
class CgroupMount:
    """A mounted cgroup hierarchy: `root` is the cgroup that is visible at `point`; `controllers` is empty for v2."""

    root: str
    point: str
    controllers: frozenset[str]
    v2: bool


@dataclass(frozen=True)
class CgroupLimits:
    """The limits; None if there is no limit. `memory_room_bytes` is the smallest limit minus the use."""

    memory_bytes: int | None
    memory_room_bytes: int | None
    cpus: float | None
    pids: int | None
    oom_kills: int | None


def parse_mounts(mountinfo: str) -> tuple[CgroupMount, ...]:
    """The cgroup hierarchies in the text of /proc/self/mountinfo."""
    mounts = []
    for line in mountinfo.splitlines():
        left, _, right = line.partition(" - ")
        fields, tail = left.split(), right.split()
        if len(fields) < 5 or not tail or tail[0] not in ("cgroup", "cgroup2"):
            continue
        v2 = tail[0] == "cgroup2"
        options = frozenset() if v2 else frozenset(tail[-1].split(","))
        mounts.append(CgroupMount(_unescape(fields[3]), _unescape(fields[4]), options, v2))
    return tuple(mounts)


def parse_paths(text: str) -> dict[str, str]:
    """The text of /proc/self/cgroup -> controller -> cgroup; the v2 cgroup is under ""."""
    paths = {}
    for line in text.splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        paths.update(dict.fromkeys(controllers.split(","), path))
    return paths


def read_limits(root: Path) -> CgroupLimits:
    """The limits of this process. Raises CgroupError for a hierarchy that is used but not visible."""
    mounts = parse_mounts(_required(root / "proc/self/mountinfo"))
    paths = parse_paths(_required(root / "proc/self/cgroup"))
    memory = list(_levels(root, "memory", mounts, paths))
    limits = [(level, limit) for level in memory if (limit := _memory_limit(*level)) is not None]
    return CgroupLimits(
        memory_bytes=min((limit for _, limit in limits), default=None),
        memory_room_bytes=min((limit - _memory_used(*level) for level, limit in limits), default=None),
        cpus=_least(_cpus(*level) for level in _levels(root, "cpu", mounts, paths)),
        pids=_least(_count(folder / "pids.max") for folder, _ in _levels(root, "pids", mounts, paths)),
        oom_kills=_oom_kills(*memory[0]) if memory else None,
    )


def memory_cgroup(root: Path) -> str:
    """The path of this process's memory cgroup, as a cgroup namespace shows it; "" where it is in none. Raises CgroupError."""
    paths = parse_paths(_required(root / "proc/self/cgroup"))
    return paths.get("memory", paths.get("", ""))


def read_throttling(root: Path) -> tuple[int, int] | tuple[None, None]:
    """The scheduler's periods since the nearest cgroup with a CPU quota was created, and those in which the quota throttled it.

    (None, None) if no level counts them: then there is no quota. Raises CgroupError.
    """
    mounts = parse_mounts(_required(root / "proc/self/mountinfo"))
    for folder, _ in _levels(root, "cpu", mounts, parse_paths(_required(root / "proc/self/cgroup"))):
        table = _table(folder / "cpu.stat")
        if table.get("nr_periods") and "nr_throttled" in table:
            return table["nr_periods"], table["nr_throttled"]
    return None, None


def _levels(
    root: Path, controller: str, mounts: tuple[CgroupMount, ...], paths: dict[str, str]
) -> Iterator[tuple[Path, bool]]:
    """The process's cgroup for the controller, then its ancestors, each with whether it is v2."""
    if controller in paths:
        mount = next((m for m in mounts if controller in m.controllers), None)
        path = paths[controller]
    elif "" in paths:
        mount, path = next((m for m in mounts if m.v2), None), paths[""]
    else:
        return  # this kernel has no cgroups for this controller
    if mount is None:
        raise CgroupError(
            f"cgroup {path!r} limits this process, but no {controller} hierarchy is mounted, so the limit cannot be read"
        )
    point = root / mount.point.lstrip("/")
    if not point.is_dir():
        raise CgroupError(f"{mount.point} ({controller} cgroup) cannot be read")
    folder = point / _below(mount.root, path)
    if not folder.is_dir():
        folder = point  # a container's own mount shows its cgroup at the top
    while True:
        yield folder, mount.v2
        if folder == point:
            return
        folder = folder.parent


def _below(mount_root: str, path: str) -> str:
    """The cgroup's folder below the mount point. A path outside of the mount's root is at its top."""
    try:
        inside = PurePosixPath(path).relative_to(mount_root)
    except ValueError:
        return "."
    return "." if ".." in inside.parts else str(inside)


def _memory_limit(folder: Path, v2: bool) -> int | None:
    limit = _count(folder / ("memory.max" if v2 else "memory.limit_in_bytes"))
    return None if limit is None or limit >= V1_UNLIMITED else limit


def _memory_used(folder: Path, v2: bool) -> int:
    """The memory in use, without the page cache that the kernel would release at once."""
    used = _number(folder / ("memory.current" if v2 else "memory.usage_in_bytes"))
    table = _table(folder / "memory.stat")
    name = "inactive_file" if v2 else "total_inactive_file"
    if name not in table:
        raise CgroupError(f"{folder / 'memory.stat'} has no {name}")
    return max(0, used - table[name])


def _cpus(folder: Path, v2: bool) -> float | None:
    if v2:
        limit = (_text(folder / "cpu.max") or "max 100000").split()
        if len(limit) != 2 or not limit[1].isdigit() or not int(limit[1]):
            raise CgroupError(f"{folder / 'cpu.max'} is {' '.join(limit)!r:.80}, which cannot be read")
        return None if limit[0] == "max" else int(limit[0]) / int(limit[1])
    quota = _count(folder / "cpu.cfs_quota_us")
    return None if quota is None or quota < 0 else quota / max(1, _number(folder / "cpu.cfs_period_us"))


def _oom_kills(folder: Path, v2: bool) -> int | None:
    """How many processes the kernel killed in this cgroup; None if it does not count them (the root of v2)."""
    return _table(folder / ("memory.events" if v2 else "memory.oom_control")).get("oom_kill")


def _count(path: Path) -> int | None:
    """The number in a file; None for "max" and for a file that this level does not have."""
    text = _text(path)
    return None if text in (None, "max") else _integer(str(text), path)


def _number(path: Path) -> int:
    return _integer(_required(path).strip(), path)


def _table(path: Path) -> dict[str, int]:
    lines = (line.split() for line in (_text(path) or "").splitlines())
    return {fields[0]: int(fields[1]) for fields in lines if len(fields) == 2 and fields[1].isdigit()}


def _integer(text: str, path: Path) -> int:
    try:
        return int(text)
    except ValueError:
        raise CgroupError(f"{path} is {text!r:.80}, which is not a number") from None


def _text(path: Path) -> str | None:
    """The text of the file; None only if it does not exist."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CgroupError(f"{path} cannot be read: {error.strerror}") from error


def _required(path: Path) -> str:
    text = _text(path)
    if text is None:
        raise CgroupError(f"{path} does not exist")
    return text


def _least(values: Iterable[Number | None]) -> Number | None:
    return min((value for value in values if value is not None), default=None)


def _unescape(text: str) -> str:
    return text.replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\")
