"""A finding names the part that the text names: the memory module, the device, the GPU of a link."""

from __future__ import annotations

from pathlib import Path

import pytest

from checks.explain.reading import ReadOptions
from checks.model import Answer, Verdict
from tasks.reports.explained_input import explain_text

TABLE = (Path(__file__).parents[2] / "recordings/dcgm/diag_33_r2.txt").read_text(encoding="utf-8")
BOOT = "[    0.000000] Linux version 6.8.0-1021-aws (buildd@lcy02)\n[    1.000000] usb 1-1: new high-speed USB device\n"


def _verdict(text: str) -> Verdict:
    return explain_text("-", "-", text.encode(), None, None, ReadOptions()).verdict


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ("EDAC MC0: 1 UE memory read error on CPU_SrcID#1_MC#0_Chan#1_DIMM#1 (page:0x0)", "CPU_SrcID#1_MC#0_Chan#1_DIMM#1"),
        ("EDAC MC1: 1 UE memory scrubbing error on mc#1csrow#2channel#0 (csrow:2 channel:0 page:0x1)", "mc#1csrow#2channel#0"),
        ("EDAC MC3: 1 UE Multi-bit ECC on DIMM_P2_A1 error on DIMM_P2_A1 (node:1 card:0)", "DIMM_P2_A1"),
        ("EDAC MC2: 2 UE memory read error on Channel#2_DIMM#0", "Channel#2_DIMM#0"),
        ("EDAC MC0: 1 UE memory read error on DIMM_A1 or DIMM_A2 (channel:0 page:0x0)", "DIMM_A1 or DIMM_A2"),
        ("mlx5_core 0000:9f:00.0: mlx5_init_one failed with error code -110", "0000:9f:00.0"),
        ("ice 0000:31:00.1: HMC Error", "0000:31:00.1"),
    ],
)  # fmt: skip
def test_the_kernels_log(line: str, part: str) -> None:
    verdict = _verdict(f"{BOOT}[   44.000000] {line}\n")

    assert any(finding.message.endswith(f"in the kernel log: {part}") for finding in verdict.findings), (
        verdict.findings
    )


@pytest.mark.parametrize("named", ["any memory", "unknown label"])
def test_no_part_is_named_where_the_driver_knows_none(named: str) -> None:
    verdict = _verdict(f"{BOOT}[   44.000000] EDAC MC0: 1 UE memory read error on {named} (page:0x0)\n")

    assert "has 1 uncorrected memory error in the kernel log" in [
        finding.message for finding in verdict.findings
    ]


@pytest.mark.parametrize(("gpu", "status"), [(0, "Fail - All"), (3, "Fail - GPUs: {0}")])
def test_a_link_that_is_down_belongs_to_its_gpu_alone(gpu: int, status: str) -> None:
    rows = [("PCIe", status.format(gpu)), ("Warning", f"GPU {gpu}'s NvLink link 11 is currently down")]
    text = TABLE.replace(
        f"| {'PCIe':<25} | {'Pass - All':<46} |",
        "\n".join(f"| {left:<25} | {right:<46} |" for left, right in rows),
    )

    verdict = _verdict(text)

    assert Answer.NO_GO is verdict.answer
    message = " ".join(finding.message for finding in verdict.findings)
    assert message.count("link 11 is currently down") == 1
    assert f"GPU {gpu}: pcie: error 14: GPU {gpu}'s NvLink link 11" in message
