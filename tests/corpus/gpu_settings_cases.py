"""gpu.memory, utilisation, processes, power, modes, fabric: strangers, settings, the fabric's bits."""

from __future__ import annotations

import os

from checks.probes.gpu import state
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
    node,
)

IDLE = [
    healthy(
        state.memory, "a few MiB", node(state.memory, told={"2/nvmlDeviceGetMemoryInfo_v2:used": 12 * MIB})
    ),
    faulty(
        state.memory,
        "a stranger's context",
        node(state.memory, told={"5/nvmlDeviceGetMemoryInfo_v2:used": 41_000 * MIB}),
        "memory_used_mib GPU 5 (0000:a8:00.0) has 41,000 MiB of memory in use by another program",
        cause=APPLICATION,
    ),
    faulty(
        state.memory,
        "something small",
        node(state.memory, told={"5/nvmlDeviceGetMemoryInfo_v2:used": 100 * MIB}),
        "GPU 5",
        WARN,
        APPLICATION,
    ),
    faulty(
        state.memory,
        "a stack of memory is missing",
        node(state.memory, told={"5/nvmlDeviceGetMemoryInfo:total": 65_247 * MIB}),
        "GPU 5 (0000:a8:00.0): memory_total_mib",
    ),
    faulty(
        state.utilisation,
        "a stranger works",
        node(state.utilisation, told={"1/nvmlDeviceGetUtilizationRates": 97}),
        "utilisation_percent GPU 1 (0000:64:00.0) is 97 % busy, although nothing of the checks ran",
        cause=APPLICATION,
    ),
    blind(
        state.utilisation,
        "all ones",
        node(state.utilisation, told={"1/nvmlDeviceGetUtilizationRates": 0xFFFFFFFF}),
    ),
    faulty(
        state.processes,
        "a stranger's process",
        node(state.processes, told={"5/nvmlDeviceGetComputeRunningProcesses": [[os.getppid(), 4096 * MIB]]}),
        f"pid {os.getppid()}",
        cause=APPLICATION,
    ),
    faulty(
        state.processes,
        "memory of a process is not told",
        node(state.processes, told={"5/nvmlDeviceGetComputeRunningProcesses": [[99_999_999, None]]}),
        "memory unknown",
        cause=APPLICATION,
    ),
    faulty(
        state.processes,
        "a display server with 22 MiB",
        node(state.processes, told={"0/nvmlDeviceGetGraphicsRunningProcesses": [[99_999_998, 22 * MIB]]}),
        "graphics_mib GPU 0 (0000:53:00.0) has 22 MiB in use by graphics programs",
        WARN,
        APPLICATION,
    ),
    faulty(
        state.processes,
        "a program that draws with 300 MiB",
        node(state.processes, told={"0/nvmlDeviceGetGraphicsRunningProcesses": [[99_999_998, 300 * MIB]]}),
        "graphics_mib GPU 0 (0000:53:00.0) has 300 MiB in use by graphics programs",
        cause=APPLICATION,
    ),
    faulty(
        state.processes,
        "a display server whose memory is not told",
        node(state.processes, told={"0/nvmlDeviceGetGraphicsRunningProcesses": [[99_999_998, None]]}),
        "graphics, memory unknown",
        cause=APPLICATION,
    ),
    faulty(
        state.processes,
        "a client of MPS",
        node(state.processes, told={"0/nvmlDeviceGetMPSComputeRunningProcesses": [[99_999_997, 5 * MIB]]}),
        "MPS",
        cause=APPLICATION,
    ),
    healthy(
        state.processes,
        "a driver without an MPS list",
        node(state.processes, told={"*/nvmlDeviceGetMPSComputeRunningProcesses": error(OLD)}),
    ),
    blind(
        state.processes,
        "graphics list refused",
        node(state.processes, told={"4/nvmlDeviceGetGraphicsRunningProcesses": error(DENIED)}),
    ),
]

