"""kernel.hardware: what else the kernel says is broken: lost GPUs, memory, PCIe, disks, lock-ups, drivers, mounts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from checks.check import Context, Measurement, Skipped
from checks.model import Value
from checks.probes.kernel import log_source, xid
from checks.probes.kernel.log import Log, log_check, measurement
from checks.probes.kernel.log_lines import Event, Find, Line, matching, messages
from checks.process.cgroup import CgroupError, memory_cgroup, read_limits

# Floppy and CD drives of virtual machines report I/O errors on healthy nodes.
_DISK = r"(?!fd\d|sr\d)\S+"
MOST_PARTS = 8
# edac_raw_mc_handle_error in linux drivers/edac/edac_mc.c; it says "any memory" or "unknown label" where it knows no module.
_MODULE = re.compile(r"EDAC .* error on (?!any memory|unknown )(\S.*?)(?= \(|$)")
_PCI = r"(?P<pci>[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])"
_DEVICE_DRIVERS = r"mlx[45]_\w+|efa|ena|bnxt_\w+|ice|i40e|irdma|nvidia|neuron|nvme"
# Forms from Linux 4.x to 6.x, gpud and the EKS node monitoring agent.
_FORMS: Mapping[str, tuple[str, ...]] = {
    "driver_failed": (
        r"NVRM: .*(?:RmInitAdapter|rm_init_adapter) failed",
        r"NVRM: .*probe routine (?:failed|was not called) for \d+ device",
        r"NVRM: None of the NVIDIA devices were (?:probed|initialized)",
        r"nvidia-(?:nvswitch\d*|nvlink\d*|modeset): .*\b(?:[Ff]ailed|[Ff]ailure|FAILED)\b",
        # linux drivers/base/dd.c (really_probe), before and since 6.8; mlx5's own words: mlx5/core/main.c (probe_one, mlx5_load_one).
        rf"(?:{_DEVICE_DRIVERS}) {_PCI}:? .*\bfailed with error (?:code )?-\d+",
        rf"(?:{_DEVICE_DRIVERS}): probe of \S+ failed with error -\d+",
        # linux mlx5/core/health.c: poll_health, mlx5_health_try_recover, mlx5_handle_bad_state; bnxt/bnxt.c: bnxt_fw_init_one_p1.
        rf"mlx5_core {_PCI}.*(?:health compromised|[Ff]atal error \d* ?detected|health recovery f\w+|handling bad device)",
        rf"bnxt_en {_PCI}.*Firmware not responding",
    ),
    "driver_mismatch": (r"NVRM: API mismatch",),
    "oom_kill": (r"(?:Out of memory[^:]*: |Memory cgroup out of memory: )?Killed process \d+",),
    "mce_uncorrected": (
        r"Memory failure: 0x|Kernel panic .*[Mm]achine check",
        r"(?:mce: |\{\d+\})?\[Hardware Error\]:.*\b(?:[Uu]ncorrected|[Uu]ncorrectable)\b",
        r"\{\d+\}\[Hardware Error\]:.*severity: (?:fatal|recoverable)",
        # Bit 61 of a bank's status is UC: the error was not corrected (Intel SDM 15.3.2.2, AMD APM 9.3.2).
        r"(?:mce: )?\[Hardware Error\]:.*Machine Check(?: Exception)?: \w+ Bank \d+: [abef][0-9a-f]{15}",
    ),
    "mce": (r"(?:mce: |\{\d+\})?\[Hardware Error\]",),
    "edac_ue": (r"EDAC \S+ (?:(?P<count>\d{1,9}) )?UE\b",),
    "edac_ce": (r"EDAC \S+ (?:(?P<count>\d{1,9}) )?CE\b",),
    "pcie_uncorrected": (rf"\S+ {_PCI}: (?:AER: |PCIe Bus Error: ).*[Uu]ncorrect(?:ed|able)",),
    "lockup": (
        r"(?:NMI )?watchdog: (?:BUG: soft lockup|Watchdog detected hard LOCKUP)|BUG: soft lockup",
        r"rcu: INFO: rcu_\w+ (?:self-)?detected (?:expedited )?stall",
    ),
    "hung_task": (r"INFO: task .+ blocked (?:for more than \d+ seconds|on .+ likely owned)",),
    "oops": (
        r"BUG: (?:kernel NULL pointer|unable to handle)|kernel BUG at |Internal error: |Oops: ",
        r"general protection fault|Kernel panic",
    ),
    "io_error": (
        r"nvme nvme\d+: I/O .*\b(?:timeout|reset controller)",
        r"nvme nvme\d+: (?:Disabling|Removing|disabling|removing) device after",
        r"block nvme\S+ no available path - failing I/O",
        rf"Buffer I/O error on dev(?:ice)? {_DISK}",
        rf"(?:\w+: )?(?:I/O|critical (?:medium|target)) error, dev {_DISK}",
        r".*\bRemounting filesystem read-only|.*I/O error while writing superblock",
        r"XFS .*(?:log I/O error|[Ss]hutting down filesystem)|md/raid.*: Disk failure on",
        r".*: attempt to access beyond end of device",
    ),
    "mount_stalled": (
        r"nfs: server \S+ not responding|nfs4_reclaim_open_state: Lock reclaim failed",
        r"LustreError: .*timed out|Lustre: .*Connection to \S+ .*was lost",
    ),
    "thermal": (r"(?:mce: )?CPU\d+: (?:Core|Package) temperature (?:is )?above threshold",),
    "network_driver": (
        rf"efa {_PCI}.*(?:timed out|[Tt]imeout|[Uu]nrecoverable|Reset failed|is not ready)",
        # linux infiniband/hw/efa/efa_com.c
        rf"efa {_PCI}.*Failed to (?:process|submit) command \S+ .*err -\d+\b",
        # linux amazon/ena/ena_com.c
        rf"ena {_PCI}.*(?:[Kk]eep alive watchdog timeout|wasn't completed on time|[Tt]imed out|Can not reset|[Rr]eset failed"
        r"|MSI-X interrupt|Failed to (?:process|submit) command|[Dd]evice is ?n[o']t ready)",
        # linux mlx5/core/cmd.c (wait_func), en/reporter_tx.c, events.c.
        rf"mlx5_core {_PCI}.*(?:leak of a command resource|No done completion|TX timeout|Port module event\[error\])",
        # linux broadcom/bnxt/bnxt_hwrm.c, bnxt.c.
        rf"bnxt_en {_PCI}.*(?:Error \(timeout: \d+\)|[Ff]irmware (?:fatal reset event|reset aborted)|TX timeout detected)",
        # linux infiniband/hw/irdma/hw.c, main.c, icrdma_if.c.
        rf"(?:irdma|ice|i40e) {_PCI}.*(?:HMC Error|Requesting a reset|PE Push Error|PE Critical error)",
        # linux infiniband/core/device.c, cache.c, mad.c; infiniband/hw/mlx5/cq.c.
        r"infiniband \S+: .*(?:Couldn't|\b[Ff]ailed\b)",
        rf"(?:infiniband|mlx5_core {_PCI}) \S+: .*dump error cqe",
        # linux net/sched/sch_generic.c
        r".*NETDEV WATCHDOG: .*transmit queue \d+ timed out",
    ),
}
KINDS = ("off_bus", *_FORMS)
# What a restart does not repair.
GRAVE = ("off_bus", "driver_failed", "mce_uncorrected", "edac_ue", "pcie_uncorrected")
# What time alone does not settle: a broken part, and a kernel that continues in an unknown state until its restart.
STAYS_OPEN = (*GRAVE, "oops")
_ordinary = matching((metric, re.compile(form)) for metric, forms in _FORMS.items() for form in forms)
# Whose want of memory the kernel ended a process for: the machine's, or the limit of a cgroup, and of whose job.
# Source: Linux mm/oom_kill.c, dump_oom_summary() (4.19 and later): "oom-kill:constraint=CONSTRAINT_MEMCG,...,oom_memcg=/a,
# task_memcg=/a/b,task=x,pid=1,uid=0". The cgroup of oom_memcg is the one whose limit was reached.
# A kill for want of memory; by the limit of a cgroup; of the gate's own job; of another one.
KILL, CGROUP, OWN_JOB, OTHER_JOBS = ("oom_kill", "oom_kill_cgroup", "oom_kill_own_job", "oom_kill_other_jobs")
# Kills among `oom_kill` by the limit of the own job's cgroup, and those by limits of others, which it does not count.
LIMITS = (OWN_JOB, OTHER_JOBS)
_SUMMARY = re.compile(r"oom-kill:constraint=CONSTRAINT_MEMCG,.*?\boom_memcg=([^,]*),.*,pid=(\d+),uid=\d+")
_KILLED = re.compile(r"(?:.*: )?Killed process (\d+)")
# The part of a path that is one job: of Slurm (cgroup v1 and v2), or one pod of Kubernetes (cgroupfs and systemd).
_JOB = re.compile(r"job_\d+|(?:kubepods\S*-)?pod[0-9a-f]{8}[0-9a-f_-]{24,28}(?:\.slice)?")


@dataclass(frozen=True)
class OwnCgroup:
    """The memory cgroup of the gate's own processes as /proc/self/cgroup names it: "" in none, "/" in the root, which a namespace
    shows instead of the cgroup's own path. `kills` is its own counter, None where it has none (as the root of v2).
    """

    path: str
    kills: int | None


def _limited(event: Event, limits: dict[str, str]) -> Event:
    """A kill by the limit of a cgroup, whose path is its text; others as they are. `limits` has the cgroups by process."""
    match = _KILLED.match(event.text) if event.metric == KILL else None
    limit = limits.pop(match[1], None) if match else None
    if limit is None or event.text.startswith("Out of memory"):
        return event
    return replace(event, metric=CGROUP, text=limit)


def attributed(events: Sequence[Event], own: OwnCgroup | None) -> list[Event]:
    """The events with OWN_JOB or OTHER_JOBS for each kill by a cgroup's limit, and KILL where whose it was is not known: a text
    that was read elsewhere has no own job (`own` is None).
    """
    hidden = 0 if own is None or own.path != "/" else own.kills or 0
    newest_first = []
    # The newest first: those are the ones that the counter of a new cgroup has.
    for event in reversed(events):
        if event.metric == CGROUP:
            metric = KILL
            if own is not None and event.text:
                mine = hidden > 0 if own.path == "/" else of_own_job(event.text, own.path)
                metric, hidden = (OWN_JOB, hidden - 1) if mine else (OTHER_JOBS, hidden)
            event = replace(event, metric=metric)
        newest_first.append(event)
    return newest_first[::-1]


def of_own_job(limit: str, own: str) -> bool:
    """Whether the limit of that cgroup is one of the job whose processes are in `own`: of its part, or of what contains it."""
    return bool(own) and (_within(own, limit) or _within(limit, _job(own)))


def _job(own: str) -> str:
    folders = own.split("/")
    ends = next((index + 1 for index, folder in enumerate(folders) if _JOB.fullmatch(folder)), len(folders))
    return "/".join(folders[:ends])


def _within(path: str, above: str) -> bool:
    return path == above or path.startswith(f"{above.rstrip('/')}/")


@partial(Find, f"NVRM: |{_SUMMARY.pattern}|{_ordinary.form}")
def find(lines: Iterable[Line]) -> Iterator[Event]:
    """The faults among the kernel's lines, each by its metric. An uncorrected machine check does not count as another one."""
    gpu_line, limits = "", dict[str, str]()
    for line in lines:
        limits |= {hit[2]: hit[1] for message in messages(line) if (hit := _SUMMARY.match(message))}
        if line.message.startswith("NVRM: The NVIDIA GPU"):
            gpu_line = line.message
        lost = _lost(line, gpu_line) if "NVRM: " in line.message else ()
        events = [*lost, *_ordinary.events([line])]
        worse = any(event.metric == "mce_uncorrected" for event in events)
        yield from (_limited(event, limits) for event in events if not (worse and event.metric == "mce"))


def _lost(line: Line, gpu_line: str) -> Iterator[Event]:
    """GPUs that are gone: an Xid 79, or the words without an Xid."""
    # The driver names the GPU in one line and says in a later one what happened to it.
    before = [Line(gpu_line, None)] if gpu_line and gpu_line != line.message else []
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
    """The cgroup of this process is returned. It is None if it cannot be read."""
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
    counted = attributed(log.counted(STAYS_OPEN), own)
    for event in counted:
        tally[event.metric] += event.count
    tally[KILL] += tally[OWN_JOB]
    metrics: dict[str, Value] = {metric: tally[metric] for metric in (*KINDS, *LIMITS)}
    lines = {metric: [event for event in counted if event.metric == metric] for metric in metrics}
    for metric, events in lines.items():
        devices = dict.fromkeys(filter(None, map(_part_of, events)))
        if devices:
            metrics[f"{metric}_parts"] = ", ".join(list(devices)[:MOST_PARTS])
    killed = (KILL, OWN_JOB)
    lines[KILL] = [event for event in counted if event.metric in killed]
    before = [event for event in log.earlier_boot if event.metric in GRAVE]
    return measurement(log, counted, metrics, lines, before)
