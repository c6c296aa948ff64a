"""The faults that `prelaunch repair drill` makes on a node: the commands that make each and undo it.

Sources: the lines in the kernel log are those of SageMaker HyperPod's resilience workshop (Xid 73 and 74 in /var/log/messages, with a
current date); tc-tbf(8); proc(5). A process is known by its number and its start time, so that no signal reaches another that has the
number later.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

Argv = tuple[str, ...]


class DrillRefused(Exception):
    """The drill may not run, or cannot: nothing was changed. The message says what to do."""


@dataclass(frozen=True)
class FaultOptions:
    """What the faults need to know; "" stands for the default of the fault.

    `rate` is tc's ("10mbit"), `start` is the command that starts a killed daemon.
    """

    node: str
    kernel_log: str = ""
    interface: str = ""
    rate: str = "10mbit"
    process: str = "slurmd"
    pid_file: str = ""
    start: Argv = ()


@dataclass(frozen=True)
class DrillFault:
    """The commands that make a fault on a node and undo it. Both may be run again, and `undo` without `inject` before it.

    `undo` ends with exit code 0 if nothing of the fault is left. `stays` says what cannot be undone, and what to do.
    """

    inject: Argv
    undo: Argv
    stays: str = ""


@dataclass(frozen=True)
class Drill:
    """One drill. `probe` is a command that changes nothing on the node; `make` reads its output, and may raise DrillRefused."""

    summary: str
    probe: Callable[[FaultOptions], Argv]
    make: Callable[[FaultOptions, str], DrillFault]


def script(text: str, *arguments: str) -> Argv:
    """A shell script with arguments, as one command. No argument is ever read as code."""
    return ("sh", "-c", text, "prelaunch-drill", *arguments)


KMSG = "/dev/kmsg"
LOG_PROBE = """\
LC_ALL=C date '+%b %d %H:%M:%S'; uname -n
if [ -e "$1" ]; then echo there; else echo new; fi
if [ -w "$1" ] || { [ ! -e "$1" ] && [ -w "$(dirname -- "$1")" ]; }; then echo writable; else echo no; fi
"""
INTO_RING = """printf '<3>%s\\n' "$2" >"$1" """
INTO_FILE = """printf '%s\\n' "$2" >>"$1" """
# The line's bytes are replaced where they are: a program that appends to the file loses nothing, as it would if the file were written
# anew. A file that has only our line, and that was not there before, is removed.
OUT_OF_FILE = """\
[ -e "$1" ] || exit 0
if [ "$4" = new ] && [ "$(cat -- "$1")" = "$2" ]; then rm -f -- "$1"; exit; fi
LC_ALL=C grep -abxF -- "$2" "$1" | cut -d: -f1 | while read -r at; do
    printf '%s' "$3" | dd of="$1" bs=1 seek="$at" conv=notrunc 2>/dev/null || exit 1
done
! LC_ALL=C grep -qaxF -- "$2" "$1"
"""
STAYS = (
    "The line stays in the kernel's ring buffer until the node restarts, because nothing can be taken out of it. Until then "
    "kernel.xid refuses the node. Restart it; or let one gate pass over the check with --set 'checks.skip=[\"kernel.xid\"]', which "
    "is a warning in its verdict, and a rejection where the policy requires the check."
)


def _probe_log(options: FaultOptions) -> Argv:
    return script(LOG_PROBE, options.kernel_log or KMSG)


def _log_xid(code: int, options: FaultOptions, probed: str) -> DrillFault:
    """One line about this Xid: in /dev/kmsg, or in the file that `kernel_log` names, with the node's own time and name."""
    lines = probed.splitlines()
    path = options.kernel_log or KMSG
    if len(lines) != 4 or not re.fullmatch(r"[A-Z][a-z]{2} [ 0-9]\d \d\d:\d\d:\d\d", lines[0]):
        raise DrillRefused(f"the node answered {probed!r:.200} where its time and name were expected.")
    if lines[3] != "writable":
        raise DrillRefused(
            f"{path} cannot be written on {options.node}. Run the drill as root there, or give --kernel-log."
        )
    message = f"NVRM: Xid (PCI:0000:b9:00): {code}, pid=<unknown>, name=<unknown>, NVLink: fatal error detected on link 6"
    message += "(0x10000, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0)"
    if path == KMSG:
        return DrillFault(script(INTO_RING, path, message), ("true",), STAYS)
    line = f"{lines[0]} {lines[1]} kernel: {message}"
    instead = f"{lines[0]} {lines[1]} prelaunch: the line of a drill was here ".ljust(len(line), ".")
    return DrillFault(
        script(INTO_FILE, path, line), script(OUT_OF_FILE, path, line, instead[: len(line)], lines[2])
    )


