"""The channels through which a job's files arrive, best first: objects as they grow, output.tar.gz, log lines.

Sources: "Amazon SageMaker Training Storage Paths" for what SageMaker itself uploads, also of jobs that failed; the agent's own
copies lie below reports/ (container/agent/files/mirror.py).

From output.tar.gz, which holds what was in /opt/ml/output/data, only files of attempts are read: the archive was made on machines
that are under suspicion, and may hold a training's own results as well.
"""

from __future__ import annotations

import tarfile
import tempfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import IO

from tasks.launchers.attempts import Written, plain, safe
from tasks.launchers.base import EngineUnavailable, LaunchError
from tasks.launchers.report_lines import reports_of
from tasks.launchers.sagemaker.api import Clients, Described, hosts_of
from tasks.launchers.sagemaker.output import logs, s3_objects
from tasks.launchers.sagemaker.output.s3_objects import ListedObject
from tasks.launchers.sagemaker.request.locations import Places, object_of

FILE_BYTES = 8 << 20
ALL_BYTES = 256 << 20
MEMBERS = 200_000
# Beyond this an archive is a training's, and too long to look through for a few reports.
ARCHIVE_BYTES = 512 << 20
OBJECT_BYTES = 64 << 20
LOG_BYTES = 8 << 20
CHUNK_BYTES = 1 << 20


class BrokenArchive(Exception):
    """The archive is truncated or is no archive; what was read until then is good."""


def members(file: IO[bytes]) -> Iterator[tuple[Written, bytes]]:
    """Each file of an attempt, in the archive's order, with the time that its host gave it. Raises BrokenArchive.

    Links, devices, absolute names, "..", other folders and what is too large are left out.
    """
    total = 0
    try:
        with tarfile.open(fileobj=file, mode="r|gz") as archive:
            for number, member in enumerate(archive):
                if number >= MEMBERS or total > ALL_BYTES:
                    message = f"it holds more than {MEMBERS} members or {ALL_BYTES >> 20} MiB of reports"
                    raise BrokenArchive(message)
                path = member.name.removeprefix("./")
                if not member.isreg() or member.size > FILE_BYTES or not _plain(path):
                    continue
                reader = archive.extractfile(member)
                data = reader.read() if reader else b""
                if len(data) != member.size:
                    raise BrokenArchive(f"{path!r:.80} is cut off")
                total += len(data)
                yield Written(path, datetime.fromtimestamp(max(0.0, member.mtime), UTC)), data
    except (tarfile.TarError, EOFError, OSError, zlib.error, ValueError, OverflowError) as error:
        raise BrokenArchive(f"it cannot be read to its end: {error}") from error


def _plain(path: str) -> bool:
    return safe(path) and path == str(PurePosixPath(path))


@dataclass
class ChannelFiles:
    """What one channel brought: each file with its time, and what could not be fetched.

    `dated` says whether the times tell one start from another: an archive has its hosts' clocks.
    """

    files: dict[str, tuple[Written, bytes]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    dated: bool = False


def written(clients: Clients, places: Places) -> Mapping[str, ListedObject]:
    """What the agents copied so far: <attempt>/... -> the object. Raises LaunchError."""
    objects = {}
    for item in s3_objects.listed(clients, places.reports):
        gate, _, path = item.path.partition("/")
        if gate and plain(path) and item.size <= OBJECT_BYTES:
            objects[path] = item
    return objects


def others(
    clients: Clients, places: Places, described: Described, silent: str = ""
) -> Iterator[ChannelFiles]:
    """The weaker channels of a job that has ended, one after the other; what fails is in `problems`.

    `silent` says that S3 does not answer, "" if it does: only the log is asked then.
    """
    output = str((described.get("OutputDataConfig") or {}).get("S3OutputPath") or places.output).rstrip("/")
    prefix = f"{output}/{places.job}/output"
    ways: tuple[tuple[str, Callable[[ChannelFiles], None]], ...] = (
        ("output.tar.gz", lambda brought: _archive(clients, prefix, brought)),
        ("log lines", lambda brought: _lines(clients, places.job, hosts_of(described), brought)),
    )
    for channel, read in ways:
        in_s3 = read is not ways[-1][1]
        brought = ChannelFiles(dated=not in_s3)
        try:
            if silent and in_s3:
                raise LaunchError(silent)
            read(brought)
        except EngineUnavailable as error:
            silent = str(error)  # the next one in S3 would wait as long for nothing
            brought.problems.append(f"{channel}: {error}")
        except (LaunchError, BrokenArchive, OSError) as error:
            brought.problems.append(f"{channel}: {error}")
        yield brought


def _archive(clients: Clients, prefix: str, brought: ChannelFiles) -> None:
    archives = [item for item in s3_objects.listed(clients, prefix) if item.path == "output.tar.gz"]
    if not archives:
        return
    if archives[0].size > ARCHIVE_BYTES:
        raise BrokenArchive(f"it has {archives[0].size >> 20} MiB and is not looked through")
    with tempfile.TemporaryFile() as file:
        clients.answer(
            "s3:GetObject", lambda: _download(clients, f"{prefix}/output.tar.gz", archives[0].etag, file)
        )
        file.seek(0)
        for item, data in members(file):
            brought.files[item.path] = item, data


def _download(clients: Clients, url: str, etag: str, file: IO[bytes]) -> None:
    """Download that version of the object completely to the beginning of the file."""
    file.seek(0)
    file.truncate()
    answer = clients.client("s3").get_object(**object_of(url), IfMatch=etag)
    for chunk in answer["Body"].iter_chunks(CHUNK_BYTES):
        file.write(chunk)


def _lines(clients: Clients, job: str, hosts: tuple[str, ...], brought: ChannelFiles) -> None:
    for host in hosts:
        stream = logs.newest(clients, job, host)
        if stream is None:
            continue
        # The checks print before the training does, and what could not be copied is printed last.
        text = "".join(logs.text_of(clients, stream, LOG_BYTES, head=head) for head in (True, False))
        for path, data in reports_of(text.splitlines()).items():
            if path.endswith(f"/nodes/{host}.json"):  # a host speaks for itself alone
                brought.files[path] = Written(path, stream.began), data
