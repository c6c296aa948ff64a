"""The looks before the first dollar, against an account in moto over real HTTP."""

from __future__ import annotations

import dataclasses
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from tasks.launchers.base import PreflightResult
from tasks.launchers.sagemaker import preflight
from tasks.launchers.sagemaker.preflight import PROBES, check
from tasks.launchers.sagemaker.preflight.account import credentials
from tasks.launchers.sagemaker.preflight.image import images
from tasks.launchers.sagemaker.preflight.network import groups, subnets
from tasks.launchers.sagemaker.preflight.probe import Probe, run_probes
from tasks.launchers.sagemaker.preflight.requirements import requirements_of
from tasks.launchers.sagemaker.preflight.storage import channels, prefix, sources
from tests.tasks.launchers.sagemaker.preflight.accounts import (
    REGISTRY,
    Account,
    asked,
    clients,
    furnished,
    looks,
    options,
    plans,
)
from tests.tasks.parameters import spread
from tests.tasks.store import servers

OK, WRONG, UNSEEN = PreflightResult.OK, PreflightResult.WRONG, PreflightResult.UNSEEN


@pytest.fixture(scope="module")
def account() -> Iterator[Account]:
    """One account for all: no test takes away what another needs."""
    with servers.moto() as url, servers.named(url):
        yield furnished(clients())


def _vpc(account: Account, **changed: object) -> dict[str, Any]:
    return {"subnets": (account.subnet,), "security_group_ids": (account.group,), **changed}


def test_preflight_finds_no_fault_in_a_furnished_account(account: Account) -> None:
    """What moto has not got is not seen, and nothing else."""
    chosen = options()
    lines = check(plans(chosen), chosen, account.clients)

    faults = {line.subject for line in lines if line.result is not OK}
    assert {"permission to start jobs", "permissions of the role", "quota"} == faults
    assert [] == [line for line in lines if line.result is WRONG]


def test_a_role_of_another_account_is_wrong(account: Account) -> None:
    """Nobody passes a role out of its account."""
    found = credentials(asked(role_arn="arn:aws:iam::999999999999:role/prelaunch-execution"), account.clients)

    assert [("credentials", WRONG)] == looks(found)


@pytest.mark.parametrize(
    ("expected", "image"),
    spread(
        (OK, (f"{REGISTRY}/prelaunch:1",)),
        (WRONG, (f"{REGISTRY}/prelaunch:2", f"{REGISTRY}/prelaunch")),
        (WRONG, (f"{REGISTRY}/prelaunch@sha256:{'b' * 64}", f"{REGISTRY}/other:1")),
        (UNSEEN, ("763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:2.9",)),
        (UNSEEN, ("123456789012.dkr.ecr.eu-west-1.amazonaws.com/prelaunch:1",)),
        (UNSEEN, ("public.ecr.aws/prelaunch/prelaunch:1", "prelaunch:1")),
    ),
)
def test_an_image(account: Account, image: str, expected: PreflightResult) -> None:
    """It is there, it is missing, or nobody here can see it."""
    assert [("image", expected)] == looks(images(asked(image=image), account.clients))


def test_the_probe_object_is_removed(account: Account) -> None:
    """Nothing of the look stays below the prefix."""
    found = prefix(asked(), account.clients)
    left = account.clients.client("s3").list_objects_v2(Bucket="ml-bucket", Prefix="gates/")

    assert ([("S3 prefix", OK)], []) == (looks(found), left.get("Contents", []))


def test_a_missing_bucket_names_the_command_that_makes_it(account: Account) -> None:
    """And the bucket."""
    found = prefix(asked(prefix="s3://nobodys-bucket/gates"), account.clients)

    assert [("S3 prefix", WRONG)] == looks(found)
    assert all("nobodys-bucket" in line.message and "aws s3 mb" in line.remedy for line in found)


