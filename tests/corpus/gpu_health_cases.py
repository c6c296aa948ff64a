"""gpu.ecc, row_remap, retired_pages, recovery_action: what memory errors left behind."""

from __future__ import annotations

from checks.probes.gpu import memory_errors
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
        memory_errors.ecc,
        "corrected errors",
        node(memory_errors.ecc, told={f"5/{COUNTER}:0:0:2": 3, f"5/{COUNTER}:0:1:2": 40}),
    ),
    faulty(
        memory_errors.ecc,
        "uncorrected in DRAM",
        node(memory_errors.ecc, told={f"5/{COUNTER}:1:0:2": 1}),
        "dram_uncorrected_volatile GPU 5 (0000:a8:00.0) has 1 uncorrected error in its memory since the drive",
    ),
    faulty(
        memory_errors.ecc,
        "uncorrected in SRAM (parity)",
        node(memory_errors.ecc, told={f"5/{SRAM}": {"volatileUncParity": 1}}),
        "sram_uncorrected_volatile",
    ),
    faulty(
        memory_errors.ecc,
        "uncorrected in SRAM (SEC-DED)",
        node(memory_errors.ecc, told={f"5/{SRAM}": {"volatileUncSecDed": 2}}),
        "GPU 5",
    ),
    faulty(
        memory_errors.ecc,
        "uncorrected in a T4's SRAM",
        node(memory_errors.ecc, "T4", told={f"1/{COUNTER}:1:0:7": 1}),
        "GPU 1",
        kind=T4,
    ),
    faulty(
        memory_errors.ecc,
        "uncorrected before",
        node(memory_errors.ecc, told={f"5/{COUNTER}:1:1:2": 2}),
        "GPU 5",
        WARN,
    ),
    faulty(
        memory_errors.ecc,
        "SRAM beyond its maker's patience",
        node(memory_errors.ecc, told={f"5/{SRAM}": {"aggregateUncParity": 5}}),
        "GPU 5",
    ),
    faulty(
        memory_errors.ecc,
        "threshold exceeded",
        node(memory_errors.ecc, told={f"5/{SRAM}": {"bThresholdExceeded": 1}}),
        "sram_threshold_exceeded",
    ),
    faulty(
        memory_errors.ecc,
        "SRAM corrects all the time",
        node(memory_errors.ecc, told={f"5/{SRAM}": {"volatileCor": 20_000}}),
        "GPU 5",
    ),
    faulty(
        memory_errors.ecc,
        "DRAM corrects all the time",
        node(memory_errors.ecc, told={f"5/{COUNTER}:0:0:2": 30_000_000}),
        "GPU 5",
    ),
    faulty(
        memory_errors.ecc,
        "where it was",
        node(memory_errors.ecc, told={f"5/{SRAM}": {"aggregateUncParity": 5, "aggregateUncBucketL2": 5}}),
        "sram_l2=5",
    ),
    faulty(
        memory_errors.ecc,
        "ECC off",
        node(memory_errors.ecc, told={"5/nvmlDeviceGetEccMode": [0, 0]}),
        "ecc_current",
        cause=CONFIGURATION,
    ),
    faulty(
        memory_errors.ecc,
        "ECC off next time",
        node(memory_errors.ecc, told={"5/nvmlDeviceGetEccMode": [1, 0]}),
        "ecc_pending",
        WARN,
        CONFIGURATION,
    ),
    faulty(
        memory_errors.ecc,
        "channel repair",
        node(memory_errors.ecc, told={"5/nvmlDeviceGetRepairStatus": [1, 0]}),
        "channel_repair_pending",
    ),
    faulty(
        memory_errors.ecc,
        "TPC repair",
        node(memory_errors.ecc, told={"5/nvmlDeviceGetRepairStatus": [0, 1]}),
        "tpc_repair_pending",
    ),
    blind(
        memory_errors.ecc,
        "no count of DRAM",
        node(memory_errors.ecc, told={f"5/{COUNTER}:1:0:2": error(UNSUPPORTED)}),
    ),
    blind(
        memory_errors.ecc,
        "all ones",
        node(memory_errors.ecc, told={f"5/{COUNTER}:1:0:2": 0xFFFFFFFFFFFFFFFF}),
    ),
    faulty(
        memory_errors.row_remap,
        "pending",
        node(memory_errors.row_remap, told={"5/nvmlDeviceGetRemappedRows": [0, 1, 1, 0]}),
        "remap_pending GPU 5 (0000:a8:00.0) waits for a reset that replaces a broken row of its memory",
    ),
    faulty(
        memory_errors.row_remap,
        "failed",
        node(memory_errors.row_remap, told={"5/nvmlDeviceGetRemappedRows": [0, 1, 0, 1]}),
        "remap_failed GPU 5 (0000:a8:00.0) could not replace a broken row of its memory",
    ),
    faulty(
        memory_errors.row_remap,
        "one row",
        node(memory_errors.row_remap, told={"5/nvmlDeviceGetRemappedRows": [0, 1, 0, 0]}),
        "GPU 5",
        WARN,
    ),
    faulty(
        memory_errors.row_remap,
        "11 rows",
        node(memory_errors.row_remap, told={"5/nvmlDeviceGetRemappedRows": [0, 11, 0, 0]}),
        "GPU 5",
    ),
    faulty(
        memory_errors.row_remap,
        "a bank without spare rows",
        node(memory_errors.row_remap, told={"5/nvmlDeviceGetRowRemapperHistogram": {"max": 2559, "none": 1}}),
        "banks_none GPU 5 (0000:a8:00.0) has 1 memory bank without a spare row",
    ),
    faulty(
        memory_errors.row_remap,
        "a bank with few spare rows",
        node(memory_errors.row_remap, told={"5/nvmlDeviceGetRowRemapperHistogram": {"max": 2559, "low": 1}}),
        "banks_low",
        WARN,
    ),
    blind(
        memory_errors.row_remap,
        "no histogram",
        node(memory_errors.row_remap, told={"*/nvmlDeviceGetRowRemapperHistogram": error(UNSUPPORTED)}),
    ),
    healthy(memory_errors.retired_pages, "8 x H100, which remap rows", node(memory_errors.retired_pages)),
    healthy(memory_errors.retired_pages, "4 x T4", node(memory_errors.retired_pages, "T4"), T4),
    healthy(
        memory_errors.retired_pages,
        "two pages",
        node(memory_errors.retired_pages, "T4", told={"1/nvmlDeviceGetRetiredPages:0": [1, 2]}),
        T4,
    ),
    faulty(
        memory_errors.retired_pages,
        "pending",
        node(memory_errors.retired_pages, "T4", told={"1/nvmlDeviceGetRetiredPagesPendingStatus": 1}),
        "GPU 1",
        kind=T4,
    ),
    faulty(
        memory_errors.retired_pages,
        "60 pages",
        node(memory_errors.retired_pages, "T4", told={"1/nvmlDeviceGetRetiredPages:0": list(range(60))}),
        "GPU 1",
        kind=T4,
    ),
    faulty(
        memory_errors.retired_pages,
        "double-bit",
        node(memory_errors.retired_pages, "T4", told={"1/nvmlDeviceGetRetiredPages:1": [7]}),
        "GPU 1",
        WARN,
        kind=T4,
    ),
    blind(
        memory_errors.retired_pages,
        "not permitted",
        node(memory_errors.retired_pages, "T4", told={"1/nvmlDeviceGetRetiredPages:1": error(DENIED)}),
        T4,
    ),
    blind(
        memory_errors.retired_pages,
        "a T4 that does not tell",
        node(
            memory_errors.retired_pages,
            "T4",
            told={"*/nvmlDeviceGetRetiredPagesPendingStatus": error(UNSUPPORTED)},
        ),
        T4,
    ),
    blind(memory_errors.retired_pages, "no pynvml", without_pynvml(memory_errors.retired_pages)),
    *(
        faulty(
            memory_errors.recovery_action,
            f"action {action}",
            node(memory_errors.recovery_action, told={"5/field:230": action}),
            f"GPU 5 (0000:a8:00.0) calls for a repair (the driver's recovery action {action})",
        )
        for action in range(1, 8)
    ),
    blind(
        memory_errors.recovery_action,
        "a driver that does not say",
        node(memory_errors.recovery_action, told={"*/field:230": error(UNSUPPORTED)}),
    ),
    blind(
        memory_errors.recovery_action,
        "NaN",
        node(memory_errors.recovery_action, told={"5/field:230": float("nan")}),
    ),
]
