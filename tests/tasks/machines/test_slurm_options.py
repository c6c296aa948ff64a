"""The names of back ends and their options, and the back end that changes nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tasks.machines.base import ActRefused, Rung
from tasks.machines.log import LogMachines
from tasks.machines.registry import UnknownMachines, machines_for
from tasks.machines.slurm import SlurmMachineOptions, SlurmMachines
from tests.tasks.machines.slurm_answers import MARK


def test_hyperpod_stands_on_slurm() -> None:
    """It has Slurm's options."""
    made = machines_for("hyperpod", {"user": "gates"})

    assert (made.name, Rung.REPLACE in made.rungs) == ("hyperpod", True)


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("slrum", {}, "Did you mean 'slurm'"),
        ("kubernetis", {}, "is none of slurm, hyperpod, kubernetes, log"),
        ("slurm", {"usr": "gates"}, "user"),
        ("slurm", {"parallelcluster": "3.9"}, "parallelcluster"),
        ("slurm", {"reset": 1}, "reset"),
        ("log", {"nodes": ("n1",)}, "no options"),
        ("hyperpod", {"cluster": "ml", "region": "us-west-2"}, "cluster"),
    ],
)
def test_machines_registry_refuses_unknown_names_and_options(
    name: str, options: dict[str, object], said: str
) -> None:
    """With the nearest valid name."""
    with pytest.raises(UnknownMachines, match=said):
        machines_for(name, options)


def test_log_refuses_every_act_with_the_command_of_a_person() -> None:
    """It knows no machine, so nothing ever follows from what it shows."""
    log = LogMachines(SlurmMachines())

    assert log.by_name() == {}
    command = r"Type: scontrol update nodename=n1 state=drain 'reason=prelaunch: gate-7f3a gpu.ecc'"
    with pytest.raises(ActRefused, match=command):
        log.fence("n1", MARK)
    with pytest.raises(ActRefused, match="Type: scontrol reboot ASAP nextstate=DOWN"):
        log.act(Rung.REBOOT, "n1", MARK)
    with pytest.raises(ActRefused, match="no command for it on slurm"):
        log.act(Rung.REPLACE, "n1", MARK)
    with pytest.raises(ActRefused, match="no command"):
        log.open_retest("n1", (), MARK)
    with pytest.raises(ActRefused, match="state=resume"):
        log.free("n1", MARK)
    log.close_retest("n1", MARK)


@pytest.mark.parametrize(
    ("option", "file", "version", "fence_is"),
    [
        ("", None, "", Rung.FENCE),
        ("", "aws-parallelcluster-cookbook-3.13.2", "3.13.2", Rung.REPLACE),
        ("", "", "unknown", Rung.REPLACE),
        ("none", "aws-parallelcluster-cookbook-3.13.2", "", Rung.FENCE),
        ("3.16.0", None, "3.16.0", Rung.REPLACE),
    ],
)
def test_parallelcluster_replaces_what_is_fenced(
    tmp_path: Path, option: str, file: str | None, version: str, fence_is: Rung
) -> None:
    """It is found by its folder, or named by an option."""
    if file is not None:
        (tmp_path / "opt/parallelcluster").mkdir(parents=True)
        (tmp_path / "opt/parallelcluster/.bootstrapped").write_text(file)
    made = SlurmMachines(SlurmMachineOptions(parallelcluster=option), root=tmp_path)

    assert (made.parallelcluster, made.fence_is) == (version, fence_is)
