"""The back end `hyperpod` over a fake Slurm: what HyperPod is asked, and that a node which it gives back stays ours."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tasks.machines.base import ActRefused, Holder, Rung, ServiceState
from tasks.machines.slurm import SlurmMachines
from tests.tasks.machines.slurm_answers import MARK, NAME, FakeNode, SlurmAnswers, fenced


def hyperpod(answers: SlurmAnswers) -> SlurmMachines:
    """The back end of a HyperPod cluster over the same Slurm."""
    return SlurmMachines(None, answers, Path("/nonexistent"), lambda _: None, hyperpod=True)


@pytest.mark.parametrize(
    ("rung", "reason"), [(Rung.REBOOT, "Action:Reboot"), (Rung.REPLACE, "Action:Replace")]
)
def test_hyperpod_repairs_for_an_exact_reason_in_a_reservation(rung: Rung, reason: str) -> None:
    """It ignores all others without a word, and gives the node back by itself. A person would type the same command."""
    answers = fenced(program="(null)")
    made = hyperpod(answers)
    words = made.act(rung, "n1", MARK)
    handed = ("scontrol", "update", "nodename=n1", "state=fail", f"reason={reason}")
    during = made.by_name()["n1"]

    assert ([argv[1] for argv in answers.argvs], answers.argvs[-1]) == (["create", "update"], handed)
    assert (NAME in answers.reservations, words) == (True, f"IDLE+FAIL {reason} [root]")
    assert shlex.split(made.command(rung, "n1", MARK)) == list(handed)
    assert (during.service, during.holder, during.owner) == (ServiceState.OUT, Holder.OTHER, "HyperPod")
    with pytest.raises(ActRefused, match="belongs to HyperPod"):
        made.act(rung, "n1", MARK)
    with pytest.raises(ActRefused, match="belongs to HyperPod"):
        made.open_retest("n1", (), MARK)


def test_a_node_that_hyperpod_gives_back_is_still_ours() -> None:
    """Whenever that is: also after a person was called, because nothing had come of the repair in time."""
    answers = fenced()
    made = hyperpod(answers)
    made.act(Rung.REPLACE, "n1", MARK)
    made.close_retest("n1", MARK)
    answers.nodes["n1"] = FakeNode(["IDLE"], "", "14:00:00")
    seen = made.by_name()["n1"]
    made.open_retest("n1", (), MARK)
    made.free("n1", MARK)

    assert (seen.service, seen.holder) == (ServiceState.TESTING, Holder.PRELAUNCH)
    assert [argv[1] for argv in answers.argvs] == ["create", "update", "delete"]
