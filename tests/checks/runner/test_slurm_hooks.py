"""What Slurm's hooks make of the findings about one node, and when they touch Slurm."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from checks import cli
from checks.exit_codes import Exit
from checks.model import Cause, Finding, FindingKind, Level
from checks.runner import slurm_hooks
from checks.runner.slurm_hooks import answer_of
from tests.programs import executable

LOCAL = Path(__file__).parents[3] / "checks" / "policies" / "local.json"
BROKEN = Finding(Level.FAIL, Cause.HARDWARE, "gpu.ecc", "n1", "3 errors")
UNKNOWN = Finding(Level.FAIL, Cause.EVIDENCE, "gpu.ecc", "n1", "not measured: no nvidia-smi")
WARNING = Finding(Level.WARN, Cause.HARDWARE, "gpu.ecc", "n1", "1 error")
OF_RANKS = Finding(Level.FAIL, Cause.EVIDENCE, "compute.gemm", "n1/rank-0", "left out")

OPEN = replace(BROKEN, check="compute.gemm", message="12 wrong elements", kind=FindingKind.OPEN_BEFORE)
NOT_MEASURED = "EVIDENCE: gpu.ecc: not measured: no nvidia-smi"


@pytest.mark.parametrize(
    ("findings", "passes", "code", "said"),
    [
        ((), False, Exit.GO, ""),
        ((WARNING, OF_RANKS), False, Exit.GO, ""),
        ((OPEN, OF_RANKS), True, Exit.NO_GO, "HARDWARE: compute.gemm: 12 wrong elements"),
        ((UNKNOWN, BROKEN), False, Exit.NO_GO, "HARDWARE: gpu.ecc: 3 errors"),
        ((UNKNOWN, BROKEN), True, Exit.NO_GO, "HARDWARE: gpu.ecc: 3 errors"),
        ((UNKNOWN,), False, Exit.CANNOT_TELL, NOT_MEASURED),
        ((UNKNOWN,), True, Exit.GO, f"{NOT_MEASURED} (the site lets this pass)"),
    ],
)
def test_slurm_hook_fails_unknown_findings_unless_the_site_lets_them_pass(
    findings: tuple[Finding, ...], passes: bool, code: Exit, said: str
) -> None:
    """The reason begins with the cause; what is broken outranks it, and no choice lets that pass."""
    assert answer_of(findings, passes) == (code, said)


def broken_policy(folder: Path) -> Path:
    """A policy that no machine meets: more CPUs than there are."""
    made = json.loads(LOCAL.read_text())
    rule = {"metric": "cpus", "fail_below": 1e6, "cause": "CONFIGURATION", "source": "a test"}
    made["checks"]["system.resources"]["rules"] = [rule]
    path = folder / "broken.json"
    path.write_text(json.dumps(made))
    return path


def hook(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """A process of its own, with the environment that slurmd gives it: no PATH."""
    argv, root = (sys.executable, "-m", "checks", *words, "--instance-type", "cpu"), LOCAL.parents[2]
    environment = {"TMPDIR": str(folder), "PRELAUNCH_STATE": os.environ["PRELAUNCH_STATE"]}
    return subprocess.run(argv, cwd=root, env=environment, capture_output=True, text=True, check=False)


def test_a_prolog_fails_for_a_node_that_fails_and_asks_no_slurm(tmp_path: Path) -> None:
    """slurmd's log shows both streams, and the cause comes first."""
    done = hook(tmp_path, "prolog", "--policy", str(broken_policy(tmp_path)))
    begins = "prelaunch: CONFIGURATION: system.resources: number of CPUs is "

    assert (done.returncode, done.stdout[: len(begins)]) == (1, begins), done
    assert (done.stdout.count("\n"), done.stderr) == (1, "")
    assert [path.name for path in tmp_path.iterdir()] == ["broken.json"]


