"""Faults of a process: a daemon that is killed and started again, and one that is stopped and goes on.

A process is known by its number and its start time (proc(5)), so that no signal reaches another that has the number later.
"""

from __future__ import annotations

import re

from tasks.drills.kernel_faults import script
from tasks.drills.model import NOT_YET, Argv, DrillRefused, Fault, FaultMaker, FaultOptions

DAEMON = "slurmd"
CHECKS = "checks"
START_S = 30

# $1: name, $2: file with the number. Prints number, state and start time of each that is no zombie.
FIND = """\
found() {
    if [ -n "$2" ]; then cat -- "$2" 2>/dev/null; else pgrep -x -- "$1"; fi | while read -r pid; do seen "$pid"; done
}
seen() {
    IFS= read -r stat 2>/dev/null <"/proc/$1/stat" || return 0
    pid=$1
    set -- ${stat##*) }
    [ "$1" = Z ] || [ "$1" = X ] || echo "$pid $1 ${20}"
}
"""
PROBE = (
    FIND
    + """\
found "$1" "$2"
systemctl cat -- "$1" >/dev/null 2>&1 && echo unit
true
"""
)
# $1: number, $2: start time.
STOP = FIND + """set -- $1 $2 $(seen "$1"); [ "$5" = "$2" ] && kill -STOP "$1" """
# What dies is waited for, so that it is not taken for one that runs again.
KILL = (
    FIND
    + """\
set -- $1 $2 $(seen "$1"); [ "$5" = "$2" ] && kill -KILL "$1" || exit 1
for _ in 1 2 3 4 5 6 7 8 9 10; do
    set -- $1 $2 $(seen "$1")
    [ "$5" = "$2" ] || exit 0
    sleep 1
done
exit 1
"""
)
CONTINUE = (
    FIND
    + """\
set -- $1 $2 $(seen "$1")
[ "$5" = "$2" ] || exit 0
kill -CONT "$1" && set -- $1 $2 $(seen "$1")
[ "$4" != T ]
"""
)
# $1: name, $2: file, $3: seconds, then the command that starts it.
START = (
    FIND
    + """\
name=$1 file=$2 seconds=$3; shift 3
[ -n "$(found "$name" "$file")" ] && exit 0
setsid "$@" </dev/null >/dev/null 2>&1 &
while [ "$seconds" -gt 0 ]; do
    [ -n "$(found "$name" "$file")" ] && exit 0
    seconds=$((seconds - 1)); sleep 1
done
echo "$name does not run" >&2; exit 1
"""
)
# The processes of the checks of one node: $1 is its name. Prints their numbers.
OF_CHECKS = """\
checks() {
    for pid in $(pgrep -f -- '-m checks( |$)'); do
        { tr '\\0' '\\n' <"/proc/$pid/environ"; } 2>/dev/null | grep -qxE "(PRELAUNCH_NODE|SLURMD_NODENAME)=$1" && echo "$pid"
    done
}
"""
STOP_CHECKS = OF_CHECKS + f"""pids=$(checks "$1"); [ -n "$pids" ] || exit {NOT_YET}; kill -STOP $pids"""
CONTINUE_CHECKS = OF_CHECKS + """for pid in $(checks "$1"); do kill -CONT "$pid"; done; true"""


def _probe(options: FaultOptions) -> Argv:
    if options.process == CHECKS:
        return ("pgrep", "-V")
    return script(PROBE, options.process or DAEMON, options.pid_file)


def _freeze(options: FaultOptions, probed: str) -> Fault:
    if options.process == CHECKS:
        name = re.escape(options.node)
        return Fault(script(STOP_CHECKS, name), script(CONTINUE_CHECKS, name))
    pid, started = _one(options, probed)
    return Fault(script(STOP, pid, started), script(CONTINUE, pid, started))


def _kill(options: FaultOptions, probed: str) -> Fault:
    name = options.process or DAEMON
    if name == CHECKS:
        raise DrillRefused("killed-daemon is about a daemon that is started again. Name one with --process.")
    pid, started = _one(options, probed)
    start = options.start
    if not start and "unit" not in probed.splitlines():
        raise DrillRefused(
            f"{options.node} has no systemd unit {name}, so it is not known how to start it again. Give the command with --start."
        )
    words = start or ("systemctl", "start", name)
    return Fault(script(KILL, pid, started), script(START, name, options.pid_file, str(START_S), *words))


def _one(options: FaultOptions, probed: str) -> tuple[str, str]:
    """Number and start time of the one process. Raises DrillRefused for none, several, and one that is stopped already."""
    found = [one for line in probed.splitlines() if (one := re.fullmatch(r"(\d+) ([A-Za-z]) (\d+)", line))]
    name = options.process or DAEMON
    if len(found) != 1:
        many = f"{len(found)} processes {name}" if found else f"no process {name}"
        raise DrillRefused(
            f"there is {many} on {options.node}. Name one with --process, or its file with --pid-file."
        )
    if found[0][2] in "Tt":
        raise DrillRefused(
            f"process {found[0][1]} ({name}) on {options.node} is stopped already. Let it go on first."
        )
    if int(found[0][1]) <= 1:
        raise DrillRefused("process 1 is never stopped or killed.")
    return found[0][1], found[0][3]


KILLED = FaultMaker(_probe, _kill)
FROZEN = FaultMaker(_probe, _freeze)
