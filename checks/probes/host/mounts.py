"""mounts.responsive: every mounted filesystem answers, and none that was mounted for writing has turned read-only.

A process that calls a file server which does not answer blocks in the kernel and cannot be ended, so each mount gets a process of
its own, with a deadline.
"""

from __future__ import annotations

import errno
import json
import os
import re
import sys
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from checks.check import CheckError, Context, Measurement, check, lists
from checks.model import Scope
from checks.probes.sysfs import required_text
from checks.process import tool

MOUNTINFO = Path("/proc/self/mountinfo")
AT_ONCE = 64
# What the kernel makes up itself: nothing behind it can hang or fail.
PSEUDO = frozenset(
    (
        *("autofs", "bdev", "binder", "binfmt_misc", "bpf", "cgroup", "cgroup2", "configfs", "cpuset"),
        *("debugfs", "devfs", "devpts", "devtmpfs", "efivarfs", "fuse.lxcfs", "fusectl", "hugetlbfs"),
        *("mqueue", "nsfs", "pipefs", "proc", "pstore", "ramfs", "resctrl", "rpc_pipefs", "securityfs"),
        *("selinuxfs", "sockfs", "sysfs", "tmpfs", "tracefs"),
    )
)
# Images that nobody can write: read-only is how they are.
IMAGES = frozenset(("cramfs", "erofs", "iso9660", "romfs", "squashfs", "udf"))
# Of a mount for writing, the filesystem under it is read-only: perhaps on purpose, since a container runtime binds for writing
# what the host mounted read-only; or certainly after an error.
BELOW, TURNED = 1, 2
# Asked of the child: stat and statvfs, since the first alone may be answered from the client's cache.
PROBE = (
    "import json, os, sys, time\n"
    "begun = time.monotonic()\n"
    "try:\n"
    "    os.stat(sys.argv[1])\n"
    "    read_only = bool(os.statvfs(sys.argv[1]).f_flag & os.ST_RDONLY)\n"
    "    said = {'error': 0, 'read_only': read_only}\n"
    "except OSError as error:\n"
    "    said = {'error': error.errno, 'read_only': False}\n"
    "print(json.dumps({**said, 'seconds': time.monotonic() - begun}))\n"
)
ASKER = (sys.executable, "-I", "-S", "-c", PROBE)


@dataclass(frozen=True)
class Mount:
    """A line of mountinfo. `writable` as it was mounted; `read_only` is BELOW or TURNED, or 0."""

    point: str
    filesystem: str
    source: str
    device: str
    writable: bool
    read_only: int

    @property
    def label(self) -> str:
        """How a person knows it."""
        return f"{self.point} ({self.filesystem}, {self.source})".encode("utf-8", "backslashreplace").decode(
            "utf-8"
        )


@dataclass(frozen=True)
class MountResponse:
    """What a mount answered; `error` is an errno, None if it did not answer in time."""

    error: int | None
    read_only: bool
    seconds: float


@check(
    "mounts.responsive",
    Scope.NODE,
    timeout_s=60,
    metrics=("mounts", "hung", "failing", "read_only", "slowest_s"),
    needs="/proc/self/mountinfo",
    beside_job=True,
    holds=lists("mounts"),
)
def responsive(context: Context) -> Measurement:
    """Asks every mounted filesystem for an answer, and finds those that hang, fail, or have turned read-only.

    One number a mount of `mounts`, one mount a device; what the kernel makes up itself (proc, tmpfs ...) is left out, but
    "/" is always asked. `hung`: no answer within `deadline_s`. `failing`: an error, such as a stale file handle.
    `read_only`: mounted for writing, and the filesystem is read-only (1), or has become so after an error (2): it says so, it
    was still writable a moment before, or "/" or this gate's own folder is on it. `slowest_s` is of those that answered.
    """
    every = parse(required_text(MOUNTINFO))
    mounts = to_ask(every)
    deadline_s = context.options.get("deadline_s", 5.0)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        answers = tuple(pool.map(lambda mount: ask(mount.point, deadline_s), mounts))
    return measured(
        mounts, answers, os.geteuid() == 0, devices_of(every, Path("/"), context.scratch.resolve())
    )


