"""What a gate file says of the switches: read before anything starts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.flows.gates import write_gate
from tests.tasks.gate_file.gate_files import opened, refusal


def test_a_file_beside_the_gate_file_reaches_every_node(tmp_path: Path) -> None:
    """Its path is relative to the gate file, and its content is a part of what a PASS means."""
    (tmp_path / "racks.csv").write_text("n0,leaf0,spine\nn1,leaf0,spine\n", encoding="utf-8-sig")
    lines = 'topology = "racks.csv"\ntopology_names = "rack(\\\\d+)"'
    context = opened(write_gate(tmp_path, cluster=lines))

    assert context.topology == context.bundle("gate-1").topology
    assert context.topology is not None
    assert context.topology.under == {"leaf0,spine": ("n0", "n1")}
    assert context.topology.names == r"rack(\d+)"
    moved = replace(context, topology=replace(context.topology, under={"leaf1": ("n0",)}))
    assert context.fingerprint != moved.fingerprint


def test_without_either_nothing_is_described(tmp_path: Path) -> None:
    """None, which is another thing than an empty description."""
    assert opened(write_gate(tmp_path)).topology is None


@pytest.mark.parametrize(
    ("lines", "content", "said"),
    [
        ('topology = "gone.csv"', None, "gone.csv: it cannot be read"),
        ('topology = "t"', b"n0\n", "line 1"),
        ('topology = "t"', b"\xff\xfe", "UTF-8"),
        ('topology = "t"', b"n0,s\n" * 1_000_000, "larger than"),
        ('topology = "t"', b"".join(b"%060d,s\n" % i for i in range(9000)), "leave out"),
        ('topology_names = "rack[0-9]+"', None, "has 0 groups"),
        ('topology_names = "rack("', None, "no regular expression"),
    ],
    ids=["gone", "no-csv", "no-text", "too-large", "too-many", "no-group", "no-expression"],
)
def test_unusable_topology_is_refused_with_its_key(
    tmp_path: Path, lines: str, content: bytes | None, said: str
) -> None:
    """With the key, the file and what is wrong in it."""
    if content is not None:
        (tmp_path / "t").write_bytes(content)
    error = refusal(write_gate(tmp_path, cluster=lines))

    assert said in str(error) and error.path == f"cluster.{lines.split()[0]}"
