"""Repairs on HyperPod: each is requested once, of the right instance, and never of a node that somebody else has."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from unittest.mock import patch

import pytest

from tasks.launchers.sagemaker.api import Clients
from tasks.machines.base import ActAmbiguous, ActRefused, EngineSilent, Machine, Mark, Rung, Service, Settled
from tasks.machines.hyperpod import HyperPodMachines
from tasks.machines.hyperpod_api import HyperPodApi
from tests.fakes.hyperpod import CLUSTER, REBOOT, REGION, REPLACE, Answer, Fate, Node, instance_id
from tests.tasks.machines.hyperpod_world import HOSTS, MARK, NODE, QUICK, World, world
from tests.tasks.machines.slurm_fake import BOOTED, FakeSlurm

acts = pytest.mark.parametrize(("rung", "operation"), [(Rung.REBOOT, REBOOT), (Rung.REPLACE, REPLACE)])


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    with world(monkeypatch) as made:
        made.fenced()
        yield made


def settled(here: World, rung: Rung) -> list[Settled]:
    """What each look shows until HyperPod is done, compared with what an act's record keeps of the machine."""
    seen = here.machines.look()[NODE]
    before = Machine(NODE, Service.OUT, booted_at=seen.booted_at, instance_id=instance_id(1))
    shown = []
    for _ in range(5):
        shown.append(here.machines.settled(rung, before, here.machines.look()[NODE]))
        here.api.advance()
    return shown


@acts
def test_a_repair_is_one_call_for_one_instance(here: World, rung: Rung, operation: str) -> None:
    said = here.machines.act(rung, NODE, MARK)

    assert [(operation, [instance_id(1)])] == here.api.repairs()
    assert f"sagemaker:{operation} was accepted for {instance_id(1)}" == said


def test_a_replacement_ends_with_another_instance_under_the_same_name(here: World) -> None:
    """And the fence stays."""
    here.machines.act(Rung.REPLACE, NODE, MARK)

    assert [Settled.PENDING] * 4 + [Settled.DONE] == settled(here, Rung.REPLACE)
    assert MARK == here.machines.look()[NODE].mark


def test_a_reboot_ends_with_a_later_boot_time(here: World) -> None:
    here.api.happened = lambda operation, host: here.slurm.change(host, booted_at=BOOTED + 120)
    here.machines.act(Rung.REBOOT, NODE, MARK)

    assert [Settled.PENDING] * 2 + [Settled.DONE] * 3 == settled(here, Rung.REBOOT)


@pytest.mark.parametrize(
    ("rung", "fate", "last"),
    [
        (Rung.REBOOT, Fate.DONE, Settled.PENDING),  # the boot time is the same: a reboot that was none
        (Rung.REBOOT, Fate.NEVER_DONE, Settled.PENDING),
        (Rung.REBOOT, Fate.FAILURE, Settled.FAILED),
        (Rung.REPLACE, Fate.NEVER_DONE, Settled.PENDING),
        (Rung.REPLACE, Fate.SAME_INSTANCE, Settled.PENDING),
        (Rung.REPLACE, Fate.FAILURE, Settled.FAILED),
    ],
)
def test_a_repair_that_did_not_happen_is_not_done(here: World, rung: Rung, fate: Fate, last: Settled) -> None:
    """Whatever HyperPod accepted."""
    here.api.fates[NODE] = fate
    here.machines.act(rung, NODE, MARK)
    shown = settled(here, rung)

    assert (last, False) == (shown[-1], Settled.DONE in shown)


@acts
@pytest.mark.parametrize("answer", [answer for answer in Answer if answer is not Answer.GIVEN])
def test_a_request_that_may_have_been_taken_is_ambiguous_and_not_repeated(
    here: World, rung: Rung, operation: str, answer: Answer
) -> None:
    """HyperPod has no client token: a second request could repair twice."""
    here.api.answers[NODE] = answer

    machines = here.limited(QUICK) if answer is Answer.NEVER else here.machines

    with pytest.raises(ActAmbiguous, match="not repeated"):
        machines.act(rung, NODE, MARK)
    assert [(operation, [instance_id(1)])] == here.api.repairs()


