"""Every kind has one reader, and no reader claims what is not its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from checks.explain import registry
from checks.explain.reading import ExplainError, OutputKind, ReadOptions

ROOT = Path(__file__).parents[3]
STRANGE = {
    "nothing": "",
    "prose": "The node is healthy, all 8 GPUs passed, 0 errors.\n" * 3,
    "this project's changelog": (ROOT / "CHANGELOG.md").read_text(),
    "a program": (ROOT / "checks/explain/registry.py").read_text(),
    "a policy": (ROOT / "deployments/policies/nvidia.toml").read_text(),
    "other JSON": '{"status": "Pass", "results": [], "version": "4.2.3"}\n',
    "other XML": "<?xml version='1.0'?>\n<log><gpu>ok</gpu></log>\n",
    "an empty list": "[]\n",
    "a log of another program": "2026-11-02 10:00:00 INFO step 100 loss 2.31\n" * 50,
}


def test_every_kind_has_one_reader() -> None:
    """But a report, which is judged."""
    kinds = [kind for kinds in registry.MODULES.values() for kind in kinds]

    assert sorted(set(OutputKind) - {OutputKind.REPORT}) == sorted(kinds)
    assert all(registry.module_of(kind) in registry.MODULES for kind in kinds)


@pytest.mark.parametrize("text", STRANGE.values(), ids=STRANGE)
def test_no_reader_claims_a_stranger(text: str) -> None:
    """Nobody can tell what it is."""
    with pytest.raises(registry.Unrecognised):
        registry.claimed_by(text)


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("| NVIDIA-SMI 580.159.04   Driver Version: 580.159.04   CUDA Version: 13.0 |\n", "nvidia-smi -q -x"),
        ((ROOT / "tests/recordings/torchrun/raised.node-0.txt").read_text("utf-8"), "journalctl -k"),
    ],
)
def test_registry_advises_on_common_outputs_without_a_reader(text: str, remedy: str) -> None:
    """The table of nvidia-smi, and the log of a training that failed."""
    with pytest.raises(registry.Unrecognised) as error:
        registry.claimed_by(text)

    assert remedy in error.value.remedy


@pytest.mark.parametrize("name", registry.MODULES)
@pytest.mark.parametrize("text", STRANGE.values(), ids=STRANGE)
def test_a_stranger_that_is_forced_upon_a_reader_is_refused(name: str, text: str) -> None:
    """It says so; it does not stumble, and it finds nothing healthy."""
    with pytest.raises(ExplainError) as error:
        registry.read(name, text, ReadOptions())

    assert str(error.value)
