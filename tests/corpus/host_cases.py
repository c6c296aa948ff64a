"""mounts.responsive, environment.lint: nodes that are well, broken, and mute."""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from checks.model import Cause, Level, Observation
from checks.probes.host import environment, mounts
from checks.probes.host.environment_rules import FAMILIES, RULES
from tests.corpus.case import Case, Observe, Rows, Sort, cases_of, context, observed, observing

CONFIGURATION = Cause.CONFIGURATION
# A stand-in for what asks a mount: the path says how the mount behaves.
FAKE_ASKER = (
    "import json, os, sys, time\n"
    "point = sys.argv[1]\n"
    "time.sleep(3600 if 'hung' in point else 0)\n"
    "os._exit(9) if 'dead' in point else None\n"
    "error = 116 if 'stale' in point else 5 if 'broken' in point else 13 if 'closed' in point else 0\n"
    "seconds = 3.5 if 'slow' in point else 0.001\n"
    "print(json.dumps({'error': error, 'read_only': 'flipped' in point, 'seconds': seconds}))\n"
)


@observing
def mounted(tmp_path: Path, lines: str | None, real: bool = False) -> Rows:
    """mounts.responsive with this mountinfo (None: it cannot be read)."""
    path = tmp_path / "mountinfo"
    if lines is not None:
        path.write_text(lines, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mounts, "MOUNTINFO", path)
        if not real:
            patch.setattr(mounts, "ASKER", (sys.executable, "-I", "-S", "-c", FAKE_ASKER))
        # A busy machine takes seconds to start a process: only what hangs has a short time.
        ask = mounts.ask
        patch.setattr(mounts, "ask", lambda point, _: ask(point, 1.0 if "hung" in point else 50.0))
        return observed(mounts.responsive, context(mounts.responsive, tmp_path))


ROOT = "27 1 259:1 / / rw,relatime - ext4 /dev/nvme0n1p1 rw,discard\n"
PROC = "22 27 0:21 / /proc rw,relatime - proc proc rw\n"


def line(
    point: str, kind: str = "nfs4", source: str = "10.0.4.2:/data", device: str = "0:52", theirs: str = "rw"
) -> str:
    """A line of mountinfo."""
    return f"60 27 {device} / {point} rw,relatime shared:9 - {kind} {source} {theirs},vers=4.1\n"


def linted(
    variables: Mapping[str, str],
    instance_type: str = "p5.48xlarge",
    nodes: int = 2,
    *,
    limit: int = -1,
    shm: str = "/",
    conf: str = "",
) -> Observe:
    """environment.lint in an environment that has these variables and no others of ours."""

    def observe(tmp_path: Path) -> Sequence[Observation]:
        (tmp_path / ".nccl.conf").write_text(conf)
        with pytest.MonkeyPatch.context() as patch:
            known = {name for known in RULES for name in known.names.split()}
            ours = [name for name in os.environ if name.startswith(FAMILIES)]
            for name in (*known, *ours, environment.FILE_VARIABLE):
                patch.delenv(name, raising=False)
            for name, value in variables.items():
                patch.setenv(name, value)
            patch.setenv("HOME", str(tmp_path))
            patch.setattr(environment, "SHM", shm)
            patch.setattr(environment, "STATUS", tmp_path / "an-ordinary-user")
            patch.setattr(resource, "getrlimit", lambda which: (limit, limit))
            made = context(environment.environment_lint, tmp_path, instance_type, nodes)
            return observed(environment.environment_lint, made)

    return observe


def _lint_faults() -> list[Case]:
    crippling = {
        "NCCL_P2P_DISABLE": "1",
        "NCCL_SHM_DISABLE": "1",
        "NCCL_NET": "Socket",
        "NCCL_NET_PLUGIN": "none",
        "NCCL_PROTO": "LL",
        "FI_PROVIDER": "tcp",
        "FI_EFA_USE_DEVICE_RDMA": "0",
        "NCCL_SOCKET_IFNAME": "=nosuch0",
        "NCCL_TOPO_FILE": "/nowhere/topo.xml",
        "CUDA_LAUNCH_BLOCKING": "1",
        "CUDA_VISIBLE_DEVICES": "0,1",
        "NVIDIA_VISIBLE_DEVICES": "void",
    }
    misleading = {
        "NCCL_PROTO": "Simple",
        "NCCL_ALGO": "Ring",
        "NCCL_IB_DISABLE": "1",
        "NCCL_DEBUG_FILE": "/nowhere/nccl.log",
        "RDMAV_FORK_SAFE": "1",
        "FI_EFA_FORK_SAFE": "1",
        "TORCH_NCCL_ASYNC_ERROR_HANDLING": "0",
        "TORCH_DISTRIBUTED_DEBUG": "DETAIL",
        "NCCL_NVLS_ENABLE": "0",
    }
    faulty = cases_of(LINT, cause=CONFIGURATION)
    return [
        faulty(Sort.FAULTY, f"{name}={value}", linted({name: value}), f"{name}={value}", level=level)
        for level, harms in ((Level.FAIL, crippling), (Level.WARN, misleading))
        for name, value in harms.items()
    ]


