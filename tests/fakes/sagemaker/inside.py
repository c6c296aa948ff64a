"""Becomes one training container: namespaces, its own /opt/ml, the fake machine's identity; then the entrypoint.

A SageMaker training container is an unprivileged Docker container, and nothing in it may be easier to read than there: the default
capabilities alone, a /dev without /dev/kmsg, no log of the host, /sys and /proc/sys read-only, /dev/shm of 64 MiB unless the
machine says more (moby, oci/defaults.go and oci/caps/defaults.go). Docker's seccomp filter and limits of a cgroup are not imitated.

Run by path (`python -I -S inside.py SPEC.json`), so that a host starts in milliseconds: the standard library alone. This
process stays outside and hands on SIGTERM; its child is process 1 of the container, as under Docker. When either parent
dies, however it dies, the kernel kills everything inside, and with the last process go the mounts and the network.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import sys
import tempfile
from typing import Any

# linux/sched.h, linux/prctl.h, sys/mount.h
NEWNS, NEWUTS, NEWIPC = 0x20000, 0x4000000, 0x8000000
NEWUSER, NEWPID, NEWNET = 0x10000000, 0x20000000, 0x40000000
PDEATHSIG, CAPBSET_DROP = 1, 24
NEWCGROUP = 0x2000000
READ_ONLY, REMOUNT, BIND, MOVE, REC, PRIVATE = 1, 32, 4096, 8192, 16384, 1 << 18
# Flags that a remount must repeat (mount(2)): another namespace's are locked.
KEPT = {"nosuid": 2, "nodev": 4, "noexec": 8, "noatime": 1024, "nodiratime": 2048, "relatime": 1 << 21}
# moby, oci/caps/defaults.go; numbers of linux/capability.h: chown, dac_override, fowner, fsetid, kill, setgid, setuid, setpcap,
# net_bind_service, net_raw, sys_chroot, mknod, audit_write, setfcap.
CAPABILITIES = (0, 1, 3, 4, 5, 6, 7, 8, 10, 13, 18, 27, 29, 31)
# moby, oci/defaults.go: MaskedPaths and ReadonlyPaths, and where a host keeps its kernel's log, which no image brings.
MASKED_FILES = ("/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list", "/proc/sched_debug")
MASKED_FOLDERS = (
    "/proc/acpi",
    "/proc/scsi",
    "/sys/firmware",
    "/sys/devices/virtual/powercap",
    "/var/log",
    "/run/log",
)
READ_ONLY_PATHS = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger", "/sys")
NOT_STARTED, NOT_FOUND = 125, 127  # `docker run`: "the daemon itself" and "command cannot be found"

libc = ctypes.CDLL(None, use_errno=True)


def main(path: str, parent: int) -> int:
    """The container's exit code, 128 + N after signal N."""
    with open(path) as file:
        spec = json.load(file)
    _die_with(parent)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])  # until somebody is there who gets it
    try:
        _leave_the_machine(spec["network"])
        alive, held = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(held)
            die_with_the_holder_of(alive)
            _become(spec)
        os.close(alive)
    except OSError as error:
        return _cannot(error)
    signal.signal(signal.SIGTERM, lambda number, frame: os.kill(child, number))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _leave_the_machine(network: str) -> None:
    if network:
        with open(network) as namespace:
            _call("setns", namespace.fileno(), NEWNET)
    uid, gid = os.getuid(), os.getgid()
    _call("unshare", NEWNS | NEWUTS | NEWIPC | NEWPID | NEWCGROUP | (NEWUSER if uid else 0))
    if uid:
        for name, text in (("setgroups", "deny"), ("uid_map", f"0 {uid} 1"), ("gid_map", f"0 {gid} 1")):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)


def _become(spec: dict[str, Any]) -> None:
    """In the child: never returns."""
    try:
        _call("sethostname", spec["host"].encode(), len(spec["host"]))
        _mount("none", "/", "", REC | PRIVATE)
        _make_place("/opt/ml", spec["scratch"])
        _mount(spec["opt_ml"], "/opt/ml", "", BIND | REC)
        if spec["cache"]:
            _mount(spec["cache"], "/opt/ml/sagemaker/warmpoolcache", "", BIND)
        _mount(spec["hosts"], "/etc/hosts", "", BIND)
        _mount("proc", "/proc", "proc", 0)
        if spec["network"]:
            _devices_of_this_network(spec["scratch"])
        _few_devices(spec["scratch"], spec["devices"], spec["shm_bytes"])
        _identity(spec)
        for place, source in spec["mounts"].items():
            if not os.path.exists(place):
                _make_place(place, spec["scratch"])
            _mount(source, place, "", BIND | REC)
        _take_away(spec["mounts"])
        os.chdir(spec["working_directory"])
    except OSError as error:
        os._exit(_cannot(error))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
    try:
        os.execvpe(spec["command"][0], spec["command"], spec["environment"])
    except OSError as error:
        print(f"exec: {spec['command'][0]!r}: {error.strerror}", flush=True)
        os._exit(NOT_FOUND)


def _devices_of_this_network(scratch: str) -> None:
    """/sys shows the network that it was mounted in; the cgroups below it are kept."""
    kept = tempfile.mkdtemp(dir=scratch)
    _mount("/sys/fs/cgroup", kept, "", BIND | REC)
    _mount("sysfs", "/sys", "sysfs", 0)
    _mount(kept, "/sys/fs/cgroup", "", BIND | REC)


