"""kernel.hardware: what else the kernel says is broken: lost GPUs, memory, PCIe, disks, lock-ups, drivers, mounts."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from checks.check import Context, Measurement, Skipped
from checks.facts.provenance import table_bytes
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
# log_forms.json: the metric of a line, and the forms of such lines, each with its source.
_PATTERNS = {"{PCI}": _PCI, "{DISK}": _DISK, "{DRIVERS}": _DEVICE_DRIVERS}


def _forms() -> dict[str, list[str]]:
    table = json.loads(table_bytes(Path(__file__).with_name("log_forms.json")))
    forms = {metric: [entry["form"] for entry in entries] for metric, entries in table.items()}
    for name, pattern in _PATTERNS.items():
        forms = {metric: [form.replace(name, pattern) for form in own] for metric, own in forms.items()}
    return forms


_FORMS: Mapping[str, Sequence[str]] = _forms()
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
