"""Whole gates whose nodes are containers of real engines: GO, trained, and refused."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from tasks.launchers.local.container import ContainerEngine
from tests.container_engines import ROOT, Engine, engine
from tests.flows.cli.test_gate import COMMAND, environment
from tests.survival.faulty_network import cut, network

FILE = ROOT / "deployments" / "gates" / "local-container.toml"


def written(folder: Path, made: Engine, more: str = "") -> Path:
    """The shipped gate file with this engine and its image, and a store of its own."""
    text = re.sub(r"(?m)^container_.*\n", "", FILE.read_text()).replace("{here}/..", str(FILE.parents[1]))
    text = text.replace("../policies", str(FILE.parents[1] / "policies"))
    options = "".join(f"{key} = {json.dumps(value)}\n" for key, value in made.options.items())
    path = folder / "gate.toml"
    path.write_text(text.replace("[cluster.options]\n", f"[cluster.options]\n{options}{more}"))
    return path


def gate(file: Path, made: Engine, *words: str) -> subprocess.CompletedProcess[str]:
    """`prelaunch gate` on the file, to its end."""
    argv = (*COMMAND, "gate", str(file), *words)
    own = environment(file.parent, **made.environment)
    return subprocess.run(argv, cwd=file.parent, env=own, capture_output=True, text=True, check=False)


@pytest.mark.root
@pytest.mark.long
@pytest.mark.timeout(240)
@pytest.mark.parametrize("kind", [ContainerEngine.DOCKER, ContainerEngine.PODMAN])
def test_a_healthy_machine_gets_its_go_in_containers_and_trains_there(
    tmp_path: Path, kind: ContainerEngine
) -> None:
    """Checks, confirmation and torchrun each in a container, which are gone afterwards."""
    with engine(kind) as made:
        done = gate(written(tmp_path, made), made)
        left = made.containers()

    assert (0, []) == (done.returncode, left), done.stderr
    assert "Decision: launched" in done.stdout and "trained 20 steps" in done.stdout


@pytest.mark.root
@pytest.mark.long
@pytest.mark.timeout(300)
def test_two_containers_on_a_network_of_their_own_are_passed_and_refused(tmp_path: Path) -> None:
    """Podman joins the namespaces that the launcher made, or that somebody prepared and cut."""
    with engine(ContainerEngine.PODMAN) as made:
        file = written(tmp_path, made, 'network = "namespaces"\n')
        whole = gate(file, made, "--set", "cluster.declared.nodes=2")
        with network(3) as name:
            cut(name, 2)
            file = written(tmp_path, made, f'network = "namespaces"\nprepared = "{name}"\n')
            refused = gate(file, made, "--set", "cluster.declared.nodes=3")
        left = made.containers()

    assert (0, 1, []) == (whole.returncode, refused.returncode, left), whole.stderr + refused.stderr
    assert "NO-GO local-container: node-2" in refused.stdout


@pytest.mark.root
@pytest.mark.long
@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["--ipc", "none"], 3, "there is no /dev/shm; a container gets one with --ipc=host"),
        (["--ipc", "private", "--shm-size", "1m"], 1, "--shm-size=1g"),
        (["--user", "65534:65534"], 3, "Permission denied"),
        (["--ulimit", "memlock=65536:65536"], 0, "Decision: launched"),
    ],
    ids=["no shared memory", "little shared memory", "another user", "memory cannot be locked"],
)
def test_a_container_that_lacks_something(tmp_path: Path, arguments: list[str], code: int, says: str) -> None:
    """It is refused, and what it lacks is named. Memory that cannot be locked is no matter where no network adapter wants it."""
    with engine(ContainerEngine.DOCKER) as made:
        done = gate(written(tmp_path, made, f"container_arguments = {json.dumps(arguments)}\n"), made)
        left = made.containers()

    assert (code, True, []) == (done.returncode, says in " ".join(done.stdout.split()), left), done.stdout
