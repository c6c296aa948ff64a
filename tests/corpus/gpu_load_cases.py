"""gpu.nvlink over the gate, and gpu.clocks, thermal, pcie under load."""

from __future__ import annotations

from checks import gpu
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
    healthy(gpu.nvlink, "8 x H100", links({}, {})),
    healthy(gpu.nvlink, "8 x B200, which count no replays", links({}, {}, "B200"), B200),
    healthy(gpu.nvlink, "8 x A100", links({}, {}, "A100"), A100),
    healthy(gpu.nvlink, "old errors", links({"*/field:163": 900}, {"*/field:163": 900})),
    faulty(
        gpu.nvlink,
        "a link down",
        links({}, {"5/nvmlDeviceGetNvLinkState:7": 0}),
        "GPU 5 (0000:a8:00.0): links_active is 17",
    ),
    faulty(
        gpu.nvlink,
        "all links down",
        links({}, {f"5/nvmlDeviceGetNvLinkState:{link}": 0 for link in range(18)}),
        "links_active is 0",
    ),
    faulty(
        gpu.nvlink,
        "no NVLink where the type has it",
        links(
            {"*/nvmlDeviceGetNvLinkState": error(UNSUPPORTED)},
            {"*/nvmlDeviceGetNvLinkState": error(UNSUPPORTED)},
        ),
        "links_active is 0",
    ),
    faulty(
        gpu.nvlink,
        "an A100's link down",
        links({}, {"0/nvmlDeviceGetNvLinkState:11": 0}, "A100"),
        "is 11",
        kind=A100,
    ),
    faulty(gpu.nvlink, "checksum errors", links({}, {"5/field:163:7": 100_000}), "link_errors_per_s"),
    faulty(gpu.nvlink, "some checksum errors", links({}, {"5/field:163:7": 200}), "link_errors_per_s", WARN),
    faulty(
        gpu.nvlink,
        "an A100's checksum errors",
        links({}, {f"5/{OLDER}:3:2": 100_000}, "A100"),
        "GPU 5",
        kind=A100,
    ),
    faulty(
        gpu.nvlink,
        "a B200's packet errors",
        links({}, {"5/field:208:3": 100_000}, "B200"),
        "GPU 5",
        kind=B200,
    ),
    faulty(gpu.nvlink, "a recovery", links({}, {"5/field:162:7": 1}), "link_recoveries"),
    faulty(
        gpu.nvlink, "a B200's recovery", links({}, {"5/field:215:7": 1}, "B200"), "link_recoveries", kind=B200
    ),
    faulty(gpu.nvlink, "replays", links({}, {"5/field:161:7": 9}), "link_replays", WARN),
    blind(gpu.nvlink, "a counter that went backwards", links({"5/field:163:7": 5}, {})),
    blind(gpu.nvlink, "no first look", links(None, {})),
    blind(gpu.nvlink, "a GPU that was not in the first look", links({}, {}, gpus=7)),
    blind(gpu.nvlink, "a link that came up meanwhile", links({"5/nvmlDeviceGetNvLinkState:7": 0}, {})),
    blind(gpu.nvlink, "one GPU is lost", links({}, {"3/*": error(LOST)})),
    blind(gpu.nvlink, "not permitted", links({}, {"3/nvmlDeviceGetNvLinkState": error(DENIED)})),
    blind(gpu.nvlink, "no counters", links({}, {"3/field:162": error(DENIED)})),
    blind(gpu.nvlink, "an H100 without replays", links({}, {"*/field:161": error(UNSUPPORTED)})),
    blind(gpu.nvlink, "no NVML library", links({}, {"node/nvmlInit": error(MISSING)})),
]

