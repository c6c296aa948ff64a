"""`make anywhere`: runs a gate and the tests in worlds that each differ from this machine in one thing, and prints one line per leg.

The exit status is 0 only if all legs held. A leg whose world cannot be made here (a command is missing) did not hold, and its line
says why. Arguments choose legs by the beginnings of their names. The logs are in build/anywhere.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from checks.process.tree import end_tree
from tests.anywhere.legs import AS_OTHER_USER, LEGS, OTHER_USER, Leg, Place, World

ROOT = Path(__file__).parents[2]
LOGS = ROOT / "build" / "anywhere"
GATE = ROOT / "deployments" / "gates" / "local.toml"
MARKS = "not long and not alone"
EXTRAS = ".[kubernetes,postgresql,docs,test,dev]"
# Only a command that hangs reaches it.
MOST_S, HUNG = 5_400.0, 124
GO = 0


def main(names: Sequence[str]) -> int:
    """Runs the legs whose names begin so, or all; returns the exit status."""
    chosen = [leg for leg in LEGS if not names or leg.name.startswith(tuple(names))]
    if not chosen:
        print(
            "anywhere: no leg begins so. The legs:", *(leg.name for leg in LEGS), sep="\n  ", file=sys.stderr
        )
        return 2
    if os.geteuid() != 0:
        print("anywhere: the worlds are namespaces and mounts, which only root can make", file=sys.stderr)
        return 2
    LOGS.mkdir(parents=True, exist_ok=True)
    held = []
    with tempfile.TemporaryDirectory(prefix="pl-", dir="/var/tmp", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        for leg in chosen:
            begun = time.monotonic()
            problem, results = _run_leg(leg, Path(folder))
            held.append(not problem)
            answer = f"DID NOT HOLD: {problem}" if problem else "held"
            print(
                f"{leg.name:<34} {time.monotonic() - begun:5.0f} s  {'; '.join(results):<58}  {answer}",
                flush=True,
            )
    print(f"{sum(held)} of {len(held)} legs held")
    return 0 if all(held) else 1


def _run_leg(leg: Leg, folder: Path) -> tuple[str, list[str]]:
    """Why the leg did not hold ("" if it did), and what each of its commands gave."""
    missing = [command for command in leg.needs if shutil.which(command) is None]
    if missing:
        return f"not installed: {', '.join(missing)}", []
    checkout = _checkout(leg, folder)
    if checkout is None:
        return "its checkout could not be set up", []
    if leg.hides and checkout.is_relative_to(leg.hides):
        return f"the checkout is below {leg.hides}, which this leg hides: run it from another folder", []
    place = Place(checkout, Path(tempfile.mkdtemp(dir=folder)))
    place.folder.chmod(0o777)
    try:
        world = leg.world(place)
    except (OSError, subprocess.CalledProcessError) as error:
        return f"its world could not be made: {error}", []
    log = LOGS / f"{re.sub('[^A-Za-z0-9]+', '-', leg.name).strip('-').lower()}.log"
    log.unlink(missing_ok=True)
    gate_problem, gate = _gate(leg, place, world, log)
    tests_problem, tests = _tests(leg, place, world, log)
    return " and ".join(filter(None, (gate_problem, tests_problem))), [gate, tests]


def _checkout(leg: Leg, folder: Path) -> Path | None:
    """The checkout of the leg, set up; None if that failed. The other user's is set up once."""
    if not leg.other_user and not leg.python:
        return ROOT
    path = folder / ("Prüf stand" if leg.other_user else leg.name.replace(" ", "-")) / "prelaunch"
    if path.exists():
        return path if (path / ".venv" / "all").exists() else None
    subprocess.run(("git", "clone", "--quiet", "--no-hardlinks", ROOT, path), check=True)
    world = World(environment={"HOME": str(path.parent)})
    log = LOGS / f"setup-{leg.name.replace(' ', '-')}.log"
    if leg.other_user:
        subprocess.run(("chown", "-R", f"{OTHER_USER}:nogroup", path.parent), check=True)
        done = _run(World(AS_OTHER_USER, world.environment), ("make", "setup"), path, log)
        return path if done == 0 else None
    # No `make setup`: of other Pythons no small build of PyTorch can be had everywhere.
    script = f"{leg.python} -m venv .venv && .venv/bin/pip install -q -c constraints.txt -e '{EXTRAS}' && touch .venv/all"
    return path if _run(world, ("sh", "-c", script), path, log) == 0 else None


def _gate(leg: Leg, place: Place, world: World, log: Path) -> tuple[str, str]:
    """What is wrong with the gate's answer, and the answer."""
    start = log.stat().st_size if log.exists() else 0
    command = (place.checkout / ".venv/bin/prelaunch", "gate", place.checkout / GATE.relative_to(ROOT))
    code = _run(world, [str(word) for word in command], place.folder, log)
    if code == GO:
        return "", "GO"
    refused = bool(leg.refusal) and leg.refusal in log.read_bytes()[start:].decode(errors="replace")
    return "" if refused else f"the gate ended with {code}", f"refused ({code})"


def _tests(leg: Leg, place: Place, world: World, log: Path) -> tuple[str, str]:
    """What is wrong with the tests, and pytest's last line."""
    python = str(place.checkout / ".venv/bin/python")
    if leg.whole:
        code = _run(world, (".ci/tests", python, "-m", MARKS, "-n", "4"), place.checkout, log)
    else:
        command = ("make", "--silent", "--no-print-directory", "pure")
        folders = subprocess.check_output(command, cwd=ROOT, text=True).split()
        options = ("-m", "pytest", "-q", "-n", "2", "-m", MARKS, *folders)
        code = _run(world, (python, *options), place.checkout, log)
    counts = re.findall(r"(?m)^=*\s*(.*\d+ passed.*?) in [0-9.]+s.*$", log.read_text(errors="replace"))
    return f"the tests ended with {code}" if code else "", counts[-1] if counts else "no tests ran"


def _run(world: World, command: Sequence[str], folder: Path, log: Path) -> int:
    """Runs a command in the world, ends what it leaves, and returns its exit code, 124 if it hung. What it prints is in the log."""
    with open(log, "ab") as file:
        file.write(f"$ {' '.join((*world.prefix, *command))}\n".encode())
        process = subprocess.Popen(
            (*world.prefix, *command), cwd=folder, env=world.variables(), stdin=subprocess.DEVNULL, stdout=file, stderr=file
        )  # fmt: skip
        try:
            return process.wait(MOST_S)
        except subprocess.TimeoutExpired:
            return HUNG
        finally:
            end_tree(process.pid, 10.0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