def _few_devices(scratch: str, files: list[str], shm_bytes: int) -> None:
    """/dev as Docker makes it, without /dev/kmsg, disks and the host's other devices; `files` are of a recorded machine's."""
    new = tempfile.mkdtemp(dir=scratch)
    # As Docker's. In a folder that everybody may write a kernel lets nobody open another one's file in order to create it.
    _mount("tmpfs", new, "tmpfs", 0, "mode=755")
    for name in ("null", "zero", "full", "random", "urandom", "tty"):
        _write(os.path.join(new, name), "")
        _mount(f"/dev/{name}", os.path.join(new, name), "", BIND)
    for name in files:
        _write(os.path.join(new, name), "")
    for name in ("pts", "shm"):
        os.mkdir(os.path.join(new, name))
    _mount("devpts", os.path.join(new, "pts"), "devpts", 0, "newinstance,ptmxmode=0666")
    _mount("tmpfs", os.path.join(new, "shm"), "tmpfs", 0, f"size={shm_bytes}")
    for name, target in (("fd", "/proc/self/fd"), ("ptmx", "pts/ptmx")):
        os.symlink(target, os.path.join(new, name))
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        os.symlink(f"/proc/self/fd/{number}", os.path.join(new, name))
    _mount(new, "/dev", "", MOVE)
    os.rmdir(new)


def _take_away(kept: dict[str, str]) -> None:
    """What only the host or a privileged container has. The capabilities are gone with the next exec."""
    for path in filter(os.path.isdir, set(MASKED_FOLDERS) - set(kept)):
        _mount("tmpfs", path, "tmpfs", READ_ONLY)
    for path in filter(os.path.exists, MASKED_FILES):
        _mount("/dev/null", path, "", BIND)
    for path in filter(os.path.exists, READ_ONLY_PATHS):
        _mount(path, path, "", BIND | REC)
    with open("/proc/self/mountinfo") as file:
        rows = [line.split() for line in file]
    for row in rows:
        place, flags = row[4], sum(KEPT[word] for word in row[5].split(",") if word in KEPT)
        if any(place == path or place.startswith(f"{path}/") for path in READ_ONLY_PATHS):
            _mount("none", place, "", BIND | REMOUNT | READ_ONLY | flags)
    with open("/proc/sys/kernel/cap_last_cap") as file:
        last = int(file.read())
    for capability in range(last + 1):
        if capability not in CAPABILITIES:
            _call("prctl", CAPBSET_DROP, capability, 0, 0, 0)


def _identity(spec: dict[str, Any]) -> None:
    """What the kernel and the NVIDIA driver would say on this machine (checks/probes/host/machine.py reads the same files)."""
    folder = tempfile.mkdtemp(dir=spec["scratch"])
    boot = os.path.join(folder, "boot_id")
    _write(boot, spec["boot_id"] + "\n")
    _mount(boot, "/proc/sys/kernel/random/boot_id", "", BIND)
    if not os.path.isdir("/proc/driver"):
        if spec["gpus"]:
            raise OSError(2, "this kernel has no /proc/driver to show GPUs in")
        return
    _mount("tmpfs", "/proc/driver", "tmpfs", 0)
    if spec["gpus"]:
        said = f"NVRM version: NVIDIA UNIX x86_64 Kernel Module  {spec['driver']}  Wed Jan  1 00:00:00 UTC 2025\n"
        _write("/proc/driver/nvidia/version", said)
    for index, uuid in enumerate(spec["gpus"]):
        place = f"/proc/driver/nvidia/gpus/0000:{16 * index + 16:02x}:00.0/information"
        _write(place, f"Model: \t\t NVIDIA (simulated)\nGPU UUID: \t {uuid}\nDevice Minor: \t {index}\n")


def _make_place(path: str, scratch: str) -> None:
    """A mount point that this machine lacks: its folder is laid out anew, in this namespace alone."""
    if os.path.isdir(path):
        return
    parent = os.path.dirname(path)
    new = tempfile.mkdtemp(dir=scratch)
    _mount("tmpfs", new, "tmpfs", 0)
    for entry in os.scandir(parent):
        place = os.path.join(new, entry.name)
        if entry.is_symlink():
            os.symlink(os.readlink(entry.path), place)
        elif entry.is_dir():
            os.mkdir(place)
            _mount(entry.path, place, "", BIND | REC)
    os.mkdir(os.path.join(new, os.path.basename(path)))
    _mount(new, parent, "", MOVE)
    os.rmdir(new)


def _write(path: str, text: str) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(text)


def _mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
    _call("mount", source.encode(), target.encode(), kind.encode() or None, flags, options.encode() or None)


def _call(name: str, *arguments: object) -> None:
    if getattr(libc, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}{arguments}: {os.strerror(number)}")


def _die_with(parent: int) -> None:
    _call("prctl", PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before we asked
        os._exit(NOT_STARTED)


def die_with_the_holder_of(alive: int) -> None:
    """As _die_with, where the parent's number means nothing: its end of the pipe `alive` is closed when it is dead."""
    _call("prctl", PDEATHSIG, signal.SIGKILL)
    if select.select([alive], [], [], 0)[0]:
        os._exit(NOT_STARTED)
    os.close(alive)


def _cannot(error: OSError) -> int:
    print(f"the stand-in cannot make a container: {error}", flush=True)
    return NOT_STARTED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