SETTINGS = [
    healthy(state.modes, "4 x T4", node(state.modes, "T4"), T4),
    faulty(
        state.modes,
        "persistence off",
        node(state.modes, told={"2/nvmlDeviceGetPersistenceMode": 0}),
        "GPU 2",
        WARN,
        CONFIGURATION,
    ),
    faulty(
        state.modes,
        "MIG on",
        node(state.modes, told={"2/nvmlDeviceGetMigMode": [1, 1]}),
        "mig_current",
        cause=CONFIGURATION,
    ),
    faulty(
        state.modes,
        "MIG pending",
        node(state.modes, told={"2/nvmlDeviceGetMigMode": [0, 1]}),
        "mig_pending",
        WARN,
        CONFIGURATION,
    ),
    faulty(
        state.modes,
        "exclusive",
        node(state.modes, told={"2/nvmlDeviceGetComputeMode": 3}),
        "compute_mode",
        cause=CONFIGURATION,
    ),
    faulty(
        state.modes,
        "prohibited",
        node(state.modes, told={"2/nvmlDeviceGetComputeMode": 2}),
        "2",
        cause=CONFIGURATION,
    ),
    blind(
        state.modes,
        "MIG is not told by an H100",
        node(state.modes, told={"*/nvmlDeviceGetMigMode": error(UNSUPPORTED)}),
    ),
    faulty(
        state.power,
        "capped a little",
        node(state.power, told={"5/nvmlDeviceGetEnforcedPowerLimit": 600 * WATTS}),
        "limit_ratio GPU 5 (0000:a8:00.0) has its power limit at 85.7 % of the default",
        WARN,
        CONFIGURATION,
    ),
    faulty(
        state.power,
        "capped by half",
        node(state.power, told={"5/nvmlDeviceGetEnforcedPowerLimit": 350 * WATTS}),
        "GPU 5",
        cause=CONFIGURATION,
    ),
    blind(
        state.power,
        "no default",
        node(state.power, told={"5/nvmlDeviceGetPowerManagementDefaultLimit": 0}),
    ),
    blind(state.power, "draws nothing", node(state.power, told={"5/nvmlDeviceGetPowerUsage": 0})),
]

FABRIC = "nvmlDeviceGetGpuFabricInfo"
FABRIC_CASES = [
    healthy(state.fabric, "8 x B200, a mask that is not 0", node(state.fabric, "B200"), B200),
    healthy(state.fabric, "8 x A100, which have none", node(state.fabric, "A100"), A100),
    healthy(
        state.fabric,
        "all bits say no fault",
        node(state.fabric, told={f"*/{FABRIC}": {"status": 0, "healthMask": 0x51AA}}),
    ),
    faulty(
        state.fabric,
        "not started",
        node(state.fabric, told={f"*/{FABRIC}": {"status": 0, "state": 1}}),
        "fabric_state",
        cause=CONFIGURATION,
    ),
    faulty(
        state.fabric,
        "in progress",
        node(state.fabric, told={f"4/{FABRIC}": {"status": 27, "state": 2}}),
        "fabric_state GPU 4 (0000:97:00.0) has not joined the NVLink fabric (state 2)",
        cause=CONFIGURATION,
    ),
    faulty(
        state.fabric,
        "joined with an error",
        node(state.fabric, told={f"4/{FABRIC}": {"status": 999}}),
        "fabric_status",
        cause=CONFIGURATION,
    ),
    *(
        faulty(
            state.fabric,
            name,
            node(state.fabric, told={f"4/{FABRIC}": {"status": 0, "healthMask": mask}}),
            name,
        )
        for name, mask in {
            "degraded_bandwidth": 0xA9,
            "route_recovery": 0xA6,
            "route_unhealthy": 0x9A,
            "access_timeout": 0x6A,
        }.items()
    ),
    *(
        faulty(
            state.fabric,
            name,
            node(state.fabric, told={f"4/{FABRIC}": {"status": 0, "healthMask": mask}}),
            name.split()[0],
            cause=CONFIGURATION,
        )
        for name, mask in {
            "misconfiguration (too few links)": 0x5AA,
            "misconfiguration (no partition)": 0x4AA,
            "partition_missing": 0x20AA,
            "manager_disconnected": 0x80AA,
        }.items()
    ),
    faulty(
        state.fabric,
        "unhealthy",
        node(state.fabric, "B200", told={f"4/{FABRIC}": {"healthSummary": 2}}),
        "2",
        kind=B200,
    ),
    faulty(
        state.fabric,
        "limited capacity",
        node(state.fabric, "B200", told={f"4/{FABRIC}": {"healthSummary": 3}}),
        "fabric_summary GPU 4 (0000:97:00.0) has an unhealthy place in the NVLink fabric (summary 3)",
        kind=B200,
    ),
    blind(
        state.fabric,
        "a B200 without a summary",
        node(state.fabric, "B200", told={f"4/{FABRIC}": {"healthSummary": 0}}),
        B200,
    ),
    blind(state.fabric, "a state of no meaning", node(state.fabric, told={f"4/{FABRIC}": {"state": 0}})),
    blind(
        state.fabric,
        "a B200's driver that knows version 2 alone",
        node(state.fabric, "B200", told={"*/nvmlDeviceGetGpuFabricInfoV:3": error(25)}),
        B200,
    ),
]

CASES = [*IDLE, *SETTINGS, *FABRIC_CASES]
