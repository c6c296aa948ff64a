"""compute.gemm, compute.sdc, compute.overlap and training.step on sound, faulty and unmeasurable devices."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from checks.model import Cause, Level, rank_subject
from checks.probes.compute import gemm, overlap, sdc, training_step
from tests.corpus.case import Rows, observing
from tests.corpus.compute_machines import (
    EVERY,
    GROUP,
    LOST,
    NEIGHBOUR,
    OUT_OF_MEMORY,
    P5,
    PEER,
    World,
    alike,
    blind,
    eight,
    faulty,
    healthy,
    no_cuda,
    nodes_of,
    one,
    patched,
    slower,
    stopped_clock,
    without_place,
    wrong,
)
from tests.fakes import compute as fakes

GEMM = [
    healthy(gemm.gemm, "this CPU", one(gemm.gemm)),
    healthy(gemm.gemm, "eight GPUs, every precision", eight(gemm.gemm, worlds=[EVERY]), P5),
    faulty(gemm.gemm, "a stuck element", one(gemm.gemm, [wrong(fakes.off_by_one)]), "wrong_elements"),
    faulty(gemm.gemm, "one element once", one(gemm.gemm, [wrong(fakes.once(3))]), "computes wrong matrix products (1 wrong value)"),
    faulty(gemm.gemm, "nothing computed", one(gemm.gemm, [wrong(fakes.zeros)]), "wrong_checksums"),
    faulty(gemm.gemm, "NaN", one(gemm.gemm, [wrong(fakes.not_a_number)]), "wrong_elements"),
    faulty(gemm.gemm, "wrong in every precision", eight(gemm.gemm, {}, [EVERY, wrong(fakes.zeros)]), "wrong_elements",
        instance_type=P5),
    faulty(gemm.gemm, "one GPU 12 % slower in bf16", eight(gemm.gemm, slower(gemm.gemm, "sustained_tflops", 0.88, 2), [EVERY]),
        f"rank-5 sustained_tflops sustains 624.8 TFLOP/s in matrix products in bf16, 88 % {NEIGHBOUR}", instance_type=P5),
    faulty(gemm.gemm, "one GPU 7 % slower", eight(gemm.gemm, slower(gemm.gemm, "sustained_tflops", 0.93), [EVERY]), "rank-5",
        instance_type=P5, level=Level.WARN),
    faulty(gemm.gemm, "one node of five slower as a whole", nodes_of(gemm.gemm, "sustained_tflops", 0.85, [EVERY]),
        "node-4 sustained_tflops sustains 314.5 TFLOP/s in matrix products in tf32, 85 % of the", instance_type=P5, nodes=5),
    faulty(gemm.gemm, "emulated", one(gemm.gemm, metrics={"gflops": 0.4}), "gflops reaches 0.4 GFLOP/s in matrix products",
        cause=Cause.CONFIGURATION),
    faulty(gemm.gemm, "all GPUs crawl", eight(gemm.gemm, {"tflops": (0.4, 0.4, 0.4, 0.4)}, [EVERY]),
        "tflops reaches 0.4 TFLOP/s in matrix products in bf16", instance_type=P5, cause=Cause.CONFIGURATION),
    faulty(gemm.gemm, "all GPUs alike at a twentieth of their rate", eight(gemm.gemm, {"of_peak": 0.036}, [EVERY], which=0),
        "of_peak reaches 3.6 % of the GPU's peak in matrix products", instance_type=P5, cause=Cause.CONFIGURATION),
    faulty(gemm.gemm, "faster than the silicon", one(gemm.gemm, [patched(gemm, "limit_tflops", lambda *of: 1e-6)]), "of_peak is",
        cause=Cause.EVIDENCE),
    faulty(gemm.gemm, "one GPU at 0.7 of what is known", eight(gemm.gemm, slower(gemm.gemm, "sustained_tflops", 0.7, 2), [EVERY]),
        "sustains 497 TFLOP/s in matrix products in bf16, 70 % of the expected value (713 TFLOP/s)", instance_type=P5),
    faulty(gemm.gemm, "one GPU at 0.85 of what is known", eight(gemm.gemm, slower(gemm.gemm, "sustained_tflops", 0.85, 2), [EVERY]),
        "of the expected value (713 TFLOP/s), threshold 90 %", instance_type=P5, level=Level.WARN),
    faulty(gemm.gemm, "all GPUs at 0.7, which no peer tells", alike(gemm.gemm, "sustained_tflops", 0.7),
        "cluster sustained_tflops all 8 are affected", instance_type=P5, cause=Cause.CONFIGURATION),
    faulty(gemm.gemm, "one GPU above its data sheet", eight(gemm.gemm, slower(gemm.gemm, "sustained_tflops", 1.5, 2), [EVERY]),
        "the measurement is wrong", instance_type=P5, cause=Cause.EVIDENCE),
    blind(gemm.gemm, "no expected values for the model", eight(gemm.gemm, {}, [EVERY]), instance_type="p6-b300.48xlarge"),
    blind(gemm.gemm, "out of memory", one(gemm.gemm, [patched(gemm, "make_problem", OUT_OF_MEMORY)])),
    blind(gemm.gemm, "the device is lost", one(gemm.gemm, [patched(gemm, "_multiply", LOST)])),
    blind(gemm.gemm, "a clock that stands still", one(gemm.gemm, [stopped_clock])),
    blind(gemm.gemm, "a precision without a rate", eight(gemm.gemm, {"sustained_tflops": (50.0, 370.0, None, 700.0)}, [EVERY]),
        instance_type=P5),
    no_cuda(gemm.gemm),
    without_place(gemm.gemm),
]  # fmt: skip


@observing
def nodes(tmp_path: Path, *digests: str) -> Rows:
    """A rank a node, each with its digest."""
    (row,) = one(sdc.sdc)(tmp_path)
    return [
        replace(row, subject=rank_subject(f"node-{i}", i), metrics={**row.metrics, "digest": digest})
        for i, digest in enumerate(digests)
    ]


SDC = [
    healthy(sdc.sdc, "this CPU", one(sdc.sdc)),
    healthy(sdc.sdc, "eight GPUs, every precision", eight(sdc.sdc, worlds=[EVERY]), P5),
    faulty(sdc.sdc, "stuck: the same wrong answer every time", one(sdc.sdc, [wrong(fakes.off_by_one)]),
        "computes wrong matrix products (2 wrong values, fp32 orthogonal 0,"),
    faulty(sdc.sdc, "one element once", one(sdc.sdc, [wrong(fakes.once(2))]), "unsteady_repeats computes other results"),
    faulty(sdc.sdc, "NaN", one(sdc.sdc, [wrong(fakes.not_a_number)]), "wrong_elements"),
    faulty(sdc.sdc, "nothing computed", one(sdc.sdc, [wrong(fakes.zeros)]), "wrong_elements"),
    faulty(sdc.sdc, "rows swapped", one(sdc.sdc, [wrong(lambda r, call: r.flip(0))]), "wrong_elements"),
    faulty(sdc.sdc, "stuck in every precision", eight(sdc.sdc, {}, [EVERY, wrong(fakes.off_by_one)]),
        "tf32 orthogonal 0, bf16 orthogonal 0,", instance_type=P5),
    faulty(sdc.sdc, "one GPU's digest is another", eight(sdc.sdc, {"digest": "0" * 64}, [EVERY]),
        "node-0/rank-5 digest digest of the results is 0000", instance_type=P5),
    healthy(sdc.sdc, "nodes agree", nodes("a", "a", "a")),
    faulty(sdc.sdc, "one node of three differs", nodes("a", "b", "a"), "node-1/rank-1 digest digest of the results is b"),
    faulty(sdc.sdc, "two nodes differ, either may be it", nodes("a", "b"), "cluster digest digest of the results differs, and no"),
    blind(sdc.sdc, "out of memory", one(sdc.sdc, [patched(sdc, "_burst", OUT_OF_MEMORY)])),
    blind(sdc.sdc, "the device is lost", one(sdc.sdc, [patched(sdc, "_compare", LOST)])),
    blind(sdc.sdc, "a problem without an answer", one(sdc.sdc, metrics={"wrong_elements": (0, None, 0, 0)})),
    no_cuda(sdc.sdc),
    without_place(sdc.sdc),
]  # fmt: skip


def _sums(change: Callable[[Any], None]) -> World:
    """The sum over the ranks, changed after it arrived."""
    real = overlap._begin_sum

    def begin(tensor: Any) -> Callable[[], object]:
        pending = real(tensor)

        def finish() -> None:
            pending()
            change(tensor)

        return finish

    return patched(overlap, "_begin_sum", begin)


def _add_one(tensor: Any) -> None:
    tensor[-1] += 1


OVERLAP = [
    healthy(overlap.overlap, "a group", one(overlap.overlap, [GROUP])),
    healthy(overlap.overlap, "eight GPUs", eight(overlap.overlap, {}, [GROUP]), P5),
    faulty(overlap.overlap, "a product is wrong beside a sum", one(overlap.overlap, [GROUP, wrong(fakes.off_by_one)]),
        "wrong_products"),
    faulty(overlap.overlap, "a sum is wrong beside a product", one(overlap.overlap, [GROUP, _sums(_add_one)]), "wrong_sums"),
    faulty(overlap.overlap, "one GPU slower once it communicates", eight(overlap.overlap, {"overlap_gflops": 500_000.0}, [GROUP]),
        f"while it communicates, 78 % {PEER}", instance_type=P5),
    faulty(overlap.overlap, "computing and communicating in each other's way",
        eight(overlap.overlap, {"of_sequential": 3.5}, [GROUP]), "of_sequential needs 3.5 times as long", instance_type=P5,
        cause=Cause.CONFIGURATION),
    faulty(overlap.overlap, "a rank that hardly runs", one(overlap.overlap, [GROUP], metrics={"of_sequential": 31.0}),
        "of_sequential", cause=Cause.CONFIGURATION),
    blind(overlap.overlap, "no group", one(overlap.overlap)),
    blind(overlap.overlap, "the group is lost", one(overlap.overlap, [GROUP, patched(overlap, "_begin_sum", LOST)])),
    blind(overlap.overlap, "a clock that stands still", one(overlap.overlap, [GROUP, patched(overlap, "_single", lambda *a: 0.0)])),
    no_cuda(overlap.overlap),
    without_place(overlap.overlap),
]  # fmt: skip


STEP = training_step.step
TRAINING = [
    healthy(STEP, "this CPU", one(STEP)),
    healthy(STEP, "eight GPUs", eight(STEP), P5),
    faulty(STEP, "NaN", one(STEP, [wrong(fakes.not_a_number)]),
        "nonfinite_losses computes a loss that is no number (12 steps, fp32"),
    faulty(STEP, "no learning", one(STEP, [patched(training_step, "LEARNING_RATE", 0.0)]), "loss_ratio does not learn in fp32",
        cause=Cause.CONFIGURATION),
    faulty(STEP, "nothing computed", one(STEP, [wrong(fakes.zeros)]), "loss_ratio does not learn", cause=Cause.CONFIGURATION),
    faulty(STEP, "no two runs alike", one(STEP, [wrong(fakes.noisy)]), "unequal_losses computes another loss", level=Level.WARN),
    faulty(STEP, "emulated", one(STEP, metrics={"tokens_per_s": (30.0, 29.0)}), "tokens per second in fp32, threshold 50",
        cause=Cause.CONFIGURATION),
    faulty(STEP, "one GPU 20 % slower", eight(STEP, slower(STEP, "tokens_per_s", 0.8)),
        f"rank-5 tokens_per_s trains 192,000 tokens per second in bf16, 80 % {NEIGHBOUR}", instance_type=P5),
    faulty(STEP, "what the slowest rank costs the job", eight(STEP, slower(STEP, "tokens_per_s", 0.8)),
        "rank-5 tokens_per_s costs the job 20 % of its time", instance_type=P5),
    faulty(STEP, "one node of five slower as a whole", nodes_of(STEP, "tokens_per_s", 0.88),
        "node-4 tokens_per_s trains 211,200 tokens per second in bf16, 88 % of the median of the nodes", instance_type=P5, nodes=5),
    healthy(STEP, "five nodes alike", nodes_of(STEP, "tokens_per_s", 0.99), P5, 5),
    faulty(STEP, "faster than the silicon", one(STEP, [patched(training_step, "limit_tflops", lambda name: 1e-6)]),
        "above_peak measured 2 rates above what the hardware can do", cause=Cause.EVIDENCE),
    blind(STEP, "out of memory", one(STEP, [patched(training_step, "make_weights", OUT_OF_MEMORY)])),
    blind(STEP, "a clock that stands still", one(STEP, [stopped_clock])),
    blind(STEP, "the device is lost", one(STEP, [patched(training_step, "one_step", LOST)])),
    no_cuda(STEP),
    without_place(STEP),
]  # fmt: skip


CASES = [*GEMM, *SDC, *OVERLAP, *TRAINING]