REASONS = "nvmlDeviceGetCurrentClocksEventReasons"
LOADED = [
    healthy(gpu.clocks, "power-capped, as H100 are", rank(gpu.clocks)),
    healthy(gpu.clocks, "a driver before R535", rank(gpu.clocks, told={f"*/{REASONS}": error(OLD)})),
    healthy(gpu.clocks, "a T4", rank(gpu.clocks, "T4", number=1), T4),
    healthy(
        gpu.clocks,
        "a T4 at its power limit",
        rank(gpu.clocks, "T4", number=1, told={"*/nvmlDeviceGetClockInfo:1": 620}),
        T4,
    ),
    healthy(
        gpu.clocks,
        "a driver without the newer counters",
        rank(gpu.clocks, told={f"*/field:{ident}": error(UNSUPPORTED) for ident in (269, 270, 271)}),
    ),
    *(
        faulty(
            gpu.clocks,
            name,
            rank(gpu.clocks, told={f"5/{REASONS}": 0x4 | bit}),
            f"GPU 5 (0000:a8:00.0): {name}",
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
        gpu.clocks,
        "slow without a reason",
        rank(gpu.clocks, told={"5/nvmlDeviceGetClockInfo:1": 345}),
        "clock_ratio",
    ),
    blind(gpu.clocks, "no load", rank(gpu.clocks, works=False)),
    blind(
        gpu.clocks,
        "the load fails",
        rank(gpu.clocks, fails="CUDA error: an illegal memory access was encountered"),
    ),
    blind(gpu.clocks, "a GPU that NVML does not list", rank(gpu.clocks, number=9)),
    blind(gpu.clocks, "a rank without a GPU", rank(gpu.clocks, device="cpu")),
    blind(gpu.clocks, "reasons refused", rank(gpu.clocks, told={f"5/{REASONS}": error(DENIED)})),
    blind(
        gpu.clocks,
        "no utilisation",
        rank(gpu.clocks, told={"5/nvmlDeviceGetUtilizationRates": error(UNSUPPORTED)}),
    ),
    blind(
        gpu.clocks, "lost under load", rank(gpu.clocks, told={"5/nvmlDeviceGetUtilizationRates": error(LOST)})
    ),
    blind(gpu.clocks, "no violation counters", rank(gpu.clocks, told={"5/field:270": error(DENIED)})),
    blind(gpu.clocks, "no NVML library", rank(gpu.clocks, told={"node/nvmlInit": error(MISSING)})),
    healthy(gpu.thermal, "T.LIMIT", rank(gpu.thermal)),
    healthy(gpu.thermal, "an A100, by absolute limits", rank(gpu.thermal, "A100"), A100),
    healthy(gpu.thermal, "a T4, whose memory has no sensor", rank(gpu.thermal, "T4", number=1), T4),
    faulty(
        gpu.thermal,
        "at its limit",
        rank(gpu.thermal, told={"5/nvmlDeviceGetMarginTemperature": -1}),
        "margin_c is -1",
    ),
    faulty(
        gpu.thermal,
        "near its limit",
        rank(gpu.thermal, told={"5/nvmlDeviceGetMarginTemperature": 3}),
        "margin_c",
        WARN,
    ),
    faulty(
        gpu.thermal,
        "an A100 beyond 85",
        rank(gpu.thermal, "A100", told={"5/nvmlDeviceGetTemperatureV": 88}),
        "margin_c",
        kind=A100,
    ),
    faulty(gpu.thermal, "hot memory", rank(gpu.thermal, told={"5/field:82": 108}), "memory_temperature_c"),
    blind(
        gpu.thermal,
        "a margin read as a limit",
        rank(
            gpu.thermal,
            told={"5/nvmlDeviceGetMarginTemperature": error(OLD), "5/nvmlDeviceGetTemperatureThreshold": 0},
        ),
    ),
    blind(
        gpu.thermal,
        "no memory temperature on an H100",
        rank(gpu.thermal, told={"5/field:82": error(UNSUPPORTED)}),
    ),
    blind(gpu.thermal, "0 C", rank(gpu.thermal, told={"5/nvmlDeviceGetTemperatureV": 0})),
    blind(gpu.thermal, "no load", rank(gpu.thermal, works=False)),
    healthy(gpu.pcie, "H100", rank(gpu.pcie)),
    healthy(gpu.pcie, "a T4 with 8 lanes", rank(gpu.pcie, "T4", number=1), T4),
    faulty(
        gpu.pcie,
        "generation 1",
        rank(gpu.pcie, told={"5/nvmlDeviceGetCurrPcieLinkGeneration": 1}),
        "GPU 5 (0000:a8:00.0): pcie_generation",
    ),
    faulty(
        gpu.pcie,
        "8 of 16 lanes",
        rank(gpu.pcie, told={"5/nvmlDeviceGetCurrPcieLinkWidth": 8}),
        "pcie_width is 8",
    ),
    faulty(
        gpu.pcie,
        "replays",
        rank(gpu.pcie, told={"5/nvmlDeviceGetPcieReplayCounter": [150, 400, 9000]}),
        "replays",
    ),
    faulty(
        gpu.pcie,
        "some replays",
        rank(gpu.pcie, told={"5/nvmlDeviceGetPcieReplayCounter": [150, 180]}),
        "replays",
        WARN,
    ),
    blind(
        gpu.pcie,
        "replays went backwards",
        rank(gpu.pcie, told={"5/nvmlDeviceGetPcieReplayCounter": [150, 2]}),
    ),
    blind(
        gpu.pcie, "no width", rank(gpu.pcie, told={"5/nvmlDeviceGetCurrPcieLinkWidth": error(UNSUPPORTED)})
    ),
    blind(gpu.pcie, "no load", rank(gpu.pcie, works=False)),
]

CASES = [*NVLINK, *LOADED]
