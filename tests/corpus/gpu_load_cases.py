"""gpu.nvlink over the gate, and gpu.clocks, thermal, pcie under load."""

from __future__ import annotations

from checks.probes.gpu.nvlink import nvlink
from checks.probes.gpu.under_load import clocks, pcie, thermal
from tests.corpus.gpu_machines import (
    A100,
    B200,
    DENIED,
    LOST,
    MISSING,
    OLD,
    T4,
    UNSUPPORTED,
    WARN,
    error,
    faulty,
    healthy,
    links,
    rank,
    unmeasurable,
)

OLDER = "nvmlDeviceGetNvLinkErrorCounter"
# What a driver older than NVLink 5 answers, as a real H100 answers numbers that it does not know (recordings/h100/nvml.json).
UNKNOWN_FIELDS = {f"*/field:{ident}": error(2) for ident in (206, 207, 208, 211, 215)}
NVLINK = [
    healthy(nvlink, "8 x H100", links({}, {})),
    healthy(nvlink, "8 x B200, which count no replays", links({}, {}, "B200"), B200),
    healthy(nvlink, "8 x A100", links({}, {}, "A100"), A100),
    healthy(nvlink, "8 x H100, an older driver", links(UNKNOWN_FIELDS, UNKNOWN_FIELDS)),
    healthy(nvlink, "8 x A100, an older driver", links(UNKNOWN_FIELDS, UNKNOWN_FIELDS, "A100"), A100),
    faulty(nvlink, "an older driver's checksum errors", links(UNKNOWN_FIELDS, {**UNKNOWN_FIELDS, "5/field:163:7": 100_000}),
        "link_errors_per_s"),
    healthy(nvlink, "old errors", links({"*/field:163": 900}, {"*/field:163": 900})),
    faulty(nvlink, "a link down", links({}, {"5/nvmlDeviceGetNvLinkState:7": 0}),
        "links_active GPU 5 (0000:a8:00.0): number of active NVLinks is 17, but the instance type has 18"),
    faulty(nvlink, "all links down", links({}, {f"5/nvmlDeviceGetNvLinkState:{link}": 0 for link in range(18)}),
        "number of active NVLinks is 0"),
    faulty(nvlink, "no NVLink where the type has it",
        links({"*/nvmlDeviceGetNvLinkState": error(UNSUPPORTED)}, {"*/nvmlDeviceGetNvLinkState": error(UNSUPPORTED)}),
        "number of active NVLinks is 0"),
    faulty(nvlink, "an A100's link down", links({}, {"0/nvmlDeviceGetNvLinkState:11": 0}, "A100"), "is 11", kind=A100),
    faulty(nvlink, "checksum errors", links({}, {"5/field:163:7": 100_000}), "link_errors_per_s"),
    faulty(nvlink, "some checksum errors", links({}, {"5/field:163:7": 200}), "link_errors_per_s", WARN),
    faulty(nvlink, "an A100's checksum errors", links({}, {f"5/{OLDER}:3:2": 100_000}, "A100"), "GPU 5", kind=A100),
    faulty(nvlink, "a B200's packet errors", links({}, {"5/field:208:3": 100_000}, "B200"), "GPU 5", kind=B200),
    faulty(nvlink, "a recovery", links({}, {"5/field:162:7": 1}), "link_recoveries"),
    faulty(nvlink, "a B200's recovery", links({}, {"5/field:215:7": 1}, "B200"), "link_recoveries", kind=B200),
    faulty(nvlink, "replays", links({}, {"5/field:161:7": 9}), "link_replays", WARN),
    unmeasurable(nvlink, "a counter that went backwards", links({"5/field:163:7": 5}, {})),
    unmeasurable(nvlink, "no first look", links(None, {})),
    unmeasurable(nvlink, "a GPU that was not in the first look", links({}, {}, gpus=7)),
    unmeasurable(nvlink, "a link that came up meanwhile", links({"5/nvmlDeviceGetNvLinkState:7": 0}, {})),
    unmeasurable(nvlink, "one GPU is lost", links({}, {"3/*": error(LOST)})),
    unmeasurable(nvlink, "not permitted", links({}, {"3/nvmlDeviceGetNvLinkState": error(DENIED)})),
    unmeasurable(nvlink, "no counters", links({}, {"3/field:162": error(DENIED)})),
    unmeasurable(nvlink, "an H100 without replays", links({}, {"*/field:161": error(UNSUPPORTED)})),
    unmeasurable(nvlink, "no NVML library", links({}, {"node/nvmlInit": error(MISSING)})),
]  # fmt: skip

