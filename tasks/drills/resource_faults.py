"""Faults of what a node has: a network that is slow (tc-tbf(8)), and a file system that is full."""

from __future__ import annotations

import re

from tasks.drills.kernel_faults import script
from tasks.drills.model import Argv, DrillRefused, Fault, FaultMaker, FaultOptions

# Our queueing discipline has a handle that no default one has, so that nobody else's is ever removed.
HANDLE = "7d11:"
BUCKET = ("burst", "64kb", "latency", "200ms")
FILL_S = 600.0

LINK_PROBE = """\
device=$1
[ -n "$device" ] || device=$(ip -o route show default | sed -n 's/.* dev \\([^ ]*\\).*/\\1/p' | head -n 1)
echo "device $device"
[ -z "$device" ] || tc qdisc show dev "$device"
"""
UNSHAPE = """\
shaped() { tc qdisc show dev "$1" 2>/dev/null | grep -q "^qdisc tbf $2 "; }
shaped "$1" "$2" || exit 0
tc qdisc del dev "$1" root && ! shaped "$1" "$2"
"""
DISK_PROBE = """\
[ -d "$1" ] && [ -w "$1" ] && echo writable
df -Pk -- "$1" | tail -n 1
"""
# A file system that cannot reserve space is filled with zeros; that it is full then is what was wanted.
FILL = """\
umask 077
fallocate -l "$2" -- "$1" 2>/dev/null || head -c "$2" /dev/zero >"$1" || [ -s "$1" ]
"""
EMPTY = """rm -f -- "$1"; [ ! -e "$1" ]"""


def _shape(options: FaultOptions, probed: str) -> Fault:
    head, _, rest = probed.partition("\n")
    device = head.removeprefix("device ").strip()
    if not re.fullmatch(r"[A-Za-z0-9._@-]{1,15}", device):
        raise DrillRefused(
            f"{options.node} has no default route, so its interface is not known. Give --interface."
        )
    if not re.fullmatch(r"[1-9]\d{0,8}(kbit|mbit|gbit)", options.rate):
        raise DrillRefused(f"{options.rate!r:.40} is not a rate such as 10mbit.")
    roots = [line for line in rest.splitlines() if " root" in line]
    if not roots or not all(re.match(r"qdisc \S+ 0: ", line) for line in roots):
        said = roots[0].strip() if roots else "no queueing discipline"
        raise DrillRefused(
            f"{device} on {options.node} has {said!r:.80}, which the drill would replace and could not restore. Give another "
            "--interface, or remove it."
        )
    shape = (
        "tc",
        "qdisc",
        "replace",
        "dev",
        device,
        "root",
        "handle",
        HANDLE,
        "tbf",
        "rate",
        options.rate,
        *BUCKET,
    )
    return Fault(shape, script(UNSHAPE, device, HANDLE))


def _require_folder(options: FaultOptions) -> Argv:
    if not options.folder.startswith("/"):
        raise DrillRefused(
            "full-disk fills the file system of a folder. Name the folder with --folder, from / on."
        )
    return script(DISK_PROBE, options.folder)


def _fill(options: FaultOptions, probed: str) -> Fault:
    lines = probed.splitlines()
    fields = lines[-1].split() if lines else []
    if "writable" not in lines or len(fields) < 6 or not fields[3].isdecimal():
        raise DrillRefused(
            f"{options.folder} on {options.node} is no folder in which a file can be made: {probed!r:.200}"
        )
    size = (int(fields[3]) - options.leave_mib * 1024) * 1024
    if size <= 0:
        raise DrillRefused(f"{options.folder} on {options.node} has only {int(fields[3])} KiB left already.")
    path = f"{options.folder.rstrip('/')}/.prelaunch-drill-{options.drill_id}"
    return Fault(script(FILL, path, str(size)), script(EMPTY, path), inject_s=FILL_S)


SHAPED_LINK = FaultMaker(lambda options: script(LINK_PROBE, options.interface), _shape)
FULL_DISK = FaultMaker(_require_folder, _fill)
