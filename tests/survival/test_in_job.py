"""The gate inside a job: the command starts on every host or on none."""

from __future__ import annotations

from pathlib import Path

import pytest

from checks import bundle as bundles
from checks.bundle import Pass, PassedNode
from checks.model import SCHEMA_VERSION
from checks.system import identity_of_node
from tests.survival.world import Ended, World, run

TRAIN = (
    "{python}",
    "-c",
    "import os, pathlib; pathlib.Path(os.environ['PRELAUNCH_NODE'] + '-trained').touch()",
)
GATE = ("{python}", "-m", "checks", "gate", "--bundle", "{job}/bundle.json", "--out", "{out}")
NAMES = ("node-0", "node-1")


def trained(folder: Path) -> set[str]:
    """The nodes whose command ran."""
    return {path.name.removesuffix("-trained") for path in folder.rglob("*-trained")}


def failures(ended: Ended) -> set[str]:
    """What the failure files say."""
    return {path.read_text() for path in ended.fetched.rglob("failure/*")}


def passed(**changed: str) -> bytes:
    """A pass for this machine, as it is or as it was."""
    nodes = tuple(
        PassedNode(name, rank, {**identity_of_node(), **changed}) for rank, name in enumerate(NAMES)
    )
    return bundles.dump(Pass(SCHEMA_VERSION, "earlier", "digest", "2026-01-01T00:00:00Z", nodes))


def test_every_host_starts_after_a_go(tmp_path: Path) -> None:
    """Checks, verdict, then the command, in the same job."""
    ended = run(World(2, 1), tmp_path, command=(*GATE, "--", *TRAIN))

    assert (set(NAMES), {"node-0": 0, "node-1": 0}) == (trained(tmp_path), dict(ended.status.exit_codes))


@pytest.mark.long
def test_no_host_starts_when_nobody_can_tell(tmp_path: Path) -> None:
    """A check that raised on the nodes: exit 3 everywhere, with the reason in a file."""
    ended = run(World(2, 1, ("raises",)), tmp_path, command=(*GATE, "--", *TRAIN))

    assert (set(), {"node-0": 3, "node-1": 3}) == (trained(tmp_path), dict(ended.status.exit_codes))
    assert all("sabotage.raises" in said for said in failures(ended)) and failures(ended)


def test_no_host_starts_on_wrong_sums(tmp_path: Path) -> None:
    """One rank lies: exit 1 on both hosts."""
    ended = run(World(2, 1, ("wrong_sums",)), tmp_path, command=(*GATE, "--", *TRAIN))

    assert (set(), {"node-0": 1, "node-1": 1}) == (trained(tmp_path), dict(ended.status.exit_codes))


def test_the_proven_machines_start_without_checking_again(tmp_path: Path) -> None:
    """Equal identities on every host are enough."""
    command = (*GATE, "--confirm", "{job}/pass.json", "--", *TRAIN)
    ended = run(World(2, 1), tmp_path, command=command, files={"pass.json": passed()})

    assert (set(NAMES), ()) == (trained(tmp_path), ended.report.nodes)


def test_other_machines_are_checked_again_in_place(tmp_path: Path) -> None:
    """A host that was rebooted since is not the host that passed."""
    command = (*GATE, "--confirm", "{job}/pass.json", "--", *TRAIN)
    ended = run(World(2, 1), tmp_path, command=command, files={"pass.json": passed(boot_id="another")})

    assert (set(NAMES), 0, 2) == (trained(tmp_path), ended.exit_code, len(ended.report.nodes))


@pytest.mark.long
def test_other_machines_that_fail_the_second_check_do_not_start(tmp_path: Path) -> None:
    """The pass of other machines is worth nothing."""
    command = (*GATE, "--confirm", "{job}/pass.json", "--", *TRAIN)
    world = World(1, 1, ("raises",))
    ended = run(world, tmp_path, command=command, files={"pass.json": passed(boot_id="another")})

    assert (set(), {"node-0": 3}) == (trained(tmp_path), dict(ended.status.exit_codes))


@pytest.mark.long
def test_a_pass_that_cannot_be_read_proves_nothing(tmp_path: Path) -> None:
    """Half a pass is no pass."""
    command = (*GATE, "--confirm", "{job}/pass.json", "--", *TRAIN)
    ended = run(World(1, 1), tmp_path, command=command, files={"pass.json": passed()[:100]})

    assert 1 == len(ended.report.nodes)


@pytest.mark.long
def test_observe_mode_starts_whatever_was_seen(tmp_path: Path) -> None:
    """It records the refusal and starts all the same."""
    ended = run(World(1, 1, ("raises",)), tmp_path, command=(*GATE, "--observe", "--", *TRAIN))

    assert ({"node-0"}, {"node-0": 0}) == (trained(tmp_path), dict(ended.status.exit_codes))
    assert all("sabotage.raises" in said for said in failures(ended)) and failures(ended)
