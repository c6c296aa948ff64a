"""kernel.xid, kernel.sxid, kernel.hardware: logs of machines that are well, that are not, and that say nothing."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from checks.check import Check
from checks.explain.reading import OutputKind
from checks.facts.withheld_kernel_log import FILE_VARIABLE
from checks.model import Cause, Level, Observation
from checks.probes.kernel import log_source
from checks.probes.kernel.hardware import hardware
from checks.probes.kernel.sxid import sxid
from checks.probes.kernel.xid import xid
from tests.corpus.case import Case, Observe, Recording, Rows, Sort, context, observed, observing
from tests.fakes.tools import Reply, install, on_path

WELL = (
    "nvme nvme0: 8/0/0 default/read/poll queues",
    "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  570.133.20",
)
PLAIN = {"": "a plain log does not number its lines: one that is deleted cannot be noticed"}

RING = {
    r"^(SUBSYSTEM|DEVICE)=": "a record's dictionary: it names the device, the message stands above it",
    "SYN flooding": "the last record: nothing after it shows that it is missing",
}


def journal_form(messages: Sequence[str], begun_s: float = 3000.0, who: str = "kernel") -> str:
    """Lines as journalctl and rsyslog write them: well since `begun_s` ago, then the messages of just now."""
    stamps = [begun_s - index for index in range(len(WELL))] + [1.0] * len(messages)
    said = zip(stamps, (*WELL, *messages), strict=True)
    return "".join(f"{stamp(time.time() - age_s)} ip-10-0-0-9 {who}: {message}\n" for age_s, message in said)


def kmsg_form(messages: Sequence[str], skip: int = 0) -> str:
    """Records as /dev/kmsg gives them; `skip` numbers are missing before the last."""
    now_us = int(time.monotonic() * 1e6)
    lines = [f"6,{index},{index},-;{message}" for index, message in enumerate((*WELL, *messages))]
    return "\n".join([*lines, f"6,{len(lines) + skip},{now_us},-;the last word"]) + "\n"


def stamp(epoch_s: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S+0000", time.gmtime(epoch_s))


def told(check: Check, *messages: str) -> Observe:
    """The check over a log with these messages."""
    return text_of(check, lambda: journal_form(messages))


@observing
def text_of(tmp_path: Path, check: Check, write: Callable[[], str]) -> Rows:
    """The check on a node whose only kernel log is this file."""
    (tmp_path / "messages").write_text(write(), encoding="utf-8")
    return sources(check, None, [])(tmp_path)


def sources(check: Check, kmsg: str | None, replies: Sequence[Reply], deadline_s: float = 15.0) -> Observe:
    """The check on a node with this ring (None: not there) and a journalctl that answers so."""

    def observe(tmp_path: Path) -> Sequence[Observation]:
        if replies:
            install(tmp_path / "bin", "journalctl", replies)
        with pytest.MonkeyPatch.context() as patch, on_path(tmp_path / "bin", alone=True):
            patch.delenv(FILE_VARIABLE, raising=False)
            patch.setattr(log_source, "FILES", (str(tmp_path / "messages"),))
            patch.setattr(log_source, "KMSG", kmsg or str(tmp_path / "none"))
            return observed(check, replace(context(check, tmp_path), timeout_s=deadline_s))

    return observe


def earlier_boot(message: str, start: str = "Linux version 6.1.119-129.201.amzn2023.x86_64") -> str:
    boot_s = time.clock_gettime(time.CLOCK_BOOTTIME)
    return long_ago((boot_s + 600.0, message), (boot_s, start))


def long_ago(*messages: tuple[float, str]) -> str:
    """These messages, so many seconds ago, and that all is well now."""
    lines = [f"{stamp(time.time() - age_s)} ip-10-0-0-9 kernel: {text}\n" for age_s, text in messages]
    return "".join(lines) + journal_form(("all well",))


def _healthy(check: Check) -> list[Case]:
    return [
        Case(check.name, Sort.HEALTHY, "a quiet log", told(check)),
        Case(check.name, Sort.HEALTHY, "a quiet ring", text_of(check, lambda: kmsg_form(()))),
        Case(check.name, Sort.HEALTHY, "no ring, a quiet journal", _journal(check)),
        Case(check.name, Sort.HEALTHY, "a program quotes a fault",
            text_of(check, lambda: journal_form(()) + journal_form([OFF_BUS, SXID_FATAL], who="app[7]"))),
        Case(check.name, Sort.HEALTHY, "on a node without GPUs", told(check), instance_type="cpu"),
        Case(check.name, Sort.HEALTHY, "on a Trainium node", told(check), instance_type="trn1.32xlarge"),
    ]  # fmt: skip


@observing
def _journal(tmp_path: Path, check: Check) -> Rows:
    return sources(check, None, [Reply(journal_form(()), asked="--boot")])(tmp_path)


def _unmeasurable(check: Check) -> list[Case]:
    return [
        Case(check.name, Sort.UNMEASURABLE, name, observe)
        for name, observe in {
            "an empty log": text_of(check, str),
            "other programs only": text_of(check, lambda: journal_form((), who="cron[1]")),
            "a log that ended long ago": text_of(check, lambda: journal_form((), 9e6).splitlines()[0] + "\n"),
            "a log that begins now": text_of(check, lambda: journal_form((), 1.5)),
            "records are missing": text_of(check, lambda: kmsg_form((), skip=3)),
            "messages were suppressed": told(check, "printk: 40 messages suppressed."),
            "no ring, no journalctl, no file": sources(check, None, []),
            "a ring that cannot be opened": sources(check, "/proc", []),
            "a ring without an end": sources(check, "/dev/zero", [], deadline_s=0.3),
            "an empty ring": sources(check, "/dev/null", []),
            "a journal that hangs": sources(
                check, None, [Reply(journal_form(()), seconds=3600)], deadline_s=1.5
            ),
            "a journal that fails": sources(check, None, [Reply(journal_form(()), code=1)]),
            "a journal that shows nothing": sources(check, None, [Reply("-- No entries --\n")]),
            "garbage": text_of(check, lambda: "\0" * 4096),
        }.items()
    ]


OFF_BUS = "NVRM: Xid (PCI:0000:ca:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
SXID_FATAL = "nvidia-nvswitch1: SXid (PCI:0000:86:00.0): 20034, Fatal, Link 41 LTSSM Fault Up"


def xid_line(code: int, rest: str = ", pid=4242, name=python3, x") -> str:
    return f"NVRM: Xid (PCI:0000:ca:00): {code}{rest}"


def faulty(check: Check, name: str, *messages: str, names: str, **of: Any) -> Case:
    """A machine whose kernel says these things."""
    return Case(check.name, Sort.FAULTY, name, told(check, *messages), names=names, **of)


ACT = (46, 48, 54, 62, 64, 74, 79, 95, 109, 110, 119, 120, 136, 140, 143, 151, 155, 156, 158)
WARN = Level.WARN
CONFIGURATION = Cause.CONFIGURATION
CASES = [
    *(case for check in (xid, sxid, hardware) for case in (*_healthy(check), *_unmeasurable(check))),
    Case(xid.name, Sort.HEALTHY, "a row was remapped", told(xid, xid_line(63, ", Row Remapper: new row marked"))),
    *(faulty(xid, f"Xid {code}", xid_line(code), names="GPU at 0000:ca:00.0") for code in ACT),
    faulty(xid, "an Xid without a tail", xid_line(79, ""), names="0000:ca:00.0"),
    faulty(xid, "8-digit domain", OFF_BUS.replace("0000:ca:00", "00000000:CA:00.0"), names="0000:ca:00.0"),
    faulty(xid, "off the bus without an Xid", "NVRM: The NVIDIA GPU 0000:b3:00.0",
        "NVRM: fallen off the bus and is not responding to commands.", names="0000:b3:00.0"),
    faulty(xid, "154 asks for a reset", xid_line(154, ", GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)"),
        names="GPU Reset Required"),
    faulty(xid, "a fatal NVLink fault", xid_line(149, ", NETIR_LINK_EVT  Fatal   XC0 i0 Link 09 (0x0)"), names="149"),
    faulty(xid, "an NVLink fault that it survived", xid_line(145, ", RLW_REMAP Nonfatal XC1 i0 Link 10 (0x4)"), level=WARN,
        names="145"),
    faulty(xid, "contained memory error", xid_line(94, ", Contained: CE User Channel"), level=WARN, names="94"),
    faulty(xid, "a code that nobody knows", xid_line(999), level=WARN, names="999"),
    faulty(xid, "a code without an action", xid_line(167, ""), level=WARN, names="167"),
    *(
        faulty(xid, f"a program's Xid {code}", xid_line(code), level=WARN, cause=Cause.APPLICATION, names="python3")
        for code in (13, 31, 43, 45)
    ),
    *(
        Case(check.name, Sort.FAULTY, "before this boot", text_of(check, partial(earlier_boot, message)), level=WARN,
            names="before this boot")
        for check, message in ((xid, xid_line(79)), (sxid, SXID_FATAL), (hardware, OFF_BUS))
    ),
    *(
        Case(xid.name, Sort.UNMEASURABLE, f"an Xid in an unknown form: {message}", told(xid, message))
        for message in (
            "NVRM: Xid : 79",
            "NVRM: Xid (PCI:0000:ca:00): abc, pid=1",
            xid_line(154, ", GPU recovery action chan"),
            xid_line(149, ", NETIR_LINK_EVT"),
        )
    ),
    faulty(sxid, "a fatal SXid", SXID_FATAL, names="Link 41"),
    faulty(sxid, "an SXid of three lines", SXID_FATAL,
        "nvidia-nvswitch1: SXid (PCI:0000:86:00.0): 20034, Severity 1 Engine instance 41 Sub-engine instance 00",
        "nvidia-nvswitch1: SXid (PCI:0000:86:00.0): 20034, Data {0x50610002, 0x10100030}",
        names="fatal has 1 fatal NVSwitch error (SXid) in the kernel log"),
    faulty(sxid, "no word, but a fatal code", "nvidia-nvswitch0: SXid (PCI:0004:00:00.0): 26006, SOE HALTED", names="26006"),
    faulty(sxid, "an SXid that is not fatal",
        "nvidia-nvswitch2: SXid (PCI:0000:85:00.0): 12028, Non-fatal, Link 61 egress non-posted PRIV error (First)", level=WARN,
        names="12028"),
    Case(sxid.name, Sort.UNMEASURABLE, "an SXid that says nothing", told(sxid, "nvidia-nvswitch0: SXid (PCI:0000:00:00.0): xyz")),
    Case(sxid.name, Sort.HEALTHY, "a bit that was corrected",
        told(sxid, "nvidia-nvswitch0: SXid (PCI:0000:c3:00.0): 11012, Non-fatal, Link 3 ingress ECC limit")),
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
    ),
    Case(hardware.name, Sort.FAULTY, "announced in /var/log/messages only", lambda tmp_path: _beside_a_quiet_ring(tmp_path),
        names="fallen off the bus"),
]  # fmt: skip


def _beside_a_quiet_ring(tmp_path: Path) -> Sequence[Observation]:
    ring = tmp_path / "kmsg"
    os.mkfifo(ring)
    writer = os.open(ring, os.O_RDWR)
    os.write(writer, b"6,0,0,-;all well\n")
    (tmp_path / "messages").write_text(journal_form((OFF_BUS,)))
    try:
        return sources(hardware, str(ring), [])(tmp_path)
    finally:
        os.close(writer)


RECORDINGS = [
    Recording("kernel/kmsg_healthy.txt", OutputKind.KERNEL_LOG, Level.PASS, "p5.48xlarge", irrelevant=RING),
    Recording("kernel/kmsg_nvlink5.txt", OutputKind.KERNEL_LOG, Level.FAIL, "p6-b200.48xlarge"),
    Recording("kernel/dmesg_healthy.txt", OutputKind.KERNEL_LOG, Level.PASS, "p5.48xlarge", irrelevant=PLAIN),
    Recording("kernel/dmesg_off_bus.txt", OutputKind.KERNEL_LOG, Level.FAIL, "p5.48xlarge"),
    Recording("kernel/dmesg_xid_31_captured.txt", OutputKind.KERNEL_LOG, Level.WARN, "p5.4xlarge",
        irrelevant={r": 31, pid=": "the last line: nothing after it shows that it is missing"}),
    Recording("kernel/dmesg_ctime_gsp.txt", OutputKind.KERNEL_LOG, Level.FAIL, "p5.48xlarge"),
    Recording("kernel/dmesg_iso_sxid.txt", OutputKind.KERNEL_LOG, Level.FAIL, "p4d.24xlarge"),
    Recording("kernel/journal_no_hostname.txt", OutputKind.KERNEL_LOG, Level.FAIL, "p5.48xlarge"),
    Recording("kernel/dmesg_iso_healthy.txt", OutputKind.KERNEL_LOG, Level.PASS, "p4d.24xlarge", irrelevant=PLAIN),
    Recording("kernel/journal_memory.txt", OutputKind.KERNEL_LOG, Level.FAIL, "p5.48xlarge"),
    Recording("kernel/kmsg.txt", OutputKind.KERNEL_LOG, Level.FAIL),
    Recording("kernel/messages_sxid.txt", OutputKind.KERNEL_LOG, Level.FAIL, "p4d.24xlarge"),
]  # fmt: skip
