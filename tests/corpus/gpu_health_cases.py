"""gpu.ecc, row_remap, retired_pages, recovery_action: what memory errors left behind."""

from __future__ import annotations

from checks import gpu
from tests.corpus.gpu_machines import (
    CONFIGURATION,
    DENIED,
    T4,
    UNSUPPORTED,
    WARN,
    blind,
    error,
    faulty,
    healthy,
    node,
    without_pynvml,
)

SRAM = "nvmlDeviceGetSramEccErrorStatus"
COUNTER = "nvmlDeviceGetMemoryErrorCounter"
CASES = [
    healthy(
        gpu.ecc, "corrected errors", node(gpu.ecc, told={f"5/{COUNTER}:0:0:2": 3, f"5/{COUNTER}:0:1:2": 40})
    ),
    faulty(
        gpu.ecc,
        "uncorrected in DRAM",
        node(gpu.ecc, told={f"5/{COUNTER}:1:0:2": 1}),
        "GPU 5 (0000:a8:00.0) is 1",
    ),
    faulty(
        gpu.ecc,
        "uncorrected in SRAM (parity)",
        node(gpu.ecc, told={f"5/{SRAM}": {"volatileUncParity": 1}}),
        "sram_uncorrected_volatile",
    ),
    faulty(
        gpu.ecc,
        "uncorrected in SRAM (SEC-DED)",
        node(gpu.ecc, told={f"5/{SRAM}": {"volatileUncSecDed": 2}}),
        "GPU 5",
    ),
    faulty(
        gpu.ecc,
        "uncorrected in a T4's SRAM",
        node(gpu.ecc, "T4", told={f"1/{COUNTER}:1:0:7": 1}),
        "GPU 1",
        kind=T4,
    ),
    faulty(gpu.ecc, "uncorrected before", node(gpu.ecc, told={f"5/{COUNTER}:1:1:2": 2}), "GPU 5", WARN),
    faulty(
        gpu.ecc,
        "SRAM beyond its maker's patience",
        node(gpu.ecc, told={f"5/{SRAM}": {"aggregateUncParity": 5}}),
        "GPU 5",
    ),
    faulty(
        gpu.ecc,
        "threshold exceeded",
        node(gpu.ecc, told={f"5/{SRAM}": {"bThresholdExceeded": 1}}),
        "sram_threshold_exceeded",
    ),
    faulty(
        gpu.ecc,
        "SRAM corrects all the time",
        node(gpu.ecc, told={f"5/{SRAM}": {"volatileCor": 20_000}}),
        "GPU 5",
    ),
    faulty(
        gpu.ecc, "DRAM corrects all the time", node(gpu.ecc, told={f"5/{COUNTER}:0:0:2": 30_000_000}), "GPU 5"
    ),
    faulty(
        gpu.ecc,
        "where it was",
        node(gpu.ecc, told={f"5/{SRAM}": {"aggregateUncParity": 5, "aggregateUncBucketL2": 5}}),
        "sram_l2=5",
    ),
    faulty(
        gpu.ecc,
        "ECC off",
        node(gpu.ecc, told={"5/nvmlDeviceGetEccMode": [0, 0]}),
        "ecc_current",
        cause=CONFIGURATION,
    ),
    faulty(
        gpu.ecc,
        "ECC off next time",
        node(gpu.ecc, told={"5/nvmlDeviceGetEccMode": [1, 0]}),
        "ecc_pending",
        WARN,
        CONFIGURATION,
    ),
    faulty(
        gpu.ecc,
        "channel repair",
        node(gpu.ecc, told={"5/nvmlDeviceGetRepairStatus": [1, 0]}),
        "channel_repair_pending",
    ),
    faulty(
        gpu.ecc,
        "TPC repair",
        node(gpu.ecc, told={"5/nvmlDeviceGetRepairStatus": [0, 1]}),
        "tpc_repair_pending",
    ),
    blind(gpu.ecc, "no count of DRAM", node(gpu.ecc, told={f"5/{COUNTER}:1:0:2": error(UNSUPPORTED)})),
    blind(gpu.ecc, "all ones", node(gpu.ecc, told={f"5/{COUNTER}:1:0:2": 0xFFFFFFFFFFFFFFFF})),
    faulty(
        gpu.row_remap,
        "pending",
        node(gpu.row_remap, told={"5/nvmlDeviceGetRemappedRows": [0, 1, 1, 0]}),
        "remap_pending: GPU 5",
    ),
    faulty(
        gpu.row_remap,
        "failed",
        node(gpu.row_remap, told={"5/nvmlDeviceGetRemappedRows": [0, 1, 0, 1]}),
        "remap_failed: GPU 5",
    ),
    faulty(
        gpu.row_remap,
        "one row",
        node(gpu.row_remap, told={"5/nvmlDeviceGetRemappedRows": [0, 1, 0, 0]}),
        "GPU 5",
        WARN,
    ),
    faulty(
        gpu.row_remap,
        "11 rows",
        node(gpu.row_remap, told={"5/nvmlDeviceGetRemappedRows": [0, 11, 0, 0]}),
        "GPU 5",
    ),
    faulty(
        gpu.row_remap,
        "a bank without spare rows",
        node(gpu.row_remap, told={"5/nvmlDeviceGetRowRemapperHistogram": {"max": 2559, "none": 1}}),
        "banks_none: GPU 5",
    ),
    faulty(
        gpu.row_remap,
        "a bank with few spare rows",
        node(gpu.row_remap, told={"5/nvmlDeviceGetRowRemapperHistogram": {"max": 2559, "low": 1}}),
        "banks_low",
        WARN,
    ),
    blind(
        gpu.row_remap,
        "no histogram",
        node(gpu.row_remap, told={"*/nvmlDeviceGetRowRemapperHistogram": error(UNSUPPORTED)}),
    ),
    healthy(gpu.retired_pages, "8 x H100, which remap rows", node(gpu.retired_pages)),
    healthy(gpu.retired_pages, "4 x T4", node(gpu.retired_pages, "T4"), T4),
    healthy(
        gpu.retired_pages,
        "two pages",
        node(gpu.retired_pages, "T4", told={"1/nvmlDeviceGetRetiredPages:0": [1, 2]}),
        T4,
    ),
    faulty(
        gpu.retired_pages,
        "pending",
        node(gpu.retired_pages, "T4", told={"1/nvmlDeviceGetRetiredPagesPendingStatus": 1}),
        "GPU 1",
        kind=T4,
    ),
    faulty(
        gpu.retired_pages,
        "60 pages",
        node(gpu.retired_pages, "T4", told={"1/nvmlDeviceGetRetiredPages:0": list(range(60))}),
        "GPU 1",
        kind=T4,
    ),
    faulty(
        gpu.retired_pages,
        "double-bit",
        node(gpu.retired_pages, "T4", told={"1/nvmlDeviceGetRetiredPages:1": [7]}),
        "GPU 1",
        WARN,
        kind=T4,
    ),
    blind(
        gpu.retired_pages,
        "not permitted",
        node(gpu.retired_pages, "T4", told={"1/nvmlDeviceGetRetiredPages:1": error(DENIED)}),
        T4,
    ),
    blind(
        gpu.retired_pages,
        "a T4 that does not tell",
        node(gpu.retired_pages, "T4", told={"*/nvmlDeviceGetRetiredPagesPendingStatus": error(UNSUPPORTED)}),
        T4,
    ),
    blind(gpu.retired_pages, "no pynvml", without_pynvml(gpu.retired_pages)),
    *(
        faulty(
            gpu.recovery_action,
            f"action {action}",
            node(gpu.recovery_action, told={"5/field:230": action}),
            f"GPU 5 (0000:a8:00.0): recovery_action is {action}, above 0",
        )
        for action in range(1, 8)
    ),
    blind(
        gpu.recovery_action,
        "a driver that does not say",
        node(gpu.recovery_action, told={"*/field:230": error(UNSUPPORTED)}),
    ),
    blind(gpu.recovery_action, "NaN", node(gpu.recovery_action, told={"5/field:230": float("nan")})),
]
