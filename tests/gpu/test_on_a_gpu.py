"""The checks of compute.* and gpu.inventory on a real GPU; skipped where there is none."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from checks import catalog
from checks.check import Check, Measurement, RankPlace, fault_of
from checks.facts.rooflines import peak_of
from checks.model import Declared, Profile, Value
from checks.probes.compute import device, sdc
from tests.corpus.case import context
from tests.late import Late

torch = Late("torch")
GPU = "cuda:0"
WITHIN = 0.97  # of the library's best


@pytest.fixture(autouse=True)
def _on_a_gpu() -> None:
    if not torch.cuda.is_available():
        pytest.skip("torch finds no CUDA device. Remedy: run on a machine with a GPU")


def run(name: str, tmp_path: Path, **options: float) -> Mapping[str, Value]:
    """The metrics of a check's own body in profile quick, on the first GPU of a node with as many as there are."""
    check: Check = next(one for one in catalog.CATALOG if one.name == name)
    count = torch.cuda.device_count()
    place = RankPlace(0, 0, count, GPU)
    made = context(check, tmp_path, profile=Profile.QUICK, place=place, options=options)
    result = check.body(replace(made, declared=Declared("p5.48xlarge", 1, count, count)))

    assert isinstance(result, Measurement), result
    assert fault_of(check, result.metrics) == ""
    print(f"{name}\n{result.evidence}")
    return result.metrics


def best_s(work: Any, seconds: float = 2.0) -> float:
    """The shortest time of some work, in batches of ten."""
    times, end = [], time.monotonic() + seconds
    while time.monotonic() < end:
        torch.cuda.synchronize(GPU)
        begun = time.perf_counter()
        for _ in range(10):
            work()
        torch.cuda.synchronize(GPU)
        times.append((time.perf_counter() - begun) / 10)
    return min(times)


def numbers(value: Value) -> tuple[float, ...]:
    assert isinstance(value, tuple)
    return tuple(float(item) for item in value if item is not None)


def test_nvml_and_cuda_count_the_same(tmp_path: Path) -> None:
    """What NVML lists is what torch can use."""
    metrics = run("gpu.inventory", tmp_path)

    assert metrics["gpus_found"] == torch.cuda.device_count()
    assert set(numbers(metrics["gpus_missing"])) == {0.0}


def test_clocks_are_sampled_under_load(tmp_path: Path) -> None:
    """Without a warning of torch or cuBLAS, which a thread that computes first would raise."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        metrics = run("gpu.clocks", tmp_path, seconds=1.0)

    assert 0 < numbers(metrics["clock_ratio"])[0] <= 1


def test_products_are_right_and_as_fast_as_the_library(tmp_path: Path) -> None:
    """In every precision; bfloat16 within 3 % of plain torch products of the same order."""
    metrics = run("compute.gemm", tmp_path, seconds=5.0, warmup_s=1.0)
    left, right = (torch.ones((8192, 8192), device=GPU, dtype=torch.bfloat16) for _ in (0, 1))
    library = 2 * 8192**3 / best_s(lambda: torch.matmul(left, right)) / 1e12
    precisions = metrics["precisions"]
    assert isinstance(precisions, tuple)
    rates = dict(zip(precisions, numbers(metrics["tflops"]), strict=True))

    assert (metrics["wrong_elements"], metrics["wrong_checksums"], metrics["above_peak"]) == (0, 0, 0)
    assert rates["bf16"] >= WITHIN * library
    assert rates["tf32"] > 2 * rates["fp32"], "TF32 was not used"


def test_memory_keeps_its_words_as_fast_as_the_library_copies(tmp_path: Path) -> None:
    """Within 3 % of plain torch copies of the same size."""
    metrics = run("compute.memory_bandwidth", tmp_path, seconds=1.0)
    source, target = (torch.zeros(1 << 28, dtype=torch.int32, device=GPU) for _ in (0, 1))
    library = 2 * source.nbytes / best_s(lambda: target.copy_(source)) / 1e9

    assert metrics["wrong_words"] == 0
    assert numbers((metrics["copy_gbps"],))[0] >= WITHIN * library  # type: ignore[arg-type]


def test_words_arrive_over_every_link(tmp_path: Path) -> None:
    """Host and GPUs, each at more than a link of two lanes carries."""
    metrics = run("compute.transfer", tmp_path, seconds=0.3)

    assert set(numbers(metrics["wrong_words"])) == {0.0}
    assert numbers((metrics["h2d_gbps"], metrics["d2h_gbps"])) > (2.0, 2.0)  # type: ignore[arg-type]


def test_exact_products_have_the_bytes_of_the_host(tmp_path: Path) -> None:
    """Nothing wrong in any precision or pattern; a GPU's digest is a CPU's."""
    metrics = run("compute.sdc", tmp_path, seconds=5.0)
    known = next(sdc.all_known(256, 1))
    digests = {sdc.run(known, device.FP32, where, 0.0).digest for where in (GPU, "cpu")}

    assert set(numbers(metrics["wrong_elements"])) == {0.0}
    assert metrics["unsteady_repeats"] == 0
    assert len(digests) == 1


def test_a_block_trains_below_the_peak(tmp_path: Path) -> None:
    """The loss falls, both runs are alike, and a plausible part of the peak is used."""
    metrics = run("training.step", tmp_path)

    assert max(numbers(metrics["loss_ratio"])) < 0.65, "the policies refuse 0.75"
    assert set(numbers(metrics["unequal_losses"])) == {0.0}
    if peak_of(device.name_of(GPU)):
        assert 0.05 < numbers(metrics["mfu"])[-1] < 1.0


def test_products_are_right_beside_a_sum(tmp_path: Path) -> None:
    """With NCCL, a group of one GPU."""
    import torch.distributed as dist

    dist.init_process_group("nccl", init_method=f"file://{tmp_path / 'group'}", rank=0, world_size=1)
    try:
        check = next(one for one in catalog.CATALOG if one.name == "compute.overlap")
        result = check.body(context(check, tmp_path, place=RankPlace(0, 0, 1, GPU), options={"rounds": 5}))
    finally:
        dist.destroy_process_group()

    assert isinstance(result, Measurement)
    assert (result.metrics["wrong_products"], result.metrics["wrong_sums"]) == (0, 0)
