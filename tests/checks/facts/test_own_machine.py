"""The file that describes a machine of one's own to a node: what the gate file says, and nothing that contradicts it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from checks.command_line import PlaceError
from checks.facts import own_machine
from checks.facts.builtin import builtin
from checks.model import Declared
from checks.runner.single_node import declare, read_policy
from tests.corpus.case import NDR, declared
from tests.corpus.case import OWN as PORTS

MACHINE, OWN = PORTS[NDR], declared(NDR)


def written(folder: Path, **change: object) -> Path:
    """The file, changed."""
    path = folder / "machine.json"
    path.write_text(json.dumps({**json.loads(own_machine.text_of(OWN, MACHINE)), **change}))
    return path


def test_machine_file_is_read_as_written_and_selects_the_gpu_policy(tmp_path: Path) -> None:
    found = declare(str(written(tmp_path)), 4, builtin())

    assert Declared(NDR, 4, 8, 8, machine=OWN.machine) == found
    assert "nvidia" == read_policy(None, found, announced=False).name


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"instance_type": "p5.48xlarge"}, "is a known instance type"),
        ({"gpus_per_node": 0}, "only there"),
        ({"gpus_per_node": -1}, "gpus_per_node"),
        ({"machine": {"gpu": "H100 80GB HBM3", "ib_portz": 8}}, "ib_ports"),
        ({"machine": None}, "machine"),
        ({"more": 1}, "more"),
    ],
)
def test_a_file_that_contradicts_itself_is_refused(
    tmp_path: Path, change: dict[str, object], said: str
) -> None:
    with pytest.raises(PlaceError, match=said):
        declare(str(written(tmp_path, **change)), 1, builtin())


@pytest.mark.parametrize("text", ["", "{", "[]", "\x00" * 70_000])
def test_a_file_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "machine.json").write_text(text)

    with pytest.raises(PlaceError, match=r"machine\.json"):
        declare(str(tmp_path / "machine.json"), 1, builtin())
    with pytest.raises(PlaceError, match="No such file"):
        declare(str(tmp_path / "none.json"), 1, builtin())
