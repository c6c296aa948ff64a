"""kernel.hardware: what else the kernel says is broken: lost GPUs, memory, PCIe, disks, lock-ups, drivers, mounts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from checks.check import Context, Measurement, Skipped
from checks.model import Value
from checks.probes.kernel import log_source, out_of_memory, xid
from checks.probes.kernel.log import Log, log_check, measurement
from checks.probes.kernel.log_lines import Event, Line, Pattern, matching, messages
from checks.probes.kernel.out_of_memory import OwnCgroup
from checks.process.cgroup import CgroupError, memory_cgroup, read_limits

# Floppy and CD drives of virtual machines report I/O errors on healthy nodes.
_DISK = r"(?!fd\d|sr\d)\S+"
MOST_PARTS = 8
# edac_raw_mc_handle_error in linux drivers/edac/edac_mc.c; it says "any memory" or "unknown label" where it knows no module.
_MODULE = re.compile(r"EDAC .* error on (?!any memory|unknown )(\S.*?)(?= \(|$)")
_PCI = r"(?P<pci>[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])"
_DEVICE_DRIVERS = r"mlx[45]_\w+|efa|ena|bnxt_\w+|ice|i40e|irdma|nvidia|neuron|nvme"
# Forms from Linux 4.x to 6.x, gpud and the EKS node monitoring agent.
_FORMS: tuple[tuple[str, str], ...] = (
    ("driver_failed", r"NVRM: .*(?:RmInitAdapter|rm_init_adapter) failed"),
    ("driver_failed", r"NVRM: .*probe routine (?:failed|was not called) for \d+ device"),
    ("driver_failed", r"NVRM: None of the NVIDIA devices were (?:probed|initialized)"),
    ("driver_failed", r"nvidia-(?:nvswitch\d*|nvlink\d*|modeset): .*\b(?:[Ff]ailed|[Ff]ailure|FAILED)\b"),
    # linux drivers/base/dd.c (really_probe), before and since 6.8; mlx5's own words: mlx5/core/main.c (probe_one, mlx5_load_one).
    ("driver_failed", rf"(?:{_DEVICE_DRIVERS}) {_PCI}:? .*\bfailed with error (?:code )?-\d+"),
    ("driver_failed", rf"(?:{_DEVICE_DRIVERS}): probe of \S+ failed with error -\d+"),
    # linux mlx5/core/health.c: poll_health, mlx5_health_try_recover, mlx5_handle_bad_state; bnxt/bnxt.c: bnxt_fw_init_one_p1.
    (
        "driver_failed",
        rf"mlx5_core {_PCI}.*(?:health compromised|[Ff]atal error \d* ?detected|health recovery f\w+|handling bad device)",
    ),
    ("driver_failed", rf"bnxt_en {_PCI}.*Firmware not responding"),
    ("driver_mismatch", r"NVRM: API mismatch"),
    ("oom_kill", r"(?:Out of memory[^:]*: |Memory cgroup out of memory: )?Killed process \d+"),
    ("mce_uncorrected", r"Memory failure: 0x|Kernel panic .*[Mm]achine check"),
    (
        "mce_uncorrected",
        r"(?:mce: |\{\d+\})?\[Hardware Error\]:.*\b(?:[Uu]ncorrected|[Uu]ncorrectable)\b",
    ),
    ("mce_uncorrected", r"\{\d+\}\[Hardware Error\]:.*severity: (?:fatal|recoverable)"),
    # Bit 61 of a bank's status is UC: the error was not corrected (Intel SDM 15.3.2.2, AMD APM 9.3.2).
    (
        "mce_uncorrected",
        r"(?:mce: )?\[Hardware Error\]:.*Machine Check(?: Exception)?: \w+ Bank \d+: [abef][0-9a-f]{15}",
    ),
    ("mce", r"(?:mce: |\{\d+\})?\[Hardware Error\]"),
    ("edac_ue", r"EDAC \S+ (?:(?P<count>\d{1,9}) )?UE\b"),
    ("edac_ce", r"EDAC \S+ (?:(?P<count>\d{1,9}) )?CE\b"),
    ("pcie_uncorrected", rf"\S+ {_PCI}: (?:AER: |PCIe Bus Error: ).*[Uu]ncorrect(?:ed|able)"),
    (
        "lockup",
        r"(?:NMI )?watchdog: (?:BUG: soft lockup|Watchdog detected hard LOCKUP)|BUG: soft lockup",
    ),
    ("lockup", r"rcu: INFO: rcu_\w+ (?:self-)?detected (?:expedited )?stall"),
    ("hung_task", r"INFO: task .+ blocked (?:for more than \d+ seconds|on .+ likely owned)"),
    (
        "oops",
        r"BUG: (?:kernel NULL pointer|unable to handle)|kernel BUG at |Internal error: |Oops: ",
    ),
    ("oops", r"general protection fault|Kernel panic"),
    ("io_error", r"nvme nvme\d+: I/O .*\b(?:timeout|reset controller)"),
    ("io_error", r"nvme nvme\d+: (?:Disabling|Removing|disabling|removing) device after"),
    ("io_error", r"block nvme\S+ no available path - failing I/O"),
    ("io_error", rf"Buffer I/O error on dev(?:ice)? {_DISK}"),
    ("io_error", rf"(?:\w+: )?(?:I/O|critical (?:medium|target)) error, dev {_DISK}"),
    ("io_error", r".*\bRemounting filesystem read-only|.*I/O error while writing superblock"),
    (
        "io_error",
        r"XFS .*(?:log I/O error|[Ss]hutting down filesystem)|md/raid.*: Disk failure on",
    ),
    ("io_error", r".*: attempt to access beyond end of device"),
    (
        "mount_stalled",
        r"nfs: server \S+ not responding|nfs4_reclaim_open_state: Lock reclaim failed",
    ),
    ("mount_stalled", r"LustreError: .*timed out|Lustre: .*Connection to \S+ .*was lost"),
    ("thermal", r"(?:mce: )?CPU\d+: (?:Core|Package) temperature (?:is )?above threshold"),
    (
        "network_driver",
        rf"efa {_PCI}.*(?:timed out|[Tt]imeout|[Uu]nrecoverable|Reset failed|is not ready)",
    ),
    # linux infiniband/hw/efa/efa_com.c
    ("network_driver", rf"efa {_PCI}.*Failed to (?:process|submit) command \S+ .*err -\d+\b"),
    (
        "network_driver",
        rf"ena {_PCI}.*(?:[Kk]eep alive watchdog timeout|wasn't completed on time|[Tt]imed out|Can not reset|[Rr]eset failed"
        r"|MSI-X interrupt|Failed to (?:process|submit) command|[Dd]evice is ?n[o']t ready)",
    ),
    # Above: linux amazon/ena/ena_com.c. Below: linux mlx5/core/cmd.c (wait_func), en/reporter_tx.c, events.c.
    (
        "network_driver",
        rf"mlx5_core {_PCI}.*(?:leak of a command resource|No done completion|TX timeout|Port module event\[error\])",
    ),
    # linux broadcom/bnxt/bnxt_hwrm.c, bnxt.c.
    (
        "network_driver",
        rf"bnxt_en {_PCI}.*(?:Error \(timeout: \d+\)|[Ff]irmware (?:fatal reset event|reset aborted)|TX timeout detected)",
    ),
    # linux infiniband/hw/irdma/hw.c, main.c, icrdma_if.c.
    (
        "network_driver",
        rf"(?:irdma|ice|i40e) {_PCI}.*(?:HMC Error|Requesting a reset|PE Push Error|PE Critical error)",
    ),
    # linux infiniband/core/device.c, cache.c, mad.c; infiniband/hw/mlx5/cq.c.
    ("network_driver", r"infiniband \S+: .*(?:Couldn't|\b[Ff]ailed\b)"),
    ("network_driver", rf"(?:infiniband|mlx5_core {_PCI}) \S+: .*dump error cqe"),
    # linux net/sched/sch_generic.c
    ("network_driver", r".*NETDEV WATCHDOG: .*transmit queue \d+ timed out"),
)
KINDS = ("off_bus", *dict.fromkeys(kind for kind, _ in _FORMS))
# Kills among `oom_kill` by the limit of the own job's cgroup, and those by limits of others, which it does not count.
LIMITS = (out_of_memory.OWN_JOB, out_of_memory.OTHER_JOBS)
# What a restart does not repair.
GRAVE = ("off_bus", "driver_failed", "mce_uncorrected", "edac_ue", "pcie_uncorrected")
# What time alone does not settle: a broken part, and a kernel that continues in an unknown state until its restart.
STAYS_OPEN = (*GRAVE, "oops")
_ordinary = matching(Pattern(kind, re.compile(form)) for kind, form in _FORMS)


def find(lines: Iterable[Line]) -> Iterator[Event]:
    """The faults among the kernel's lines; `kind` is the metric. An uncorrected machine check does not count as another one."""
    named, limits = "", out_of_memory.Limits()
    for line in lines:
        for message in messages(line):
            limits.take(message)
        if line.message.startswith("NVRM: The NVIDIA GPU"):
            named = line.message
        lost = _lost(line, named) if "NVRM: " in line.message else ()
        found = [*lost, *_ordinary([line])]
        worse = any(event.kind == "mce_uncorrected" for event in found)
        yield from (limits.told(event) for event in found if not (worse and event.kind == "mce"))