# $1: name, $2: file with the number. Prints number, state and start time of each that is no zombie.
FIND = """\
matching() {
    if [ -n "$2" ]; then cat -- "$2" 2>/dev/null; else pgrep -x -- "$1"; fi | while read -r pid; do seen "$pid"; done
}
seen() {
    IFS= read -r stat 2>/dev/null <"/proc/$1/stat" || return 0
    pid=$1
    set -- ${stat##*) }
    [ "$1" = Z ] || [ "$1" = X ] || echo "$pid $1 ${20}"
}
"""
PROCESS_PROBE = """\
matching "$1" "$2"
systemctl cat -- "$1" >/dev/null 2>&1 && echo unit
true
"""
# $1: number, $2: start time.
STOP = """set -- $1 $2 $(seen "$1"); [ "$5" = "$2" ] && kill -STOP "$1" """
# What dies is waited for, so that it is not taken for one that runs again.
KILL = """\
set -- $1 $2 $(seen "$1"); [ "$5" = "$2" ] && kill -KILL "$1" || exit 1
for _ in 1 2 3 4 5 6 7 8 9 10; do
    set -- $1 $2 $(seen "$1")
    [ "$5" = "$2" ] || exit 0
    sleep 1
done
exit 1
"""
CONTINUE = """\
set -- $1 $2 $(seen "$1")
[ "$5" = "$2" ] || exit 0
kill -CONT "$1" && set -- $1 $2 $(seen "$1")
[ "$4" != T ]
"""
# $1: name, $2: file, then the command that starts it.
START = """\
name=$1 file=$2 seconds=30; shift 2
[ -n "$(matching "$name" "$file")" ] && exit 0
setsid "$@" </dev/null >/dev/null 2>&1 &
while [ "$seconds" -gt 0 ]; do
    [ -n "$(matching "$name" "$file")" ] && exit 0
    seconds=$((seconds - 1)); sleep 1
done
echo "$name does not run" >&2; exit 1
"""


def _probe_process(options: FaultOptions) -> Argv:
    return script(FIND + PROCESS_PROBE, options.process, options.pid_file)


def _freeze(options: FaultOptions, probed: str) -> DrillFault:
    process = _one_process(options, probed)
    return DrillFault(script(FIND + STOP, *process), script(FIND + CONTINUE, *process))


def _kill(options: FaultOptions, probed: str) -> DrillFault:
    name, process = options.process, _one_process(options, probed)
    if not options.start and "unit" not in probed.splitlines():
        raise DrillRefused(
            f"{options.node} has no systemd unit {name}, so it is not known how to start it again. Give the command with --start."
        )
    start = options.start or ("systemctl", "start", name)
    return DrillFault(script(FIND + KILL, *process), script(FIND + START, name, options.pid_file, *start))


def _one_process(options: FaultOptions, probed: str) -> tuple[str, str]:
    """Number and start time of the one process. Raises DrillRefused for none, several, and one that is stopped already."""
    matches = re.findall(r"(?m)^(\d+) ([A-Za-z]) (\d+)$", probed)
    if len(matches) != 1:
        raise DrillRefused(
            f"{options.node} has {len(matches)} processes {options.process}, and the drill needs exactly one. Name it with "
            "--process, or its file with --pid-file."
        )
    number, state, started = matches[0]
    if state in "Tt":
        raise DrillRefused(
            f"process {number} ({options.process}) on {options.node} is stopped already. Let it go on first."
        )
    if int(number) <= 1:
        raise DrillRefused("process 1 is never stopped or killed.")
    return number, started


# Our queueing discipline has a handle that no default one has, so that nobody else's is ever removed.
HANDLE = "7d11:"
BUCKET = ("burst", "64kb", "latency", "200ms")
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


def _probe_link(options: FaultOptions) -> Argv:
    return script(LINK_PROBE, options.interface)


def _shape(options: FaultOptions, probed: str) -> DrillFault:
    head, _, rest = probed.partition("\n")
    device = head.removeprefix("device ").strip()
    if not re.fullmatch(r"[A-Za-z0-9._@-]{1,15}", device):
        message = f"{options.node} has no default route, so its interface is not known. Give --interface."
        raise DrillRefused(message)
    if not re.fullmatch(r"[1-9]\d{0,8}(kbit|mbit|gbit)", options.rate):
        raise DrillRefused(f"{options.rate!r:.40} is not a rate such as 10mbit.")
    roots = [line for line in rest.splitlines() if " root" in line]
    if not roots or not all(re.match(r"qdisc \S+ 0: ", line) for line in roots):
        discipline = roots[0].strip() if roots else "no queueing discipline"
        raise DrillRefused(
            f"{device} on {options.node} has {discipline!r:.80}, which the drill would replace and could not restore. Give another "
            "--interface, or remove it."
        )
    bucket = ("tbf", "rate", options.rate, *BUCKET)
    shape = ("tc", "qdisc", "replace", "dev", device, "root", "handle", HANDLE, *bucket)
    return DrillFault(shape, script(UNSHAPE, device, HANDLE))


DRILLS = {
    "xid-74": Drill("a line about Xid 74 in the kernel log: HyperPod replaces the node", _probe_log, partial(_log_xid, 74)),
    "xid-73": Drill("a line about Xid 73: HyperPod reboots the node, elsewhere it is a warning", _probe_log, partial(_log_xid, 73)),
    "killed-daemon": Drill("slurmd, or another daemon, is killed with SIGKILL", _probe_process, _kill),
    "frozen-process": Drill("slurmd, or another daemon, is stopped with SIGSTOP", _probe_process, _freeze),
    "shaped-link": Drill("tc limits the rate of TCP/IP, and not of EFA or InfiniBand", _probe_link, _shape),
}  # fmt: skip
