"""neuron-ls: physical and logical cores, and what shows that a device was lost."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from checks.check import CheckError
from checks.explain.reading import ReadOptions
from checks.probes.neuron.neuron_ls import parse
from checks.probes.neuron.neuron_ls_reading import read
from tests.corpus.case import declared, recordings_of

text_of = recordings_of("neuron")


def rows() -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = json.loads(text_of("ls_trn1.json"))
    return made


def test_logical_cores_are_counted_as_physical_ones() -> None:
    """Trainium 2 joins two physical cores to one that a process sees."""
    assert {(8, 4)} == {(d.cores, d.nc_count) for d in parse(text_of("ls_trn2.json"))}


@pytest.mark.parametrize(
    "change",
    [
        lambda made: made.append(made[0]),
        lambda made: made[1].update(bdf=made[0]["bdf"]),
        lambda made: made[3].pop("nc_count"),
        lambda made: made[3].update(nc_count=True),
        lambda made: made[3]["neuroncore_ids"].pop(),
        lambda made: made[3].pop("connected_to"),
        lambda made: made[3].update(neuron_processes=None),
        lambda made: made[3].update(connected_to=["4"] * 2 + [-1]),
    ],
)
def test_a_list_that_contradicts_itself_gives_no_answer(
    change: Callable[[list[dict[str, Any]]], object],
) -> None:
    """Nobody can tell which half is right."""
    made = rows()
    change(made)

    with pytest.raises(CheckError):
        parse(json.dumps(made))


def test_a_device_that_others_link_to_is_said_to_be_left_out() -> None:
    """Lost on the node or in the file: nobody can tell."""
    assert ("not listed: device 15",) == read(text_of("ls_trn1_last_gone.json"), ReadOptions()).unread
    assert () == read(text_of("ls_trn1.json"), ReadOptions(declared("trn1.32xlarge"))).unread
