"""Plays a job of GitHub or GitLab as far as a shell can: composite actions unfolded, expressions filled in, steps until one fails."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.installation.fresh import sources

ROOT = Path(__file__).resolve().parents[2]
NO_ACTIONS: Mapping[str, Path] = {}
EXPRESSION = re.compile(r"\$\{\{\s*(.+?)\s*\}\}")


@dataclass
class Played:
    """Where and in which environment a job runs, its steps that ran, and what the gate's step said in GitHub's own files."""

    where: Path = Path()
    environment: Mapping[str, str] = field(default_factory=dict)
    ran: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    code: int = 0
    output: str = ""
    summary: str = ""
    said: str = ""


def fake_command(folder: Path, text: str) -> str:
    """The path of a fake command: a shell script that ends as it is told to, whatever its words are."""
    path = folder / "fake-command"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def load(path: Path) -> Any:
    """A YAML file; `on` stays a word."""
    return yaml.load(path.read_text(), Loader=yaml.BaseLoader)


def play(
    job: Mapping[str, Any],
    inputs: Mapping[str, str],
    where: Path,
    environment: Mapping[str, str],
    actions: Mapping[str, Path] = NO_ACTIONS,
) -> Played:
    """Every step in `where`; a step after a failed one does not run, unless it says always().

    `actions` are the folders in which the runner put the repositories of other actions ("owner/name@ref").
    """
    played, given = Played(where, environment), {f"inputs.{key}": value for key, value in inputs.items()}
    for step in job["steps"]:
        uses, name = step.get("uses", ""), step.get("name", step.get("uses", step.get("run", "")))
        if uses.startswith("./"):
            _action(ROOT / uses / "action.yml", step.get("with", {}), given, played)
        elif found := next((name for name in actions if _is_of(uses, name)), None):
            path = actions[found] / uses.partition("@")[0].split("/", 2)[2] / "action.yml"
            _action(path, step.get("with", {}), given, played)
        elif uses:
            continue  # other people's actions
        elif played.code:
            played.skipped.append(name)
        else:
            played.ran.append(name)
            _run(step, given, played)
    return played


def _is_of(uses: str, name: str) -> bool:
    """Whether a step uses the repository: "owner/name/folder@ref" of "owner/name@ref"."""
    path, _, ref = uses.partition("@")
    return bool(ref) and name == f"{'/'.join(path.split('/')[:2])}@{ref}"


def fetched(folder: Path) -> Path:
    """This repository as a runner fetches it for an action, or pip for a requirement: a folder of its own."""
    return sources(folder, "constraints.txt")


def without_network(folder: Path) -> dict[str, str]:
    """So that pip installs what lies on this machine alone; what it needs besides is that of this environment."""
    config = folder / "pip.conf"
    config.write_text(
        "[global]\nno-index = true\n[install]\nno-deps = true\nno-build-isolation = false\nno-compile = true\n"
    )
    path = sysconfig.get_path("purelib")
    return {"PIP_CONFIG_FILE": str(config), "PYTHONPATH": path, "RUNNER_TEMP": str(folder)}


def play_gitlab(job: Mapping[str, Any], where: Path, environment: Mapping[str, str]) -> Played:
    """The job's scripts in one shell, as GitLab's runner joins them; only its variables are in its environment."""
    own = {key: str(value) for key, value in job["variables"].items()} | dict(environment)
    own |= {key: value.replace("$CI_JOB_ID", own["CI_JOB_ID"]) for key, value in own.items()}
    script = "\n".join([*job.get("before_script", []), *job["script"]])
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script], cwd=where,
        env={**os.environ, **own}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    kept = sorted(path.name for path in (where / job["artifacts"]["paths"][0]).iterdir())
    return Played(kept=kept, code=done.returncode, output=done.stdout, said=done.stderr)


def _action(path: Path, values: Mapping[str, str], given: Mapping[str, str], played: Played) -> None:
    action, own = load(path), {"GITHUB_ACTION_PATH": str(path.parent)}
    unknown = set(values) - set(action["inputs"])
    assert not unknown, f"the action has no input {unknown}"
    inputs = {f"inputs.{key}": table["default"] for key, table in action["inputs"].items()}
    inputs |= {f"inputs.{key}": _filled(value, given) for key, value in values.items()}
    for step in action["runs"]["steps"]:
        if "run" in step and not played.code and _applies(step, inputs):
            _run({**step, "env": own | step.get("env", {})}, inputs, played)
            inputs |= _outputs(step.get("id", ""), played)
        elif step.get("uses", "").startswith("actions/upload-artifact@"):
            assert step["if"].startswith("always()")
            folder = played.where / _filled(step["with"]["path"], inputs)
            played.kept += sorted(p.name for p in folder.iterdir())


def _applies(step: Mapping[str, Any], given: Mapping[str, str]) -> bool:
    """Whether the step's condition holds: none, or that an input is empty."""
    found = re.fullmatch(r"(inputs\.[\w-]+) == \'\'", step.get("if", "inputs.x == ''"))
    assert found, f"the condition {step['if']} is not known here"
    return not given.get(found[1], "")


def _outputs(step: str, played: Played) -> dict[str, str]:
    pairs = (line.partition("=") for line in played.output.splitlines())
    return {f"steps.{step}.outputs.{key}": value for key, _, value in pairs}


def _run(step: Mapping[str, Any], given: Mapping[str, str], played: Played) -> None:
    files = {name: played.where / name.lower() for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
    own = {key: _filled(value, given) for key, value in step.get("env", {}).items()}
    script = _filled(step["run"], given)
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
        cwd=played.where, env={**os.environ, **played.environment, **own, **{k: str(v) for k, v in files.items()}},
        capture_output=True, text=True,
    )  # fmt: skip
    played.code, played.said = done.returncode, played.said + done.stderr
    played.output, played.summary = (p.read_text() if p.exists() else "" for p in files.values())


def _filled(text: str, given: Mapping[str, str]) -> str:
    return EXPRESSION.sub(lambda found: _value(found[1], given), text)


def _value(expression: str, given: Mapping[str, str]) -> str:
    if expression in given:
        return given[expression]
    if " || " in expression:
        first, _, second = expression.partition(" || ")
        if first in given:
            return given[first] or given.get(second, "")
    raise AssertionError(f"{expression} is not known here")


def prelaunch() -> str:
    """The command of this very environment."""
    return str(Path(sys.executable).parent / "prelaunch")