@acts
@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("InstanceIdNotFound", ActRefused),
        ("InvalidInstanceStatus", ActRefused),
        ("InstanceIdInUse", ActRefused),
        ("InternalServerError", ActAmbiguous),
        ("SomethingNew", ActAmbiguous),
    ],
)
def test_an_error_of_one_node(
    here: World, rung: Rung, operation: str, code: str, error: type[Exception]
) -> None:
    """Three codes say that nothing was begun, for the others nobody knows. AWS's words are in the message."""
    here.api.errors[NODE] = code

    with pytest.raises(error, match=f"AWS answered {code} for {instance_id(1)}: made up for {code}"):
        here.machines.act(rung, NODE, MARK)
    assert 1 == len(here.api.repairs())


@acts
def test_a_throttled_request_was_refused(here: World, rung: Rung, operation: str) -> None:
    """AWS had not looked at it; it is left to the caller whether to request it again."""
    here.api.refused[operation] = "ThrottlingException"

    with pytest.raises(ActRefused, match=r"nothing was changed\. Try again"):
        here.machines.act(rung, NODE, MARK)
    assert 1 == [name for name, _ in here.api.calls].count(operation)


@acts
@pytest.mark.parametrize("code", ["OperationAborted", "RequestTimeout", "TransactionInProgressException"])
def test_a_refusal_that_may_pass_and_is_no_throttling_is_ambiguous(
    here: World, rung: Rung, operation: str, code: str
) -> None:
    """It does not say that the request was refused before anything was done."""
    here.api.refused[operation] = code

    with pytest.raises(ActAmbiguous, match=f"{code}.*not repeated"):
        here.machines.act(rung, NODE, MARK)


@acts
def test_a_request_that_is_not_allowed_names_the_policy(here: World, rung: Rung, operation: str) -> None:
    here.api.refused[operation] = "AccessDeniedException"

    with pytest.raises(ActRefused, match=rf"Allow sagemaker:{operation}: .*orchestrator-remediate\.json"):
        here.machines.act(rung, NODE, MARK)


@pytest.mark.parametrize("reachable", ["closed port", "unknown name", "closed proxy"])
def test_without_a_connection_nothing_was_requested(
    here: World, monkeypatch: pytest.MonkeyPatch, reachable: str
) -> None:
    """A refused connection, a name that nobody resolves, and a proxy that is down."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
        url = f"http://127.0.0.1:{port}" if reachable == "closed port" else "http://nowhere.invalid"
        monkeypatch.setenv("AWS_ENDPOINT_URL", url)
        monkeypatch.setenv("NO_PROXY", "" if reachable == "closed proxy" else "*")
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{port}")
        api = HyperPodApi(CLUSTER, REGION, Clients(REGION, QUICK, attempts=1))
        with pytest.raises(EngineSilent, match="nothing was requested"):
            api.change(Rung.REBOOT, instance_id(1))


def test_without_credentials_nothing_was_requested(here: World, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
    api = HyperPodApi(CLUSTER, REGION, Clients(REGION, QUICK, attempts=1))

    with pytest.raises(ActRefused, match="no AWS credentials"):
        api.change(Rung.REBOOT, instance_id(1))
    assert [] == here.api.repairs()


def test_what_is_no_fault_of_aws_is_raised_as_it_is(here: World) -> None:
    """A bug must not look like an act that may have happened."""
    client = here.machines.api.clients.sagemaker
    with (
        patch.object(type(client), "batch_reboot_cluster_nodes", side_effect=KeyError("bug")),
        pytest.raises(KeyError),
    ):
        here.machines.act(Rung.REBOOT, NODE, MARK)


def test_clients_that_repeat_calls_are_refused() -> None:
    """botocore's own retries would send a reboot three times."""
    with pytest.raises(ValueError, match="repeat a reboot"):
        HyperPodApi(CLUSTER, REGION, Clients(REGION))


