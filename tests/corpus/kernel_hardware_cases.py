"""The kernel's log: what kernel.hardware makes of the lines of drivers, memory, file systems and network cards."""

from __future__ import annotations

from checks.model import Cause, Level
from checks.probes.kernel.hardware import hardware
from tests.corpus.kernel_cases import CONFIGURATION, OFF_BUS, WARN, faulty

CASES = [
    *(
        faulty(hardware, name, message, level=level, cause=cause, names=message[:40])
        for name, level, cause, message in (
            ("a GPU off the bus", Level.FAIL, Cause.HARDWARE, OFF_BUS),
            ("off the bus in words", Level.FAIL, Cause.HARDWARE, "NVRM: GPU 0000:b9:00.0: GPU has fallen off the bus."),
            ("a driver that fails", Level.FAIL, Cause.HARDWARE, "NVRM: RmInitAdapter failed! (0x26:0x56:1474)"),
            ("a network card whose driver could not start", Level.FAIL, Cause.HARDWARE,
                "mlx5_core 0000:03:00.0: probe with driver mlx5_core failed with error -22"),
            ("a network card that is lost", Level.FAIL, Cause.HARDWARE,
                "mlx5_core 0000:d2:00.0: poll_health:825:(pid 0): device's health compromised - reached miss count"),
            ("a command of EFA that failed", Level.WARN, Cause.HARDWARE,
                "efa 0000:00:1d.0 rdmap0s29: Failed to process command ALLOC_PD (opcode 13) comp_status 6 err -12"),
            ("a queue that stands still", Level.WARN, Cause.HARDWARE, "NETDEV WATCHDOG: ens5 (ena): transmit queue 3 timed out"),
            ("two drivers", Level.FAIL, CONFIGURATION, "NVRM: API mismatch: the client has the version 550.90.07,"),
            ("memory, uncorrected", Level.FAIL, Cause.HARDWARE, "EDAC MC0: 1 UE memory read error on CPU#0 DIMM#0"),
            ("memory, corrected too often", WARN, Cause.HARDWARE, "EDAC MC0: 400 CE memory read error on DIMM#0"),
            ("a machine check", WARN, Cause.HARDWARE, "mce: [Hardware Error]: Machine check events logged"),
            ("an uncorrected machine check", Level.FAIL, Cause.HARDWARE,
                "mce: [Hardware Error]: CPU 3: Machine Check: 0 Bank 9: ac00004000010091"),
            ("PCIe", Level.FAIL, Cause.HARDWARE, "pcieport 0000:16:01.0: AER: Uncorrected (Fatal) error received: 0000:18:00.0"),
            ("a disk", WARN, Cause.HARDWARE, "nvme nvme1: I/O 123 QID 4 timeout, reset controller"),
            ("a lock-up", WARN, Cause.HARDWARE, "watchdog: BUG: soft lockup - CPU#3 stuck for 22s! [python:4242]"),
            ("a task that hangs", WARN, CONFIGURATION, "INFO: task python3:31337 blocked for more than 120 seconds."),
            ("the kernel's own fault", Level.FAIL, CONFIGURATION, "BUG: unable to handle page fault for address: ffffc9000"),
            ("want of memory", WARN, Cause.APPLICATION, "Out of memory: Killed process 4242 (python) total-vm:8123456kB"),
            ("heat", WARN, Cause.HARDWARE, "mce: CPU12: Core temperature above threshold, cpu clock throttled"),
            ("a file server", WARN, CONFIGURATION, "nfs: server 10.0.4.2 not responding, still trying"),
            ("the network's driver", WARN, Cause.HARDWARE, "ena 0000:00:05.0 eth0: Keep alive watchdog timeout."),
        )
    )
]  # fmt: skip