def test_a_channel_of_the_trainings_own(account: Account) -> None:
    """It has something in it, nothing, or no bucket; the gate's own channel is filled later."""
    account.clients.client("s3").put_object(Bucket="ml-bucket", Key="code/train.py", Body=b"")
    places = {"code": "ml-bucket/code/", "data": "ml-bucket/data/", "far": "nobodys-bucket/x"}
    sources_of = {name: {"S3DataSource": {"S3Uri": f"s3://{place}"}} for name, place in places.items()}
    rows = [{"ChannelName": name, "DataSource": source} for name, source in sources_of.items()]
    wanted = asked()
    body = {**wanted.bodies[0], "InputDataConfig": [*wanted.bodies[0]["InputDataConfig"], *rows]}

    found = channels(dataclasses.replace(wanted, bodies=(body,)), account.clients)

    assert [OK, WRONG, WRONG] == [line.result for line in found]
    assert {} == sources(wanted)


def test_a_group_closed_to_itself_is_wrong_for_efa(account: Account) -> None:
    """Egress to everywhere by CIDR, the default, does not help EFA: both commands are named."""
    found = groups(asked("p5.48xlarge", 4, **_vpc(account)), account.clients)

    assert [("security groups", WRONG)] == looks(found)
    assert 2 == found[0].remedy.count("aws ec2 authorize-security-group-")


def test_efa_between_machines_wants_a_vpc(account: Account) -> None:
    """Without one there is no group that lets it through."""
    assert [("security groups", WRONG)] == looks(groups(asked("p5.48xlarge", 4), account.clients))


def test_a_subnet_that_is_too_small(account: Account) -> None:
    """Five addresses a machine with EFA, two without (AWS): eleven are free in a /28."""
    ec2 = account.clients.client("ec2")
    small = ec2.create_subnet(VpcId=account.vpc, CidrBlock="10.0.9.0/28")["Subnet"]["SubnetId"]
    chosen = _vpc(account, subnets=(small,))

    found = [
        subnets(asked(kind, nodes, **chosen), account.clients)[0].result
        for kind, nodes in (("m5.large", 5), ("m5.large", 6), ("p5.48xlarge", 2), ("p5.48xlarge", 3))
    ]

    assert [OK, WRONG, OK, WRONG] == found


def test_an_aws_that_takes_calls_and_says_nothing() -> None:
    """All looks end together at the deadline, and none of them says ok; no secret is shown."""
    quick = tuple(dataclasses.replace(probe, within_s=1.0) for probe in PROBES)
    chosen = options()
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        servers.named(f"http://127.0.0.1:{silent.getsockname()[1]}"),
    ):
        lines = run_probes(quick, requirements_of(plans(chosen), chosen), clients())

    assert {UNSEEN} == {line.result for line in lines}
    assert [] == [line for line in lines if servers.SECRET in str(line)]


def test_a_probe_that_stumbles_is_a_line(account: Account) -> None:
    """Whatever it is."""
    found = run_probes((Probe("odd", lambda _asked, _clients: (1 / 0,)),), asked(), account.clients)  # type: ignore[return-value, arg-type]

    assert [("odd", UNSEEN)] == looks(found)


def test_no_credentials_are_wrong_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line says it; the others could not look."""
    for key, value in servers.environment("http://127.0.0.1:9").items():
        monkeypatch.setenv(key, value)
    for key in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "HOME"):
        monkeypatch.delenv(key, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
    patient = tuple(dataclasses.replace(probe, within_s=240.0) for probe in PROBES)  # on a busy machine
    monkeypatch.setattr(preflight, "PROBES", patient)
    chosen = options()

    lines = check(plans(chosen), chosen, clients())

    assert ["credentials"] == [line.subject for line in lines if line.result is WRONG]


def test_names_that_are_not_there_are_wrong(account: Account) -> None:
    """Subnet and group: AWS names what it misses, and the remedy names the key of the gate file."""
    wanted = asked(subnets=("subnet-0123456789abcdef0",), security_group_ids=("sg-0123456789abcdef0",))
    probes = (Probe("security groups", groups), Probe("subnets", subnets))
    found = run_probes(probes, wanted, account.clients)

    assert [("security groups", WRONG), ("subnets", WRONG)] == looks(found)
    assert "security_group_ids" in found[0].remedy and "subnets" in found[1].remedy
