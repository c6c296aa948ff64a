"""What HyperPod and Slurm show together, what became of a repair, and what a person would type."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

import jmespath  # type: ignore[import-untyped]
import pytest

from tasks.machines.base import (
    ActRefused,
    EngineSilent,
    Holder,
    Machine,
    Machines,
    Rung,
    Service,
    Settled,
)
from tasks.machines.hyperpod import HyperPodMachine, HyperPodMachines
from tasks.machines.hyperpod_api import Status
from tests.fakes.hyperpod import CLUSTER, CLUSTER_ID, KIND, REGION, Node, instance_id
from tests.tasks.machines.hyperpod_world import BRIEF, HOSTS, MARK, NODE, World, world
from tests.tasks.machines.slurm_fake import BOOTED, FakeSlurm


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    with world(monkeypatch) as made:
        yield made


def test_it_is_a_back_end() -> None:
    """mypy compares it with the Protocol; it repairs what Slurm repairs, and reboots and replaces."""
    machines: Machines = HyperPodMachines(CLUSTER, REGION, FakeSlurm.of())

    assert ("hyperpod", Rung.FENCE) == (machines.name, machines.fence_is)
    assert frozenset({Rung.RESET, Rung.REBOOT, Rung.REPLACE}) == machines.rungs


def test_a_healthy_node_is_as_slurm_shows_it_with_its_instance(here: World) -> None:
    """The host name of the instance is the name of the node."""
    seen = here.machines.look()

    assert (
        HyperPodMachine(
            NODE,
            Service.SERVING,
            words="idle; HyperPod: Running",
            booted_at=BOOTED,
            instance_id=instance_id(1),
            instance_type=KIND,
            status=Status.RUNNING,
            group="worker",
            cluster_id=CLUSTER_ID,
        )
        == (seen[NODE])
    )
    assert set(HOSTS) == set(seen)


def test_a_mark_and_the_jobs_of_slurm_stay(here: World) -> None:
    """HyperPod knows neither."""
    here.fenced()
    here.slurm.change(NODE, jobs=("17",))
    seen = here.machines.look()[NODE]

    assert (Service.OUT, Holder.PRELAUNCH, MARK, ("17",)) == (seen.service, seen.holder, seen.mark, seen.jobs)


def test_all_pages_are_read(here: World) -> None:
    here.api.page = 1
    ids = [machine.instance_id for machine in here.machines.look().values()]

    assert [instance_id(number) for number in range(3)] == ids
    assert 3 == [name for name, _ in here.api.calls].count("ListClusterNodes")


def test_a_list_that_never_ends_is_given_up(here: World) -> None:
    """The same token came twice."""
    here.api.page, here.api.repeats_page = 1, True

    with pytest.raises(EngineSilent, match="same page twice"):
        here.machines.look()


def test_a_host_name_that_the_list_lacks_is_asked_for_once(here: World) -> None:
    """PrivateDnsHostname is optional in the list, and an instance keeps its host name."""
    here.api.node(NODE).listed_host = False

    assert [instance_id(1)] * 2 == [here.machines.look()[NODE].instance_id for _ in range(2)]
    assert 1 == [name for name, _ in here.api.calls].count("DescribeClusterNode")


def test_an_instance_that_ends_between_two_questions_has_no_name(here: World) -> None:
    """It is not listed any more, so its node has no instance."""
    here.api.node(NODE).listed_host = False
    here.api.refused["DescribeClusterNode"] = "ResourceNotFound"

    assert "" == here.machines.look()[NODE].instance_id


def test_a_host_name_that_is_not_told_is_silence(here: World) -> None:
    """Without it a node would look as if it had no instance."""
    here.api.node(NODE).listed_host = False
    here.api.refused["DescribeClusterNode"] = "AccessDeniedException"

    with pytest.raises(EngineSilent, match="DescribeClusterNode"):
        here.machines.look()


def test_a_node_without_an_instance_is_unknown(here: World) -> None:
    """Slurm keeps the name while HyperPod replaces the instance."""
    here.api.nodes.remove(here.api.node(NODE))
    seen = here.machines.look()[NODE]

    assert (Service.UNKNOWN, "", "idle; HyperPod lists 0 instances of this name") == (
        seen.service,
        seen.instance_id,
        seen.words,
    )


def test_an_instance_that_is_leaving_does_not_hide_its_successor(here: World) -> None:
    """Both have the same host name for a while."""
    here.api.node(NODE).status = "ShuttingDown"
    here.api.nodes.append(Node(NODE, instance_id(9)))

    assert (instance_id(9), Status.RUNNING) == (
        (seen := here.machines.look()[NODE]).instance_id,
        seen.status,
    )


def test_two_instances_of_one_name_are_none(here: World) -> None:
    """Which of them a reboot would hit is not known."""
    here.api.nodes.append(Node(NODE, instance_id(9)))
    seen = here.machines.look()[NODE]

    assert ("", Service.UNKNOWN) == (seen.instance_id, seen.service)


@pytest.mark.parametrize(
    ("status", "recovery", "service", "holder", "who"),
    [
        ("ShuttingDown", "Automatic", Service.CHANGING, Holder.OTHER, "HyperPod's node recovery"),
        ("Pending", "Automatic", Service.CHANGING, Holder.OTHER, "HyperPod's node recovery"),
        ("SystemUpdating", "None", Service.CHANGING, Holder.OTHER, "somebody who uses HyperPod's API"),
        ("DeepHealthCheckInProgress", "None", Service.CHANGING, Holder.OTHER, "HyperPod's deep health check"),
        ("Failure", "Automatic", Service.UNKNOWN, Holder.NOBODY, ""),
        ("NotFound", "Automatic", Service.GONE, Holder.NOBODY, ""),
        ("SomethingNew", "Automatic", Service.UNKNOWN, Holder.NOBODY, ""),
    ],
)
def test_who_has_a_node_that_hyperpod_changes(
    here: World, status: str, recovery: str, service: Service, holder: Holder, who: str
) -> None:
    """A node that Prelaunch did not fence is repaired by somebody else."""
    here.api.recovery, here.api.node(NODE).status = recovery, status
    seen = here.machines.look()[NODE]

    assert (service, holder, who) == (seen.service, seen.holder, seen.who)


def test_a_fenced_node_stays_ours_while_it_changes(here: World) -> None:
    here.fenced()
    here.api.node(NODE).status = "Pending"
    seen = here.machines.look()[NODE]

    assert (Service.CHANGING, Holder.PRELAUNCH, MARK) == (seen.service, seen.holder, seen.mark)


def test_what_somebody_drained_in_slurm_is_theirs(here: World) -> None:
    here.slurm.drained_by(NODE, "jdoe")

    assert "jdoe" == here.machines.look()[NODE].who


def test_a_cluster_on_eks_is_not_looked_at(here: World) -> None:
    """Its nodes are Kubernetes', and a reason in Slurm means nothing there."""
    here.api.orchestrator = "Eks"

    with pytest.raises(EngineSilent, match="orchestrated by Amazon EKS"):
        here.machines.look()