def test_a_hook_prints_nothing_about_a_node_that_is_well(tmp_path: Path) -> None:
    """Neither on stdout, whose lines some hooks of Slurm take as commands, nor on stderr, which slurmd may log."""
    done = hook(tmp_path, "healthcheck", "--deadline-s", "100")

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("seconds", ["nan", "inf", "-5", "0", "soon"])
def test_a_deadline_that_is_none_is_refused(seconds: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong word in slurm.conf's script must not let a node pass, and the sentence names the option."""
    code = cli.main(["prolog", "--instance-type", "cpu", "--deadline-s", seconds])

    assert code == Exit.REJECTED
    assert f"--deadline-s: '{seconds}' is not a number of seconds from 1 to 86400" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("state", "reason", "drains"),
    [
        ("idle", "none", True),
        ("drained", "jdoe: fan", False),
        ("maint", "jdoe: fan", False),
        ("idle^", "jdoe: new BIOS", False),
        ("idle", "prelaunch: HARDWARE: gpu.ecc: 3 errors", True),  # somebody resumed it
    ],
)
def test_a_node_that_somebody_drained_keeps_its_reason(
    monkeypatch: pytest.MonkeyPatch, state: str, reason: str, drains: bool
) -> None:
    """scontrol is called unless a reason keeps the node out of service. 24.11 still shows the reason of a node that was resumed."""
    asked = list[tuple[str, ...]]()

    def slurm(*argv: str) -> str:
        asked.append(argv)
        return f"{state}|{reason}\n"

    monkeypatch.setattr(slurm_hooks, "_slurm", slurm)
    slurm_hooks._drain("n1", "HARDWARE: gpu.ecc: 3 errors")
    words = ("update", "nodename=n1", "state=drain", "reason=prelaunch: HARDWARE: gpu.ecc: 3 errors")

    assert asked[1:] == ([("scontrol", *words)] if drains else [])


HANGS = """
import subprocess, sys, time
from checks import cli
from checks.runner import slurm_hooks

def hang(made, folder):
    (folder / "half a report").touch()
    subprocess.Popen(["sleep", "77"])
    time.sleep(77)

slurm_hooks.checked, slurm_hooks.MARGIN_S, slurm_hooks.DRAIN_S = hang, -0.7, 0.5
sys.exit(cli.main(sys.argv[1:]))
"""


@pytest.mark.parametrize(
    ("words", "sinfo", "code", "asked"),
    [
        (("prolog",), "echo 'idle|none'", 3, []),
        (("healthcheck", "--drain"), "echo 'idle|none'", 0, []),
        (
            ("healthcheck", "--drain", "--cannot-tell", "fail"), "echo 'idle|none'", 3,
            ["update nodename=n1 state=drain reason=prelaunch: EVIDENCE: the checks did not end in time"],
        ),
        (("healthcheck", "--drain", "--cannot-tell", "fail"), "exec sleep 777", 3, []),
    ],
)  # fmt: skip
def test_a_hook_ends_in_time_whatever_hangs(
    tmp_path: Path, words: tuple[str, ...], sinfo: str, code: int, asked: list[str]
) -> None:
    """Checks that hang are what could not be measured, and so is drained where the site asked for that. Nothing is left."""
    (tmp_path / "tmp").mkdir()
    for name, text in (("sinfo", sinfo), ("scontrol", f'echo "$*" >>{tmp_path}/asked')):
        executable(tmp_path / name, f"#!/bin/sh\n{text}\n")
    argv = (sys.executable, "-c", HANGS, words[0], "--instance-type", "cpu", "--deadline-s", "1", *words[1:])
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "TMPDIR": f"{tmp_path}/tmp", "SLURMD_NODENAME": "n1"}
    # It also ends only when nobody has its output open.
    done = subprocess.run(argv, cwd=LOCAL.parents[2], env=environment, capture_output=True, text=True)

    assert done.returncode == code, done.stderr
    assert done.stdout.startswith("prelaunch: EVIDENCE: the checks did not end in time")
    assert list((tmp_path / "tmp").iterdir()) == []
    said = tmp_path / "asked"
    assert (said.read_text().splitlines() if said.exists() else []) == asked
