"""The gate inside a job: the command starts on every host or on none."""

from __future__ import annotations

import dataclasses
import os
import signal
from dataclasses import dataclass
from pathlib import Path

import pytest

from checks import bundle as bundles
from checks.bundle import Pass, PassedNode
from checks.documents.answer import ASKING
from checks.model import SCHEMA_VERSION, Cause
from checks.policy import CheckPolicy, OnWarn, Policy, Rule
from checks.probes.host.system import identity_of_node
from prelaunch_sabotage import FAULTY_RANK
from tasks.launchers.base import JobState, Launcher
from tests.survival import few_checks, proc
from tests.survival.world import Ended, World, run
from tests.waiting import until

pytestmark = pytest.mark.usefixtures("least_checks")
TRAINING = "import os, pathlib; pathlib.Path(os.environ['PRELAUNCH_NODE'] + '-trained').touch()"
TRAIN = ("{python}", "-c", TRAINING)
GATE = ("{python}", "-m", "checks", "gate", "--bundle", "{job}/bundle.json", "--out", "{out}")
CONFIRMED = (*GATE, "--confirm", "{job}/pass.json", "--", *TRAIN)
NAMES = ("node-0", "node-1")


@dataclass(frozen=True)
class Unsure(World):
    """Whatever its machines are, a person is asked."""

    @property
    def policy(self) -> Policy:
        """One warning that nothing can avoid."""
        made = super().policy
        rule = Rule("cpus", "the test", warn_below=1e6, level="WARN", remedy="none")
        line = dataclasses.replace(made.checks["system.resources"], rules=(rule,))
        return dataclasses.replace(made, on_warn=OnWarn.ASK, checks={**made.checks, "system.resources": line})


@dataclass(frozen=True)
class Wrong(World):
    """Whatever its ranks add, the policy says another sum."""

    @property
    def policy(self) -> Policy:
        """One rule that no machine can meet."""
        made = super().policy
        line = CheckPolicy(rules=(Rule("total", "the test", equals=4951),))
        return dataclasses.replace(made, checks={**made.checks, "site.adds": line})


def trained(folder: Path) -> set[str]:
    """The nodes whose command ran."""
    return {path.name.removesuffix("-trained") for path in folder.rglob("*-trained")}


def failures(ended: Ended) -> set[str]:
    """What the failure files say."""
    return {path.read_text() for path in ended.fetched.rglob("failure/*")}


def passed(**changed: str) -> bytes:
    """A pass for this machine, as it is or as it was."""
    identity = {**identity_of_node(), **changed}
    nodes = tuple(PassedNode(name, rank, identity) for rank, name in enumerate(NAMES))
    return bundles.dump(Pass(SCHEMA_VERSION, "earlier", "digest", "2026-01-01T00:00:00Z", nodes))


def test_no_host_starts_after_a_no_go(tmp_path: Path) -> None:
    """What a rank added is not what the policy says: exit 1 on both hosts. That wrong sums are hardware is in the corpus."""
    ended = run(Wrong(2, 1, few=True), tmp_path, command=(*GATE, "--", *TRAIN))

    assert (set(), {"node-0": 1, "node-1": 1}) == (trained(tmp_path), dict(ended.status.exit_codes))
    assert {"site.adds"} == {finding.check for finding in ended.fails()}
    assert all("site.adds" in said for said in failures(ended)) and failures(ended)


TRAIN_PLACED = "import os, pathlib, sys; pathlib.Path('-'.join(sys.argv[1:]) + '-trained').touch()"
PLACED = ("{python}", "-c", TRAIN_PLACED, "{node_rank}", "{nodes}")


@pytest.mark.parametrize(
    ("sick", "placed", "left_out"),
    [((), {"0-2", "1-2"}, "node-2"), (("node-0",), {"0-2", "1-2"}, "node-0")],
    ids=["one too many", "the first one broken"],
)
def test_spares_train_in_place_of_a_node_that_failed(
    tmp_path: Path, sick: tuple[str, ...], placed: set[str], left_out: str
) -> None:
    """Two of three nodes train: those that passed, or that pass again without the one that failed. The other one ends well."""
    (tmp_path / "sick").mkdir()
    for name in sick:
        (tmp_path / "sick" / name).touch()
    world = World(3, 1, few=True, spares=1, environment={few_checks.SICK: str(tmp_path / "sick")})

    ended = run(world, tmp_path, command=(*GATE, "--", *PLACED))
    started = {path.name for path in ended.fetched.rglob("started/*")}

    assert placed == trained(tmp_path)
    assert {*(f"node-{rank}" for rank in range(3))} - {left_out} == started
    assert set() == failures(ended) and set(ended.status.exit_codes.values()) == {0}


