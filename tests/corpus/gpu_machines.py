"""Nodes whose GPUs are well, broken, or cannot be asked: NVML is tests/fakes/pynvml_fake.py, one setting a fault."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

from checks.check import Check, RankPlace
from checks.model import Cause, Level, Observation, Scope
from checks.probes.gpu import inventory as found
from checks.probes.gpu import inventory_child, under_load
from checks.probes.gpu.nvlink import nvlink
from checks.process.fork_server import started
from checks.process.isolate import isolated
from tests.corpus.case import Case, Observe, Rows, Sort, context, observed, observing
from tests.fakes import gpu_node

CONFIGURATION, APPLICATION, EVIDENCE = Cause.CONFIGURATION, Cause.APPLICATION, Cause.EVIDENCE
LOST, DENIED, UNSUPPORTED, OLD, MISSING = 15, 4, 3, 13, 12
TYPES = {"H100": "p5.48xlarge", "A100": "p4d.24xlarge", "T4": "g4dn.12xlarge", "B200": "p6-b200.48xlarge"}
COUNTS = {"H100": 8, "A100": 8, "T4": 4, "B200": 8}
MIB = 1 << 20
WATTS = 1000

NvmlAnswers = Mapping[str, Any]
AnswersOrNode = NvmlAnswers | Observe
NOTHING: NvmlAnswers = {}


def error(code: int) -> dict[str, int]:
    """What NVML answers."""
    return {"error": code}


def settings(model: str, told: NvmlAnswers, gpus: int | None = None) -> dict[str, Any]:
    """The settings of a node of the model; answers by "GPU/call"."""
    return {"model": model, "gpus": COUNTS[model] if gpus is None else gpus, "answers": dict(told)}


def node(check: Check, model: str = "H100", told: NvmlAnswers = NOTHING, gpus: int | None = None) -> Observe:
    """The check's observation of a node on which NVML gives these answers."""

    def observe(tmp_path: Path) -> Sequence[Observation]:
        with (
            gpu_node.nvml(gpu_node.module(**settings(model, told, gpus))),
            patch("checks.probes.gpu.state.PAUSE_S", 0.001),
            patch("checks.probes.gpu.state.SETTLE_S", 0.001),
        ):
            return observed(check, context(check, tmp_path, TYPES[model]))

    return observe


@observing
def without_pynvml(tmp_path: Path, check: Check) -> Rows:
    """The check's observation of a node that lacks nvidia-ml-py."""
    with gpu_node.nvml(None):
        return observed(check, context(check, tmp_path))


class FakeLoad:
    """Keeps the GPU with this number busy, as far as the stand-in for NVML is concerned."""

    def __init__(self, fake: Any, number: int, works: bool = True, fails: str = "") -> None:
        self.uuid = fake.uuid_of(number)
        self._fake, self._works, self._fails = fake, works, fails

    def step(self) -> None:
        """A moment of work."""
        if self._fails:
            raise RuntimeError(self._fails)
        self._fake.busy(self._works)
        time.sleep(0.002)


def rank(
    check: Check,
    model: str = "H100",
    *,
    number: int = 5,
    works: bool = True,
    fails: str = "",
    device: str = "cuda:0",
    told: NvmlAnswers = NOTHING,
) -> Observe:
    """The observation of a rank whose torch device is that of NVML's GPU `number`."""

    def observe(tmp_path: Path) -> Sequence[Observation]:
        fake = gpu_node.module(**settings(model, told))
        place = RankPlace(0, 0, 8, device)
        made = context(check, tmp_path, TYPES[model], place=place, options={"seconds": 0.04})
        load = FakeLoad(fake, number, works, fails)
        with gpu_node.nvml(fake), patch.object(under_load, "make_load", lambda device: load):
            return observed(check, made, "node-0/rank-0")

    return observe


def links(old: NvmlAnswers | None, new: NvmlAnswers, model: str = "H100", gpus: int | None = None) -> Observe:
    """gpu.nvlink on a node that answers otherwise the second time; None: its first look failed. At first it has `gpus` GPUs."""

    def observe(tmp_path: Path) -> Sequence[Observation]:
        check, before = nvlink, None
        assert check.before is not None
        if old is not None:
            with gpu_node.nvml(gpu_node.module(**settings(model, old, gpus))):
                before = dict(check.before(context(check, tmp_path, TYPES[model])))
            before["at_s"] = float(str(before["at_s"])) - 10
        with gpu_node.nvml(gpu_node.module(**settings(model, new))):
            return observed(check, context(check, tmp_path, TYPES[model], before=before))

    return observe