@pytest.mark.parametrize("operation", ["DescribeCluster", "ListClusterNodes"])
def test_a_question_that_is_denied_names_the_policy(here: World, operation: str) -> None:
    """Of the identity that repairs, which is not the gate's."""
    here.api.refused[operation] = "AccessDeniedException"

    with pytest.raises(
        EngineSilent,
        match=rf"Allow sagemaker:{operation}: attach .*orchestrator-remediate\.json .* not the gate's",
    ):
        here.machines.look()


def test_a_question_that_is_throttled_for_too_long_is_silence(here: World) -> None:
    here.api.refused["ListClusterNodes"] = "ThrottlingException"

    with pytest.raises(EngineSilent, match="ThrottlingException"):
        here.limited(BRIEF).look()


def test_an_unknown_cluster_is_named(here: World) -> None:
    other = HyperPodMachines("other", REGION, here.slurm, clients=here.machines.api.clients)

    with pytest.raises(EngineSilent, match="Correct the name and the region"):
        other.look()


def test_slurms_silence_is_silence(here: World) -> None:
    here.slurm.silent = True

    with pytest.raises(EngineSilent, match="slurmctld"):
        here.machines.look()


BEFORE = Machine(NODE, Service.OUT, booted_at=BOOTED, instance_id="i-old")


def now(status: Status, instance: str = "i-old", booted_at: float | None = BOOTED) -> HyperPodMachine:
    """The node later."""
    return HyperPodMachine(NODE, Service.OUT, booted_at=booted_at, instance_id=instance, status=status)


@pytest.mark.parametrize(
    ("rung", "after", "expected"),
    [
        (Rung.REBOOT, now(Status.RUNNING), Settled.PENDING),
        (Rung.REBOOT, now(Status.RUNNING, booted_at=BOOTED + 2), Settled.PENDING),
        (Rung.REBOOT, now(Status.RUNNING, booted_at=BOOTED - 900), Settled.PENDING),
        (Rung.REBOOT, now(Status.RUNNING, booted_at=None), Settled.PENDING),
        (Rung.REBOOT, now(Status.SYSTEM_UPDATING, booted_at=BOOTED + 90), Settled.PENDING),
        (Rung.REBOOT, now(Status.RUNNING, booted_at=BOOTED + 90), Settled.DONE),
        (Rung.REBOOT, now(Status.FAILURE), Settled.FAILED),
        (Rung.REBOOT, now(Status.RUNNING, "i-new", BOOTED + 90), Settled.FAILED),
        (Rung.REPLACE, now(Status.RUNNING, booted_at=BOOTED + 90), Settled.PENDING),
        (Rung.REPLACE, now(Status.PENDING, "i-new"), Settled.PENDING),
        (Rung.REPLACE, now(Status.DEEP_HEALTH_CHECK, "i-new"), Settled.PENDING),
        (Rung.REPLACE, now(Status.UNKNOWN, ""), Settled.PENDING),
        (Rung.REPLACE, now(Status.RUNNING, ""), Settled.PENDING),
        (Rung.REPLACE, now(Status.FAILURE, "i-new"), Settled.FAILED),
        (Rung.REPLACE, now(Status.RUNNING, "i-new"), Settled.DONE),
    ],
)
def test_a_repair_is_done_only_where_it_shows(rung: Rung, after: Machine, expected: Settled) -> None:
    """A reboot by a later boot time of the same instance, a replacement by another instance that runs."""
    machines = HyperPodMachines(CLUSTER, REGION, FakeSlurm.of())

    assert expected is machines.settled(rung, BEFORE, after)


