"""A gate file that describes machines that no table has."""

from __future__ import annotations

from pathlib import Path

import pytest

from checks.bundle import plan_of
from checks.model import Declared
from checks.model_details import DeclaredMachine
from tasks.gate.context import GateContext, open_gate_context
from tasks.gate_file.read import GateFileError, read_gate_file
from tasks.gate_file.request import GateRequest

GATE = Path(__file__).parents[3] / "deployments" / "gates" / "slurm-ib.toml"


def opened(folder: Path, *changes: tuple[str, str]) -> GateContext:
    """The shipped gate of such machines, changed."""
    text = GATE.read_text(encoding="utf-8").replace("../policies", str(GATE.parents[1] / "policies"))
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    (folder / "gate.toml").write_text(text, encoding="utf-8")
    return open_gate_context(GateRequest(gate_file=str(folder / "gate.toml")))


def test_an_own_machine_is_declared_and_judged_by_the_policy_of_its_gpu(tmp_path: Path) -> None:
    context = opened(tmp_path)
    instance = context.facts.instances["hgx-h100"]

    assert context.declared.machine is not None
    assert (8, 18, 8, 400) == (instance.gpus, instance.nvlinks, instance.ib_ports, instance.ib_rate_gbit_s)
    _, plan = plan_of(context.bundle("plan"))
    planned = {line.check for line in plan if line.skip is None}
    assert {"ib.ports", "ib.counters", "nccl.transport"} <= planned
    assert not {"efa.devices", "neuron.devices"} & planned
    assert context.facts.are_for(context.policy.instance_types, context.declared)


@pytest.mark.parametrize(
    ("changes", "where", "said"),
    [
        ([('"hgx-h100"', '"p5.48xlarge"')], "cluster.machine", "p5.48xlarge is a known instance type"),
        ([('gpu = "H100 80GB HBM3"', 'gpu = "H100"')], "cluster.declared.instance_type", "was not written for hgx-h100"),
        ([('gpu = "H100 80GB HBM3"', 'gpu = ""')], "cluster.machine.gpu", "Name the model of the GPUs"),
        ([("gpus_per_node = 8\nranks", "gpus_per_node = 0\nranks")], "cluster.machine.gpu", "0 GPUs are declared"),
        ([("ib_rate_gbit_s = 400", "")], "cluster.machine", "ib_ports and ib_rate_gbit_s"),
        ([("ib_ports = 8", "")], "cluster.machine", "ib_ports and ib_rate_gbit_s"),
        ([("ib_ports = 8", "ib_port = 8")], "cluster.machine.ib_port", "ib_ports"),
        ([("nvlinks = 18", "nvlinks = -1")], "cluster.machine.nvlinks", ""),
        ([("nvlinks = 18", 'nvlinks = "18"')], "cluster.machine.nvlinks", ""),
        ([("[cluster.machine]", "[cluster.unknown]")], "cluster.unknown", "unknown key"),
    ],
)  # fmt: skip
def test_gate_file_with_a_contradictory_machine_is_rejected_by_field(
    tmp_path: Path, changes: list[tuple[str, str]], where: str, said: str
) -> None:
    with pytest.raises(GateFileError) as refused:
        opened(tmp_path, *changes)

    assert where in str(refused.value)
    assert said in str(refused.value)


def test_an_unknown_type_without_a_description_names_the_table_that_describes_it(tmp_path: Path) -> None:
    text = GATE.read_text(encoding="utf-8")
    begin, end = text.index("\n[cluster.machine]"), text.index("[cluster.options]")

    with pytest.raises(GateFileError, match=r"not a known instance type.*\[cluster.machine\]"):
        opened(tmp_path, (text[begin:end], ""))


def test_own_machine_is_judged_by_policies_for_its_kind_only(tmp_path: Path) -> None:
    """A machine without GPUs is one of the policy of CPUs, and never one of Neuron devices, which have no GPUs either."""
    facts = opened(tmp_path).facts
    cpu = Declared("own", 2, 0, 2, machine=DeclaredMachine())

    assert facts.are_for(("cpu",), cpu)
    assert not facts.are_for(("trn1.32xlarge",), cpu)
    assert not facts.are_for(("p5.48xlarge",), cpu)
    assert facts.are_for(("own",), cpu)
    assert not facts.are_for(("cpu",), Declared("own", 2, 0, 2))


def test_a_pass_of_another_description_is_no_pass_of_this_one(tmp_path: Path) -> None:
    """What was declared belongs to what a PASS means."""
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()

    assert opened(tmp_path / "one").fingerprint == opened(tmp_path / "one").fingerprint
    assert (
        opened(tmp_path / "one").fingerprint
        != opened(tmp_path / "two", ("ib_ports = 8", "ib_ports = 4")).fingerprint
    )
    assert read_gate_file(GATE).cluster.machine is not None
