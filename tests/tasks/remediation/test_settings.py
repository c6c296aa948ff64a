"""What a gate file says of remediation, and the back end that it names."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from checks.model import Action, Profile
from tasks.gate_file.read import GateFileError, read_gate_file
from tasks.machines.base import Mark, Rung
from tasks.remediation.model import Blame, Case, Identity, RepairMode
from tasks.remediation.settings import machines_of, settings_of
from tasks.remediation.step_texts import planned

GATES = Path(__file__).resolve().parents[3] / "deployments" / "gates"
SLURM = GATES / "slurm-cpu.toml"
CASE = Case(1, "c", "n1", "gate-1", "gate.toml", "v", Profile.QUICK, 1000.0, Identity(), ())


def changed(folder: Path, more: str, options: str = "") -> Path:
    """The shipped gate file for Slurm with these lines."""
    text = SLURM.read_text().replace("[cluster.options]\n", f"[cluster.options]\n{options}")
    path = folder / "gate.toml"
    path.write_text(text.replace("../policies", str(GATES.parent / "policies")) + more)
    return path


@pytest.mark.parametrize("path", sorted(GATES.glob("*.toml")), ids=lambda path: path.stem)
def test_no_shipped_gate_file_does_anything_to_a_machine(path: Path) -> None:
    """Its back end can be made, and its mode is plan."""
    gate = read_gate_file(path)

    assert RepairMode.PLAN is settings_of(gate).mode
    assert machines_of(gate).name == gate.remediation.machines


@pytest.mark.parametrize(
    ("name", "begins"),
    [("local", ""), ("slurm-cpu", "scontrol update "), ("kind-cpu", "kubectl patch "), ("sagemaker-p5", "")],
)
def test_the_commands_that_are_shown_are_those_of_the_launchers_engine(name: str, begins: str) -> None:
    """A gate file without [remediation] on a machine without a scheduler shows no scheduler's commands."""
    machines = machines_of(read_gate_file(GATES / f"{name}.toml"))
    typed = machines.command(Rung.FENCE, "node-7", Mark("gate-7f3a", "gpu.ecc"))

    assert typed.startswith(begins) if begins else typed == ""


def test_repair_plan_pages_a_person_for_an_inspection() -> None:
    """Of a finding that asks for an inspection; its remedy, which may name a reboot, is for whoever looks."""
    machines = machines_of(read_gate_file(SLURM))

    def rungs(action: Action) -> list[Rung]:
        case = replace(CASE, blames=(Blame("gpu.inventory", "n1", action, "lacks 4 GPUs"),))
        ((_, steps),) = planned([case], machines)
        return [rung for rung, _ in steps]

    assert [Rung.FENCE, Rung.RECHECK, Rung.PAGE, Rung.RETURN] == rungs(Action.INSPECT)
    assert Rung.PAGE not in rungs(Action.REBOOT) and Rung.REBOOT in rungs(Action.REBOOT)


def test_the_keys_become_limits(tmp_path: Path) -> None:
    """Minutes are seconds there."""
    lines = (
        "[remediation]", 'mode = "act"', 'machines = "slurm"', 'acts = ["replace"]', "max_out_fraction = 0.25",
        "max_verdict_minutes = 5.0", "breaker_acts = 2", "breaker_minutes = 10.0", "",
    )  # fmt: skip
    settings = settings_of(read_gate_file(changed(tmp_path, "\n".join(lines))))
    limits = settings.limits

    assert (RepairMode.ACT, (Rung.REPLACE,)) == (settings.mode, settings.freely)
    assert (0.25, 300.0) == (limits.max_out_fraction, limits.max_verdict_s)
    assert (2, 600.0) == (limits.breaker_acts, limits.breaker_s)


@pytest.mark.parametrize(
    ("more", "options", "said"),
    [
        ('mode = "atc"', "", "is none of its modes: off does"),
        ('acts = ["fence"]', "", "is none of reset, reboot, replace"),
        ("max_out_fraction = 1.5", "", "remediation.max_out_fraction"),
        ("resume = true", "auto_resume = true\n", "would both start the training again"),
        ("resume = true", "exclude_failed = true\n", "would both start the training again"),
        ("breakers = 1", "", "unknown key"),
        ('mode = "ask"', "", "needs machines that can be changed"),
    ],
)
def test_a_wrong_key_is_refused(tmp_path: Path, more: str, options: str, said: str) -> None:
    """Before anything starts."""
    with pytest.raises(GateFileError, match=said):
        read_gate_file(changed(tmp_path, f"[remediation]\n{more}\n", options))
