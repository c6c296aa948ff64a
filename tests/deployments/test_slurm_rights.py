"""The sudoers lines for whoever repairs nodes of Slurm allow the back end's own commands, and nothing more."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tasks.machines import slurm_commands as acts
from tasks.machines.base import Mark
from tests.architecture.tree import ROOT

FOLDER = ROOT / "deployments" / "slurm"
SCONTROL = "/usr/bin/scontrol"
MARK = Mark("gate-7f3a", "gpu.ecc")
NAME = acts.reservation_name("gate-7f3a", "ip-10-1-2-3")
OWN = (
    acts.drain("ip-10-1-2-3", MARK),
    acts.drain("n1", Mark("gate-7f3a", "")),
    acts.reboot("n1", MARK),
    acts.reserve(NAME, ("n1", "n02", "r1.rack-2"), "prelaunch"),
    acts.unreserve(NAME),
    acts.resume("n1"),
    acts.clear_reason("n1"),
)
HYPERPOD = tuple(acts.fail("n1", rung) for rung in acts.HYPERPOD_REASONS)
# Near to the back end's commands; none of them is one.
OTHERS = (
    "update nodename=n[0-9] state=resume",
    "update nodename=ALL,n1 state=resume",
    "update nodename=ALL state=resume",
    "update nodename=all reason=none",
    "reboot ASAP nextstate=DOWN reason=prelaunch: gate-7f3a gpu.ecc ALL",
    f"create reservation ReservationName={NAME} StartTime=now Duration=UNLIMITED Users=prelaunch Nodes=ALL Flags=MAINT,IGNORE_JOBS",
    "update nodename=n1 state=resume reason=x",
    "update nodename=n1 state=down reason=prelaunch: gate-7f3a gpu.ecc",
    "update nodename=n1 state=drain reason=jdoe: fan",
    "update nodename=n1 state=drain reason=prelaunch: gate-7f3a gpu.ecc state=resume",
    "update nodename=n1 state=fail reason=Action:Shutdown",
    "update nodename=n1 weight=1",
    "update jobid=1 priority=1",
    "update partitionname=gpu state=down",
    "reboot n1",
    "reboot ASAP nextstate=RESUME reason=prelaunch: gate-7f3a gpu.ecc n1",
    "reboot ASAP nextstate=DOWN reason=prelaunch: gate-7f3a gpu.ecc n1,n2",
    f"create reservation ReservationName={NAME} StartTime=now Duration=UNLIMITED Users=jdoe Nodes=n1 Flags=MAINT,IGNORE_JOBS",
    f"create reservation ReservationName={NAME} StartTime=now Duration=UNLIMITED Users=prelaunch Nodes=n1 Flags=MAINT",
    "delete ReservationName=fans",
    f"delete ReservationName={NAME},fans",
    "delete partitionname=gpu",
    "shutdown",
    "takeover",
    "reconfigure",
)


def rules(name: str) -> list[str]:
    """The regular expressions for scontrol's arguments in a file."""
    lines = (FOLDER / name).read_text().splitlines()
    found = [re.fullmatch(rf"\s*{SCONTROL} (\^.*\$)(, \\)?", line) for line in lines]
    return [one[1] for one in found if one]


def allowing(argv: tuple[str, ...], found: list[str]) -> list[str]:
    """The rules that allow a command. sudo compares all arguments, with blanks between them (sudoers(5), "Regular expressions")."""
    assert argv[0] == "scontrol"
    return [rule for rule in found if re.fullmatch(rule, " ".join(argv[1:]))]


@pytest.mark.parametrize(
    ("name", "own"), [("remediation.sudoers", OWN), ("remediation-hyperpod.sudoers", HYPERPOD)]
)
def test_each_command_of_ours_has_one_rule_and_each_rule_a_command(
    name: str, own: tuple[tuple[str, ...], ...]
) -> None:
    """A rule that nothing needs would be a right too many."""
    found = rules(name)
    used = [allowing(argv, found) for argv in own]

    assert [1] * len(own) == [len(one) for one in used]
    assert set(found) == {rule for one in used for rule in one}


@pytest.mark.parametrize("line", OTHERS)
def test_no_other_command_is_allowed(line: str) -> None:
    """Lists of nodes, other users, other states."""
    for name in ("remediation.sudoers", "remediation-hyperpod.sudoers"):
        assert [] == allowing(("scontrol", *line.split(" ")), rules(name))


def test_only_hyperpods_file_lets_a_node_be_handed_to_hyperpod() -> None:
    """Elsewhere nobody needs it."""
    assert [] == [rule for argv in HYPERPOD for rule in allowing(argv, rules("remediation.sudoers"))]


def test_every_function_that_makes_a_command_of_scontrol_is_weighed() -> None:
    """A new one needs a rule."""
    text = (ROOT / "tasks/machines/slurm_commands.py").read_text()
    made = re.findall(r"(?m)^def (\w+)\(.*\) -> Argv:", text)

    assert {"drain", "reboot", "reserve", "unreserve", "resume", "clear_reason", "fail", "reset"} == set(made)


@pytest.mark.parametrize("name", ["remediation.sudoers", "remediation-hyperpod.sudoers"])
def test_sudo_reads_the_file(name: str, tmp_path: Path) -> None:
    """As visudo does it."""
    if not (visudo := shutil.which("visudo", path="/usr/sbin:/sbin:/usr/bin")):
        pytest.skip("not installed: visudo. Remedy: apt-get install sudo")
    (tmp_path / name).write_text((FOLDER / name).read_text())
    (tmp_path / name).chmod(0o440)
    argv = (visudo, "--check", f"--file={tmp_path / name}")
    done = subprocess.run(argv, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
