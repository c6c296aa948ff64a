"""A node with GPUs that are not there: NVML, CUDA and the kernel's files agree, but for what is dialled.

For this process and for the children that it starts: a folder on PYTHONPATH holds pynvml.py, and a sitecustomize.py
that stands in for libcuda.so.1 (dials "cuda": how many, or {"error": code}, {"hang": seconds}).
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.fakes.gpu_models import MODELS, answers_of

FAKE = Path(__file__).with_name("pynvml_fake.py")

_SITE = Path(__file__).with_name("cuda_site.template").read_text()


def tree(root: Path, proc: int | None, dev: int, driver: str = "580.105.08") -> Path:
    """A root in which the driver lists `proc` GPUs (None: no driver), and /dev has `dev`."""
    fake = module()
    (root / "dev").mkdir(parents=True)
    for name in ("nvidiactl", "nvidia-uvm", "nvidia-caps", *(f"nvidia{index}" for index in range(dev))):
        (root / "dev" / name).touch()
    if proc is not None:
        (root / "proc/driver/nvidia/gpus").mkdir(parents=True)
        said = f"NVRM version: NVIDIA UNIX x86_64 Kernel Module  {driver}  Release Build\n"
        (root / "proc/driver/nvidia/version").write_text(said, encoding="utf-8")
    for index in range(proc or 0):
        folder = root / "proc/driver/nvidia/gpus" / fake.pci_of(index)[4:].lower()
        folder.mkdir()
        said = f"Model: \t\t test\nGPU UUID: \t {fake.uuid_of(index)}\n"
        (folder / "information").write_text(said, encoding="utf-8")
    return root


def module(**dials: Any) -> Any:
    """A fresh stand-in for pynvml with these dials."""
    spec = importlib.util.spec_from_file_location("pynvml", FAKE)
    assert spec is not None and spec.loader is not None
    made: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    made.turn(**_whole(dials))
    return made


@contextmanager
def nvml(fake: ModuleType | None) -> Iterator[None]:
    """The module is what `import pynvml` finds in this process; None: it is not installed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "pynvml", fake)
        yield


def environment(folder: Path, *, proc: int | None = 8, dev: int = 8, **dials: Any) -> dict[str, str]:
    """What a child needs in its environment to believe that it runs on the node; the files lie in the folder."""
    path = folder / "python"
    path.mkdir(parents=True)
    shutil.copy(FAKE, path / "pynvml.py")
    (path / "sitecustomize.py").write_text(_SITE, encoding="utf-8")
    (path / "dials.json").write_text(json.dumps(_whole(dials)), encoding="utf-8")
    tree(folder / "root", proc, dev, str(dials.get("driver", "580.105.08")))
    found = os.environ.get("PYTHONPATH")
    return {
        "PYTHONPATH": os.pathsep.join((str(path), *([found] if found else ()))),
        "FAKE_NVML": str(path / "dials.json"),
        "FAKE_GPU_ROOT": str(folder / "root"),
    }


@contextmanager
def gpu_node(folder: Path, *, proc: int | None = 8, dev: int = 8, **dials: Any) -> Iterator[Path]:
    """This process and its children believe that they run on the node; yields its root."""
    with pytest.MonkeyPatch.context() as patch, nvml(module(**dials)):
        for name, value in environment(folder, proc=proc, dev=dev, **dials).items():
            patch.setenv(name, value)
        yield folder / "root"


def _whole(dials: dict[str, Any]) -> dict[str, Any]:
    """The dials with what they leave out, the model's figures, and what a `driver` is too old for."""
    answers = {**(answers_of(dials["driver"]) if "driver" in dials else {}), **dials.get("answers", {})}
    return {"gpus": 8, **dials, "answers": answers, "spec": MODELS[dials.get("model", "H100")]}
