"""The machines of the compute cases: sound ones, and how to break them. The checks' real bodies, on a CPU.

Rates of GPUs, which a CPU does not have, replace the measured ones where a policy of GPUs judges: those of a sound
H100 are of public tables (770 TFLOP/s in bfloat16 and so on).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

from checks.check import Check, RankPlace
from checks.model import Observation, Value, rank_subject
from checks.probes.compute import device, training_step
from checks.process.observe import probe
from tests.corpus.case import Case, Observe, Rows, Sort, context, observing
from tests.fakes import compute as fakes

P5, CPU = "p5.48xlarge", "cpu"
OPTIONS: dict[str, dict[str, float]] = {
    "compute.gemm": {"seconds": 0.01, "warmup_s": 0.0},
    "compute.sdc": {"seconds": 0.0, "seeds": 1},
    "compute.memory_bandwidth": {"seconds": 0.0, "cpu_mib": 2},
    "compute.transfer": {"seconds": 0.0, "buffer_mib": 1},
    "compute.overlap": {"rounds": 2},
    "training.step": {"steps": 6},
}
# CPUs emulate bfloat16: a step of the real shape takes a tenth of a second on a busy one, and shows no more.
SMALL = training_step.Shape(batch=2, tokens=16, width=32, heads=4)
World = Callable[[Path], AbstractContextManager[object]]

H100: dict[str, dict[str, Value]] = {
    "compute.gemm": {
        "gflops": 51_000.0,
        "precisions": ("fp32", "tf32", "bf16", "fp16"),
        "tflops": (51.0, 390.0, 770.0, 760.0),
        "sustained_tflops": (50.0, 370.0, 710.0, 700.0),
        "above_peak": 0,
        "of_peak": 0.72,
    },
    "compute.memory_bandwidth": {"copy_gbps": 2900.0, "triad_gbps": 3000.0},
    "compute.transfer": {"h2d_gbps": 54.0, "d2h_gbps": 53.0, "p2p_gbps": (390.0,) * 7},
    "compute.overlap": {"overlap_gflops": 640_000.0, "of_sequential": 0.8},
    "training.step": {"tokens_per_s": (30_000.0, 240_000.0), "above_peak": 0},
}


def one(
    check: Check,
    worlds: Sequence[World] = (),
    place: RankPlace | None = fakes.CPU,
    instance_type: str = CPU,
    metrics: Mapping[str, Value] | None = None,
) -> Observe:
    """The observation of one rank whose device is as the worlds say."""

    def observe(tmp_path: Path) -> Sequence[Observation]:
        with fakes.one_thread(), ExitStack() as stack:
            stack.enter_context(mock.patch.dict(training_step.SHAPES, {"cpu": SMALL}))
            for world in worlds:
                stack.enter_context(world(tmp_path))
            made = replace(check, body=fakes.with_metrics(check.body, metrics)) if metrics else check
            options = OPTIONS[check.name]
            return [probe(made, context(check, tmp_path, instance_type, place=place, options=options), RANK)]

    return observe


# What a check measured under the same conditions, because a hundred cases begin with it.
_SOUND: dict[tuple[object, ...], Observation] = {}


def _sound(check: Check, worlds: Sequence[World], tmp_path: Path) -> Observation:
    key = (check.name, *worlds)
    if key not in _SOUND:
        (_SOUND[key],) = one(check, worlds)(tmp_path)
    return _SOUND[key]


def eight(
    check: Check, odd: Mapping[str, Value] | None = None, worlds: Sequence[World] = (), which: int = 5
) -> Observe:
    """Eight ranks of a node with the rates of sound H100s, one of which has the odd numbers."""

    def observe(tmp_path: Path) -> Sequence[Observation]:
        sound = _sound(check, worlds, tmp_path)
        sound = replace(sound, metrics={**sound.metrics, **H100.get(check.name, {})})
        rows = [replace(sound, subject=rank_subject("node-0", rank)) for rank in range(8)]
        rows[which] = replace(rows[which], metrics={**sound.metrics, **(odd or {})})
        return rows

    return observe


@observing
def nodes_of(tmp_path: Path, check: Check, metric: str, factor: float, worlds: Sequence[World] = ()) -> Rows:
    """Five nodes of eight ranks; on the last one all ranks have the metric at `factor` of the others'."""
    rows = eight(check, {}, worlds)(tmp_path)
    sound = rows[0].metrics[metric]
    assert isinstance(sound, tuple)
    slow = tuple(float(rate or 0) * factor for rate in sound)
    return [
        replace(
            row,
            subject=rank_subject(f"node-{node}", node * 8 + rank),
            metrics={**row.metrics, metric: slow if node == 4 else sound},
        )
        for node in range(5)
        for rank, row in enumerate(rows)
    ]


