"""gpu.inventory: the least of what can be counted, and never zero GPUs for want of looking."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from checks import gpu
from checks.check import CheckError, fault_of
from checks.model import Declared, Profile, Skip
from tests.checks.local_policy import verdicts


class FakeNvml(ModuleType):
    """Behaves as pynvml does with `count` GPUs, of which `lost` are still indexed but do not answer."""

    def __init__(self, count: int, lost: tuple[int, ...] = (), broken: str = "") -> None:
        super().__init__("pynvml")
        self.NVMLError = type("NVMLError", (Exception,), {"__hash__": None})  # as the real one: not hashable
        self.count, self.lost, self.broken, self.open = count, lost, broken, False

    def nvmlInit(self) -> None:
        if self.broken:
            raise self.NVMLError(self.broken)
        self.open = True

    def nvmlShutdown(self) -> None:
        self.open = False

    def nvmlDeviceGetCount(self) -> int:
        return self.count

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        if index in self.lost:
            raise self.NVMLError("GPU is lost")
        return index

    def nvmlDeviceGetUUID(self, handle: int) -> bytes:
        return f"GPU-{handle}".encode()


def node(root: Path, proc: int | None, dev: int) -> Path:
    """A tree in which the driver lists `proc` GPUs (None: no driver) and /dev has `dev`."""
    (root / "dev").mkdir()
    for name in ("nvidiactl", "nvidia-uvm", "nvidia-caps", *(f"nvidia{index}" for index in range(dev))):
        (root / "dev" / name).touch()
    for index in range(proc or 0):
        folder = root / f"proc/driver/nvidia/gpus/0000:{index:02x}:00.0"
        folder.mkdir(parents=True)
        (folder / "information").write_text(f"GPU UUID: \t GPU-{index}\n", encoding="utf-8")
    if proc == 0:
        (root / "proc/driver/nvidia/gpus").mkdir(parents=True)
    return root


def counted(
    monkeypatch: pytest.MonkeyPatch, root: Path, nvml: ModuleType | None, declared: int = 8
) -> tuple[dict[str, Any], str]:
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    result = gpu.measure(root, declared)
    assert fault_of(gpu.inventory, result.metrics) == ""
    return dict(result.metrics), result.evidence


def test_a_whole_node(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Three sources agree, and NVML is closed again."""
    nvml = FakeNvml(8)
    metrics, _ = counted(monkeypatch, node(tmp_path, 8, 8), nvml)

    assert (metrics["gpus_found"], metrics["gpus_missing"]) == (8, 0)
    assert [metrics[f"gpus_{name}"] for name in ("proc", "dev", "nvml")] == [8, 8, 8]
    assert metrics["gpu_uuids"] == ",".join(f"GPU-{index}" for index in range(8))
    assert not nvml.open
    assert verdicts("gpu.inventory", metrics) == []


def test_the_least_count_is_what_was_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A GPU that fell off the bus is in /dev still, and does not answer NVML."""
    metrics, evidence = counted(monkeypatch, node(tmp_path, 8, 8), FakeNvml(8, lost=(3,)))

    assert (metrics["gpus_found"], metrics["gpus_missing"], metrics["gpus_nvml"]) == (7, 1, 7)
    assert "GPU 3: GPU is lost" in evidence
    assert verdicts("gpu.inventory", metrics) == [("FAIL", "HARDWARE", "gpus_missing")]


def test_declared_and_not_there_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """8 declared and no driver at all: 8 missing, not "a CPU node"; NVML's error is kept."""
    metrics, evidence = counted(
        monkeypatch, node(tmp_path, None, 0), FakeNvml(0, broken="NVML Shared Library Not Found")
    )

    assert (metrics["gpus_found"], metrics["gpus_missing"]) == (0, 8)
    assert "gpus_nvml" not in metrics
    assert "NVML Shared Library Not Found" in evidence
    assert len(verdicts("gpu.inventory", metrics)) == 1


def test_more_than_declared_is_wrong_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Another machine than the declared one."""
    metrics, _ = counted(monkeypatch, node(tmp_path, 8, 8), FakeNvml(8), declared=4)

    assert metrics["gpus_missing"] == -4
    assert len(verdicts("gpu.inventory", metrics)) == 1


def test_nvml_is_not_needed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without pynvml the files still count."""
    metrics, evidence = counted(monkeypatch, node(tmp_path, 8, 8), None)

    assert metrics["gpus_found"] == 8
    assert "nvml: pynvml" in evidence


def test_nvml_that_fails_to_close_changes_no_count(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What was counted stays counted."""
    nvml = FakeNvml(8)

    def fails() -> None:
        raise nvml.NVMLError("Uninitialized")

    monkeypatch.setattr(nvml, "nvmlShutdown", fails)

    assert counted(monkeypatch, node(tmp_path, 8, 8), nvml)[0]["gpus_nvml"] == 8


def test_a_driver_that_lists_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An empty list is a count of 0, whatever device files were left behind."""
    assert counted(monkeypatch, node(tmp_path, 0, 8), None)[0]["gpus_found"] == 0


def test_nothing_to_look_at_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """NVML alone is no independent witness of a lost GPU."""
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml(8))

    with pytest.raises(CheckError, match="dev"):
        gpu.measure(tmp_path / "nowhere", 8)


def test_only_a_declaration_without_gpus_skips_it() -> None:
    """What is declared decides, never what is found."""
    assert gpu.inventory.skip_for(Declared("cpu", 1, 0, 1), Profile.QUICK) is Skip.NO_GPU_DECLARED
    assert gpu.inventory.skip_for(Declared("p5.48xlarge", 1, 8, 8), Profile.QUICK) is None
