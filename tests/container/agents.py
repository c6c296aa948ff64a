"""Agents as SageMaker starts them: a process each, with an /opt/ml of its own, in front of fake or real checks."""

from __future__ import annotations

import dataclasses
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

from checks import bundle as bundles
from checks.catalog import CATALOG
from checks.check import Check
from checks.documents.report import load
from checks.exchange import secret_key
from checks.facts.builtin import builtin
from checks.facts.instances import lacks
from checks.model import Cause, Declared, Profile, Report
from checks.policy import CheckPolicy, OnWarn, Policy, Rule
from checks.process import machine_state
from container.agent import agent_run, cli, supervisor
from container.agent.files import s3
from container.agent.supervisor import Signals
from tests.container import fake_checks
from tests.programs import executable
from tests.waiting import until

ROOT = Path(__file__).resolve().parents[2]
FAKE = Path(__file__).with_name("fake_checks.py")
GATE = "gate-of-a-container"
JUDGED = "system.identity"
TIMEOUT_S = 600.0  # only what hangs comes to it
KEY = secret_key.make()  # every host of one job gets the same


def make_bundle(
    nodes: int = 1, stage_s: float = 8.0, judged: bool = True, spares: int = 0, network_s: float = 2.0
) -> bytes:
    """A bundle whose policy asks one thing at most: that the first metric of one check is 1."""
    declared = Declared("cpu", nodes, 0, 1, spares=spares)
    lines = {check.name: _line(check) for check in CATALOG if lacks(check.part, declared, None) is None}
    held = next(check for check in CATALOG if check.name == JUDGED)
    rule = Rule(held.metrics[0], "the test", equals=1, cause=Cause.HARDWARE, remedy="none")
    lines[JUDGED] = dataclasses.replace(_line(held), rules=(rule,) if judged else ())
    policy, quick = Policy("container-test", ("cpu",), OnWarn.GO, 1.0, lines), Profile.QUICK
    made = bundles.make(GATE, declared, quick, policy, builtin(), network_s=network_s, stage_s=stage_s)
    return bundles.dump(made)


def _line(check: Check) -> CheckPolicy:
    return CheckPolicy(
        profiles=check.profiles, part=check.part, min_nodes=check.min_nodes, min_ranks=check.min_ranks
    )


@dataclass(frozen=True)
class Ended:
    """How an agent ended, and what it left below its root."""

    code: int
    root: Path
    log: str

    @property
    def out(self) -> Path:
        """Where SageMaker collects output."""
        return self.root / "output" / "data"

    @property
    def failure(self) -> str:
        """The failure file, "" where there is none."""
        path = self.root / "output" / "failure"
        return path.read_text() if path.exists() else ""

    @property
    def record(self) -> dict[str, object]:
        """The agent's own record of its last life."""
        paths = sorted(self.out.glob("*/agent/*.json"), key=lambda path: path.stat().st_mtime_ns)
        found: dict[str, object] = json.loads(paths[-1].read_bytes())
        return found

    @property
    def merged(self) -> Report:
        """health_check_metrics.json."""
        return load((self.out / "health_check_metrics.json").read_bytes())


def fake_python(folder: Path) -> Path:
    """The interpreter that plays the checks."""
    return executable(folder / "python", f'#!/bin/sh\nexec "{sys.executable}" "{FAKE}" "$@"\n')


def make_root(folder: Path, bundle: bytes | None, hosts: Sequence[str] = (), current: str = "") -> Path:
    """What SageMaker prepares: the bundle in an input channel, and who takes part."""
    root = folder / f"ml-{current or 'only'}"
    (root / "input" / "config").mkdir(parents=True)
    (channel := root / "input" / "data" / "prelaunch").mkdir(parents=True)
    (channel / "exchange.key").write_bytes(KEY)
    if bundle is not None:
        (channel / "bundle.json").write_bytes(bundle)
    if hosts:
        config = {"current_host": current, "hosts": hosts, "network_interface_name": "lo", "topology": None}
        (root / "input" / "config" / "resourceconfig.json").write_text(json.dumps(config))
    return root


def _own(root: Path, python: Path | None, temporary: Path) -> dict[str, str]:
    """An agent's environment. A killed one leaves its folder in the temporary one, and pytest removes it."""
    temporary.mkdir(exist_ok=True)
    given = {"PRELAUNCH_ROOT": str(root), **({"PRELAUNCH_PYTHON": str(python)} if python else {})}
    inherited = (
        one for one in os.environ if not one.startswith("PRELAUNCH_") or one == machine_state.VARIABLE
    )
    return {**{name: os.environ[name] for name in inherited}, **given}


