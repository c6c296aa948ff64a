"""Every training program that is shipped ends its process group; the small one learns, resumes, and refuses another machine.

gloo's threads abort a process that ends without it (SIGABRT).
"""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from checks.bundle import Pass, PassedNode, dump
from checks.probes.host.system import identity_of_node
from checks.process.free_ports import free_port

ROOT = Path(__file__).parents[2]
BEGIN, END = "init_process_group", "destroy_process_group"

SCRIPT = ROOT / "deployments" / "examples" / "train_tiny.py"
LAST = re.compile(r"trained (\d+) steps from (scratch|step \d+): loss ([\d.]+) -> ([\d.]+)")
pytestmark = pytest.mark.timeout(180)


def programs(path: Path) -> Iterator[str]:
    """The Python programs in a shipped file that begin a process group."""
    text = path.read_text(errors="replace")
    if BEGIN not in text:
        return
    if path.suffix == ".py":
        found = [text]
    elif path.suffix == ".toml":
        found = list(_strings(tomllib.loads(text)))
    elif path.suffix == ".ipynb":
        found = ["".join(cell["source"]) for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]
    else:  # a document or a script: each fenced or quoted program
        found = re.findall(r"```python\n(.*?)```", text, re.DOTALL) or [text]
    yield from (program for program in found if BEGIN in program)


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _strings(part)


def unended(program: str) -> list[int]:
    """The lines that begin a process group which an ending of the program leaves open. An error ends a rank with a code of its own."""
    suites = [
        suite
        for node in ast.walk(ast.parse(program))
        for suite in (getattr(node, "body", None), getattr(node, "orelse", None), getattr(node, "finalbody", None))
        if isinstance(suite, list)
    ]  # fmt: skip
    begins = [(suite, at) for suite in suites for at, one in enumerate(suite) if _own_calls(one, BEGIN)]
    return [suite[at].lineno for suite, at in begins if not _ends(suite[at + 1 :])]


def _own_calls(statement: ast.stmt, name: str) -> bool:
    """Whether the statement itself calls that, not one in a suite below it."""
    return isinstance(statement, ast.Expr | ast.Assign) and _calls(statement, name)


def _calls(node: ast.AST, name: str) -> bool:
    called = (one.func for one in ast.walk(node) if isinstance(one, ast.Call))
    return any(
        name == (one.attr if isinstance(one, ast.Attribute) else getattr(one, "id", "")) for one in called
    )


def _ends(suite: list[ast.stmt]) -> bool:
    """Whether the group is ended before anything leaves this suite."""
    for statement in suite:
        if _own_calls(statement, END):
            return True
        if isinstance(statement, ast.Try) and any(_own_calls(one, END) for one in statement.finalbody):
            return True
        if any(
            isinstance(one, (ast.Return, ast.Raise)) or _calls(one, "exit") or _calls(one, "_exit")
            for one in ast.walk(statement)
        ):
            return False
    return False


def shipped() -> list[Path]:
    """Every file of an operator that may show a training."""
    folders = (ROOT / "deployments", ROOT / "docs", ROOT / "container")
    files = (path for folder in folders for path in folder.rglob("*") if path.is_file())
    return [ROOT / "README.md", *sorted(path for path in files if path.suffix not in (".png", ".pyc"))]


@pytest.mark.parametrize(
    ("program", "lines"),
    [
        ("d.init_process_group('gloo'); d.destroy_process_group()", []),
        ("d.init_process_group('gloo'); x = 1; print(x)", [1]),
        ("d.init_process_group('gloo')\ntry:\n  train()\nfinally:\n  d.destroy_process_group()", []),
        ("def main():\n  init_process_group()\n  if done:\n    return 0\n  destroy_process_group()", [2]),
        ("def main():\n  init_process_group()\n  sys.exit(0)\n  destroy_process_group()", [2]),
        ("if main:\n  init_process_group()\n  train()\nother.destroy_process_group()", [2]),
        ("def end():\n  destroy_process_group()\ninit_process_group()", [3]),
    ],
)
def test_the_rule_sees_a_group_that_an_ending_leaves_open(program: str, lines: list[int]) -> None:
    """One that ends in another place may not be ended on each way."""
    assert lines == unended(program)


