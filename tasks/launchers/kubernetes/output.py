"""Brings what the pods of a job wrote into a folder of this machine: from their logs, from S3, or from the volume itself.

What came once stays there, also if a pod and its log are gone later. Of a log only what is new is read.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from checks.process.whole_file import write_whole
from tasks.launchers.attempts import FILE, FOLDERS, plain
from tasks.launchers.base import LaunchError
from tasks.launchers.kubernetes.api import Api
from tasks.launchers.kubernetes.job_states import PodView
from tasks.launchers.kubernetes.options import KubernetesOptions, Reports
from tasks.launchers.kubernetes.pod import reports_folder, reports_prefix
from tasks.launchers.kubernetes.workload_forms import FORMS
from tasks.launchers.report_lines import MARK, ReportLines

LOG_BYTES = 32 << 20  # of one look at one pod
OBJECT_BYTES = 64 << 20
EPOCH = datetime.fromtimestamp(0, UTC)
# A kubelet prints the time in the zone of its node.
STAMP = re.compile(r"(?P<at>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)[.\d]*(?P<zone>Z|[+-]\d\d:\d\d) (?P<line>.*)")


@dataclass
class PodLog:
    """What was read of the log of one pod. `last` are the lines of the second in which it ended, which are read again."""

    reports: ReportLines = field(default_factory=ReportLines)
    since: datetime = EPOCH
    last: set[str] = field(default_factory=set)
    complete: bool = False


class PodOutput:
    """The files of one job. `folder` is where they are; on a volume that is the pods' own."""

    def __init__(self, api: Api, name: str, root: Path, options: KubernetesOptions) -> None:
        self._api, self._name, self._options = api, name, options
        on_volume = options.reports is Reports.VOLUME
        self.folder = Path(reports_folder(name, options)) if on_volume else root / "jobs" / name / "out"
        self._logs: dict[str, PodLog] = {}
        self._etags: dict[str, str] = {}
        self._clients: object = None

    def bring(self, pods: tuple[PodView, ...]) -> None:
        """Bring what is new. Raises LaunchError, OSError."""
        if self._options.reports is Reports.LOGS:
            for pod in pods:
                self._read_log(pod)
        elif self._options.reports is Reports.S3:
            self._read_objects()

    def _read_log(self, pod: PodView) -> None:
        log = self._logs.setdefault(pod.name, PodLog())
        if log.complete:
            return
        container = FORMS[self._options.workload].container
        query = {
            "container": container,
            "timestamps": "true",
            "limitBytes": str(LOG_BYTES),
            "sinceTime": f"{log.since:%Y-%m-%dT%H:%M:%SZ}",
        }
        new = _take_in(log, self._api.log(pod.name, query))
        # A log may end within a line that is still being written; it is read again.
        log.complete = pod.state.final and not new
        if new:
            for path, data in log.reports.files().items():
                if _speaks_for_itself(path, pod.node):
                    self._write(path, data, log.since)

    def _read_objects(self) -> None:
        from tasks.launchers.sagemaker.api import Clients
        from tasks.launchers.sagemaker.output import s3_objects

        if not isinstance(self._clients, Clients):
            self._clients = Clients(self._options.region)
        prefix = reports_prefix(self._name, self._options)
        objects = {item.path.partition("/")[2]: item for item in s3_objects.listed(self._clients, prefix)}
        new = {
            path: item for path, item in objects.items()
            if plain(path) and item.size <= OBJECT_BYTES and self._etags.get(path) != item.etag
        }  # fmt: skip
        read = s3_objects.read_all(self._clients, prefix, new.values(), OBJECT_BYTES)
        for path, (item, data) in zip(new, read, strict=True):
            if isinstance(data, str):
                raise LaunchError(data)
            self._write(path, data, item.at)
            self._etags[path] = item.etag

    def _write(self, path: str, data: bytes, at: datetime) -> None:
        target = self.folder / path
        if target.is_file() and target.read_bytes() == data:
            return
        write_whole(target, data)
        os.utime(target, (at.timestamp(), at.timestamp()))


def for_people(text: str, last_bytes: int) -> str:
    """The end of a log without the lines that carry files."""
    lines = (line for line in text.splitlines(keepends=True) if MARK not in line)
    return "".join(lines).encode()[-last_bytes:].decode("utf-8", "replace") if last_bytes > 0 else ""


def _take_in(log: PodLog, text: str) -> bool:
    """Add the lines that were not read before; whether there were any."""
    new = False
    for line in text.split("\n"):  # a training prints other separators of lines itself
        match = STAMP.fullmatch(line)
        if match is None or line in log.last:
            continue
        at = datetime.fromisoformat(match["at"] + match["zone"]).astimezone(UTC)
        if at > log.since:
            log.since = at
            log.last.clear()
        if at == log.since:
            log.last.add(line)
        log.reports.add(match["line"])
        new = True
    return new


def _speaks_for_itself(path: str, node: str) -> bool:
    """Whether the file is none that another node would write."""
    match = FILE.fullmatch(path)
    if match is None or match["folder"] not in FOLDERS or match["folder"] == "evidence":
        return True
    return match["file"].removesuffix(".json") == node
