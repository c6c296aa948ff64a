"""What is sampled under load: the right GPU, really loaded, counters as differences."""

from __future__ import annotations

import threading
import time
from contextlib import nullcontext

import pytest

from checks.probes.gpu import nvml, under_load
from checks.probes.gpu.record import Gpu
from checks.probes.gpu.under_load import LoadError, LoadSamples
from tests.fakes import gpu_node


class Work:
    """A load without work."""

    def __init__(self, uuid: str) -> None:
        self.uuid = uuid

    def step(self) -> None:
        """Some tens of milliseconds."""
        time.sleep(0.02)


def sample(**values: float) -> Gpu:
    return Gpu(5, "0000:a8:00.0", values)


def test_the_gpu_is_found_by_its_uuid() -> None:
    """torch's device 0 may be NVML's 5: CUDA_VISIBLE_DEVICES renumbers."""
    with gpu_node.nvml(gpu_node.module()), nvml.session() as module:
        assert (5, 5) == under_load.find(module, module.uuid_of(5).upper())


@pytest.mark.parametrize(
    ("busy", "steps", "loaded"),
    [((99,), 0, False), ((100, 0, 0), 9, False), ((49, 49, 100), 9, False), ((0, 50, 100), 9, True)],
)
def test_load_samples_need_a_step_and_a_median_utilisation_of_half(
    busy: tuple[int, ...], steps: int, loaded: bool
) -> None:
    """Other work is not ours; one sample of a busy GPU shows no load, and one of an idle GPU takes none away."""
    samples = LoadSamples(tuple(sample(utilisation_percent=percent) for percent in busy), {}, steps)

    with nullcontext() if loaded else pytest.raises(LoadError, match="not under load"):
        under_load.require_load(samples)


def test_a_series_with_a_gap_is_none() -> None:
    """What was not read in one sample may have been the fault."""
    assert LoadSamples((sample(draw_w=1.0), sample()), {}, 1).series("draw_w") is None


def test_pcie_replays_are_none_after_a_single_sample() -> None:
    """A machine that is too busy for a second one has not shown that nothing was replayed."""
    seen = LoadSamples((sample(pcie_replays=150, pcie_generation=5, pcie_width=16),), {}, 1)

    assert (None,) == under_load.pcie_metrics(seen)["replays"]


def test_load_sampler_takes_two_samples_on_a_busy_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time was over after the first one."""
    monkeypatch.setattr(under_load, "require_load", lambda seen: seen)  # the stand-in's GPU does not work
    with gpu_node.nvml(gpu_node.module()), nvml.session() as module:
        handle, index = under_load.find(module, module.uuid_of(5))
        seen = under_load._sampled(module, handle, index, Work(module.uuid_of(5)), 0.0)

    assert 2 == len(seen.samples)


def test_a_counter_that_went_backwards_is_left_out() -> None:
    """It was reset meanwhile; the others are differences in seconds."""
    first = {"thermal_s": 5_000_000_000, "power_brake_s": 7}
    assert {"thermal_s": 1.5} == under_load._steps(first, {"thermal_s": 6_500_000_000, "power_brake_s": 3})


def test_a_step_that_hangs_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sampling ends all the same."""
    held = threading.Event()

    class Hangs:
        uuid = ""

        def step(self) -> None:
            held.wait(60)

    monkeypatch.setattr(under_load, "JOIN_S", 0.05)
    worker = under_load._Worker(Hangs())
    worker.start()
    try:
        with pytest.raises(LoadError, match="hangs"):
            worker.stop()
    finally:
        held.set()
