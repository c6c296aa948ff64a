"""Output of ncclras, as the stand-in writes it. nccl.job is in no gate: its machines are in tests/checks/watch/test_job_rounds.py."""

from __future__ import annotations

from checks.explain.reading import Kind
from checks.model import Level
from tests.corpus.case import Case, Recording

CASES: tuple[Case, ...] = ()
RECORDINGS = (
    Recording(
        "nccl_ras/moves.json",
        Kind.NCCL_RAS,
        Level.PASS,
        irrelevant={
            r'"cuda_(runtime|driver)_version"': "versions of CUDA",
            r'"cuda_dev"': "the GPU is named by nvml_dev, which is unique on a node",
            r'"collection_time_sec"': "how long RAS took",
        },
    ),
    Recording("nccl_ras/one_look.json", Kind.NCCL_RAS, Level.FAIL),
    Recording("nccl_ras/hangs.json", Kind.NCCL_RAS, Level.FAIL),
    Recording("nccl_ras/silent.txt", Kind.NCCL_RAS, Level.FAIL),
    Recording("nccl_ras/behind.txt", Kind.NCCL_RAS, Level.FAIL),
    Recording("nccl_ras/ok.txt", Kind.NCCL_RAS, Level.FAIL),
    Recording("nccl_ras/diagnostics.txt", Kind.NCCL_RAS, Level.FAIL),
)
