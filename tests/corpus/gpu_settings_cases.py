"""gpu.memory, utilisation, processes, power, modes, fabric: strangers, settings, the fabric's bits."""

from __future__ import annotations

import os

from checks.probes.gpu.state import fabric, memory, modes, power, processes, utilisation
from tests.corpus.gpu_machines import (
    A100,
    APPLICATION,
    B200,
    CONFIGURATION,
    DENIED,
    MIB,
    OLD,
    T4,
    UNSUPPORTED,
    WARN,
    WATTS,
    blind,
    error,
    faulty,
    healthy,
)

IDLE = [
    healthy(memory, "a few MiB", {"2/nvmlDeviceGetMemoryInfo_v2:used": 12 * MIB}),
    faulty(memory, "a stranger's context", {"5/nvmlDeviceGetMemoryInfo_v2:used": 41_000 * MIB},
        "memory_used_mib GPU 5 (0000:a8:00.0) has 41,000 MiB of memory in use by another program", cause=APPLICATION),
    faulty(memory, "something small", {"5/nvmlDeviceGetMemoryInfo_v2:used": 100 * MIB}, "GPU 5", WARN, APPLICATION),
    faulty(memory, "a stack of memory is missing", {"5/nvmlDeviceGetMemoryInfo:total": 65_247 * MIB},
        "GPU 5 (0000:a8:00.0): memory_total_mib"),
    faulty(utilisation, "a stranger works", {"1/nvmlDeviceGetUtilizationRates": 97},
        "utilisation_percent GPU 1 (0000:64:00.0) is 97 % busy, although nothing of the checks ran", cause=APPLICATION),
    blind(utilisation, "all ones", {"1/nvmlDeviceGetUtilizationRates": 0xFFFFFFFF}),
    faulty(processes, "a stranger's process", {"5/nvmlDeviceGetComputeRunningProcesses": [[os.getppid(), 4096 * MIB]]},
        f"pid {os.getppid()}", cause=APPLICATION),
    faulty(processes, "memory of a process is not told", {"5/nvmlDeviceGetComputeRunningProcesses": [[99_999_999, None]]},
        "memory unknown", cause=APPLICATION),
    faulty(processes, "a display server with 22 MiB", {"0/nvmlDeviceGetGraphicsRunningProcesses": [[99_999_998, 22 * MIB]]},
        "graphics_mib GPU 0 (0000:53:00.0) has 22 MiB in use by graphics programs", WARN, APPLICATION),
    faulty(processes, "a program that draws with 300 MiB", {"0/nvmlDeviceGetGraphicsRunningProcesses": [[99_999_998, 300 * MIB]]},
        "graphics_mib GPU 0 (0000:53:00.0) has 300 MiB in use by graphics programs", cause=APPLICATION),
    faulty(processes, "a display server whose memory is not told", {"0/nvmlDeviceGetGraphicsRunningProcesses": [[99_999_998, None]]},
        "graphics, memory unknown", cause=APPLICATION),
    faulty(processes, "a client of MPS", {"0/nvmlDeviceGetMPSComputeRunningProcesses": [[99_999_997, 5 * MIB]]}, "MPS",
        cause=APPLICATION),
    healthy(processes, "a driver without an MPS list", {"*/nvmlDeviceGetMPSComputeRunningProcesses": error(OLD)}),
    blind(processes, "graphics list refused", {"4/nvmlDeviceGetGraphicsRunningProcesses": error(DENIED)}),
]  # fmt: skip

SETTINGS = [
    healthy(modes, "4 x T4", {}, T4),
    faulty(modes, "persistence off", {"2/nvmlDeviceGetPersistenceMode": 0}, "GPU 2", WARN, CONFIGURATION),
    faulty(modes, "MIG on", {"2/nvmlDeviceGetMigMode": [1, 1]}, "mig_current", cause=CONFIGURATION),
    faulty(modes, "MIG pending", {"2/nvmlDeviceGetMigMode": [0, 1]}, "mig_pending", WARN, CONFIGURATION),
    faulty(modes, "exclusive", {"2/nvmlDeviceGetComputeMode": 3}, "compute_mode", cause=CONFIGURATION),
    faulty(modes, "prohibited", {"2/nvmlDeviceGetComputeMode": 2}, "2", cause=CONFIGURATION),
    blind(modes, "MIG is not told by an H100", {"*/nvmlDeviceGetMigMode": error(UNSUPPORTED)}),
    faulty(power, "capped a little", {"5/nvmlDeviceGetEnforcedPowerLimit": 600 * WATTS},
        "limit_ratio GPU 5 (0000:a8:00.0) has its power limit at 85.7 % of the default", WARN, CONFIGURATION),
    faulty(power, "capped by half", {"5/nvmlDeviceGetEnforcedPowerLimit": 350 * WATTS}, "GPU 5", cause=CONFIGURATION),
    blind(power, "no default", {"5/nvmlDeviceGetPowerManagementDefaultLimit": 0}),
    blind(power, "draws nothing", {"5/nvmlDeviceGetPowerUsage": 0}),
]  # fmt: skip

FABRIC = "nvmlDeviceGetGpuFabricInfo"
FABRIC_CASES = [
    healthy(fabric, "8 x B200, a mask that is not 0", {}, B200),
    healthy(fabric, "8 x A100, which have none", {}, A100),
    healthy(fabric, "all bits say no fault", {f"*/{FABRIC}": {"status": 0, "healthMask": 0x51AA}}),
    faulty(fabric, "not started", {f"*/{FABRIC}": {"status": 0, "state": 1}}, "fabric_state", cause=CONFIGURATION),
    faulty(fabric, "in progress", {f"4/{FABRIC}": {"status": 27, "state": 2}},
        "fabric_state GPU 4 (0000:97:00.0) has not joined the NVLink fabric (state 2)", cause=CONFIGURATION),
    faulty(fabric, "joined with an error", {f"4/{FABRIC}": {"status": 999}}, "fabric_status", cause=CONFIGURATION),
    *(
        faulty(fabric, name, {f"4/{FABRIC}": {"status": 0, "healthMask": mask}}, name)
        for name, mask in {
            "degraded_bandwidth": 0xA9,
            "route_recovery": 0xA6,
            "route_unhealthy": 0x9A,
            "access_timeout": 0x6A,
        }.items()
    ),
    *(
        faulty(fabric, name, {f"4/{FABRIC}": {"status": 0, "healthMask": mask}}, name.split()[0], cause=CONFIGURATION)
        for name, mask in {
            "misconfiguration (too few links)": 0x5AA,
            "misconfiguration (no partition)": 0x4AA,
            "partition_missing": 0x20AA,
            "manager_disconnected": 0x80AA,
        }.items()
    ),
    faulty(fabric, "unhealthy", {f"4/{FABRIC}": {"healthSummary": 2}}, "2", kind=B200),
    faulty(fabric, "limited capacity", {f"4/{FABRIC}": {"healthSummary": 3}},
        "fabric_summary GPU 4 (0000:97:00.0) has an unhealthy place in the NVLink fabric (summary 3)", kind=B200),
    blind(fabric, "a B200 without a summary", {f"4/{FABRIC}": {"healthSummary": 0}}, B200),
    blind(fabric, "a state of no meaning", {f"4/{FABRIC}": {"state": 0}}),
    blind(fabric, "a B200's driver that knows version 2 alone", {"*/nvmlDeviceGetGpuFabricInfoV:3": error(25)}, B200),
]  # fmt: skip

CASES = [*IDLE, *SETTINGS, *FABRIC_CASES]
