"""Recordings that the families' cases replay, and that `prelaunch explain` reads as well: mutated like the others."""

from __future__ import annotations

from checks.explain.reading import OutputKind
from checks.model import Level
from tests.corpus.case import Case, Recording
from tests.corpus.dcgm_cases import JSON_4
from tests.corpus.neuron_cases import SAYS_NOTHING

P5, TRN1 = "p5.48xlarge", "trn1.32xlarge"
CASES: list[Case] = []
LIMITED = {r'^"Monitor the power conditions': "half of a sentence of a remark: a GPU at its power limit"}
LISTED = {
    **SAYS_NOTHING,
    r'^"instance_(type|id)"': "what is declared is what counts; the machine is known by its own identity",
}
WORDS = {
    r'^"PCI errors and replays"': "which conditions a site watches is its own choice",
    r"^Policy information$": "words around the document",
    r"^\*\*\*\* Non-homogenous": "it is printed always",
}
REFUSED = (
    "dcgm/diag_33_r2_row_remap.json",
    "dcgm/diag_4_r2_all_skip.json",
    "dcgm/diag_4_r2_alloc_pass.json",
    "dcgm/diag_4_r2_internal.json",
    "dcgm/diag_4_r2_new_word.json",
    "dcgm/diag_4_r2_not_run.json",
    "dcgm/diag_4_r2_nvlink.json",
    "dcgm/diag_4_r2_seven_gpus.json",
    "dcgm/diag_4_r2_skip.json",
    "dcgm/diag_5_r2.json",
    "dcgm/health_contradiction.json",
    "dcgm/health_driver.json",
)
RECORDINGS = [
    *(Recording(path, OutputKind.DCGMI, Level.FAIL, P5) for path in REFUSED),
    Recording("dcgm/diag_4_r1.json", OutputKind.DCGMI, Level.PASS, P5, irrelevant=JSON_4),
    Recording("dcgm/diag_4_r3.json", OutputKind.DCGMI, Level.PASS, P5, irrelevant=JSON_4),
    Recording("dcgm/health_power.json", OutputKind.DCGMI, Level.PASS, P5, irrelevant=LIMITED),
    Recording("dcgm/policy_set.json", OutputKind.DCGMI, Level.PASS, P5, irrelevant=WORDS),
    Recording("kernel/kmsg.txt", OutputKind.KERNEL_LOG, Level.FAIL),
    Recording("nccl/crawls_2.16.txt", OutputKind.NCCL_TESTS, Level.FAIL, P5),
    Recording("nccl/half_2.16.txt", OutputKind.NCCL_TESTS, Level.FAIL, P5),
    *(
        Recording(f"neuron/ls_trn1_{name}.json", OutputKind.NEURON_LS, Level.FAIL, TRN1)
        for name in ("fifteen", "half_link", "last_gone", "one_core")
    ),
    Recording("neuron/ls_trn2.json", OutputKind.NEURON_LS, Level.PASS, "trn2.48xlarge", irrelevant=LISTED),
]
