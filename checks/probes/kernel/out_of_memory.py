"""Whose want of memory the kernel ended a process for: the machine's, or the limit of a cgroup, and of whose job. Pure.

Source: Linux mm/oom_kill.c, dump_oom_summary() (4.19 and later): "oom-kill:constraint=CONSTRAINT_MEMCG,...,oom_memcg=/a,
task_memcg=/a/b,task=x,pid=1,uid=0", and mm/memcontrol.c before: "Task in /a/b killed as a result of limit of /a". The cgroup of
oom_memcg is the one whose limit was reached.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from checks.probes.kernel.log_lines import Event

# A kill for want of memory; by the limit of a cgroup; of the gate's own job; of another one.
KILL, CGROUP, OWN_JOB, OTHER_JOBS = (
    "oom_kill",
    "oom_kill_cgroup",
    "oom_kill_own_job",
    "oom_kill_other_jobs",
)
_SUMMARY = re.compile(r"oom-kill:constraint=CONSTRAINT_MEMCG,.*?\boom_memcg=([^,]*),.*,pid=(\d+),uid=\d+")
_BEFORE_4_19 = re.compile(r"Task in \S+ killed as a result of limit of (\S+)")
_CHOSEN = re.compile(r"Memory cgroup out of memory: Kill(?:ed)? process (\d+)")
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


@dataclass
class Limits:
    """The cgroups whose limits were reached, while a log is read line by line."""

    _latest: str = ""
    _of_process: dict[str, str] = field(default_factory=dict)

    def take(self, message: str) -> None:
        """Read a line that may come before the one about the killed process."""
        if found := _SUMMARY.match(message):
            self._of_process[found[2]] = found[1]
        elif found := _BEFORE_4_19.match(message):
            self._latest = found[1]
        elif found := _CHOSEN.match(message):
            self._of_process.setdefault(found[1], self._latest)
            self._latest = ""

    def told(self, event: Event) -> Event:
        """A kill with the cgroup whose limit it was as its text ("" where the log does not say which); others as they are."""
        found = _KILLED.match(event.text) if event.kind == KILL else None
        limit = self._of_process.pop(found[1], None) if found else None
        if limit is None or event.text.startswith("Out of memory"):
            return event
        return replace(event, kind=CGROUP, text=limit)


def attributed(events: Sequence[Event], own: OwnCgroup | None) -> list[Event]:
    """The events with OWN_JOB or OTHER_JOBS for each kill by a cgroup's limit, and KILL where whose it was is not known: a text
    that was read elsewhere has no own job (`own` is None).
    """
    hidden = 0 if own is None or own.path != "/" else own.kills or 0
    made = []
    for event in reversed(
        events
    ):  # the newest first: those are the ones that the counter of a new cgroup has
        if event.kind == CGROUP:
            kind = KILL
            if own is not None and event.text:
                mine = hidden > 0 if own.path == "/" else of_own_job(event.text, own.path)
                kind, hidden = (OWN_JOB, hidden - 1) if mine else (OTHER_JOBS, hidden)
            event = replace(event, kind=kind)
        made.append(event)
    return made[::-1]


def of_own_job(limit: str, own: str) -> bool:
    """Whether the limit of that cgroup is one of the job whose processes are in `own`: of its part, or of what contains it."""
    return bool(own) and (_within(own, limit) or _within(limit, _job(own)))


def _job(own: str) -> str:
    parts = own.split("/")
    ends = next((place + 1 for place, part in enumerate(parts) if _JOB.fullmatch(part)), len(parts))
    return "/".join(parts[:ends])


def _within(path: str, above: str) -> bool:
    return path == above or path.startswith(f"{above.rstrip('/')}/")
