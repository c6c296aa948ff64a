"""NVLink errors as differences between two looks: what cannot be compared is not 0."""

from __future__ import annotations

from typing import Any

import pytest

from checks.probes.gpu import nvml
from checks.probes.gpu.nvlink import Links, compared, look
from checks.probes.gpu.record import Gpu
from tests.fakes import gpu_node


def links(*active: int, uuid: str = "a", **counters: dict[str, int]) -> Links:
    return Links(Gpu(0, "", {"uuid": uuid}), active, counters)


def errors(first: dict[str, Any], second: Links) -> tuple[object, ...]:
    metrics = compared([second], first, 10.0).metrics
    return (metrics["link_errors_per_s"], metrics["link_recoveries"])


def test_a_difference_is_over_all_links_and_by_second() -> None:
    """20 on one link, 30 on another, in 10 seconds."""
    now = links(0, 1, link_errors={"0": 120, "1": 30}, link_recoveries={"0": 1, "1": 1})

    first = {"a": {"link_errors": {"0": 100, "1": 0}, "link_recoveries": {"0": 1, "1": 0}}}
    assert ((5.0,), (1,)) == errors(first, now)


@pytest.mark.parametrize(
    "first",
    [
        {},
        {"b": {"link_errors": {"0": 0}}},
        {"a": None},
        {"a": {"link_errors": {"1": 0}}},
        {"a": {"link_errors": {"0": "0"}}},
        {"a": {"link_errors": {"0": 121}}},
    ],
)
def test_what_cannot_be_compared_is_none(first: dict[str, Any]) -> None:
    """No first look at this GPU or link, a count that is none, or one that went backwards."""
    assert ((None,), (None,)) == errors(first, links(0, link_errors={"0": 120}))


def test_a_swap_of_two_gpus_between_the_looks_is_noticed() -> None:
    """GPUs are compared by UUID: indices may change when one is lost."""
    now = [links(0, uuid="b", link_errors={"0": 7}), links(0, uuid="a", link_errors={"0": 3})]
    first = {"a": {"link_errors": {"0": 3}}, "b": {"link_errors": {"0": 7}}}

    assert (0.0, 0.0) == compared(now, first, 10.0).metrics["link_errors_per_s"]


@pytest.mark.parametrize(("model", "count"), [("H100", 18), ("B200", 18), ("A100", 12), ("T4", 0)])
def test_links_are_counted_where_there_are_some(model: str, count: int) -> None:
    """ "No such link" ends no count, and "not supported" is no link."""
    with gpu_node.nvml(gpu_node.module(model=model, gpus=1)), nvml.session() as module:
        found = look(module)[0]

    assert found.active is not None
    assert count == len(found.active)


def test_links_that_may_not_be_asked_are_not_known() -> None:
    """Refused is not "down"."""
    fake = gpu_node.module(gpus=1, answers={"0/nvmlDeviceGetNvLinkState:3": {"error": 4}})
    with gpu_node.nvml(fake), nvml.session() as module:
        assert look(module)[0].active is None


def test_an_old_pynvml_hides_no_links() -> None:
    """Its NVML_NVLINK_MAX_LINKS is 12, from before Hopper: an H100 has 18, and none of them is down."""
    fake = gpu_node.module()
    fake.NVML_NVLINK_MAX_LINKS = 12
    with gpu_node.nvml(fake), nvml.session() as module:
        seen = look(module)

    assert {18} == {len(one.active or ()) for one in seen}