def inventory(
    *,
    proc: int | None = 8,
    dev: int = 8,
    cuda: Any = 8,
    told: NvmlAnswers = NOTHING,
    environment: dict[str, str] | None = None,
    source_s: float = 10.0,
) -> Observe:
    """gpu.inventory, with its children, on a node of H100 whose sources say different things."""

    def observe(tmp_path: Path) -> Sequence[Observation]:
        node_settings = {**settings("H100", told), "cuda": cuda}
        with (
            gpu_node.gpu_node(tmp_path, proc=proc, dev=dev, **node_settings) as root,
            patch.object(found, "ROOT", root),
            patch.object(found, "SOURCE_S", source_s),
            patch.dict(os.environ, environment or {}),
        ):
            return observed(found.inventory, context(found.inventory, tmp_path))

    return observe


def quick(
    model: str = "H100",
    *,
    proc: int | None = -1,
    dev: int = -1,
    cuda: int = -1,
    gpus: int | None = None,
    kind: str = "",
    told: NvmlAnswers = NOTHING,
) -> Observe:
    """As `inventory`, without the children: both libraries are asked in this process. -1: as many as the type has."""
    many = COUNTS[model]
    kernel, files = (many if proc == -1 else proc), (many if dev == -1 else dev)
    shown = many if cuda == -1 else cuda

    def observe(tmp_path: Path) -> Sequence[Observation]:
        fake = gpu_node.module(**settings(model, told, gpus))
        rows = tuple({"uuid": fake.uuid_of(number)} for number in range(shown))
        seen = inventory_child.GpuListing("cuda", shown, "", gpus=rows)

        def ask(source: str, timeout_s: float) -> inventory_child.GpuListing:
            return inventory_child.by_nvml() if source == "nvml" else seen

        with (
            gpu_node.nvml(fake),
            patch.object(found, "ROOT", gpu_node.tree(tmp_path / "root", kernel, files)),
            patch.object(found, "ask", ask),
        ):
            return observed(found.inventory, context(found.inventory, tmp_path, kind or TYPES[model]))

    return observe


@observing
def three_nodes(tmp_path: Path, told: NvmlAnswers = NOTHING) -> Rows:
    """gpu.inventory of three nodes, of which the second gives these answers."""
    rows: list[Observation] = []
    for name, answers in (("node-0", NOTHING), ("node-1", told), ("node-2", NOTHING)):
        rows += [replace(row, subject=name) for row in quick(told=answers)(tmp_path / name)]
    return rows


def nowhere(tmp_path: Path) -> Sequence[Observation]:
    """gpu.inventory on a machine that shows neither /proc nor /dev."""
    with patch.object(found, "ROOT", tmp_path / "nowhere"):
        return observed(found.inventory, context(found.inventory, tmp_path))


HANGING = """
import sys
sys.path.insert(0, sys.argv[1])
from tests.corpus import gpu_machines
gpu_machines.leave(*sys.argv[2:])
"""


def leave(name: str, scratch: str, result: str) -> None:
    """In a child: the check on a node whose NVML hangs."""
    from checks import catalog
    from checks.documents.report import dump_plain

    check = next(c for c in catalog.CATALOG if c.name == name)
    rows = node(check, told={"*/*": {"hang": 60}, "node/nvmlDeviceGetCount": {"hang": 60}})(Path(scratch))
    Path(result).write_bytes(dump_plain(rows[0]))


@observing
def hanging(tmp_path: Path, check: Check) -> Rows:
    """The check in a process of its own, as the runner starts it, on a driver that never answers."""
    repository = str(Path(__file__).parents[2])
    result = tmp_path / "result.json"
    argv = ("-c", HANGING, repository, check.name, str(tmp_path), str(result))
    return [isolated(check.name, "node-0", lambda _: started(argv), result, 0.1)]


MODELS = {kind: model for model, kind in TYPES.items()}


def seen(check: Check, made: AnswersOrNode, kind: str) -> Observe:
    """What NVML answers on a machine of this type, to the check of a node or of the rank of one GPU; or what is there already."""
    if callable(made):
        return made
    model = MODELS[kind]
    if check.scope is Scope.NODE:
        return node(check, model, told=made)
    return rank(check, model, number=1 if model == "T4" else 5, told=made)


def healthy(check: Check, name: str, made: AnswersOrNode, kind: str = "p5.48xlarge", nodes: int = 1) -> Case:
    return Case(check.name, Sort.HEALTHY, name, seen(check, made, kind), kind, nodes)


def faulty(
    check: Check,
    name: str,
    made: AnswersOrNode,
    names: str,
    level: Level = Level.FAIL,
    cause: Cause = Cause.HARDWARE,
    kind: str = "p5.48xlarge",
    nodes: int = 1,
) -> Case:
    observe = seen(check, made, kind)
    return Case(check.name, Sort.FAULTY, name, observe, kind, nodes, level=level, cause=cause, names=names)


def unmeasurable(check: Check, name: str, made: AnswersOrNode, kind: str = "p5.48xlarge") -> Case:
    return Case(check.name, Sort.UNMEASURABLE, name, seen(check, made, kind), kind)


WARN = Level.WARN
T4, A100, B200 = TYPES["T4"], TYPES["A100"], TYPES["B200"]
