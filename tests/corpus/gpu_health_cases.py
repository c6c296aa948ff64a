"""gpu.ecc, row_remap, retired_pages, recovery_action: what memory errors left behind."""

from __future__ import annotations

from checks.probes.gpu import state
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
        state.ecc,
        "corrected errors",
        node(state.ecc, told={f"5/{COUNTER}:0:0:2": 3, f"5/{COUNTER}:0:1:2": 40}),
    ),
    faulty(
        state.ecc,
        "uncorrected in DRAM",
        node(state.ecc, told={f"5/{COUNTER}:1:0:2": 1}),
        "dram_uncorrected_volatile GPU 5 (0000:a8:00.0) has 1 uncorrected error in its memory since the drive",
    ),
    faulty(
        state.ecc,
        "uncorrected in SRAM (parity)",
        node(state.ecc, told={f"5/{SRAM}": {"volatileUncParity": 1}}),
        "sram_uncorrected_volatile",
    ),
    faulty(
        state.ecc,
        "uncorrected in SRAM (SEC-DED)",
        node(state.ecc, told={f"5/{SRAM}": {"volatileUncSecDed": 2}}),
        "GPU 5",
    ),
    faulty(
        state.ecc,
        "uncorrected in a T4's SRAM",
        node(state.ecc, "T4", told={f"1/{COUNTER}:1:0:7": 1}),
        "GPU 1",
        kind=T4,
    ),
    faulty(
        state.ecc,
        "uncorrected before",
        node(state.ecc, told={f"5/{COUNTER}:1:1:2": 2}),
        "GPU 5",
        WARN,
    ),
    faulty(
        state.ecc,
        "SRAM beyond its maker's patience",
        node(state.ecc, told={f"5/{SRAM}": {"aggregateUncParity": 5}}),
        "GPU 5",
    ),
    faulty(
        state.ecc,
        "threshold exceeded",
        node(state.ecc, told={f"5/{SRAM}": {"bThresholdExceeded": 1}}),
        "sram_threshold_exceeded",
    ),
    faulty(
        state.ecc,
        "SRAM corrects all the time",
        node(state.ecc, told={f"5/{SRAM}": {"volatileCor": 20_000}}),
        "GPU 5",
    ),
    faulty(
        state.ecc,
        "DRAM corrects all the time",
        node(state.ecc, told={f"5/{COUNTER}:0:0:2": 30_000_000}),
        "GPU 5",
    ),
    faulty(
        state.ecc,
        "where it was",
        node(state.ecc, told={f"5/{SRAM}": {"aggregateUncParity": 5, "aggregateUncBucketL2": 5}}),
        "sram_l2=5",
    ),
    faulty(
        state.ecc,
        "ECC off",
        node(state.ecc, told={"5/nvmlDeviceGetEccMode": [0, 0]}),
        "ecc_current",
        cause=CONFIGURATION,
    ),
    faulty(
        state.ecc,
        "ECC off next time",
        node(state.ecc, told={"5/nvmlDeviceGetEccMode": [1, 0]}),
        "ecc_pending",
        WARN,
        CONFIGURATION,
    ),
    faulty(
        state.ecc,
        "channel repair",
        node(state.ecc, told={"5/nvmlDeviceGetRepairStatus": [1, 0]}),
        "channel_repair_pending",
    ),
    faulty(
        state.ecc,
        "TPC repair",
        node(state.ecc, told={"5/nvmlDeviceGetRepairStatus": [0, 1]}),
        "tpc_repair_pending",
    ),
    blind(
        state.ecc,
        "no count of DRAM",
        node(state.ecc, told={f"5/{COUNTER}:1:0:2": error(UNSUPPORTED)}),
    ),
    blind(
        state.ecc,
        "all ones",
        node(state.ecc, told={f"5/{COUNTER}:1:0:2": 0xFFFFFFFFFFFFFFFF}),
    ),
    faulty(
        state.row_remap,
        "pending",
        node(state.row_remap, told={"5/nvmlDeviceGetRemappedRows": [0, 1, 1, 0]}),
        "remap_pending GPU 5 (0000:a8:00.0) waits for a reset that replaces a broken row of its memory",
    ),
    faulty(
        state.row_remap,
        "failed",
        node(state.row_remap, told={"5/nvmlDeviceGetRemappedRows": [0, 1, 0, 1]}),
        "remap_failed GPU 5 (0000:a8:00.0) could not replace a broken row of its memory",
    ),
    faulty(
        state.row_remap,
        "one row",
        node(state.row_remap, told={"5/nvmlDeviceGetRemappedRows": [0, 1, 0, 0]}),
        "GPU 5",
        WARN,
    ),
    faulty(
        state.row_remap,
        "11 rows",
        node(state.row_remap, told={"5/nvmlDeviceGetRemappedRows": [0, 11, 0, 0]}),
        "GPU 5",
    ),
    faulty(
        state.row_remap,
        "a bank without spare rows",
        node(state.row_remap, told={"5/nvmlDeviceGetRowRemapperHistogram": {"max": 2559, "none": 1}}),
        "banks_none GPU 5 (0000:a8:00.0) has 1 memory bank without a spare row",
    ),
    faulty(
        state.row_remap,
        "a bank with few spare rows",
        node(state.row_remap, told={"5/nvmlDeviceGetRowRemapperHistogram": {"max": 2559, "low": 1}}),
        "banks_low",
        WARN,
    ),
    blind(
        state.row_remap,
        "no histogram",
        node(state.row_remap, told={"*/nvmlDeviceGetRowRemapperHistogram": error(UNSUPPORTED)}),
    ),
    healthy(state.retired_pages, "8 x H100, which remap rows", node(state.retired_pages)),
    healthy(state.retired_pages, "4 x T4", node(state.retired_pages, "T4"), T4),
    healthy(
        state.retired_pages,
        "two pages",
        node(state.retired_pages, "T4", told={"1/nvmlDeviceGetRetiredPages:0": [1, 2]}),
        T4,
    ),
    faulty(
        state.retired_pages,
        "pending",
        node(state.retired_pages, "T4", told={"1/nvmlDeviceGetRetiredPagesPendingStatus": 1}),
        "GPU 1",
        kind=T4,
    ),
    faulty(
        state.retired_pages,
        "60 pages",
        node(state.retired_pages, "T4", told={"1/nvmlDeviceGetRetiredPages:0": list(range(60))}),
        "GPU 1",
        kind=T4,
    ),
    faulty(
        state.retired_pages,
        "double-bit",
        node(state.retired_pages, "T4", told={"1/nvmlDeviceGetRetiredPages:1": [7]}),
        "GPU 1",
        WARN,
        kind=T4,
    ),
    blind(
        state.retired_pages,
        "not permitted",
        node(state.retired_pages, "T4", told={"1/nvmlDeviceGetRetiredPages:1": error(DENIED)}),
        T4,
    ),
    blind(
        state.retired_pages,
        "a T4 that does not tell",
        node(
            state.retired_pages,
            "T4",
            told={"*/nvmlDeviceGetRetiredPagesPendingStatus": error(UNSUPPORTED)},
        ),
        T4,
    ),
    blind(state.retired_pages, "no pynvml", without_pynvml(state.retired_pages)),
    *(
        faulty(
            state.recovery_action,
            f"action {action}",
            node(state.recovery_action, told={"5/field:230": action}),
            f"GPU 5 (0000:a8:00.0) calls for a repair (the driver's recovery action {action})",
        )
        for action in range(1, 8)
    ),
    blind(
        state.recovery_action,
        "a driver that does not say",
        node(state.recovery_action, told={"*/field:230": error(UNSUPPORTED)}),
    ),
    blind(
        state.recovery_action,
        "NaN",
        node(state.recovery_action, told={"5/field:230": float("nan")}),
    ),
]
