"""What a gate file says of the switches: read before anything starts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tasks.gate.context import GateContext, open_gate_context
from tasks.gate_file.read import GateFileError
from tasks.gate_file.request import GateRequest
from tests.flows.gates import write_gate


def opened(folder: Path, lines: str) -> GateContext:
    """The test gate with more lines in [cluster]."""
    path = write_gate(folder)
    text = path.read_text()
    assert "[cluster]\n" in text
    path.write_text(text.replace("[cluster]\n", f"[cluster]\n{lines}\n", 1))
    return open_gate_context(GateRequest(gate_file=str(path)))


def test_a_file_beside_the_gate_file_reaches_every_node(tmp_path: Path) -> None:
    """Its path is relative to the gate file, and its content is a part of what a PASS means."""
    (tmp_path / "racks.csv").write_text("n0,leaf0,spine\nn1,leaf0,spine\n", encoding="utf-8-sig")
    context = opened(tmp_path, 'topology = "racks.csv"\ntopology_names = "rack(\\\\d+)"')

    assert context.topology == context.bundle("gate-1").topology
    assert context.topology is not None
    assert context.topology.under == {"leaf0,spine": ("n0", "n1")}
    assert context.topology.names == r"rack(\d+)"
    moved = replace(context, topology=replace(context.topology, under={"leaf1": ("n0",)}))
    assert context.fingerprint != moved.fingerprint


def test_without_either_nothing_is_described(tmp_path: Path) -> None:
    """None, which is another thing than an empty description."""
    assert opened(tmp_path, "").topology is None


@pytest.mark.parametrize(
    ("lines", "content", "key", "said"),
    [
        ('topology = "gone.csv"', None, "cluster.topology", "gone.csv: it cannot be read"),
        ('topology = "t"', b"n0\n", "cluster.topology", "line 1"),
        ('topology = "t"', b"\xff\xfe", "cluster.topology", "UTF-8"),
        ('topology = "t"', b"n0,s\n" * 1_000_000, "cluster.topology", "larger than"),
        ('topology = "t"', b"".join(b"%060d,s\n" % i for i in range(9000)), "cluster.topology", "leave out"),
        ('topology_names = "rack[0-9]+"', None, "cluster.topology_names", "has 0 groups"),
        ('topology_names = "rack("', None, "cluster.topology_names", "no regular expression"),
    ],
    ids=["gone", "no-csv", "no-text", "too-large", "too-many", "no-group", "no-expression"],
)
def test_unusable_topology_is_refused_with_its_key(
    tmp_path: Path, lines: str, content: bytes | None, key: str, said: str
) -> None:
    """With the key, the file and what is wrong in it."""
    if content is not None:
        (tmp_path / "t").write_bytes(content)
    with pytest.raises(GateFileError, match=said) as raised:
        opened(tmp_path, lines)

    assert raised.value.path == key
