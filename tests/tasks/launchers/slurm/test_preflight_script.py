"""What a node says in the preflight: that the training script, or the interface, is not there."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tasks.launchers.base import JobSpec, PreflightResult, Work
from tasks.launchers.preflight import SUBJECT
from tasks.launchers.slurm.options import SlurmOptions
from tests.tasks.launchers.slurm.answers import HOUR, SEEN, Look
from tests.tasks.launchers.slurm.test_preflight import WRONG

BUSY = "srun: error: Unable to allocate resources: Requested nodes are busy"


def training(script: object) -> JobSpec:
    """The training's job."""
    return replace(HOUR, work=Work.CONFIRM, script=str(script))


@pytest.mark.parametrize(("answer", "wrong"), [("script False", True), ("script True", False)])
def test_a_node_says_whether_it_has_the_script(look: Look, answer: str, wrong: bool) -> None:
    """The node's answer counts, whatever this machine has."""
    found = look(training("/opt/train.py"), seen=f"{SEEN}{answer}\n")

    assert (SUBJECT in found) is wrong
    if wrong:
        assert found[SUBJECT].result is PreflightResult.WRONG
        assert found[SUBJECT].message == "'/opt/train.py': node n0 has no such file"


def test_the_script_of_a_container_is_the_containers(look: Look) -> None:
    """A node cannot say what an image has."""
    options = SlurmOptions(container_image="/images/a.sqsh")

    assert SUBJECT not in look(training("/opt/train.py"), options, busy=BUSY)


def test_an_interface_that_a_node_lacks_is_wrong(look: Look) -> None:
    """Else each collective fails on it, and gloo's error names no setting."""
    seen = SEEN.replace("writes True", "writes True\ninterface False")
    found = look(seen=seen, options=SlurmOptions(interface="eth77"))["interface"]

    assert (WRONG, "node n0 has no network interface eth77") == (found.result, found.message)
    assert "interface in [cluster.options]" in found.remedy
