"""gpu.inventory: the least of what can be counted, and never zero GPUs for want of looking."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from checks.probes.gpu import inventory, inventory_child
from checks.probes.gpu.inventory_child import GpuListing
from tests.fakes import gpu_node, tools
from tests.installation.hostile import hostile_folder, imported


def rows(*uuids: str) -> tuple[dict[str, str], ...]:
    return tuple({"uuid": uuid} for uuid in uuids)


def test_lists_that_are_not_whole_are_not_compared() -> None:
    """A driver that has not initialised its GPUs shows no UUIDs: that is no difference."""
    short, whole = GpuListing("x", 2, "", gpus=rows("a")), GpuListing("y", 2, "", gpus=rows("b", "c"))
    assert 0 == inventory.unlike((short, whole))


@pytest.mark.parametrize(
    ("nvml", "cuda", "dev", "expected"),
    [
        ("bc", "bc", 4, ((0, 0, 0), 0)),
        ("bc", "bc", 2, ((0, 0, 0), 0)),
        ("bc", "bc", 1, ((1, 0, 0), 0)),
        ("b", "b", 4, ((-2, 1, 1), 3)),
        ("bc", "b", 4, ((-2, 0, 1), 3)),
        ("bc", "cd", 4, ((-2, 0, 0), 3)),
        ("bx", "bx", 4, ((-2, 0, 0), 4)),
        ("bb", "bb", 4, ((-2, 0, 0), 0)),
        ("abcd", "bc", 4, ((-2, -2, 0), 2)),
        ("bc!!", "bc", 4, ((-2, 0, 0), 2)),
    ],
)
def test_a_part_of_a_nodes_gpus_is_compared_with_its_part_of_the_kernels_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nvml: str, cuda: str, dev: int, expected: object
) -> None:
    """Slurm and pods lend two GPUs of four, and the driver still lists the others; whatever else differs stays a fault, and so do GPUs
    that NVML lists as lost (!): nobody else has them.
    """
    lent = {"nvml": nvml, "cuda": cuda}

    def ask(source: str, timeout_s: float) -> GpuListing:
        lost = lent[source].count("!")
        alive = rows(*lent[source].rstrip("!"))
        gpus = tuple({**row, "label": "", "model": "", "vbios": ""} for row in alive)
        return GpuListing(source, len(gpus), "", gpus=gpus, lost=lost)

    monkeypatch.setattr(inventory, "ask", ask)
    monkeypatch.setattr("checks.probes.host.machine.gpu_uuids", lambda root: tuple("abcd"))
    metrics = inventory.measure(gpu_node.tree(tmp_path, 4, dev), 2, "", 1.0).metrics

    assert expected == (metrics["gpus_missing"], metrics["unlike_uuids"])


def test_a_child_that_prints_nonsense_has_not_looked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its words are kept as the reason."""
    python = tools.install(tmp_path, "python", [tools.Reply(stdout="Segmentation fault")])
    monkeypatch.setattr("sys.executable", str(python))
    seen = inventory.ask("nvml", 5.0)

    assert seen.count is None
    assert "Segmentation fault" in seen.account


def test_without_pynvml_nvml_has_not_looked() -> None:
    """Not installed is no 0."""
    with gpu_node.nvml(None):
        seen = inventory_child.by_nvml()

    assert seen.count is None
    assert "pynvml" in seen.account


def test_a_child_starts_below_a_path_beyond_ascii(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment in which a .pth file names such a path, as after `pip install --editable` in a folder with an umlaut."""
    environment = tmp_path / "Prüf stand"
    subprocess.run((sys.executable, "-m", "venv", "--without-pip", environment), check=True)
    (packages,) = environment.glob("lib/python*/site-packages")
    (packages / "editable.pth").write_text(f"{environment}\n", encoding="utf-8")
    monkeypatch.setattr(sys, "executable", str(environment / "bin" / "python"))

    assert "pynvml" in inventory.ask("nvml", 60.0).account


def test_cuda_without_its_library_has_not_looked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without a driver."""

    def absent(name: str) -> None:
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr("ctypes.CDLL", absent)

    assert inventory_child.visible().count is None


def test_a_gpu_that_is_refused_is_no_broken_one() -> None:
    """A container that may not open it: NVML could not tell, so there is no count."""
    with gpu_node.nvml(gpu_node.module(answers={"3/*": {"error": 4}})):
        seen = inventory_child.by_nvml()

    assert seen.count is None
    assert "Insufficient Permissions" in seen.account


@pytest.mark.parametrize("path", [None, "."], ids=["no path", "the folder on the path"])
def test_a_folder_with_packages_of_these_names_changes_no_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str | None
) -> None:
    """`prelaunch check` runs where a person stands; a project's own `checks` made every GPU there unknown, and the gate refuse."""
    usual = inventory.ask("nvml", 20.0)
    folder = hostile_folder(tmp_path / "project")
    monkeypatch.chdir(folder)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    if path is not None:
        monkeypatch.setenv("PYTHONPATH", path)

    assert usual == inventory.ask("nvml", 20.0)
    assert [] == imported(folder)