@acts
def test_a_second_request_meets_the_first(here: World, rung: Rung, operation: str) -> None:
    """The instance is in use, whoever asks."""
    here.machines.act(rung, NODE, MARK)

    with pytest.raises(ActRefused, match="InstanceIdInUse"):
        here.machines.act(rung, NODE, MARK)


def spoil(here: World, how: str) -> None:
    """Make the fenced node one that must not be repaired."""
    node = here.api.node(NODE)
    if how == "not fenced":
        here.slurm.free(NODE, MARK)
    elif how == "another's":
        here.slurm.drained_by(NODE, "jdoe")
    elif how == "another gate's":
        here.slurm.change(NODE, mark=Mark("other", "gpu.ecc"))
    elif how == "runs jobs":
        here.slurm.change(NODE, jobs=("17",))
    elif how == "serves":
        here.slurm.change(NODE, service=Service.SERVING)
    elif how == "changing":
        node.status = "SystemUpdating"
    elif how == "failed":
        node.status = "Failure"
    elif how == "no instance":
        here.api.nodes.remove(node)
    elif how == "two instances":
        here.api.nodes.append(Node(NODE, instance_id(9)))
    elif how == "controller":
        node.group = "controller"
    elif how == "not in Slurm":
        del here.slurm.nodes[NODE]
    else:
        raise AssertionError(how)


# -> what the refusal says
SPOILS = {
    "not fenced": "held by nobody",
    "another's": "held by jdoe",
    "another gate's": "held by the mark 'prelaunch: other gpu.ecc'",
    "runs jobs": r"runs jobs \(17\)",
    "serves": "not out of service",
    "changing": r"not Running \(.*SystemUpdating\)",
    "failed": r"not Running \(.*Failure\)",
    "no instance": "cannot be matched with one instance",
    "two instances": "cannot be matched with one instance",
    "controller": "Only a person may repair them",
    "not in Slurm": "knows no node",
}


@pytest.mark.parametrize("rung", [Rung.REBOOT, Rung.REPLACE])
@pytest.mark.parametrize("how", SPOILS)
def test_a_node_that_is_not_ours_to_repair_is_left(here: World, rung: Rung, how: str) -> None:
    """It is looked at again before each act, and nothing is requested, neither of AWS nor of Slurm."""
    spoil(here, how)
    here.slurm.acts.clear()

    for machines in (here.machines, here.by_reason):
        with pytest.raises(ActRefused, match=SPOILS[how]):
            machines.act(rung, NODE, MARK)
    assert ([], []) == (here.api.repairs(), here.slurm.acts)


@pytest.mark.parametrize("rung", [Rung.FENCE, Rung.RECHECK, Rung.RETURN, Rung.PAGE])
def test_what_is_no_repair_is_refused(here: World, rung: Rung) -> None:
    with pytest.raises(ActRefused, match="no repair"):
        here.machines.act(rung, NODE, MARK)
    assert [] == here.api.repairs()


def test_nodes_are_replaced_only_in_a_cluster_that_is_in_service(here: World) -> None:
    """It may be rebooted."""
    here.api.status = "Updating"

    with pytest.raises(ActRefused, match="is Updating"):
        here.machines.act(Rung.REPLACE, NODE, MARK)
    assert here.machines.act(Rung.REBOOT, NODE, MARK)


@acts
def test_without_an_answer_to_the_look_nothing_is_requested(here: World, rung: Rung, operation: str) -> None:
    """Neither of HyperPod nor of Slurm."""
    here.slurm.silent = True
    with pytest.raises(EngineSilent):
        here.machines.act(rung, NODE, MARK)
    here.slurm.silent = False
    here.api.refused["ListClusterNodes"] = "AccessDeniedException"
    with pytest.raises(EngineSilent):
        here.machines.act(rung, NODE, MARK)

    assert [] == here.api.repairs()


def test_a_reset_is_slurms(here: World) -> None:
    assert "the GPU was reset" == here.machines.act(Rung.RESET, NODE, MARK, [3])
    assert [(Rung.RESET, NODE, MARK, (3,))] == here.slurm.acts


