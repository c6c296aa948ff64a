"""The training's environment in a container: what the engine gave the container, and documented names."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from checks import bundle as bundles
from checks.bundle import Pass, PassedNode
from checks.model import SCHEMA_VERSION
from checks.probes.host.system import identity_of_node
from tasks.launchers.node_code import code_archive, start_script
from tests.container.agents import ROOT, make_bundle, make_root

HOST = "127.0.0.1"
# Without an interpreter, which may add variables of its own (LC_CTYPE, PEP 538).
DUMP = ("env", "--null")
# docs/gate-file.md.
COMMAND = {"PRELAUNCH_NODE", "PRELAUNCH_ROSTER", "PRELAUNCH_ATTEMPT"}
TRAINING = COMMAND | {"PRELAUNCH_PASS", "PRELAUNCH_INTERFACE"}
BARE: Mapping[str, str] = {}
SET = {
    "PYTHONPATH": "/srv/mine",
    "OMP_NUM_THREADS": "7",
    "NCCL_DEBUG": "WARN",
    "RES_OPTIONS": "rotate",
    "LANG": "C.UTF-8",
    "LC_CTYPE": "C.UTF-8",
    "MASTER_PORT": "1",
}
# They are for Prelaunch alone, whoever set them.
FOREIGN = {
    "PRELAUNCH_POOL_TOKEN": "a" * 32,
    "PRELAUNCH_EXCHANGE_KEY": "/srv/key",
    "PRELAUNCH_SCRATCH": "/srv/scratch",
    "PRELAUNCH_WORKING_FOLDER": "/srv",
    "PRELAUNCH_PYTHON": sys.executable,
}


def container(folder: Path) -> Path:
    """/opt/ml with a bundle, a pass of this machine, and the code as it comes by the input channel."""
    root = make_root(folder, make_bundle(), (HOST,), HOST)
    channel = root / "input" / "data" / "prelaunch"
    node = PassedNode(HOST, 0, identity_of_node())
    made = Pass(SCHEMA_VERSION, "earlier", "digest", "2026-01-01T00:00:00Z", (node,))
    (channel / "pass.json").write_bytes(bundles.dump(made))
    (channel / "prelaunch.tar.gz").write_bytes(code_archive())
    (channel / "start.sh").write_bytes(start_script())
    return root


def trained(
    root: Path, entrypoint: tuple[str, ...], verb: tuple[str, ...], given: Mapping[str, str]
) -> dict[str, str]:
    """What the command finds in a container of exactly this environment."""
    done = subprocess.run(
        (*entrypoint, *verb, "--root", str(root), "--", *DUMP),
        cwd=root, env=given, stdin=subprocess.DEVNULL, capture_output=True, check=False,
    )  # fmt: skip
    assert 0 == done.returncode, done.stdout + done.stderr
    lines = [line.rpartition(b"\n")[2] for line in done.stdout.split(b"\0")]
    return dict(line.decode().split("=", 1) for line in lines if b"=" in line)


@pytest.mark.parametrize(("verb", "code", "own"), [("gate", "channel", BARE), ("exec", "image", SET)])
def test_the_training_gets_what_the_engine_gave(
    tmp_path: Path, verb: str, code: str, own: Mapping[str, str]
) -> None:
    """Variable for variable, with the code in the image or by the input channel, behind the checks or without any."""
    root = container(tmp_path)
    channel = root / "input" / "data" / "prelaunch"
    engine = {
        "PATH": f"{Path(sys.executable).parent}:{os.defpath}",
        "TRAINING_JOB_NAME": "job-7",
        "TMPDIR": str(tmp_path),
        **own,
    }
    if code == "image":
        entrypoint: tuple[str, ...] = ("python3", "-m", "container.agent")
        path = os.pathsep.join(filter(None, (str(ROOT), own.get("PYTHONPATH"))))
        given = {**engine, "PYTHONPATH": path}
    else:
        entrypoint, given = ("/bin/sh", str(channel / "start.sh")), engine
    options = ("--confirm", str(channel / "pass.json")) if verb == "gate" else ()
    found = trained(root, entrypoint, (verb, *options), {**given, **FOREIGN})

    added = {name: found.pop(name) for name in found.keys() - engine.keys()}
    assert (TRAINING if verb == "gate" else COMMAND) == added.keys()
    assert engine == found
