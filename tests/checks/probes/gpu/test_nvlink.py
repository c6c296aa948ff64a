"""NVLink errors as differences between two looks: what cannot be compared is not 0."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from checks.probes.gpu import nvml
from checks.probes.gpu.nvlink import GpuLinks, compared, counter, read_links
from checks.probes.gpu.record import Gpu
from tests.fakes import gpu_node


def links(uuid: str = "a", **counters: Any) -> GpuLinks:
    return GpuLinks(Gpu(0, "", {"uuid": uuid}), tuple(range(len(counters["errors"]))), counted(**counters))


def counted(errors: Sequence[object], recoveries: Sequence[object] = ()) -> dict[str, Any]:
    return {
        counter(kind, link): count
        for kind, counts in (("link_errors", errors), ("link_recoveries", recoveries))
        for link, count in enumerate(counts)
    }


def test_a_difference_is_over_all_links_and_by_second() -> None:
    """20 on one link, 30 on another, in 10 seconds."""
    first = {"a": counted([100, 0], [1, 0])}
    metrics = compared([links(errors=[120, 30], recoveries=[1, 1])], first, 10.0).metrics

    assert ((5.0,), (1,)) == (metrics["link_errors_per_s"], metrics["link_recoveries"])


@pytest.mark.parametrize(
    "first", [{}, {"b": counted([0])}, {"a": None}, {"a": counted([], [0])}, {"a": counted(["0"])}, {"a": counted([121])}]
)  # fmt: skip
def test_nvlink_rates_are_none_when_counters_cannot_be_compared(first: dict[str, Any]) -> None:
    """No first look at this GPU or link, a count that is none, or one that went backwards."""
    metrics = compared([links(errors=[120])], first, 10.0).metrics

    assert ((None,), (None,)) == (metrics["link_errors_per_s"], metrics["link_recoveries"])


def test_a_swap_of_two_gpus_between_the_looks_is_noticed() -> None:
    """GPUs are compared by UUID: indices may change when one is lost."""
    now = [links("b", errors=[7]), links("a", errors=[3])]
    first = {"a": counted([3]), "b": counted([7])}

    assert (0.0, 0.0) == compared(now, first, 10.0).metrics["link_errors_per_s"]


def test_an_old_pynvml_hides_no_links() -> None:
    """Its NVML_NVLINK_MAX_LINKS is 12, from before Hopper: an H100 has 18, and none of them is down."""
    fake = gpu_node.module()
    fake.NVML_NVLINK_MAX_LINKS = 12
    with gpu_node.nvml(fake), nvml.session() as module:
        seen = read_links(module)

    assert {18} == {len(one.active or ()) for one in seen}