def _lost(line: Line, named: str) -> Iterator[Event]:
    """GPUs that are gone: an Xid 79, or the words without an Xid."""
    # The driver names the GPU in one line and says in a later one what happened to it.
    before = [Line(named, None)] if named and named != line.message else []
    for event in xid.find([*before, line]):
        if event.line is line and (event.code == 79 or "fallen off the bus" in event.text):
            yield Event("off_bus", line, event.code, event.pci, event.text)


@log_check("kernel.hardware", (*KINDS, *LIMITS))
def hardware(context: Context) -> Measurement | Skipped:
    """Counts lost GPUs, machine checks, memory, PCIe and disk errors, lock-ups and failing drivers in the kernel's log.

    Lines, not incidents, of this boot and the last `window_s` seconds, and the kinds of STAYS_OPEN of this boot, however old;
    `edac_*` count what the lines count. `mce` may be
    corrected errors, `mce_uncorrected` are not. `oom_kill` counts processes that were killed because the machine had no memory
    left, or by the limit of a cgroup of the own job (`oom_kill_own_job`), or of a cgroup that the log does not name;
    `oom_kill_other_jobs` are those that reached the limits of other jobs, which is no fault of the machine.
    `covers_s` says how far back the source goes, `records_lost` how many
    records of it are missing, `earlier_boot` the grave faults within the window before this boot. A source that cannot
    be opened, or in which the kernel says nothing, is Skipped, or CheckError if it was asked for by name.
    """
    log = log_source.read(context, find)
    return log if isinstance(log, Skipped) else measured(log, _own_cgroup(Path("/")))