def test_every_shipped_training_ends_its_process_group() -> None:
    """The example that is run for cents, the one in the image, and whatever a page or a notebook shows."""
    seen = {(path, program) for path in shipped() for program in programs(path)}

    assert {"train_tiny.py", "sagemaker-cpu.toml"} <= {path.name for path, _ in seen}
    assert [] == [(str(path.relative_to(ROOT)), lines) for path, one in seen if (lines := unended(one))]


def python(folder: Path, *argv: str, **more: str) -> subprocess.CompletedProcess[str]:
    """An interpreter that finds this project."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), **more}
    argv = (sys.executable, *argv)
    return subprocess.run(argv, cwd=folder, env=environment, capture_output=True, text=True)


def train(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Two ranks on this machine."""
    port = str(free_port("127.0.0.1"))
    torchrun = ("-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", port)
    return python(folder, *torchrun, str(SCRIPT), "--checkpoint-every", "20", *words)


def one_rank(folder: Path, *argv: str, **more: str) -> subprocess.CompletedProcess[str]:
    """A rank alone, as torchrun starts it."""
    port = str(free_port("127.0.0.1"))
    alone = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    return python(folder, *argv, **alone, **more)


@pytest.mark.long
def test_example_training_learns_and_resumes_from_the_last_valid_checkpoint(tmp_path: Path) -> None:
    """The loss falls; a checkpoint that was cut short is passed over for the one before it."""
    first = LAST.search(train(tmp_path, "--steps", "40").stdout)
    newest = tmp_path / "checkpoints" / "step-00000040.pt"
    newest.write_bytes(newest.read_bytes()[:1000])
    again = LAST.search(train(tmp_path, "--steps", "50").stdout)

    assert first is not None and again is not None
    assert first.groups()[:2] == ("40", "scratch")
    assert float(first[4]) < 0.5 * float(first[3])
    assert again.groups()[:2] == ("30", "step 20")
    assert float(again[3]) < 0.5 * float(first[3])
    assert not list((tmp_path / "checkpoints").glob(".*"))


def test_example_training_refuses_a_machine_that_was_not_proven(tmp_path: Path) -> None:
    """Its first act is to confirm that this is the machine that passed, also where it has a package `checks` of its own."""
    other = {**identity_of_node(), "boot_id": "another"}
    token = Pass(1, "g", "d", "2026-01-01T00:00:00Z", (PassedNode("node-0", 0, other),))
    (tmp_path / "pass.json").write_bytes(dump(token))

    (tmp_path / "checks").mkdir()
    (tmp_path / "checks" / "__init__.py").write_text("raise SystemExit('a package of the training itself')")
    given = {"PRELAUNCH_PASS": str(tmp_path / "pass.json"), "PRELAUNCH_NODE": "node-0"}
    done = one_rank(tmp_path, str(SCRIPT), **given, PYTHONPATH=f"{tmp_path}:{ROOT}")

    assert done.returncode != 0
    assert "not the machine that was proven: boot_id was another" in done.stderr
    assert "step 1" not in done.stdout


WRAPPED = """
import atexit, runpy, sys
script, *sys.argv[1:] = sys.argv[1:]
atexit.register(print, "the interpreter ends")
runpy.run_path(script, run_name="__main__")
"""


def test_a_rank_does_not_wait_for_the_end_of_the_interpreter(tmp_path: Path) -> None:
    """A thread of gloo that drops a tensor then would abort the process, and the gate would say that the training failed."""
    done = one_rank(tmp_path, "-c", WRAPPED, str(SCRIPT), "--steps", "1")

    assert 0 == done.returncode, done.stderr
    assert "trained 1 steps from scratch" in done.stdout and "the interpreter ends" not in done.stdout
