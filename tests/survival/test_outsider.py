"""An outsider on the nodes' network cannot make a gate inside a job go, refuse or hang: real namespaces, real sockets."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from checks.exchange import secret_key
from checks.exchange.admission import STRANGERS_OF_ADDRESS
from checks.exchange.secret_key import Service
from checks.model import Answer
from tasks.launchers.base import Launcher
from tasks.launchers.local import network as local_network
from tests.survival.faulty_network import needs_root, network
from tests.survival.test_in_job import GATE, NAMES, trained
from tests.survival.test_network import on
from tests.survival.world import ROOT, Ended, World, run

ATTACKS = ("idle", "endless", "forged", "sink", "replayed")
# A healthy gate of two nodes takes 15 to 40 s. A job that is ended by this limit neither trains nor refuses with exit code 1.
LIMIT_S = 240.0
# The training writes down what it was started with, and what was still there of the key.
LOOKING = (
    "{python}",
    "-c",
    "import os, pathlib; name = os.environ['PRELAUNCH_NODE']; pathlib.Path(name + '-trained').touch(); "
    "pathlib.Path(name + '-environ').write_bytes(pathlib.Path('/proc/self/environ').read_bytes()); "
    "pathlib.Path(name + '-files').write_text(' '.join(os.listdir('.')))",
)

pytestmark = [needs_root, pytest.mark.root, pytest.mark.usefixtures("least_checks")]


@dataclass
class Attacked:
    """How the gate ended, what the outsider did and was told, and what was seen of the secret meanwhile."""

    ended: Ended
    done: dict[str, int]
    told: list[str]
    secret: str = ""
    argvs: set[bytes] = field(default_factory=set)


def attacked(world: World, folder: Path, insider: bool = False) -> Attacked:
    """A gate of two hosts with a third one on their network that attacks from the first moment to the last."""
    said, captured, ready = folder / "said.json", folder / "captured", folder / "ready"
    seen = Attacked(None, {}, [])  # type: ignore[arg-type]
    started: list[subprocess.Popen[str]] = []

    def attack(launcher: Launcher, name: str) -> None:
        job = folder / "work" / "jobs" / name
        roster, gate = job / "roster.json", name.removesuffix("-check-1")
        seen.secret = (job / "nodes" / "node-0" / secret_key.FILE).read_text().strip()
        secret = secret_key.parse(seen.secret.encode(), "a test")
        key = (secret.access(Service.CHECKS, gate, "").key.hex(),) if insider else ()
        started.append(inside(f"{net}-2", str(roster), gate, str(captured), str(said), *key))
        while not launcher.state(name).state.final:
            seen.argvs |= command_lines()
            if said.exists() and is_real(json.loads(said.read_bytes())["done"]):
                ready.touch()
            time.sleep(0.2)

    with network(3) as net:
        started.append(inside(local_network.switch(net), "capture", "v1", str(captured)))
        assert started[0].stdout and "ready\n" == started[0].stdout.readline()
        try:
            waits = {"PRELAUNCH_SABOTAGE_WAITS_FOR": str(ready)}
            made = replace(world, options=on(net), max_runtime_s=LIMIT_S, environment=waits)
            seen.ended = run(made, folder, attack, command=(*GATE, "--", *LOOKING))
        finally:
            for process in started:
                process.kill()
                process.communicate()
    seen.done, seen.told = json.loads(said.read_bytes()).values()
    print(f"the outsider: {seen.done}, told {seen.told[:5]}; the gate took {seen.ended.seconds:.1f} s")
    return seen


def inside(namespace: str, *arguments: str) -> subprocess.Popen[str]:
    """The outsider, or its tap, in a network of its own."""
    argv = ("ip", "netns", "exec", namespace, sys.executable, "-m", "tests.survival.outsider", *arguments)
    return subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def command_lines() -> set[bytes]:
    """What every process of this machine was started with, but this test's own outsider."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            found.add(path.read_bytes())
    return {line for line in found if b"tests.survival.outsider" not in line}


def is_real(done: dict[str, int]) -> bool:
    """Whether each attack was tried on the responders."""
    return all(done.get(attack, 0) >= 3 for attack in ATTACKS) and 2 * STRANGERS_OF_ADDRESS < done["idle"]


def test_a_healthy_gate_goes_while_it_is_attacked(tmp_path: Path) -> None:
    """Neither refused nor held; and the key is in nothing that lasts, nor anywhere where the training sees it."""
    seen = attacked(World(2, 1, few=True, sabotage=("waits",)), tmp_path)

    assert (True, []) == (is_real(seen.done), seen.told), seen.done
    assert (Answer.GO, set(NAMES)) == (seen.ended.verdict.answer, trained(tmp_path))
    assert {"node-0": 0, "node-1": 0} == dict(seen.ended.status.exit_codes)
    assert_key_is_nowhere(seen, tmp_path)


def assert_key_is_nowhere(seen: Attacked, folder: Path) -> None:
    """Not in a report, verdict, log, argv, the training's environment, nor in its folder."""
    secret = seen.secret.encode()
    assert 64 == len(secret) and seen.argvs
    assert [] == [line for line in seen.argvs if secret in line]
    written = [path for path in folder.rglob("*") if path.is_file() and path.name != "captured"]
    assert {"node-0-environ", "job.json", "log", "shepherd.log"} <= {path.name for path in written}
    for path in written:
        data = path.read_bytes()
        assert secret not in data and bytes.fromhex(seen.secret) not in data, path
    for name in NAMES:
        (environ,) = folder.rglob(f"{name}-environ")
        (files,) = folder.rglob(f"{name}-files")
        assert secret_key.VARIABLE.encode() not in environ.read_bytes()
        assert secret_key.FILE not in files.read_text().split()
    assert secret not in (folder / "captured").read_bytes()


@pytest.mark.long
def test_the_same_attack_with_the_key_succeeds(tmp_path: Path) -> None:
    """What keeps an outsider out is the key alone: whoever has it makes a healthy gate refuse."""
    seen = attacked(World(2, 1), tmp_path, insider=True)

    assert set() == trained(tmp_path)
    assert seen.told