MOUNTS, LINT = mounts.responsive.name, environment.environment_lint.name
CASES = [
    Case(MOUNTS, Sort.HEALTHY, "this machine's own root", mounted(ROOT + PROC, real=True)),
    Case(MOUNTS, Sort.HEALTHY, "a file server that answers", mounted(ROOT + line("/fsx", "lustre", "10.0.5.6@tcp:/abc"))),
    Case(MOUNTS, Sort.HEALTHY, "an image, read-only by nature",
        mounted(ROOT + line("/snap/core", "squashfs", "/dev/loop0", "7:0", "ro"))),
    Case(MOUNTS, Sort.HEALTHY, "a user's own FUSE mount", mounted(ROOT + line("/home/a/closed", "fuse.sshfs", "b:/"))),
    Case(MOUNTS, Sort.HEALTHY, "without GPUs", mounted(ROOT), instance_type="cpu"),
    *(
        Case(MOUNTS, Sort.FAULTY, name, mounted(made), cause=CONFIGURATION, names=names)
        for name, made, names in (
            ("a file server that hangs", ROOT + line("/hung"), "hung /hung (nfs4, 10.0.4.2:/data) does not answer"),
            ("one hangs, one answers", ROOT + line("/hung") + line("/fsx", device="0:53"), "/hung (nfs4"),
            ("an unknown filesystem that hangs", ROOT + line("/hung", "newfs", "srv"), "/hung (newfs"),
            ("a stale handle", ROOT + line("/stale"), "failing /stale (nfs4, 10.0.4.2:/data) fails or is stale"),
            ("an I/O error", ROOT + line("/broken", "ext4", "/dev/sdb", "8:16"),
                "failing /broken (ext4, /dev/sdb) fails or is stale"),
            ("the disk turned read-only", ROOT.replace("ext4 /dev/nvme0n1p1 rw", "ext4 /dev/nvme0n1p1 ro"),
                "read_only / (ext4, /dev/nvme0n1p1) is read-only, although it is mounted for writing"),
            ("a disk that an error shut", ROOT + line("/data", "ext4", "/dev/sdc", "8:32", "ro,errors=remount-ro"),
                "read_only /data (ext4, /dev/sdc) is read-only"),
            ("read-only by its own word", ROOT + line("/flipped", "xfs", "/dev/sdc", "8:32"),
                "read_only /flipped (xfs, /dev/sdc) is read-only"),
            ("/ itself hangs", ROOT.replace(" / / ", " / /hung/../ "), "hung"),
        )
    ),
    Case(MOUNTS, Sort.FAULTY, "a data set that the host mounted read-only",
        mounted(ROOT + line("/datasets", "ext4", "/dev/nvme2n1", "259:4", "ro")), level=Level.WARN, cause=CONFIGURATION,
        names="read_only /datasets (ext4, /dev/nvme2n1) is read-only, although it is mounted for writing"),
    Case(MOUNTS, Sort.FAULTY, "a slow one", mounted(ROOT + line("/slow")), level=Level.WARN, cause=CONFIGURATION, names="slowest_s"),
    *(
        Case(MOUNTS, Sort.UNMEASURABLE, name, mounted(made))
        for name, made in (
            ("no mountinfo", None),
            ("an empty mountinfo", ""),
            ("a mountinfo that is cut", ROOT + line("/fsx")[:40]),
            ("a mountinfo that is cut in its last word", (ROOT + line("/fsx"))[:-5]),
            ("garbage", "\0\1\2\n"),
            ("who asks dies", ROOT + line("/dead")),
            ("only what the kernel makes up", PROC),
        )
    ),
    Case(LINT, Sort.HEALTHY, "nothing is set", linted({})),
    Case(LINT, Sort.HEALTHY, "what does no harm", linted({"NCCL_DEBUG": "INFO", "FI_PROVIDER": "efa", "NCCL_P2P_DISABLE": "0"})),
    Case(LINT, Sort.HEALTHY, "without GPUs", linted({"FI_EFA_FORK_SAFE": "0"}, "cpu", 1, limit=1024)),
    Case(LINT, Sort.HEALTHY, "on Trainium", linted({"FI_PROVIDER": "efa"}, "trn1.32xlarge")),
    Case(LINT, Sort.HEALTHY, "one GPU shares with nobody", linted({"NCCL_P2P_DISABLE": "1"}, "p3.2xlarge", limit=1024)),
    *_lint_faults(),
    Case(LINT, Sort.FAULTY, "in nccl.conf", linted({}, conf="# tuned\nNCCL_P2P_DISABLE = 1 # why\n"), cause=CONFIGURATION,
        names="NCCL_P2P_DISABLE=1"),
    Case(LINT, Sort.FAULTY, "memlock", linted({}, limit=64 << 10), cause=CONFIGURATION, names="the memlock limit is 64 KiB"),
    Case(LINT, Sort.FAULTY, "files", linted({}, "p4d.24xlarge", limit=1024), level=Level.WARN, cause=CONFIGURATION,
        names="the limit of open files is 1024"),
    Case(LINT, Sort.UNMEASURABLE, "no /dev/shm", linted({}, shm="/nowhere/shm")),
    Case(LINT, Sort.UNMEASURABLE, "a file of NCCL's that cannot be read", linted({"NCCL_CONF_FILE": "/proc"})),
    Case(LINT, Sort.UNMEASURABLE, "a file of NCCL's that is not there", linted({"NCCL_CONF_FILE": "/nowhere/nccl.conf"})),
]  # fmt: skip