REASONS = "nvmlDeviceGetCurrentClocksEventReasons"
LOADED = [
    healthy(clocks, "power-capped, as H100 are", {}),
    healthy(clocks, "a driver before R535", {f"*/{REASONS}": error(OLD)}),
    healthy(clocks, "a T4", {}, T4),
    healthy(clocks, "a T4 at its power limit", {"*/nvmlDeviceGetClockInfo:1": 620}, T4),
    healthy(clocks, "a driver without the newer counters", {f"*/field:{ident}": error(UNSUPPORTED) for ident in (269, 270, 271)}),
    *(
        faulty(clocks, name, {f"5/{REASONS}": 0x4 | bit}, f"{name} GPU 5 (0000:a8:00.0) was ")
        for name, bit in {
            "hw_slowdown": 0x8,
            "hw_thermal": 0x40,
            "hw_power_brake": 0x80,
            "sw_thermal": 0x20,
            "board_limit": 0x200,
            "reliability": 0x400,
        }.items()
    ),
    faulty(clocks, "slow without a reason", {"5/nvmlDeviceGetClockInfo:1": 345}, "clock_ratio"),
    unmeasurable(clocks, "no load", rank(clocks, works=False)),
    unmeasurable(clocks, "the load fails", rank(clocks, fails="CUDA error: an illegal memory access was encountered")),
    unmeasurable(clocks, "a GPU that NVML does not list", rank(clocks, number=9)),
    unmeasurable(clocks, "a rank without a GPU", rank(clocks, device="cpu")),
    unmeasurable(clocks, "reasons refused", {f"5/{REASONS}": error(DENIED)}),
    unmeasurable(clocks, "no utilisation", {"5/nvmlDeviceGetUtilizationRates": error(UNSUPPORTED)}),
    unmeasurable(clocks, "lost under load", {"5/nvmlDeviceGetUtilizationRates": error(LOST)}),
    unmeasurable(clocks, "no violation counters", {"5/field:270": error(DENIED)}),
    unmeasurable(clocks, "no NVML library", {"node/nvmlInit": error(MISSING)}),
    healthy(thermal, "T.LIMIT", {}),
    healthy(thermal, "an A100, by absolute limits", {}, A100),
    healthy(thermal, "a T4, whose memory has no sensor", {}, T4),
    faulty(thermal, "at its limit", {"5/nvmlDeviceGetMarginTemperature": -1},
        "margin_c GPU 5 (0000:a8:00.0) has a margin of -1 °C to the temperature at which it slows down"),
    faulty(thermal, "near its limit", {"5/nvmlDeviceGetMarginTemperature": 3}, "margin_c", WARN),
    faulty(thermal, "an A100 beyond 85", {"5/nvmlDeviceGetTemperatureV": 88}, "margin_c", kind=A100),
    faulty(thermal, "hot memory", {"5/field:82": 108}, "memory_temperature_c"),
    unmeasurable(thermal, "a margin read as a limit",
        {"5/nvmlDeviceGetMarginTemperature": error(OLD), "5/nvmlDeviceGetTemperatureThreshold": 0}),
    unmeasurable(thermal, "no memory temperature on an H100", {"5/field:82": error(UNSUPPORTED)}),
    unmeasurable(thermal, "0 C", {"5/nvmlDeviceGetTemperatureV": 0}),
    unmeasurable(thermal, "no load", rank(thermal, works=False)),
    healthy(pcie, "H100", {}),
    healthy(pcie, "a T4 with 8 lanes", {}, T4),
    faulty(pcie, "generation 1", {"5/nvmlDeviceGetCurrPcieLinkGeneration": 1},
        "pcie_generation GPU 5 (0000:a8:00.0): PCIe generation is 1, but the instance type has 5"),
    faulty(pcie, "8 of 16 lanes", {"5/nvmlDeviceGetCurrPcieLinkWidth": 8},
        "pcie_width GPU 5 (0000:a8:00.0): PCIe width is 8, but the instance type has 16"),
    faulty(pcie, "replays", {"5/nvmlDeviceGetPcieReplayCounter": [150, 9000]}, "replays"),
    faulty(pcie, "some replays", {"5/nvmlDeviceGetPcieReplayCounter": [150, 180]}, "replays", WARN),
    unmeasurable(pcie, "replays went backwards", {"5/nvmlDeviceGetPcieReplayCounter": [150, 2]}),
    unmeasurable(pcie, "no width", {"5/nvmlDeviceGetCurrPcieLinkWidth": error(UNSUPPORTED)}),
    unmeasurable(pcie, "no load", rank(pcie, works=False)),
]  # fmt: skip

CASES = [*NVLINK, *LOADED]