@pytest.mark.parametrize(
    ("rung", "reason"), [(Rung.REBOOT, "Action:Reboot"), (Rung.REPLACE, "Action:Replace")]
)
def test_a_reason_is_exactly_what_hyperpod_reads(here: World, rung: Rung, reason: str) -> None:
    """And AWS's API is not called as well."""
    here.by_reason.act(rung, NODE, MARK)

    assert ([("fail", NODE, reason)], []) == (here.slurm.acts, here.api.repairs())


def test_hyperpod_replaces_for_its_reason(here: World) -> None:
    """As far as the stand-in knows; Slurm's reason is not the mark any more."""
    here.by_reason.act(Rung.REPLACE, NODE, MARK)
    here.api.read_reason(NODE, "Action:Replace")

    assert [Settled.PENDING] * 4 + [Settled.DONE] == settled(here, Rung.REPLACE)
    assert "HyperPod" == here.machines.look()[NODE].who


def test_a_node_that_hyperpod_began_to_repair_is_not_repaired_again(here: World) -> None:
    """Fenced by us, found by its health agent, and once more after it was replaced."""
    here.api.recover(NODE)
    with pytest.raises(ActRefused, match="InstanceIdInUse"):
        here.machines.act(Rung.REBOOT, NODE, MARK)
    here.api.advance()
    with pytest.raises(ActRefused, match="not Running"):
        here.machines.act(Rung.REBOOT, NODE, MARK)

    assert 1 == len(here.api.repairs())


def test_a_node_that_serves_and_that_hyperpod_repairs_is_left(here: World) -> None:
    """Until it is done; then it may be fenced."""
    here.api.recover(HOSTS[0])
    here.api.advance()
    with pytest.raises(ActRefused, match="HyperPod's node recovery has it"):
        here.machines.fence(HOSTS[0], MARK)
    here.api.advance(3)

    assert f"drained {MARK}" == here.machines.fence(HOSTS[0], MARK)


@pytest.mark.parametrize("recovery", ["None", "Unheard-of"])
def test_without_node_recovery_a_reason_is_refused(here: World, recovery: str) -> None:
    """HyperPod would ignore it without a word; the API works."""
    here.api.recovery = recovery

    with pytest.raises(ActRefused, match='Set act_by = "api"'):
        here.by_reason.act(Rung.REBOOT, NODE, MARK)
    assert [] == here.slurm.acts
    assert here.machines.act(Rung.REBOOT, NODE, MARK)


def test_a_slurm_without_the_state_fail_cannot_write_a_reason(here: World) -> None:
    plain = FakeSlurm(here.slurm.nodes)
    machines = HyperPodMachines(CLUSTER, REGION, plain, here.by_reason.act_by, here.machines.api.clients)

    with pytest.raises(ActRefused, match='Set act_by = "api"'):
        machines.act(Rung.REBOOT, NODE, MARK)


def test_a_fence_is_slurms(here: World) -> None:
    """Again, it is the same."""
    assert f"drained {MARK}" == here.machines.fence(HOSTS[0], MARK)
    assert f"drained {MARK}" == here.machines.fence(HOSTS[0], MARK)


@pytest.mark.parametrize("who", ["jdoe", "HyperPod's node recovery"])
def test_what_another_has_is_not_fenced(here: World, who: str) -> None:
    """Neither what a person drained, nor what HyperPod is repairing."""
    if who == "jdoe":
        here.slurm.drained_by(HOSTS[0], who)
    else:
        here.api.node(HOSTS[0]).status = "Pending"

    with pytest.raises(ActRefused, match=f"{who} has it"):
        here.machines.fence(HOSTS[0], MARK)
    assert [] == here.slurm.acts


def test_an_unknown_node_is_not_fenced(here: World) -> None:
    with pytest.raises(ActRefused, match="knows no node"):
        here.machines.fence("ip-10-9-9-9", MARK)
