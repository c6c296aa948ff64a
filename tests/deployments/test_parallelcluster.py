"""What a node of ParallelCluster installs: the script runs here below another root, with a stand-in of S3 and systemd."""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from flows.cli.verbs import whole_parser
from tasks.launchers.node_code import node_zipapp
from tests.tasks.parallelcluster.clusters import VARIABLES

DEPLOYMENTS = Path(__file__).parents[2] / "deployments"
SCRIPT = DEPLOYMENTS / "parallelcluster" / "install.sh"
PROLOGS = Path("opt/slurm/etc/scripts/prolog.d")
Install = Callable[..., subprocess.CompletedProcess[str]]
# `aws s3 cp --only-show-errors --region REGION s3://my-bucket/prelaunch/NAME TARGET`
AWS = """
[ "$1 $2 $3 $4 $5" = "s3 cp --only-show-errors --region us-west-2" ] || exit 9
cp "{bucket}/${{6#s3://my-bucket/prelaunch/}}" "$7"
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A node with the folder of prologs, and a bucket with the files."""
    (tmp_path / "root" / PROLOGS).mkdir(parents=True)
    bucket, programs = tmp_path / "bucket", tmp_path / "bin"
    for folder in (bucket, programs):
        folder.mkdir()
    (bucket / "prelaunch.pyz").write_bytes(node_zipapp())
    shutil.copy(DEPLOYMENTS / "monitoring" / "prelaunch-watch.service", bucket)
    scripts = {"aws": AWS.format(bucket=bucket), "systemctl": f'echo "$@" >>{tmp_path}/systemctl'}
    for name, script in scripts.items():
        (programs / name).write_text(f"#!/bin/sh\n{script}\n")
        (programs / name).chmod(0o755)
    return tmp_path / "root"


@pytest.fixture
def install(root: Path) -> Install:
    """The script as ParallelCluster calls it."""

    def runner(role: str, *more: str, sha256: str = "") -> subprocess.CompletedProcess[str]:
        digest = sha256 or hashlib.sha256(node_zipapp()).hexdigest()
        return subprocess.run(
            (SCRIPT, role, "us-west-2", "s3://my-bucket/prelaunch", digest, "m5.large", *more),
            env={"PATH": f"{root.parent / 'bin'}:/usr/bin:/bin", "DESTDIR": str(root)},
            capture_output=True, text=True, check=False,
        )  # fmt: skip

    return runner


def test_the_head_node_gets_the_prolog_of_all_nodes(root: Path, install: Install) -> None:
    """It is complete before Slurm can see it, what it names is there, and the program takes all its options."""
    done = install("head", VARIABLES["AMPREMOTEWRITEURL"])
    (prolog,) = (root / PROLOGS).iterdir()
    line = prolog.read_text().splitlines()[-1]
    command = "exec /usr/bin/python3 /opt/slurm/etc/prelaunch/prelaunch.pyz prolog --instance-type m5.large"

    assert (0, "") == (done.returncode, done.stderr)
    assert "50_prelaunch" == prolog.name and os.access(prolog, os.X_OK)
    assert f"{command} --deadline-s 30 --cannot-tell pass" == line
    assert 30.0 == whole_parser().parse_args(["node", *shlex.split(line)[3:]]).deadline_s
    assert node_zipapp() == (root / "opt/slurm/etc/prelaunch/prelaunch.pyz").read_bytes()
    assert VARIABLES["AMPREMOTEWRITEURL"] in (root / "etc/prelaunch/monitoring.env").read_text()


def test_a_compute_node_runs_the_watch(root: Path, install: Install) -> None:
    """By the file alone: Prelaunch is not installed there."""
    done = install("compute")
    unit = root / "etc/systemd/system/prelaunch-watch.service"

    assert (0, "") == (done.returncode, done.stderr)
    assert "INSTANCE_TYPE=m5.large" in (root / "etc/prelaunch/watch.env").read_text()
    own = (unit.with_name("prelaunch-watch.service.d") / "program.conf").read_text()
    assert "ExecStart=\nExecStart=/usr/bin/python3 /opt/prelaunch/prelaunch.pyz watch" in own
    assert unit.is_file()
    assert "daemon-reload\nenable --now prelaunch-watch\n" == (root.parent / "systemctl").read_text()


@pytest.mark.parametrize("role", ["head", "compute"])
def test_a_file_that_is_not_of_the_configuration_never_runs(root: Path, install: Install, role: str) -> None:
    """Whoever may write to the bucket would else run as root on every node. The node is not put into service."""
    done = install(role, sha256="0" * 64)

    assert 1 == done.returncode
    assert "is not the file that the configuration was written for" in done.stderr
    assert not list((root / PROLOGS).iterdir())
    assert not list(root.rglob("prelaunch.pyz"))


@pytest.mark.parametrize("lacking", ["bucket/prelaunch.pyz", "prologs"])
def test_a_head_node_that_cannot_get_its_prolog_fails(root: Path, install: Install, lacking: str) -> None:
    """A cluster without a prolog is not created in silence."""
    if lacking == "prologs":
        (root / PROLOGS).rmdir()
    else:
        (root.parent / lacking).unlink()
    done = install("head")

    assert (1, True) == (done.returncode, done.stderr.rstrip().endswith(("cannot be read", "from 3.6.0 on")))
