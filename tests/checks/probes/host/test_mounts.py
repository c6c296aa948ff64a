"""mounts.responsive: which mounts are asked, and one that really hangs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from checks.check import CheckError, fault_of
from checks.probes.host import mounts as mounts_module
from checks.probes.host.mounts import Mount, MountResponse, devices_of, measured, parse, to_ask

NFS = Mount("/data", "nfs4", "srv:/data", "0:52", True, 0)


def test_a_line_is_read() -> None:
    """Optional fields or none, and blanks as octal numbers."""
    line = "60 27 0:52 / /my\\040data rw,relatime shared:9 master:1 - nfs4 srv:/a\\040b rw,vers=4.1\n"

    assert parse(line) == (Mount("/my data", "nfs4", "srv:/a b", "0:52", True, 0),)


@pytest.mark.parametrize(
    ("ours", "theirs", "answer", "found"),
    [("rw", "rw", False, 0), ("ro", "ro", True, 0), ("rw", "rw,emergency_ro", False, 2)],
)
def test_a_filesystem_turned_read_only_where_there_is_more_than_its_ro(
    ours: str, theirs: str, answer: bool, found: int
) -> None:
    """A container runtime binds for writing also what the host mounted read-only on purpose."""
    mounts = to_ask(parse(f"720 700 259:4 / /datasets {ours},relatime - ext4 /dev/nvme2n1 {theirs}\n"))

    assert (found,) == measured(mounts, [MountResponse(0, answer, 0.1)], True).metrics["read_only"]


@pytest.mark.parametrize(("folder", "found"), [("/jobs/7/scratch", (1, 2)), ("/jobs.old", (1, 1))])
def test_what_this_node_writes_to_has_turned_read_only(folder: str, found: tuple[int, ...]) -> None:
    """The gate made a folder there; another mount of the same disk may be the one that is asked."""
    text = "".join(
        f"{number} 1 {device} / {point} rw - ext4 /dev/sd{device[-1]} ro\n"
        for number, (device, point) in enumerate((("8:1", "/data"), ("8:2", "/a"), ("8:2", "/jobs")))
    )
    mounts = to_ask(parse(text))
    answers = [MountResponse(0, True, 0.1) for _ in mounts]
    written = devices_of(parse(text), Path(folder))

    assert found == measured(mounts, answers, True, written).metrics["read_only"]


def test_mounts_check_probes_one_mount_of_each_device() -> None:
    """Bind mounts of one filesystem hang together; pseudo filesystems never; unknown ones may."""
    table = (
        Mount("/", "overlay", "overlay", "0:99", True, 0),
        Mount("/proc", "proc", "proc", "0:21", True, 0),
        Mount("/etc/hosts", "ext4", "/dev/sda", "8:1", True, 0),
        Mount("/etc/resolv.conf", "ext4", "/dev/sda", "8:1", True, 0),
        NFS,
        Mount("/new", "newfs", "srv", "0:60", True, 0),
    )

    assert [mount.point for mount in to_ask(table)] == ["/", "/etc/hosts", "/data", "/new"]


def test_a_mount_under_another_is_not_asked() -> None:
    """The last one that lies on a place is what everybody sees."""
    over = Mount("/data", "lustre", "mgs:/fsx", "0:70", True, 0)

    assert to_ask((NFS, over)) == (over,)


def test_mounts_check_leaves_out_mounts_closed_to_the_user() -> None:
    """His job cannot use it either; for root, only a user's own FUSE mount is closed."""
    own = Mount("/home/a/b", "fuse.sshfs", "b:/", "0:61", True, 0)
    said = [MountResponse(13, False, 0.1), MountResponse(13, False, 0.1), MountResponse(0, False, 0.1)]
    table = (NFS, own, Mount("/", "ext4", "/dev/sda", "8:1", True, 0))

    assert measured(table, said, root=False).metrics["mounts"] == ("/ (ext4, /dev/sda)",)
    assert measured(table, said, root=True).metrics["failing"] == (1, 0)


def test_only_closed_mounts_are_no_measurement() -> None:
    """An empty list would be no evidence."""
    with pytest.raises(CheckError):
        measured((NFS,), [MountResponse(13, False, 0.1)], root=False)


def test_a_strange_name_can_be_reported() -> None:
    """Bytes that are no UTF-8 come as lone surrogates, which no report could hold."""
    strange = Mount("/\udcff", "ext4", "x", "8:1", True, 0)
    result = measured((strange,), [MountResponse(0, False, 0.1)], root=True)

    assert result.metrics["mounts"] == ("/\\udcff (ext4, x)",)
    assert fault_of(mounts_module.responsive, result.metrics) == ""


def test_a_mount_answers(tmp_path: Path) -> None:
    """A folder of this machine, asked for real; one that is not there says so."""
    assert mounts_module.ask(str(tmp_path), 10.0).error == 0
    assert mounts_module.ask(str(tmp_path / "none"), 10.0).error == 2


# In mounts of its own, so that nobody else on this machine meets it.
DEAD_SERVER = """
import ctypes, json, os, sys, time
from pathlib import Path
from checks.probes.host import mounts
from checks.process.observe import probe
from tests.corpus.case import context

libc = ctypes.CDLL(None, use_errno=True)
device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
options = f"fd={device},rootmode=40000,user_id=0,group_id=0".encode()
if libc.mount(b"prelaunch-test", sys.argv[1].encode(), b"fuse", 0, options) != 0:
    sys.exit(os.strerror(ctypes.get_errno()))
made = context(mounts.responsive, Path(sys.argv[1]).parent, options={"deadline_s": 1.0})
begun = time.monotonic()
row = probe(mounts.responsive, made, "node-0")
print(json.dumps([row.outcome.value, dict(row.metrics), time.monotonic() - begun]))
"""


@pytest.mark.root
@pytest.mark.needs("unshare")
@pytest.mark.skipif(
    not os.access("/dev/fuse", os.R_OK | os.W_OK), reason="/dev/fuse is not there: run on a host"
)
def test_a_mount_that_hangs_is_named_and_blocks_nobody(tmp_path: Path) -> None:
    """A real filesystem whose server never answers, found in the real table of mounts, given up at the deadline."""
    point = tmp_path / "dead"
    point.mkdir()
    argv = ("unshare", "--mount", "--propagation", "private", sys.executable, "-c", DEAD_SERVER, str(point))
    ran = subprocess.run(argv, cwd=Path(__file__).parents[4], capture_output=True, text=True, check=False)

    assert ran.returncode == 0, ran.stderr
    outcome, metrics, seconds = json.loads(ran.stdout)
    hung = {label for label, value in zip(metrics["mounts"], metrics["hung"], strict=True) if value}
    assert outcome == "MEASURED"
    assert hung == {f"{point} (fuse, prelaunch-test)"}
    assert seconds < 15


def test_a_read_only_bind_does_not_hide_that_the_filesystem_turned_read_only() -> None:
    """A container gets its input read-only and its output for writing from one disk, which ext4 has shut."""
    chosen = to_ask(
        parse(
            "22 1 0:20 / / rw,relatime - overlay overlay rw\n"
            "30 22 259:1 /in /opt/ml/input ro,relatime - ext4 /dev/nvme1n1 ro,errors=remount-ro\n"
            "31 22 259:1 /out /opt/ml/output rw,relatime - ext4 /dev/nvme1n1 ro,errors=remount-ro\n"
        )
    )
    seen = measured(chosen, [MountResponse(0, mount.point != "/", 0.01) for mount in chosen], root=True)

    assert (0, 2) == seen.metrics["read_only"]
