"""Whether this machine is one of those that were proven, by its name or by the token of its pool."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from checks import bundle as bundles
from checks.bundle import Pass, PassedNode
from checks.documents.open_findings import OpenFindings, dump
from checks.model import SCHEMA_VERSION, Level
from checks.probes.host.system import POOL_TOKEN, identity_of_node
from checks.process import machine_state
from checks.runner.in_job.confirm import among, claim, confirm_here, differences, twice
from tests.checks.judge.open_findings.test_prior_findings import an_open


def identity(**changed: str) -> dict[str, str]:
    """A machine with GPUs that a check was on."""
    machine = {"host": "algo-1", "boot_id": "boot-1", "gpu_uuids": "GPU-1,GPU-2", "pool_token": "token-1"}
    return {**machine, "driver": "570", "kernel": "6.1", **changed}


def passed(*nodes: PassedNode, measured_at: str = "now") -> Pass:
    """A pass for these machines."""
    return Pass(SCHEMA_VERSION, "g", "digest", measured_at, nodes)


OTHER = identity(host="algo-2", boot_id="boot-2", gpu_uuids="GPU-3,GPU-4", pool_token="token-2")
PROVEN = passed(PassedNode("algo-1", 0, identity()), PassedNode("algo-2", 1, OTHER))


@pytest.mark.parametrize(
    ("found", "name"),
    [
        (identity(), "algo-1"),
        (identity(host="algo-2"), "algo-1"),
        ({**OTHER, "host": "algo-1", "kernel": "6.2"}, "algo-2"),
    ],
)
def test_a_machine_of_the_pool_is_known_under_any_name(found: dict[str, str], name: str) -> None:
    """The next job may call it otherwise, and count it elsewhere."""
    assert (name, []) == among(PROVEN, found, gpus_per_node=2)


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (identity(pool_token=""), "no pool token"),
        ({key: value for key, value in identity().items() if key != "pool_token"}, "no pool token"),
        (identity(pool_token="token-3"), "pool token is not one of those"),
        (identity(pool_token="", engine_node="worker-9"), "engine node is not one of those"),
        (identity(gpu_uuids="GPU-1,GPU-9"), "gpu_uuids was GPU-1,GPU-2 and is now GPU-1,GPU-9"),
        (identity(pool_token="token-2"), "as algo-2: boot_id"),
        (identity(boot_id="after a reboot"), "boot_id"),
        (identity(driver="580"), "driver"),
        (identity(driver=""), "driver"),
    ],
)
def test_machine_that_differs_from_the_proven_one_is_not_confirmed(found: dict[str, str], said: str) -> None:
    """A token of another machine, another GPU behind a token, a reboot: each is said."""
    name, lines = among(PROVEN, found, gpus_per_node=2)

    assert ("", True) == (name, any(said in line for line in lines))


@pytest.mark.parametrize(("key", "gpus"), [("boot_id", 0), ("gpu_uuids", 2), ("driver", 2)])
def test_unknown_identity_proves_no_machine(key: str, gpus: int) -> None:
    """Two machines without it would count as equal."""
    unknown = identity(**{key: ""})
    proven = passed(PassedNode("algo-1", 0, unknown))

    assert ("", [f"as algo-1: {key} is not known"]) == among(proven, unknown, gpus)


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"host": "node-1", "engine_node": "worker-0"}, "node-0"),
        ({"engine_node": "worker-1"}, ""),
        ({"engine_node": "worker-0", "boot_id": "after a reboot"}, ""),
        ({"engine_node": "worker-0", "gpu_uuids": "GPU-9"}, ""),
    ],
)
def test_a_node_of_the_engine_is_known_under_any_name(changes: dict[str, str], name: str) -> None:
    """The pods of one workload get the nodes that passed in any order: the engine's name says which, and the rest must be the same."""
    then = {**identity(pool_token=""), "engine_node": "worker-0"}
    proven = passed(PassedNode("node-0", 0, then))

    assert name == among(proven, {**identity(pool_token=""), **changes}, gpus_per_node=2)[0]


