"""Faults that only a log or DCGM reports: an Xid in the kernel log, or injected into DCGM.

Sources: the forms of the lines are those of NVIDIA's driver, with the fields of SageMaker HyperPod's resilience workshop (Xid 73 and
74 in /var/log/messages, with a current date); dcgmi-test(1) for DCGM, whose --gpuid is 1 unless it is given.
"""

from __future__ import annotations

import re

from tasks.drills.model import Argv, DrillRefused, Fault, FaultMaker, FaultOptions

KMSG = "/dev/kmsg"
SAID = {
    79: "pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
    74: "pid=<unknown>, name=<unknown>, NVLink: fatal error detected on link 6(0x10000, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0)",
    73: "pid=<unknown>, name=<unknown>, NVLink: fatal error detected on link 6(0x10000, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0)",
}
XID_FIELD = 230  # DCGM_FI_DEV_XID_ERRORS of dcgm_fields.h
REPEAT_S = 1.0  # DCGM's own watch writes over the injected value within two seconds

PROBE = """\
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


def xid(code: int) -> FaultMaker:
    """One line about this Xid: in /dev/kmsg, or in the file that `kernel_log` names, with the node's own time and name."""
    return FaultMaker(
        lambda options: script(PROBE, options.kernel_log or KMSG), lambda o, text: _xid(code, o, text)
    )


def _xid(code: int, options: FaultOptions, probed: str) -> Fault:
    lines = probed.splitlines()
    path = options.kernel_log or KMSG
    if not re.fullmatch(r"[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}(\.[0-7])?", options.pci):
        raise DrillRefused(
            f"{options.pci!r:.40} is not the PCI address of a GPU. Write one such as 0000:b9:00."
        )
    if len(lines) != 4 or not re.fullmatch(r"[A-Z][a-z]{2} [ 0-9]\d \d\d:\d\d:\d\d", lines[0]):
        raise DrillRefused(f"the node said {probed!r:.200} where its time and name were asked.")
    if lines[3] != "writable":
        raise DrillRefused(
            f"{path} cannot be written on {options.node}. Run the drill as root there, or give --kernel-log."
        )
    message = f"NVRM: Xid (PCI:{options.pci}): {code}, {SAID[code]}"
    if path == KMSG:
        return Fault(script(INTO_RING, path, message), ("true",), stays=STAYS)
    line = f"{lines[0]} {lines[1]} kernel: {message}"
    instead = f"{lines[0]} {lines[1]} prelaunch: the line of a drill was here ".ljust(len(line), ".")[
        : len(line)
    ]
    return Fault(script(INTO_FILE, path, line), script(OUT_OF_FILE, path, line, instead, lines[2]))


def dcgm_xid(code: int) -> FaultMaker:
    """The Xid in DCGM's field, injected again and again. Nothing has to be undone: DCGM writes its own value over it."""
    return FaultMaker(lambda options: ("dcgmi", "--version"), lambda options, text: _dcgm(code, options))


def _dcgm(code: int, options: FaultOptions) -> Fault:
    words = ("dcgmi", "test", "--inject", "--gpuid", str(options.gpu), "-f", str(XID_FIELD), "-v", str(code))
    stays = (
        "DCGM keeps the last Xid of the field until its host engine restarts: systemctl restart nvidia-dcgm."
    )
    return Fault(words, ("true",), repeat_s=REPEAT_S, stays=stays)


def script(text: str, *words: str) -> Argv:
    """A shell script with arguments, as one command. No argument is ever read as code."""
    return ("sh", "-c", text, "prelaunch-drill", *words)
