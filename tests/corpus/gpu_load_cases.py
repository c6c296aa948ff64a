"""gpu.nvlink over the gate, and gpu.clocks, thermal, pcie under load."""

from __future__ import annotations

from checks.probes.gpu import under_load
from checks.probes.gpu.nvlink import nvlink
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
    blind,
    error,
    faulty,
    healthy,
    links,
    rank,
)

OLDER = "nvmlDeviceGetNvLinkErrorCounter"
NVLINK = [
    healthy(nvlink, "8 x H100", links({}, {})),
    healthy(nvlink, "8 x B200, which count no replays", links({}, {}, "B200"), B200),
    healthy(nvlink, "8 x A100", links({}, {}, "A100"), A100),
    healthy(nvlink, "old errors", links({"*/field:163": 900}, {"*/field:163": 900})),
    faulty(
        nvlink,
        "a link down",
        links({}, {"5/nvmlDeviceGetNvLinkState:7": 0}),
        "links_active GPU 5 (0000:a8:00.0): number of active NVLinks is 17, but the instance type has 18",
    ),
    faulty(
        nvlink,
        "all links down",
        links({}, {f"5/nvmlDeviceGetNvLinkState:{link}": 0 for link in range(18)}),
        "number of active NVLinks is 0",
    ),
    faulty(
        nvlink,
        "no NVLink where the type has it",
        links(
            {"*/nvmlDeviceGetNvLinkState": error(UNSUPPORTED)},
            {"*/nvmlDeviceGetNvLinkState": error(UNSUPPORTED)},
        ),
        "number of active NVLinks is 0",
    ),
    faulty(
        nvlink,
        "an A100's link down",
        links({}, {"0/nvmlDeviceGetNvLinkState:11": 0}, "A100"),
        "is 11",
        kind=A100,
    ),
    faulty(nvlink, "checksum errors", links({}, {"5/field:163:7": 100_000}), "link_errors_per_s"),
    faulty(nvlink, "some checksum errors", links({}, {"5/field:163:7": 200}), "link_errors_per_s", WARN),
    faulty(
        nvlink,
        "an A100's checksum errors",
        links({}, {f"5/{OLDER}:3:2": 100_000}, "A100"),
        "GPU 5",
        kind=A100,
    ),
    faulty(
        nvlink,
        "a B200's packet errors",
        links({}, {"5/field:208:3": 100_000}, "B200"),
        "GPU 5",
        kind=B200,
    ),
    faulty(nvlink, "a recovery", links({}, {"5/field:162:7": 1}), "link_recoveries"),
    faulty(
        nvlink,
        "a B200's recovery",
        links({}, {"5/field:215:7": 1}, "B200"),
        "link_recoveries",
        kind=B200,
    ),
    faulty(nvlink, "replays", links({}, {"5/field:161:7": 9}), "link_replays", WARN),
    blind(nvlink, "a counter that went backwards", links({"5/field:163:7": 5}, {})),
    blind(nvlink, "no first look", links(None, {})),
    blind(nvlink, "a GPU that was not in the first look", links({}, {}, gpus=7)),
    blind(nvlink, "a link that came up meanwhile", links({"5/nvmlDeviceGetNvLinkState:7": 0}, {})),
    blind(nvlink, "one GPU is lost", links({}, {"3/*": error(LOST)})),
    blind(nvlink, "not permitted", links({}, {"3/nvmlDeviceGetNvLinkState": error(DENIED)})),
    blind(nvlink, "no counters", links({}, {"3/field:162": error(DENIED)})),
    blind(nvlink, "an H100 without replays", links({}, {"*/field:161": error(UNSUPPORTED)})),
    blind(nvlink, "no NVML library", links({}, {"node/nvmlInit": error(MISSING)})),
]