def parse(text: str) -> tuple[Mount, ...]:
    """The text of /proc/self/mountinfo (proc(5)). Raises CheckError if it is cut or of another form."""
    mounts = []
    for number, line in enumerate(text.splitlines(), 1):
        left, dash, right = line.partition(" - ")
        fields, tail = left.split(" "), right.split(" ")
        if not dash or len(fields) < 6 or len(tail) < 3:
            raise CheckError(f"line {number} of mountinfo has an unknown form: {line!r:.120}")
        ours, theirs = fields[5].split(","), tail[2].split(",")
        point, source = _unescape(fields[4]), _unescape(tail[1])
        read_only = _below(theirs) if "rw" in ours else 0
        mounts.append(Mount(point, tail[0], source, fields[2], "rw" in ours, read_only))
    if not mounts or not text.endswith("\n"):
        raise CheckError("mountinfo is empty or truncated")
    return tuple(mounts)


def _below(options: Sequence[str]) -> int:
    if "emergency_ro" in options or {"ro", "errors=remount-ro"} <= {*options}:
        return TURNED
    return BELOW if "ro" in options else 0


def devices_of(mounts: Sequence[Mount], *folders: Path) -> set[str]:
    """The devices that the folders are on; the last mount on a place hides the others."""
    visible = {mount.point: mount for mount in mounts}.values()
    paths = [[mount for mount in visible if folder.is_relative_to(mount.point)] for folder in folders]
    return {max(path, key=lambda mount: len(mount.point)).device for path in paths if path}


def to_ask(mounts: Sequence[Mount]) -> tuple[Mount, ...]:
    """One mount a device, a writable one where there is any, of those with something behind them; the last that lies on
    a place hides the others.
    """
    visible = {mount.point: mount for mount in mounts}
    chosen: dict[tuple[str, str], Mount] = {}
    for mount in visible.values():
        if mount.point == "/" or mount.filesystem not in PSEUDO:
            chosen_mount = chosen.setdefault((mount.device, mount.source), mount)
            # A bind that was read-only from the start shows nothing.
            if mount.writable and not chosen_mount.writable:
                chosen[mount.device, mount.source] = mount
    if not chosen:
        raise CheckError("no filesystem is mounted, not even /")
    return tuple(chosen.values())


def ask(point: str, deadline_s: float) -> MountResponse:
    """What the mount answers to a process of its own. Raises CheckError if that process fails."""
    result = tool.run((*ASKER, point), deadline_s)
    if result.code is None:
        return MountResponse(None, False, result.seconds)
    try:
        value = json.loads(result.stdout)
        return MountResponse(int(value["error"]), bool(value["read_only"]), float(value["seconds"]))
    except (ValueError, KeyError, TypeError) as error:
        raise CheckError(f"{point} could not be tested: {result.account()[-300:]}") from error


def measured(
    mounts: Sequence[Mount], answers: Sequence[MountResponse], root: bool, written: Collection[str] = ()
) -> Measurement:
    """The metrics, and an account of each mount. What is closed to this user is left out: his job cannot use it.

    `written`: the devices that a node which works has written to.
    """
    pairs = [pair for pair in zip(mounts, answers, strict=True) if not _closed(*pair, root)]
    if not pairs:
        raise CheckError("this user has no permission to test any mount")
    seconds_of = [response.seconds for _, response in pairs if response.error is not None]
    return Measurement(
        {
            "mounts": tuple(mount.label for mount, _ in pairs),
            "hung": tuple(int(response.error is None) for _, response in pairs),
            "failing": tuple(int(bool(response.error)) for _, response in pairs),
            "read_only": tuple(_read_only(mount, response, written) for mount, response in pairs),
            "slowest_s": max(seconds_of, default=0.0),
        },
        "\n".join(
            f"{mount.label}: {_account(response)}" for mount, response in zip(mounts, answers, strict=True)
        ),
    )


def _read_only(mount: Mount, response: MountResponse, written: Collection[str]) -> int:
    if mount.filesystem in IMAGES or not mount.writable:
        return 0
    if mount.read_only == BELOW:
        return TURNED if mount.device in written else BELOW
    return TURNED if response.read_only else mount.read_only


def _closed(mount: Mount, response: MountResponse, root: bool) -> bool:
    if response.error == errno.ENOENT:  # another mount lies over it
        return True
    # A user's own FUSE mount is closed to root too.
    return response.error == errno.EACCES and (not root or mount.filesystem.startswith("fuse"))


def _account(response: MountResponse) -> str:
    if response.error is None:
        return f"no answer in {response.seconds:.1f} s"
    return f"error {response.error}" if response.error else f"answered in {response.seconds * 1e3:.1f} ms"


def _unescape(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), text)
