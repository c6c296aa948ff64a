"""Plays a GitHub job as far as a shell can: composite actions unfolded, expressions filled in, steps until one fails."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
EXPRESSION = re.compile(r"\$\{\{\s*(.+?)\s*\}\}")


@dataclass
class Played:
    """What a job did: the steps that ran, and what the gate's step said in GitHub's own files."""

    ran: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    code: int = 0
    output: str = ""
    summary: str = ""
    said: str = ""


def load(path: Path) -> Any:
    """A YAML file; `on` stays a word."""
    return yaml.load(path.read_text(), Loader=yaml.BaseLoader)


def play(
    job: Mapping[str, Any], inputs: Mapping[str, str], where: Path, environment: Mapping[str, str]
) -> Played:
    """Every step in `where`; a step after a failed one does not run, unless it says always()."""
    played, given = Played(), {f"inputs.{key}": value for key, value in inputs.items()}
    for step in job["steps"]:
        uses, name = step.get("uses", ""), step.get("name", step.get("uses", step.get("run", "")))
        if uses.startswith("./"):
            _action(ROOT / uses / "action.yml", step.get("with", {}), given, where, environment, played)
        elif uses:
            continue  # other people's actions
        elif played.code:
            played.skipped.append(name)
        else:
            played.ran.append(name)
            _run(step, given, where, environment, played)
    return played


def _action(
    path: Path,
    values: Mapping[str, str],
    given: Mapping[str, str],
    where: Path,
    environment: Mapping[str, str],
    played: Played,
) -> None:
    action = load(path)
    unknown = set(values) - set(action["inputs"])
    assert not unknown, f"the action has no input {unknown}"
    inputs = {f"inputs.{key}": table["default"] for key, table in action["inputs"].items()}
    inputs |= {f"inputs.{key}": _filled(value, given) for key, value in values.items()}
    for step in action["runs"]["steps"]:
        if "run" in step and not played.code:
            _run(step, inputs, where, {**environment, "GITHUB_ACTION_PATH": str(path.parent)}, played)
        elif step.get("uses", "").startswith("actions/upload-artifact@"):
            assert step["if"].startswith("always()")
            played.kept += sorted(p.name for p in (where / _filled(step["with"]["path"], inputs)).iterdir())


def _run(
    step: Mapping[str, Any],
    given: Mapping[str, str],
    where: Path,
    environment: Mapping[str, str],
    played: Played,
) -> None:
    files = {name: where / name.lower() for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
    own = {key: _filled(value, given) for key, value in step.get("env", {}).items()}
    script = _filled(step["run"], given)
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
        cwd=where, env={**os.environ, **environment, **own, **{k: str(v) for k, v in files.items()}},
        capture_output=True, text=True, timeout=100,
    )  # fmt: skip
    played.code, played.said = done.returncode, played.said + done.stderr
    played.output, played.summary = (p.read_text() if p.exists() else "" for p in files.values())


def _filled(text: str, given: Mapping[str, str]) -> str:
    return EXPRESSION.sub(lambda found: _value(found[1], given), text)


def _value(expression: str, given: Mapping[str, str]) -> str:
    if expression in given:
        return given[expression]
    if expression.startswith("inputs.deployment && format("):
        return "1-1-train" if given["inputs.deployment"] else ""
    raise AssertionError(f"{expression} is not known here")


def prelaunch() -> str:
    """The command of this very environment."""
    return str(Path(sys.executable).parent / "prelaunch")