REASONS = "nvmlDeviceGetCurrentClocksEventReasons"
LOADED = [
    healthy(under_load.clocks, "power-capped, as H100 are", rank(under_load.clocks)),
    healthy(
        under_load.clocks, "a driver before R535", rank(under_load.clocks, told={f"*/{REASONS}": error(OLD)})
    ),
    healthy(under_load.clocks, "a T4", rank(under_load.clocks, "T4", number=1), T4),
    healthy(
        under_load.clocks,
        "a T4 at its power limit",
        rank(under_load.clocks, "T4", number=1, told={"*/nvmlDeviceGetClockInfo:1": 620}),
        T4,
    ),
    healthy(
        under_load.clocks,
        "a driver without the newer counters",
        rank(under_load.clocks, told={f"*/field:{ident}": error(UNSUPPORTED) for ident in (269, 270, 271)}),
    ),
    *(
        faulty(
            under_load.clocks,
            name,
            rank(under_load.clocks, told={f"5/{REASONS}": 0x4 | bit}),
            f"{name} GPU 5 (0000:a8:00.0) was ",
        )
        for name, bit in {
            "hw_slowdown": 0x8,
            "hw_thermal": 0x40,
            "hw_power_brake": 0x80,
            "sw_thermal": 0x20,
            "board_limit": 0x200,
            "reliability": 0x400,
        }.items()
    ),
    faulty(
        under_load.clocks,
        "slow without a reason",
        rank(under_load.clocks, told={"5/nvmlDeviceGetClockInfo:1": 345}),
        "clock_ratio",
    ),
    blind(under_load.clocks, "no load", rank(under_load.clocks, works=False)),
    blind(
        under_load.clocks,
        "the load fails",
        rank(under_load.clocks, fails="CUDA error: an illegal memory access was encountered"),
    ),
    blind(under_load.clocks, "a GPU that NVML does not list", rank(under_load.clocks, number=9)),
    blind(under_load.clocks, "a rank without a GPU", rank(under_load.clocks, device="cpu")),
    blind(
        under_load.clocks, "reasons refused", rank(under_load.clocks, told={f"5/{REASONS}": error(DENIED)})
    ),
    blind(
        under_load.clocks,
        "no utilisation",
        rank(under_load.clocks, told={"5/nvmlDeviceGetUtilizationRates": error(UNSUPPORTED)}),
    ),
    blind(
        under_load.clocks,
        "lost under load",
        rank(under_load.clocks, told={"5/nvmlDeviceGetUtilizationRates": error(LOST)}),
    ),
    blind(
        under_load.clocks,
        "no violation counters",
        rank(under_load.clocks, told={"5/field:270": error(DENIED)}),
    ),
    blind(
        under_load.clocks, "no NVML library", rank(under_load.clocks, told={"node/nvmlInit": error(MISSING)})
    ),
    healthy(under_load.thermal, "T.LIMIT", rank(under_load.thermal)),
    healthy(under_load.thermal, "an A100, by absolute limits", rank(under_load.thermal, "A100"), A100),
    healthy(
        under_load.thermal, "a T4, whose memory has no sensor", rank(under_load.thermal, "T4", number=1), T4
    ),
    faulty(
        under_load.thermal,
        "at its limit",
        rank(under_load.thermal, told={"5/nvmlDeviceGetMarginTemperature": -1}),
        "margin_c GPU 5 (0000:a8:00.0) has a margin of -1 °C to the temperature at which it slows down",
    ),
    faulty(
        under_load.thermal,
        "near its limit",
        rank(under_load.thermal, told={"5/nvmlDeviceGetMarginTemperature": 3}),
        "margin_c",
        WARN,
    ),
    faulty(
        under_load.thermal,
        "an A100 beyond 85",
        rank(under_load.thermal, "A100", told={"5/nvmlDeviceGetTemperatureV": 88}),
        "margin_c",
        kind=A100,
    ),
    faulty(
        under_load.thermal,
        "hot memory",
        rank(under_load.thermal, told={"5/field:82": 108}),
        "memory_temperature_c",
    ),
    blind(
        under_load.thermal,
        "a margin read as a limit",
        rank(
            under_load.thermal,
            told={"5/nvmlDeviceGetMarginTemperature": error(OLD), "5/nvmlDeviceGetTemperatureThreshold": 0},
        ),
    ),
    blind(
        under_load.thermal,
        "no memory temperature on an H100",
        rank(under_load.thermal, told={"5/field:82": error(UNSUPPORTED)}),
    ),
    blind(under_load.thermal, "0 C", rank(under_load.thermal, told={"5/nvmlDeviceGetTemperatureV": 0})),
    blind(under_load.thermal, "no load", rank(under_load.thermal, works=False)),
    healthy(under_load.pcie, "H100", rank(under_load.pcie)),
    healthy(under_load.pcie, "a T4 with 8 lanes", rank(under_load.pcie, "T4", number=1), T4),
    faulty(
        under_load.pcie,
        "generation 1",
        rank(under_load.pcie, told={"5/nvmlDeviceGetCurrPcieLinkGeneration": 1}),
        "pcie_generation GPU 5 (0000:a8:00.0): PCIe generation is 1, but the instance type has 5",
    ),
    faulty(
        under_load.pcie,
        "8 of 16 lanes",
        rank(under_load.pcie, told={"5/nvmlDeviceGetCurrPcieLinkWidth": 8}),
        "pcie_width GPU 5 (0000:a8:00.0): PCIe width is 8, but the instance type has 16",
    ),
    faulty(
        under_load.pcie,
        "replays",
        rank(under_load.pcie, told={"5/nvmlDeviceGetPcieReplayCounter": [150, 400, 9000]}),
        "replays",
    ),
    faulty(
        under_load.pcie,
        "some replays",
        rank(under_load.pcie, told={"5/nvmlDeviceGetPcieReplayCounter": [150, 180]}),
        "replays",
        WARN,
    ),
    blind(
        under_load.pcie,
        "replays went backwards",
        rank(under_load.pcie, told={"5/nvmlDeviceGetPcieReplayCounter": [150, 2]}),
    ),
    blind(
        under_load.pcie,
        "no width",
        rank(under_load.pcie, told={"5/nvmlDeviceGetCurrPcieLinkWidth": error(UNSUPPORTED)}),
    ),
    blind(under_load.pcie, "no load", rank(under_load.pcie, works=False)),
]

CASES = [*NVLINK, *LOADED]
