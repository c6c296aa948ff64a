"""gpu.ecc, row_remap, retired_pages, recovery_action: what memory errors left behind."""

from __future__ import annotations

from checks.probes.gpu.state import ecc, recovery_action, retired_pages, row_remap
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
    without_pynvml,
)

SRAM = "nvmlDeviceGetSramEccErrorStatus"
COUNTER = "nvmlDeviceGetMemoryErrorCounter"
CASES = [
    healthy(ecc, "corrected errors", {f"5/{COUNTER}:0:0:2": 3, f"5/{COUNTER}:0:1:2": 40}),
    faulty(ecc, "uncorrected in DRAM", {f"5/{COUNTER}:1:0:2": 1},
        "dram_uncorrected_volatile GPU 5 (0000:a8:00.0) has 1 uncorrected error in its memory since the drive"),
    faulty(ecc, "uncorrected in SRAM (parity)", {f"5/{SRAM}": {"volatileUncParity": 1}}, "sram_uncorrected_volatile"),
    faulty(ecc, "uncorrected in SRAM (SEC-DED)", {f"5/{SRAM}": {"volatileUncSecDed": 2}}, "GPU 5"),
    faulty(ecc, "uncorrected in a T4's SRAM", {f"1/{COUNTER}:1:0:7": 1}, "GPU 1", kind=T4),
    faulty(ecc, "uncorrected before", {f"5/{COUNTER}:1:1:2": 2}, "GPU 5", WARN),
    faulty(ecc, "SRAM beyond its maker's patience", {f"5/{SRAM}": {"aggregateUncParity": 5}}, "GPU 5"),
    faulty(ecc, "threshold exceeded", {f"5/{SRAM}": {"bThresholdExceeded": 1}}, "sram_threshold_exceeded"),
    faulty(ecc, "SRAM corrects all the time", {f"5/{SRAM}": {"volatileCor": 20_000}}, "GPU 5"),
    faulty(ecc, "DRAM corrects all the time", {f"5/{COUNTER}:0:0:2": 30_000_000}, "GPU 5"),
    faulty(ecc, "where it was", {f"5/{SRAM}": {"aggregateUncParity": 5, "aggregateUncBucketL2": 5}}, "sram_l2=5"),
    faulty(ecc, "ECC off", {"5/nvmlDeviceGetEccMode": [0, 0]}, "ecc_current", cause=CONFIGURATION),
    faulty(ecc, "ECC off next time", {"5/nvmlDeviceGetEccMode": [1, 0]}, "ecc_pending", WARN, CONFIGURATION),
    faulty(ecc, "channel repair", {"5/nvmlDeviceGetRepairStatus": [1, 0]}, "channel_repair_pending"),
    faulty(ecc, "TPC repair", {"5/nvmlDeviceGetRepairStatus": [0, 1]}, "tpc_repair_pending"),
    blind(ecc, "no count of DRAM", {f"5/{COUNTER}:1:0:2": error(UNSUPPORTED)}),
    blind(ecc, "all ones", {f"5/{COUNTER}:1:0:2": 0xFFFFFFFFFFFFFFFF}),
    faulty(row_remap, "pending", {"5/nvmlDeviceGetRemappedRows": [0, 1, 1, 0]},
        "remap_pending GPU 5 (0000:a8:00.0) waits for a reset that replaces a broken row of its memory"),
    faulty(row_remap, "failed", {"5/nvmlDeviceGetRemappedRows": [0, 1, 0, 1]},
        "remap_failed GPU 5 (0000:a8:00.0) could not replace a broken row of its memory"),
    faulty(row_remap, "one row", {"5/nvmlDeviceGetRemappedRows": [0, 1, 0, 0]}, "GPU 5", WARN),
    faulty(row_remap, "11 rows", {"5/nvmlDeviceGetRemappedRows": [0, 11, 0, 0]}, "GPU 5"),
    faulty(row_remap, "a bank without spare rows", {"5/nvmlDeviceGetRowRemapperHistogram": {"max": 2559, "none": 1}},
        "banks_none GPU 5 (0000:a8:00.0) has 1 memory bank without a spare row"),
    faulty(row_remap, "a bank with few spare rows", {"5/nvmlDeviceGetRowRemapperHistogram": {"max": 2559, "low": 1}}, "banks_low",
        WARN),
    blind(row_remap, "no histogram", {"*/nvmlDeviceGetRowRemapperHistogram": error(UNSUPPORTED)}),
    healthy(retired_pages, "8 x H100, which remap rows", {}),
    healthy(retired_pages, "4 x T4", {}, T4),
    healthy(retired_pages, "two pages", {"1/nvmlDeviceGetRetiredPages:0": [1, 2]}, T4),
    faulty(retired_pages, "pending", {"1/nvmlDeviceGetRetiredPagesPendingStatus": 1}, "GPU 1", kind=T4),
    faulty(retired_pages, "60 pages", {"1/nvmlDeviceGetRetiredPages:0": list(range(60))}, "GPU 1", kind=T4),
    faulty(retired_pages, "double-bit", {"1/nvmlDeviceGetRetiredPages:1": [7]}, "GPU 1", WARN, kind=T4),
    blind(retired_pages, "not permitted", {"1/nvmlDeviceGetRetiredPages:1": error(DENIED)}, T4),
    blind(retired_pages, "a T4 that does not tell", {"*/nvmlDeviceGetRetiredPagesPendingStatus": error(UNSUPPORTED)}, T4),
    blind(retired_pages, "no pynvml", without_pynvml(retired_pages)),
    *(
        faulty(recovery_action, f"action {action}", {"5/field:230": action},
            f"GPU 5 (0000:a8:00.0) calls for a repair (the driver's recovery action {action})")
        for action in range(1, 8)
    ),
    blind(recovery_action, "a driver that does not say", {"*/field:230": error(UNSUPPORTED)}),
    blind(recovery_action, "NaN", {"5/field:230": float("nan")}),
]  # fmt: skip
