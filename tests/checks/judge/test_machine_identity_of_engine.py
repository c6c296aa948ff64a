"""A node that ran on another machine than the engine says is missing evidence; one that agrees is not refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from checks.model import Answer, Cause, Report
from tasks.collect import with_engine_identity
from tests.sample_reports import healthy, verdict_of

BOOT = "1b32d552-812d-45e9-9772-cc87775ed73f"


MACHINE, UUID = "3d1219c7c4c5404aaa1f6d2a48adfda4", "ec2a1b2c-0000-1111-2222-333344445555"


def report(reported: str, engine: dict[str, str], **more: str) -> Report:
    """A healthy report whose first node reports this boot id, and these ids; the engine says this of it."""
    made = healthy()
    first = replace(made.nodes[0], identity={**made.nodes[0].identity, "boot_id": reported, **more})
    return with_engine_identity(replace(made, nodes=(first, *made.nodes[1:])), {first.name: engine})


def test_a_pod_that_lies_is_found() -> None:
    """It is named with both ids and its machine, and nothing is said against any hardware."""
    found = verdict_of(report("0" * 36, {"engine_boot_id": BOOT, "engine_node": "worker-3"}))
    (finding,) = [one for one in found.findings if BOOT in one.message]

    assert (found.answer, finding.cause) == (Answer.CANNOT_TELL, Cause.EVIDENCE)
    assert finding.subject == report(BOOT, {}).nodes[0].name and "worker-3" in finding.message


@pytest.mark.parametrize(
    ("key", "reported", "words"),
    [
        ("machine_id", "f" * 32, f"reports machine id {'f' * 32}, and the engine says that worker-3 has machine id {MACHINE}"),
        ("machine_id", "", "reports machine id none, and"),
        ("product_uuid", "0" * 36, f"reports system UUID {'0' * 36}, and the engine says that worker-3 has system UUID {UUID}"),
        ("product_uuid", "", "reports system UUID none, and"),
    ],
)  # fmt: skip
def test_each_id_of_the_machine_is_a_proof_of_its_own(key: str, reported: str, words: str) -> None:
    """Also where the boot id agrees, as it does in pods of two nodes of one kernel; a file that was to be read and was not is none."""
    engine = {
        "engine_boot_id": BOOT, "engine_machine_id": MACHINE, "engine_product_uuid": UUID, "engine_node": "worker-3",
    }  # fmt: skip
    found = verdict_of(report(BOOT, engine, **{"machine_id": MACHINE, "product_uuid": UUID, key: reported}))
    (finding,) = [one for one in found.findings if words in one.message]

    assert (found.answer, finding.cause) == (Answer.CANNOT_TELL, Cause.EVIDENCE)


def test_a_system_uuid_agrees_in_whatever_case() -> None:
    """Kernels and kubelets write it differently."""
    engine = {"engine_machine_id": MACHINE, "engine_product_uuid": UUID.upper()}
    assert verdict_of(report(BOOT, engine, machine_id=MACHINE, product_uuid=UUID)).answer is Answer.GO


@pytest.mark.parametrize("engine", [{"engine_boot_id": BOOT}, {"engine_node": "worker-3"}, {}])
def test_a_pod_that_agrees_with_its_engine_gets_its_go(engine: dict[str, str]) -> None:
    """So does one of which the engine says nothing: most engines say nothing."""
    assert verdict_of(report(BOOT, engine)).answer is Answer.GO


def test_a_node_cannot_say_for_itself_what_the_engine_says() -> None:
    """Neither its boot id in the engine's name nor another node's name counts."""
    made = healthy()
    lies = {"engine_boot_id": "mine", "engine_machine_id": "mine", "engine_node": "worker-9"}
    node = replace(made.nodes[0], identity={**made.nodes[0].identity, **lies})
    said = with_engine_identity(
        replace(made, nodes=(node, *made.nodes[1:])), {node.name: {"engine_node": "worker-3"}}
    )

    assert {"engine_boot_id", "engine_machine_id"}.isdisjoint(said.nodes[0].identity)
    assert said.nodes[0].identity["engine_node"] == "worker-3"