@pytest.mark.long
@pytest.mark.parametrize(("dies_in", "placed"), [(1, {"0-2", "1-2"}), (2, set())], ids=["at first", "then"])
def test_a_node_that_dies_is_left_out_once(tmp_path: Path, dies_in: int, placed: set[str]) -> None:
    """It is the first node, which decides and keeps the notes. If one of those that go on dies, none starts."""
    (tmp_path / "sick").mkdir()
    if dies_in > 1:
        (tmp_path / "sick" / "node-2").touch()
    sick = {few_checks.SICK: str(tmp_path / "sick")}
    world = World(3, 1, few=True, spares=1, network_s=3.0, environment=sick)

    def end(launcher: Launcher, name: str) -> None:
        reports = f"work/jobs/{name}/out/*/nodes/node-0.json"
        until(lambda: len(list(tmp_path.glob(reports))) == dies_in, "the node reports", 60)
        own = {b"PRELAUNCH_NODE=node-0", os.fsencode(f"{few_checks.SICK}={tmp_path}/sick")}
        for pid in [pid for pid in proc.pids() if own <= {*proc.environment(pid)}]:
            proc.send(pid, signal.SIGKILL)

    ended = run(world, tmp_path, end, command=(*GATE, "--", *PLACED))

    assert placed == trained(tmp_path)
    assert (JobState.SUCCEEDED if placed else JobState.FAILED) is ended.status.state, ended.status


@pytest.mark.long
def test_no_host_starts_on_wrong_sums(tmp_path: Path) -> None:
    """One rank lies: exit 1 on both hosts, and it is named as hardware, however fast it is."""
    ended = run(World(2, 1, ("wrong_sums",)), tmp_path, command=(*GATE, "--", *TRAIN))

    blamed = {f.subject for f in ended.fails(Cause.HARDWARE) if f.check == "collective.all_reduce"}

    assert (set(), {"node-0": 1, "node-1": 1}) == (trained(tmp_path), dict(ended.status.exit_codes))
    assert blamed == {f"node-1/rank-{FAULTY_RANK}"}


@pytest.mark.long
def test_observe_mode_starts_whatever_was_seen(tmp_path: Path) -> None:
    """It records the refusal and starts all the same."""
    ended = run(World(1, 1, ("raises",), few=True), tmp_path, command=(*GATE, "--observe", "--", *TRAIN))

    assert ({"node-0"}, {"node-0": 0}) == (trained(tmp_path), dict(ended.status.exit_codes))
    assert all("sabotage.raises" in said for said in failures(ended)) and failures(ended)


def test_a_hold_that_is_ended_leaves_why(tmp_path: Path) -> None:
    """SIGTERM while a person thinks: no host starts, and the reason outlives it."""

    def end(launcher: Launcher, name: str) -> None:
        until(lambda: list(tmp_path.rglob(f"{ASKING}/node-0")), "the node asks", 90)
        launcher.cancel(name)

    ended = run(Unsure(1, 1, few=True), tmp_path, end, command=(*GATE, "--ask-s", "600", "--", *TRAIN))

    assert (set(), JobState.CANCELLED) == (trained(tmp_path), ended.status.state)
    assert all("SIGTERM" in said for said in failures(ended)) and failures(ended)


def test_the_proven_machines_start_without_checking_again(tmp_path: Path) -> None:
    """Equal identities on every host are enough."""
    ended = run(World(2, 1, few=True), tmp_path, command=CONFIRMED, files={"pass.json": passed()})

    assert (set(NAMES), ()) == (trained(tmp_path), ended.report.nodes)


def test_other_machines_are_checked_again_in_place(tmp_path: Path) -> None:
    """A host that was rebooted since is not the host that passed. Three of the five decide, and the command starts on all."""
    rebooted, names = passed(boot_id="another"), {f"node-{rank}" for rank in range(5)}
    ended = run(World(5, 1, few=True), tmp_path, command=CONFIRMED, files={"pass.json": rebooted})

    assert (names, dict.fromkeys(names, 0)) == (trained(tmp_path), dict(ended.status.exit_codes))
    assert (0, 5) == (ended.exit_code, len(ended.report.nodes))
