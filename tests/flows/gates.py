"""Gate files for tests: two fake nodes of two ranks on this machine, and a training that is a line of Python."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from checks import catalog
from checks.check import Check
from tests.programs import executable

FAKE = Path(__file__).with_name("fake_python.py")
# What differs between two sound hosts: each lists the other as its peer, and reads the kernel's log at another moment.
UNEQUAL = ("peers", "covers_s")
TRAINED = ("{python}", "-c", "print('trained')")
# What a verdict has as JSON.
KEYS = ("level", "answer", "coverage", "findings", "condemned", "suspect_policy", "seen_from", "digests")


def write_gate(
    folder: Path,
    *,
    training: tuple[str, ...] = TRAINED,
    policy: str = "",
    on_warn: str = "go",
    profile: str = "quick",
    checks_minutes: float = 0.0,
    training_minutes: float = 1.0,
    fake: bool = True,
    nodes: int = 2,
    launcher: str = "local",
    cluster: str = "",
    options: str = "",
    more: str = "",
) -> Path:
    """A gate file, its policy, and the interpreter that plays the nodes; the store is folder/store.

    Real checks have three minutes by default, fake ones one. `cluster`, `options` and `more` are lines of [cluster],
    [cluster.options] and [training].
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "policy.toml").write_text(_policy(on_warn), encoding="utf-8")
    interpreter = fake_interpreter(folder) if fake else sys.executable
    here = f"grace_s = 0.5\npython = {json.dumps(str(interpreter))}"
    path = folder / "gate.toml"
    path.write_text(
        f"""
name = "test"
[cluster]
name = "test"
launcher = "{launcher}"
{cluster}
[cluster.declared]
instance_type = "cpu"
nodes = {nodes}
ranks_per_node = 2
[cluster.options]
{here if launcher == "local" else ""}
{options}
[checks]
profile = "{profile}"
network_s = 5.0
stage_s = 20.0
max_runtime_minutes = {checks_minutes or (1.0 if fake else 3.0)}
[policy]
file = "policy.toml"
{policy}
[training]
command = {json.dumps(list(training))}
distributed = "none"
max_runtime_minutes = {training_minutes}
{more}
[store]
path = {json.dumps(str(folder / "store"))}
""",
        encoding="utf-8",
    )
    return path


def _policy(on_warn: str) -> str:
    head = f'name = "test"\ninstance_types = ["cpu"]\non_warn = "{on_warn}"\nmax_unfit_fraction = 0.5\n'
    return head + "".join(_line(check) for check in catalog.CATALOG)


def _line(check: Check) -> str:
    name = check.name
    metric = next(metric for metric in check.metrics if metric not in UNEQUAL)
    rules = f'rules = [{{ metric = "{metric}", over = "cluster", same = true, source = "a test" }}]\n'
    if name == "collective.all_reduce":
        bounds = "warn_above = 0.5, fail_above = 1.5"
        rules = f'rules = [{{ metric = "wrong_elements", {bounds}, source = "a test" }}]\n'
    if name in ("network.pairs", "collective.pairs"):
        rules = "options = { floor_gbps = 0.01 }\n"
    applies = f'part = "{check.part.value}"\nmin_nodes = {check.min_nodes}\nmin_ranks = {check.min_ranks}\n'
    profiles = f"profiles = {[profile.value for profile in check.profiles]}\n"
    return f'[checks."{name}"]\n{applies}{profiles}{rules}'


def fake_interpreter(folder: Path) -> Path:
    """A program, as a launcher starts one: the fake under this very interpreter."""
    return executable(folder / "python", f'#!/bin/sh\nexec "{sys.executable}" "{FAKE}" "$@"\n')


def runs(store: Path) -> int:
    """How often fake nodes have run their checks."""
    return sum(path.read_text().count("run") for path in store.glob("clusters/*/jobs/*/nodes/*/runs"))


def processes_below(folder: Path) -> list[int]:
    """Live processes that were started for a job below the folder."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            command, state = (entry / "cmdline").read_bytes(), (entry / "stat").read_text().rpartition(")")[2]
            here = os.readlink(entry / "cwd")
        except OSError:
            continue
        if state.split()[0] != "Z" and (str(folder).encode() in command or here.startswith(str(folder))):
            found.append(int(entry.name))
    return found