def _own_cgroup(root: Path) -> OwnCgroup | None:
    """That of this process; None if it cannot be read."""
    try:
        return OwnCgroup(memory_cgroup(root), read_limits(root).oom_kills)
    except CgroupError:
        return None


def _part_of(event: Event) -> str:
    """The device or the memory module that the line names, or ""."""
    module = _MODULE.match(event.text)
    return event.pci or (module[1] if module else "")


def measured(log: Log, own: OwnCgroup | None = None) -> Measurement:
    """The faults of the log by kind; `own` is the cgroup of the gate's processes, None for a log of another machine."""
    tally: Counter[str] = Counter()
    seen = out_of_memory.attributed(log.counted(STAYS_OPEN), own)
    for event in seen:
        tally[event.kind] += event.count
    tally[out_of_memory.KILL] += tally[out_of_memory.OWN_JOB]
    metrics: dict[str, Value] = {kind: tally[kind] for kind in (*KINDS, *LIMITS)}
    lines = {kind: [event for event in seen if event.kind == kind] for kind in metrics}
    for kind, events in lines.items():
        parts = dict.fromkeys(filter(None, map(_part_of, events)))
        if parts:
            metrics[f"{kind}_parts"] = ", ".join(list(parts)[:MOST_PARTS])
    killed = (out_of_memory.KILL, out_of_memory.OWN_JOB)
    lines[out_of_memory.KILL] = [event for event in seen if event.kind in killed]
    before = [event for event in log.earlier_boot if event.kind in GRAVE]
    return measurement(log, seen, metrics, lines, before)