def test_two_hosts_cannot_be_one_machine() -> None:
    """A token that was copied, or a host that nobody knows of."""
    assert "" == twice({"algo-1": "algo-2", "algo-2": "algo-1"})
    assert "algo-2 and algo-1 both identify themselves as algo-1" == twice(
        {"algo-1": "algo-1", "algo-2": "algo-1"}
    )
    assert "algo-2" in twice({"algo-1": "algo-1", "algo-2": None})


def test_the_token_is_this_machines_identity(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the agent found one; an identity without it is as it was."""
    path = tmp_path / "pass.json"
    assert "pool_token" not in identity_of_node()
    monkeypatch.setenv(POOL_TOKEN, "token-1")
    known = PassedNode("algo-7", 0, identity_of_node())
    path.write_bytes(bundles.dump(passed(known)))

    assert ("algo-7", []) == claim(path)
    assert [] == confirm_here(path, "algo-7")
    monkeypatch.delenv(POOL_TOKEN)
    assert "" == claim(path)[0]


FOUND: dict[str, tuple[object, ...]] = {
    "since": (1795500000.0, Level.FAIL, "2026-11-24T05:59:59Z", True),
    "before": (1795500000.0, Level.FAIL, "2026-11-24T06:00:00Z", False),
    "a warning": (1795500000.0, Level.WARN, "2026-11-24T05:59:59Z", False),
    "nobody knows when": (1795500000.0, Level.FAIL, "no time", True),
    "not readable": (None, Level.FAIL, "2026-11-24T05:59:59Z", True),
}


@pytest.mark.parametrize(("seen_at", "level", "measured_at", "differs"), FOUND.values(), ids=FOUND)
def test_machine_with_a_fault_found_since_it_passed_is_not_confirmed(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    seen_at: float | None,
    level: Level,
    measured_at: str,
    differs: bool,
) -> None:
    """Minutes or days lie between a PASS and the training that it allows. A machine without a watch has no such file."""
    monkeypatch.setenv(POOL_TOKEN, "token-1")
    monkeypatch.setenv(machine_state.VARIABLE, str(tmp_path))
    path, node = tmp_path / "pass.json", PassedNode("algo-7", 0, identity_of_node())
    path.write_bytes(bundles.dump(passed(node, measured_at=measured_at)))
    assert [] == confirm_here(path, "algo-7")
    fault = an_open("kernel.xid", level)
    known = OpenFindings(open=(replace(fault, seen_at=seen_at or fault.seen_at),))
    (tmp_path / machine_state.FINDINGS).write_bytes(b"{" if seen_at is None else dump(known))

    assert differs is bool(confirm_here(path, "algo-7"))
    assert ("" if differs else "algo-7") == claim(path)[0]
    longer = replace(PROVEN.nodes[1], name="algo-8", measured_at="2026-11-24T06:00:00Z")
    own = passed(replace(node, measured_at=measured_at), longer, measured_at=longer.measured_at)
    path.write_bytes(bundles.dump(own))
    assert differs is bool(confirm_here(path, "algo-7")), "another node has measured for longer"
    overridden = replace(node, overridden=(fault.key.name,))
    path.write_bytes(bundles.dump(passed(overridden, measured_at=measured_at)))
    # What lasts is seen again, and was overridden.
    assert (seen_at is None) is bool(confirm_here(path, "algo-7"))


@pytest.mark.parametrize("data", [None, b"{"])
def test_a_pass_that_cannot_be_read_claims_nothing(tmp_path: Path, data: bytes | None) -> None:
    """Half a pass is no pass."""
    if data is not None:
        (tmp_path / "pass.json").write_bytes(data)
    name, lines = claim(tmp_path / "pass.json")

    assert ("", True) == (name, "cannot be read" in lines[0])


def test_a_pass_of_before_is_still_read() -> None:
    """It says nothing of a person's word."""
    old = bundles.dump(PROVEN).replace(b'"on_word":"",', b"")

    assert PROVEN == bundles.load_pass(old)


def test_by_name_the_token_is_not_asked_for() -> None:
    """Without a pool a machine is the same by host, boot, GPUs and driver."""
    assert [] == differences(identity(pool_token="token-1"), identity(pool_token=""))
