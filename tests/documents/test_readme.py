"""Every command in the README and in the pages that promise it runs as it is written."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from checks.documents.report import dump
from tests.catalogue_reports import expected_report
from tests.installation.fresh import installed
from tests.installation.hostile import NO_NUMPY, environment, hostile_folder, imported

ROOT = Path(__file__).resolve().parents[2]
__all__ = ["installed"]
README = ROOT / "README.md"
# Pages whose ```bash blocks run as they are written, in this order; those of other pages need an account or a server.
PAGES = ("README.md", "docs/commands.md", "docs/reports.md")
BLOCKS = [
    block
    for page in PAGES
    for block in re.findall(r"```bash\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
]
# What two pages tell runs once.
COMMANDS = list(dict.fromkeys(line for block in BLOCKS for line in block.splitlines() if line.strip()))
# `make test` runs this test; `make gate` is the third command after an install, and takes long itself.
MAKE = ("make gate", "make test")
# The README shows the beginning of this page: what a refused gate prints.
REFUSED = ROOT / "tests" / "golden" / "render_no_go.80.txt"
MARK = "writes this block -->\n```\n"
SMALLER = {"ranks_per_node = 2": "ranks_per_node = 1", '"--steps", "20"': '"--steps", "1"'}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, installed: Path, template_dir: Path) -> Path:
    """Where the commands are hardest to run: the wheel is installed in .venv, and the folder has packages by Prelaunch's names.

    torch finds no numpy there, either: every check measures without it. The files that the commands name are this checkout's, but for
    a gate of one rank per node that trains one step: `make gate`, below, runs it as it is. The database that an earlier gate has
    migrated is there: migrating is in tests/tasks/orchestration/server.
    """
    made = hostile_folder(tmp_path_factory.mktemp("readme") / "project")
    (made / "numpy.py").write_text(NO_NUMPY)
    (made / ".venv").symlink_to(installed.parent)
    for name in ("deployments/policies", "deployments/examples", "tests/recordings"):
        (made / name).symlink_to(ROOT / name)
    shutil.copytree(ROOT / "deployments" / "gates", made / "deployments" / "gates")
    gate = made / "deployments" / "gates" / "local.toml"
    text = gate.read_text()
    for words, fewer in SMALLER.items():
        assert words in text
        text = text.replace(words, fewer)
    gate.write_text(text)
    shutil.copytree(template_dir, made / ".cache" / "prelaunch", ignore=shutil.ignore_patterns("world*"))
    return made


# Of what starts no gate nothing but what it prints matters: one interpreter runs all of it, as the program `prelaunch` does.
SEVERAL = """
import contextlib, io, json, sys
import prelaunch
for sys.argv in json.load(sys.stdin):
    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = prelaunch.main()
    out.seek(0)
    print(json.dumps([code, out.read(), err.getvalue()]))
"""


@pytest.fixture(scope="module")
def ended(folder: Path) -> Mapping[str, tuple[int, str, str]]:
    """Exit code, stdout and stderr of every command in that folder, split at spaces, with the folder on PYTHONPATH: the gate first."""
    typed = [command.partition("  # exits ")[0] for command in COMMANDS if command not in SKIPPED]
    (gate,) = (command for command in typed if " gate " in command)
    whole = run(gate.split(), folder)
    if whole.returncode == 0:
        shutil.copy(json.loads(whole.stdout)["report"], folder / REPORT)
    else:
        (folder / REPORT).write_bytes(dump(expected_report("cpu", 2)))
    others = [command for command in typed if command != gate]
    lines = run([".venv/bin/python", "-c", SEVERAL], folder, json.dumps([one.split() for one in others]))
    rows = [json.loads(line) for line in lines.stdout.splitlines()]
    assert len(others) == len(rows), lines.stderr
    return {gate: (whole.returncode, whole.stdout, whole.stderr), **dict(zip(others, rows, strict=True))}


def run(words: list[str], folder: Path, given: str = "") -> subprocess.CompletedProcess[str]:
    """A process in that folder."""
    environ = environment(".", HOME=str(folder))
    return subprocess.run(words, cwd=folder, env=environ, input=given, capture_output=True, text=True)


def test_the_readme_holds_the_two_commands() -> None:
    """They come first."""
    assert list(MAKE) == COMMANDS[:2]
    assert {CHECK, NODE_RUN} <= set(COMMANDS)


def test_the_readme_is_short() -> None:
    """A newcomer reads all of it; the reference is in docs/."""
    assert len(README.read_text().splitlines()) <= 150


def test_the_readme_shows_what_a_refused_gate_prints() -> None:
    """The first lines of the golden page; UPDATE_GOLDEN=1 writes them."""
    text = README.read_text()
    head, mark, rest = text.partition(MARK)
    shown, _, tail = rest.partition("```\n")
    printed = "".join(f"{line}\n" for line in REFUSED.read_text().strip().splitlines()[:18])
    if os.environ.get("UPDATE_GOLDEN"):
        README.write_text(f"{head}{mark}{printed}```\n{tail}")
        shown = printed

    assert (MARK, printed) == (mark, shown)


# tests/flows/cli/test_check.py really checks this machine, and sees more of it than an exit code. The gate starts what NODE_RUN
# starts, and the commands after it read its report; NODE_RUN itself is in tests/installation/test_hostile_places.py (long).
CHECK = ".venv/bin/prelaunch check --instance-type cpu"
REPORT = "health_check_metrics.json"
NODE_RUN = f".venv/bin/prelaunch node run --profile quick --instance-type cpu --out {REPORT}"


SKIPPED = (*MAKE, CHECK, NODE_RUN)


@pytest.mark.timeout(600)  # a wheel, a whole gate and all other commands beside two other workers
@pytest.mark.parametrize("command", [command for command in COMMANDS if command not in SKIPPED])
def test_a_command_of_the_pages(
    command: str, folder: Path, ended: Mapping[str, tuple[int, str, str]]
) -> None:
    """It exits with 0, or as the comment behind it says, prints something, and runs Prelaunch's code alone.

    Of a gate that is the flow, its server, the nodes and their checks, the ranks.
    """
    command, _, stated = command.partition("  # exits ")
    code, out, err = ended[command]

    assert [] == imported(folder), err
    if " gate " in command:
        document = json.loads(out)
        # Beside other work the gate cannot tell, and says so.
        assert "launched" == document["decision"] or " was busy: " in document["first_line"], err
        assert (folder / ".prelaunch" / "prefect" / "server.log").exists() and " | " not in err
        assert "launched" != document["decision"] or "succeeded" == document["training"]["state"], err
    else:
        assert (int(stated or 0), True) == (code, bool(out.strip() or "--html" in command)), err


@pytest.mark.long
@pytest.mark.timeout(1000)
def test_make_gate(tmp_path: Path) -> None:
    """In a fresh clone it installs, checks, and trains."""
    clone = tmp_path / "clone"
    subprocess.run(("git", "clone", "-q", str(ROOT), str(clone)), check=True)
    # Below `make test-long` it would be a make of a make, which prints the folder that it enters.
    makes = ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")
    own = {name: value for name, value in os.environ.items() if name not in makes}
    done = subprocess.run(("make", "gate"), cwd=clone, env=own, capture_output=True, text=True, timeout=900)
    shutil.rmtree(clone)

    assert (0, True) == (done.returncode, done.stdout.startswith("GO ")), done.stderr