class Agent:
    """A running agent; `with` ends it. Its log goes to a file beside its root."""

    def __init__(
        self,
        root: Path,
        *arguments: str,
        python: Path | None = None,
        environment: Mapping[str, str] | None = None,
        wrapper: Sequence[str] = (),
    ) -> None:
        self.root, self._log = root, root.with_suffix(".log")
        temporary = root.with_suffix(".tmp")
        own = {**_own(root, python, temporary), "PYTHONPATH": str(ROOT), "TMPDIR": str(temporary)}
        argv = (*wrapper, sys.executable, "-m", "container.agent", *(arguments or ("train",)))
        with open(self._log, "wb") as log:
            merged = {**own, **(environment or {})}
            self.process = subprocess.Popen(argv, cwd=ROOT, env=merged, stdout=log, stderr=log)

    def __enter__(self) -> Agent:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def wait(self) -> Ended:
        """Its end."""
        code = self.process.wait(TIMEOUT_S)
        log = self._log.read_text(errors="replace")
        print(f"--- {self.root.name} ended with {code}\n{log}")
        return Ended(code, self.root, log)

    def terminate(self, number: int = signal.SIGTERM) -> None:
        """As SageMaker does when a job is stopped."""
        self.process.send_signal(number)

    def until(self, pattern: str) -> Path:
        """The first file below its root that matches, waited for."""

        def log() -> str:
            return self._log.read_text(errors="replace")

        def found() -> list[Path]:
            ended = self.process.poll() is not None
            paths = sorted(self.root.glob(pattern))
            assert paths or not ended, log()
            return paths

        return until(found, log, TIMEOUT_S)[0]


def run_alone(root: Path, *arguments: str, python: Path | None = None, **environment: str) -> Ended:
    """An agent in a process of its own, to its end."""
    with Agent(root, *arguments, python=python, environment=environment) as agent:
        return agent.wait()


def run_usual(folder: Path, *arguments: str, **environment: str) -> Ended:
    """The agent of the only host, with the usual bundle and the fake checks, to its end in this process."""
    root = make_root(folder, make_bundle())
    return run(root, *arguments, python=fake_python(folder), **environment)


def run(root: Path, *arguments: str, python: Path | None = None, **environment: str) -> Ended:
    """An agent to its end, in this process: the fake checks are a function, and everything else that it starts is a process."""
    temporary = root.with_suffix(".tmp")
    own = _own(root, python, temporary)
    s3._client.cache_clear()
    with (
        patch.dict(os.environ, {**own, **environment}, clear=True),
        patch.object(tempfile, "tempdir", str(temporary)),
        patch.object(agent_run, "become_subreaper", lambda: None),
        patch.object(Signals, "install", lambda signals: None),
        patch.object(supervisor, "run", partial(_played, python)),
        _logged(root.with_suffix(".log")) as log,
    ):
        code = cli.main(arguments or ("train",))
    return Ended(code, root, log.read_text(errors="replace"))


def _played(python: Path | None, argv: Sequence[str], environment: Mapping[str, str], *rest: Any) -> int:
    """As supervisor.run, for a child that ends by itself."""
    if python is None or argv[0] != str(python) or str(FAKE) not in python.read_text():
        return subprocess.run(argv, env=environment, check=False).returncode
    with patch.dict(os.environ, environment, clear=True):
        command = fake_checks.play(("", *argv[1:]))
        return command if isinstance(command, int) else subprocess.run(command, check=False).returncode


@contextmanager
def _logged(path: Path) -> Iterator[Path]:
    """Everything that is printed inside goes to the file, also what processes print."""
    with open(path, "w", encoding="utf-8") as file, redirect_stdout(file), redirect_stderr(file):
        before = [os.dup(number) for number in (1, 2)]
        for number in (1, 2):
            os.dup2(file.fileno(), number)
        try:
            yield path
        finally:
            file.flush()
            for number, kept in zip((1, 2), before, strict=True):
                os.dup2(kept, number)
                os.close(kept)
    print(f"--- {path.stem}\n{path.read_text(errors='replace')}")


def free_port() -> int:
    """A port with two free ones behind it, on every loopback address; another one at each call."""
    for port in random.sample(range(10000, 19000, 3), 100):  # below those of checks/process/free_ports.py
        try:
            for shift in range(3):
                socket.create_server(("", port + shift)).close()
        except OSError:
            continue
        return port
    raise AssertionError("no three free ports")