def test_a_replacement_of_an_unknown_instance_is_never_done() -> None:
    """Any instance would be another one."""
    machines = HyperPodMachines(CLUSTER, REGION, FakeSlurm.of())
    before = Machine(NODE, Service.OUT, booted_at=BOOTED)

    assert Settled.PENDING is machines.settled(Rung.REPLACE, before, now(Status.RUNNING, "i-new"))


def test_other_acts_are_settled_by_slurm() -> None:
    slurm = FakeSlurm.of()

    assert Settled.DONE is HyperPodMachines(CLUSTER, REGION, slurm).settled(Rung.RESET, BEFORE, BEFORE)
    assert [("settled", Rung.RESET)] == slurm.acts


def test_the_command_names_the_instance_of_that_node_alone(here: World) -> None:
    """ip-10-0-0-1 is the beginning of ip-10-0-0-11; an instance without a host name does not break the query."""
    line = here.machines.command(Rung.REBOOT, "ip-10-0-0-1", MARK)
    words = shlex.split(line.replace('"$(', "").replace(')"', ""))
    rows = [Node(host, f"i-{host}").row(True) for host in ("ip-10-0-0-11", "ip-10-0-0-1")]
    rows.append(Node("ip-10-0-0-7", "i-7", listed_host=False).row(False))

    begin = f"aws sagemaker batch-reboot-cluster-nodes --cluster-name {CLUSTER} --region {REGION} --node-ids "

    assert line.startswith(f'{begin}"$(aws sagemaker list-cluster-nodes --cluster-name {CLUSTER} ')
    query = words[words.index("--query") + 1]
    assert ["i-ip-10-0-0-1"] == jmespath.search(query, {"ClusterNodeSummaries": rows})


def test_a_hostile_name_stays_a_name(here: World) -> None:
    """It is quoted for the query and for the shell."""
    name = "x'] || `rm -rf ~` $(reboot)"
    line = here.machines.command(Rung.REPLACE, name, MARK)
    words = shlex.split(line.partition('"$(')[2].removesuffix(')"'))
    query = words[words.index("--query") + 1]

    rows = [{"PrivateDnsHostname": f"{name}.example", "InstanceId": "i-1"}]
    assert ["i-1"] == jmespath.search(query, {"ClusterNodeSummaries": rows})


def test_with_reasons_the_command_is_slurms(here: World) -> None:
    assert [
        f"scontrol update nodename={NODE} state=fail reason=Action:Reboot",
        f"scontrol update nodename={NODE} state=fail reason=Action:Replace",
        f"slurm fence {NODE}",
    ] == [here.by_reason.command(rung, NODE, MARK) for rung in (Rung.REBOOT, Rung.REPLACE, Rung.FENCE)]


def test_a_shell_is_a_session_on_the_instance(here: World) -> None:
    """Without a known instance there is none."""
    shells = [here.machines.shell(machine) for machine in (here.machines.look()[NODE], BEFORE)]

    assert [
        f"aws ssm start-session --target sagemaker-cluster:{CLUSTER_ID}_worker-{instance_id(1)} --region {REGION}",
        "",
    ] == shells


def test_a_retest_and_a_return_need_an_instance_that_runs(here: World) -> None:
    """A node serves again, or is tested, only when HyperPod is done with it; the end of a re-test needs nothing."""
    here.fenced()
    here.api.node(NODE).status = "SystemUpdating"

    with pytest.raises(ActRefused, match="not Running"):
        here.machines.open_retest(NODE, [HOSTS[0]], MARK)
    with pytest.raises(ActRefused, match="not Running"):
        here.machines.free(NODE, MARK)
    here.machines.close_retest(NODE, MARK)
    assert [("close", NODE)] == here.slurm.acts


def test_a_partner_must_run_as_well(here: World) -> None:
    here.fenced()
    here.api.node(HOSTS[0]).status = "Pending"

    with pytest.raises(ActRefused, match=HOSTS[0]):
        here.machines.open_retest(NODE, [HOSTS[0]], MARK)


def test_a_retest_and_a_return_are_slurms(here: World) -> None:
    here.fenced()

    assert (NODE, HOSTS[0]) == here.machines.open_retest(NODE, [HOSTS[0]], MARK).nodes
    assert "idle" == here.machines.free(NODE, MARK)
    assert [("open", NODE, (HOSTS[0],)), (Rung.RETURN, NODE)] == here.slurm.acts
