"""A context for a check's body; and small worlds of real ranks (gloo over loopback), healthy and sabotaged.

As a script this is the ranks, forks of one process that has imported torch. It imports nothing of `tests`, a name that installed
packages use too.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest import mock

from checks.check import Context, RankPlace, fault_of
from checks.model import Declared, Profile
from checks.roster import Roster
from tests.exchanges import access
from tests.fakes import nccl_world
from tests.installation.hostile import NO_NUMPY

ROOT = Path(__file__).parents[2]
Metrics = Mapping[str, Any]
WORLD_S = 200.0
RANKS = 2


def context(
    scratch: Path = Path("/tmp"),
    options: Mapping[str, float] | None = None,
    place: RankPlace | None = None,
    gpus: int = 0,
) -> Context:
    """One node, named node-0, in profile quick."""
    return Context(
        access=access(),
        catalogue="catalogue",
        declared=Declared("cpu", 1, gpus, place.world_size if place else 1),
        profile=Profile.QUICK,
        node="node-0",
        node_rank=0,
        roster=Roster((), 1, ""),
        scratch=scratch,
        timeout_s=20.0,
        options=options or {},
        rank_place=place,
    )


def world_of_session(folder: Path) -> dict[str, list[Metrics]]:
    """What two ranks of one world measured, by "check/sabotage"; it serves a test session. `folder` is below pytest's own."""
    root = session_folder(folder)
    kept = root / "world.json"
    with open(root / "world.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.exists():
            kept.write_text(json.dumps(_run_world(root)))
    found: dict[str, list[Metrics]] = json.loads(kept.read_text())
    return found


def session_folder(folder: Path) -> Path:
    """The folder that all workers of a test session share; `folder` is below it."""
    return next((one for one in (folder, *folder.parents) if re.fullmatch(r"pytest-\d+", one.name)), folder)


def _run_world(folder: Path) -> dict[str, list[Metrics]]:
    """Run the pairs of SCENARIOS in turn."""
    (folder / "without").mkdir()
    (folder / "without/numpy.py").write_text(NO_NUMPY)
    path = f"{folder}/without:{ROOT}"
    env = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "PYTHONPATH": path}
    argv = (sys.executable, "-W", "ignore", __file__, str(folder / "world.store"))
    subprocess.run(argv, env=env, cwd=ROOT, timeout=WORLD_S, check=True)
    said = [json.loads((folder / f"world.store.{rank}").read_text()) for rank in range(RANKS)]
    return {name: [of_rank[name] for of_rank in said] for name in said[0]}


def main(store: str) -> None:
    import torch.nn.parallel  # the ranks share what this imports

    with suppress(ImportError):
        import torch._dynamo  # noqa: F401 - DistributedDataParallel needs it
    children = []
    for rank in range(RANKS):
        if (child := os.fork()) == 0:
            _rank(store, rank)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)


def _rank(store: str, rank: int) -> None:
    import torch.distributed as dist

    try:
        dist.init_process_group(
            "gloo", init_method=f"file://{store}", rank=rank, world_size=RANKS, timeout=timedelta(seconds=20)
        )
        found = {f"{check}/{sabotage}": _measure(check, sabotage, rank) for check, sabotage in SCENARIOS}
        every = {**found, "numpy": _without_numpy(), **nccl_world.observed(rank)}
        Path(f"{store}.{rank}").write_text(json.dumps(every))
    finally:
        os._exit(0)


def _without_numpy() -> Metrics:
    """Whether torch finds numpy, and digests."""
    import torch

    from checks.probes.compute import sdc, training_smoke

    try:
        numpy = bool(torch.ones(1).numpy())
    except RuntimeError:
        numpy = False
    sound = sdc.measure("cpu", sdc.SIZES["cpu"], 0.0, 1).metrics["digest"]
    return {"numpy": numpy, "sdc": sound, "model": training_smoke.digest(training_smoke.make_model("cpu"))}


def _measure(name: str, sabotage: str, rank: int) -> Metrics:
    from checks.probes.collectives import collectives
    from checks.probes.compute import overlap, training_smoke

    check = {
        "all_reduce": collectives.gloo_all_reduce,
        "ddp": training_smoke.ddp,
        "overlap": overlap.overlap,
    }[name]
    options = {"min_bytes": 64.0, "max_bytes": 65536.0, "budget_s": 0.5, "steps": 20.0, "rounds": 3.0}
    with SABOTAGES[sabotage](rank):
        result = check.body(context(options=options, place=RankPlace(rank, rank, RANKS, "cpu")))
    metrics: dict[str, Any] = dict(getattr(result, "metrics", {}))
    return {**(metrics if "NaN" not in sabotage else {}), "fault": fault_of(check, metrics)}


@contextmanager
def _healthy(rank: int) -> Iterator[None]:
    yield


@contextmanager
def _after(rank: int, change: Callable[[Any], None], only: int | None = None) -> Iterator[None]:
    """The sum over all ranks, whose result on `only` that rank (or on all) is changed."""
    import torch.distributed as dist

    real = dist.all_reduce

    def changed(out: Any, *args: Any, **kwargs: Any) -> Any:
        pending = real(out, *args, **kwargs)
        if pending is not None:
            pending.wait()
        if only in (None, rank):
            change(out)
        return pending

    with mock.patch.object(dist, "all_reduce", changed):
        yield


@contextmanager
def _identity(rank: int) -> Iterator[None]:
    import torch.distributed as dist

    with mock.patch.object(dist, "all_reduce", lambda out, **kwargs: None):
        yield


@contextmanager
def _learning_rate_0(rank: int) -> Iterator[None]:
    from checks.probes.compute import training_smoke

    with mock.patch.object(training_smoke, "LEARNING_RATE", 0.0):
        yield


@contextmanager
def _drift(rank: int, by: float) -> Iterator[None]:
    """The weights of rank 1 change by themselves at every step."""
    import torch

    from checks.probes.compute import training_smoke

    real = training_smoke.descend

    def drifting(model: Any) -> None:
        real(model)
        if rank == 1:
            with torch.no_grad():
                next(iter(model.parameters()))[0, 0] += by

    with mock.patch.object(training_smoke, "descend", drifting):
        yield


def _add_to_last(out: Any) -> None:
    out.view(-1)[-1] += 1


def _double(out: Any) -> None:
    out *= 2


SABOTAGES: dict[str, Callable[[int], Any]] = {
    "healthy": _healthy,
    "identity": _identity,
    "doubled": lambda rank: _after(rank, _double),
    "one_element": lambda rank: _after(rank, _add_to_last, only=1),
    "learning_rate_0": _learning_rate_0,
    "drift": lambda rank: _drift(rank, 1e-6),
    "drift_to_NaN": lambda rank: _drift(rank, float("nan")),
}

# What the one world of a test session is made to do: (check, sabotage).
SCENARIOS = [
    *(("overlap", name) for name in ("healthy", "one_element", "identity", "doubled")),
    *(("ddp", name) for name in SABOTAGES),
    ("all_reduce", "healthy"),
]

if __name__ == "__main__":
    main(sys.argv[1])
