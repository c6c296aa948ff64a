"""What Slurm prints of nodes, reservations and jobs, read from what 22.05 and 24.11 printed."""

from __future__ import annotations

import pytest

from tasks.machines.slurm_nodes import (
    SlurmNode,
    UnreadableNodes,
    config_value,
    flags_of,
    giver,
    jobs_of,
    nodes_of,
    reservations_of,
)
from tests.architecture.tree import ROOT
from tests.tasks.machines.slurm_answers import MARK

RECORDINGS = ROOT / "tests" / "recordings" / "slurm"
versions = pytest.mark.parametrize("version", ["22_05", "24_11"])


def recorded(name: str, version: str) -> str:
    """What a command printed."""
    return (RECORDINGS / f"{name}_{version}.txt").read_text()


def nodes(version: str) -> list[SlurmNode]:
    """The recorded node in one state after another."""
    return list(nodes_of(recorded("nodes", version)).values())


@versions
def test_states_marks_and_boot_times_of_a_node_from_fence_to_return(version: str) -> None:
    """The job ran in a maintenance reservation that Slurm had not added to the state yet, so reservations are asked for themselves.
    The mark survives what Slurm appends to it: through a reboot, and on a node that 24.11 shows as idle. A boot time moves with a
    reboot, and is unknown after a resume, until the node has registered again.
    """
    seen = nodes(version)

    assert [node.state for node in seen][:7] == [
        "IDLE", "IDLE+DRAIN", "IDLE+DRAIN+REBOOT_REQUESTED", "DOWN+DRAIN+REBOOT_ISSUED", "DOWN", "MIXED",
        "IDLE+MAINTENANCE+RESERVED",
    ]  # fmt: skip

    marks = [node.mark for node in seen]
    assert marks[:7] == [None, MARK, MARK, MARK, MARK, None, None]
    assert marks[7] == (MARK if version == "24_11" else None)

    booted = [node.booted_at for node in seen]
    assert booted[0] is not None and booted[4] is not None and booted[4] > booted[0] + 60
    assert booted[0] == booted[1] == booted[2] == booted[3]
    assert booted[7] is None


@versions
def test_reasons_are_read_with_who_gave_them_and_when(version: str) -> None:
    """Even if they look like other fields."""
    fail, foreign, dead = nodes(version)[8:11]

    assert (fail.reason, fail.reason_by, "FAIL" in fail.flags) == ("Action:Reboot", "root", True)
    assert foreign.reason == "jdoe: fan 3 [broken], State=IDLE"
    assert foreign.state == "IDLE+DRAIN+MAINTENANCE+RESERVED"
    assert foreign.reason_at is not None and fail.reason_at is not None and foreign.reason_at > fail.reason_at
    assert dead.reason == "Not responding" and {"NOT_RESPONDING", "DOWN"} <= set(dead.flags)


@versions
def test_reservations_and_jobs_are_read(version: str) -> None:
    """One is active, the other has not begun."""
    found = reservations_of(recorded("reservations", version))

    assert {name: (one.nodes, one.users, one.keeps_others_off) for name, one in found.items()} == {
        "prelaunch-gate-7f3a-d9a0c6c1f0ab": (frozenset(("n1", "n2")), "root", True),
        "fans": (frozenset(("n0",)), "daemon", False),
    }
    assert {node: len(jobs) for node, jobs in jobs_of(recorded("jobs", version)).items()} == {"n1": 1}
    assert reservations_of("No reservations in the system\n") == {}


@versions
def test_the_configuration_is_read(version: str) -> None:
    """What is not set is empty, what is not printed is no answer."""

    assert config_value(recorded("config", version), "RebootProgram").endswith("/reboot")
    assert config_value("RebootProgram           = (null)\n", "RebootProgram") == ""
    with pytest.raises(UnreadableNodes):
        config_value("", "RebootProgram")


@pytest.mark.parametrize(
    ("state", "flags"),
    [
        ("IDLE*", "IDLE NOT_RESPONDING"),
        ("down*+DRAIN", "DOWN NOT_RESPONDING DRAIN"),
        ("MIXED+CLOUD+PLANNED", "MIXED CLOUD PLANNED"),
        ("planned", "PLANNED"),
        ("idle-", "IDLE PLANNED"),
        ("maint", "IDLE MAINTENANCE"),
        ("maint$", "IDLE MAINTENANCE"),
        ("reboot^", "REBOOT_REQUESTED REBOOT_ISSUED"),
        ("allocated@", "ALLOCATED REBOOT_REQUESTED"),
        ("allocated+", "ALLOCATED COMPLETING"),
        ("idle!", "IDLE POWER_DOWN"),
        ("idle~", "IDLE POWERED_DOWN"),
        ("draining*", "MIXED DRAIN NOT_RESPONDING"),
        ("idle%#", "IDLE POWERING_DOWN POWERING_UP"),
    ],
)
def test_states_with_signs(state: str, flags: str) -> None:
    """As sinfo and scontrol write them."""
    assert flags_of(state) == frozenset(flags.split())


@pytest.mark.parametrize(
    ("reason", "who"),
    [
        ("Not responding", "Slurm"),
        ("Prolog error", "Slurm"),
        ("k8s: cordon: gpu", "CoreWeave SUNK"),
        ("Action:Replace", "HyperPod"),
        ("NVSentinel: Xid 79", "NVSentinel"),
        ("[node_problem] dcgm", "Soperator"),
        ("prelaunch: HARDWARE: gpu.ecc: 3 errors", "Prelaunch's health check"),
        ("fan", "user jdoe"),
    ],
)
def test_reason_giver_is_a_known_system_or_the_user(reason: str, who: str) -> None:
    """A system that is known by its words, or else the user."""
    assert giver(reason, "jdoe") == who


LINE = "NodeName=n1 ActiveFeatures={} State=IDLE Partitions=gpu BootTime=2026-11-25T12:43:38"


@pytest.mark.parametrize(
    ("features", "kind"),
    [
        ("(null)", ""),
        ("static,p5.48xlarge,cr1", "p5.48xlarge"),
        ("ml.p5en.48xlarge", "ml.p5en.48xlarge"),
        ("dynamic,u7i-12tb.224xlarge", "u7i-12tb.224xlarge"),
        ("rack.3,efa", ""),
    ],
)
def test_an_instance_type_is_a_feature(features: str, kind: str) -> None:
    """ParallelCluster gives its nodes such features; 24.11 has fields of its own, which count first."""
    (node,) = nodes_of(LINE.format(features)).values()
    (newer,) = nodes_of(LINE.format(features) + " InstanceId=i-0abc InstanceType=p5.4xlarge").values()

    assert (node.instance_type, node.instance_id) == (kind, "")
    assert (newer.instance_type, newer.instance_id) == ("p5.4xlarge", "i-0abc")


@pytest.mark.parametrize("text", ["slurm_load_node error: x", "NodeName=n1", "State=IDLE NodeName=n1"])
def test_slurm_node_listing_that_cannot_be_read_is_refused(text: str) -> None:
    """A node that is not understood is never left out."""
    with pytest.raises(UnreadableNodes):
        nodes_of(f"{LINE.format('(null)')}\n{text}\n")
    with pytest.raises(UnreadableNodes):
        reservations_of(text)


@pytest.mark.parametrize("text", ["12 n1", "12|n[1"])
def test_slurm_job_listing_that_cannot_be_read_is_refused(text: str) -> None:
    """A job that is not understood could run anywhere."""
    with pytest.raises(UnreadableNodes):
        jobs_of(text)
