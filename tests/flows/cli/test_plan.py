"""`prelaunch plan`: what would run, and nothing started."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
LOCAL = ROOT / "deployments" / "gates" / "local.toml"
GOLDEN = ROOT / "tests" / "golden" / "plan_gate_local.json"
NO_PREFECT = """
import sys
from flows.cli.main import main
code = main(sys.argv[1:])
loaded = [name for name in ("prefect", "torch", "rich", "boto3") if name in sys.modules]
sys.exit(f"imported {loaded}" if loaded else code)
"""


def plan(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the verb in a folder of its own."""
    argv = (sys.executable, "-c", NO_PREFECT, "plan", *words)
    environment = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "HOME": str(folder)}
    return subprocess.run(argv, cwd=folder, env=environment, capture_output=True, text=True, timeout=60)


def test_the_plan_of_the_shipped_gate_is_as_recorded(tmp_path: Path) -> None:
    """Every request of both jobs. UPDATE_GOLDEN=1 writes the file anew."""

    done = plan(tmp_path, str(LOCAL), "--format", "json")
    text = done.stdout
    for value, name in ((str(tmp_path), "{cwd}"), (sys.executable, "{python}"), (str(ROOT), "{root}")):
        text = text.replace(value, name)
    if os.environ.get("UPDATE_GOLDEN"):
        GOLDEN.write_text(text)

    assert (done.returncode, done.stderr) == (0, "")
    assert text == GOLDEN.read_text()


def test_it_starts_and_writes_nothing(tmp_path: Path) -> None:
    """The folder where it ran is as empty as before, and no Prefect was imported."""
    done = plan(tmp_path, str(LOCAL))

    assert done.returncode == 0
    assert done.stdout.count("-m checks run") == 2
    assert done.stdout.count("-m checks gate") == 2
    assert list(tmp_path.iterdir()) == []


def test_the_same_twice(tmp_path: Path) -> None:
    """Pure: the same bytes."""
    first, second = (plan(tmp_path, str(LOCAL), "--format", "json").stdout for _ in range(2))

    assert first == second


def test_overrides_show_in_the_plan(tmp_path: Path) -> None:
    """What is printed is what would run."""
    done = plan(tmp_path, str(LOCAL), "--set", "cluster.declared.nodes=3", "--format", "json")

    assert len(json.loads(done.stdout)["requests"]) == 6


def test_a_typo_is_rejected(tmp_path: Path) -> None:
    """One JSON document that says where and what was meant."""
    done = plan(tmp_path, str(LOCAL), "--set", "cluster.declared.nodez=3", "--format", "json")

    error = json.loads(done.stdout)["error"]
    assert done.returncode == 2
    assert (error["path"], error["nearest"]) == ("cluster.declared.nodez", "nodes")
