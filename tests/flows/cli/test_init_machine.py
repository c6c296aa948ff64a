"""`prelaunch init --machine`: a gate file for a machine that no table has."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from tests.flows.cli.conftest import Run
from tests.flows.cli.test_init import options, run

__all__ = ["run"]


@pytest.mark.parametrize(
    ("engine", "gpu", "gpus", "memory", "network"),
    [
        ("slurm", "H200", 8, 143771, 3200),
        ("kubernetes", "H100 80GB HBM3", 4, 81559, 1600),
        ("local", "L40S", 2, 46068, 100),
    ],
)
def test_a_machine_of_ones_own_is_written_with_its_table(
    run: Run, tmp_path: Path, engine: str, gpu: str, gpus: int, memory: int, network: int
) -> None:
    """Without a terminal its numbers are in one option."""
    words = f"gpu={gpu},gpus={gpus},gpu_memory_mib={memory},network_gbit_s={network}"
    code, _, err = run("init", "mine.toml", *options(engine, "ours-1", 2), "--machine", words)

    assert 0 == code, err
    made = tomllib.loads((tmp_path / "mine.toml").read_text())["cluster"]
    assert {"gpu": gpu, "gpu_memory_mib": memory, "network_gbit_s": network} == made["machine"]
    declared = made["declared"]
    assert ("ours-1", gpus, gpus) == (
        declared["instance_type"],
        declared["gpus_per_node"],
        declared["ranks_per_node"],
    )
    assert 0 == run("plan", "mine.toml", "--offline")[0]


@pytest.mark.parametrize(
    ("kind", "words", "said"),
    [
        ("ours", "", "'' is none of"),
        ("ours", "gpu=H2000", "'H2000' is none of"),
        ("ours", "gpu=H200", "--machine gpus: '' is not a number"),
        (
            "ours",
            "gpu=H200,gpus=8,gpu_memory_mib=143771,network_gbit_s=fast",
            "network_gbit_s: 'fast' is not a number",
        ),
        ("ours", "gpu=H200,memory=8", "'memory' is none of"),
        ("p5.48xlarge", "gpu=H200", "is a known type"),
        ("Our Machine", "gpu=H200", "no name of lower case letters"),
    ],
)
def test_a_machine_that_is_not_described_is_refused(
    run: Run, tmp_path: Path, kind: str, words: str, said: str
) -> None:
    code, _, err = run("init", "mine.toml", *options("slurm", kind, 2), "--machine", words)

    assert 2 == code and said in err, err
    assert not (tmp_path / "mine.toml").exists()


def test_an_unknown_type_names_the_option_that_describes_it(run: Run) -> None:
    code, _, err = run("init", "mine.toml", *options("slurm", "ours-1", 2))

    assert 2 == code and "prelaunch init --machine" in err