@observing
def alike(tmp_path: Path, check: Check, metric: str, factor: float) -> Rows:
    """Eight ranks of a node that are all as slow as each other: what peers cannot tell."""
    rows = eight(check, {}, [EVERY] if check.name == "compute.gemm" else ())(tmp_path)
    sound = rows[0].metrics[metric]
    rates = sound if isinstance(sound, tuple) else (sound,)
    slow = tuple(float(rate or 0) * factor for rate in rates)
    made: Value = slow if isinstance(sound, tuple) else slow[0]
    return [replace(row, metrics={**row.metrics, metric: made}) for row in rows]


def world(made: Callable[[], AbstractContextManager[object]]) -> World:
    return lambda tmp_path: made()


def patched(target: Any, name: str, value: object) -> World:
    return lambda tmp_path: mock.patch.object(target, name, value)


def wrong(change: fakes.Change) -> World:
    return lambda tmp_path: fakes.products(change)


def raising(error: Exception) -> Callable[..., Any]:
    def fail(*args: Any, **kwargs: Any) -> Any:
        raise error

    return fail


RANK = rank_subject("node-0", 0)
OUT_OF_MEMORY = raising(RuntimeError("CUDA out of memory. Tried to allocate 256.00 MiB"))
LOST = raising(RuntimeError("CUDA error: unspecified launch failure"))
EVERY = world(fakes.every_precision)
GROUP: World = fakes.group_of_one
GPUS = world(lambda: fakes.gpus(8))


def stopped_clock(tmp_path: Path) -> AbstractContextManager[object]:
    """A clock that stands still."""
    return mock.patch("time.perf_counter", lambda: 1e9)


def case(check: Check, sort: Sort, name: str, observe: Observe, **more: Any) -> Case:
    return Case(check.name, sort, name, observe, **{"instance_type": CPU, **more})


def healthy(check: Check, name: str, observe: Observe, instance_type: str = CPU, nodes: int = 1) -> Case:
    return case(check, Sort.HEALTHY, name, observe, instance_type=instance_type, nodes=nodes)


def faulty(check: Check, name: str, observe: Observe, names: str, **more: Any) -> Case:
    return case(check, Sort.FAULTY, name, observe, names=names, **more)


def blind(check: Check, name: str, observe: Observe, **more: Any) -> Case:
    return case(check, Sort.UNMEASURABLE, name, observe, **more)


def no_cuda(check: Check) -> Case:
    """A rank of a declared GPU whose torch finds none: this very machine, or one whose driver is gone."""
    worlds = (patched(device, "require", device.require),)
    gone = (lambda tmp_path: mock.patch("torch.cuda.is_available", lambda: False), *worlds)
    return blind(check, "torch finds no GPU", one(check, gone, fakes.GPU, P5), instance_type=P5)


def without_place(check: Check) -> Case:
    return blind(check, "outside of torchrun", one(check, (), None))


def slower(check: Check, metric: str, factor: float, index: int | None = None) -> dict[str, Value]:
    """The numbers of a GPU that is slower, in one precision or in all."""
    sound = H100[check.name][metric]
    assert isinstance(sound, tuple)
    return {metric: tuple(float(v or 0) * (factor if index in (None, i) else 1) for i, v in enumerate(sound))}


PEER = "of the median of its peers"
NEIGHBOUR = "of the median of its node"
