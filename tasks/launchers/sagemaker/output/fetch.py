"""Brings what a job left into a folder, and lists the job's starts. A channel that fails is reported, and the next one is tried."""

from __future__ import annotations

import logging
import tarfile
import tempfile
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import IO

from checks.process.whole_file import write_whole
from tasks.launchers.attempts import (
    Attempt,
    Written,
    exit_code_of,
    finished,
    plain,
    safe,
    starts_of,
    told_all,
)
from tasks.launchers.base import EngineUnavailable, LaunchError
from tasks.launchers.report_lines import reports_of
from tasks.launchers.sagemaker import job_states
from tasks.launchers.sagemaker.api import Clients, Described, hosts_of
from tasks.launchers.sagemaker.output import logs, s3_objects
from tasks.launchers.sagemaker.output.s3_objects import ListedObject
from tasks.launchers.sagemaker.request.locations import Places, object_of

logger = logging.getLogger(__name__)
Listing = Mapping[str, ListedObject]


@dataclass(frozen=True)
class SeenOutput:
    """The current attempt, "" if the current start left nothing yet; those before it; and how its hosts ended."""

    attempt: str = ""
    earlier: tuple[str, ...] = ()
    exit_codes: Mapping[str, int] = field(default_factory=dict)


class SageMakerOutput:
    """One job's files. ETags of what was read are remembered, so that each version of an object is read once.

    `last` is what the last look saw. Safe between threads.
    """

    def __init__(self, clients: Clients, places: Places) -> None:
        self._clients, self._places = clients, places
        self._records: dict[str, tuple[str, bytes]] = {}
        self._fetched: dict[Path, str] = {}
        self._others: tuple[ChannelFiles, ...] | None = None
        self.last = SeenOutput()
        self._lock = threading.RLock()

    def summary(self, described: Described) -> SeenOutput:
        """Which attempts there are and, for a job that has ended, how its hosts ended. Raises LaunchError.

        A start of which nothing came is not stood in for by the one before it.
        """
        with self._lock:
            self.last = self._summary(described)
            return self.last

    def fetch(self, into: Path, ended: Described | None) -> None:
        """Write what is new to the folder; of a job that has ended, by every channel until each host has told all.

        Raises LaunchError if something is missing and the strongest channel failed, OSError for the folder.
        """
        into.mkdir(parents=True, exist_ok=True)
        with self._lock:
            listing: Listing = {}
            silent = ""
            try:
                listing = written(self._clients, self._places)
                problems = self._store(listing, into)
            except LaunchError as error:
                problems = [str(error)]
                silent = str(error) if isinstance(error, EngineUnavailable) else ""
            lacks = ended is None or self._lacks(into, listing, (), ended)
            if ended is not None and lacks:
                brought = self._rest(ended, silent)
                for files in brought:
                    _keep(into, files)
                lacks = self._lacks(into, listing, brought, ended)
        if problems and lacks:
            raise LaunchError(problems[0])

    def _summary(self, described: Described) -> SeenOutput:
        listing, final = written(self._clients, self._places), job_states.state_of(described).final
        brought: tuple[ChannelFiles, ...] = ()
        if final and (not listing or self._silent(listing, (), described)):
            brought = self._rest(described)
        tokens = _tokens(listing, brought)
        if not tokens or self._silent(listing, brought, described) or _unordered(listing, brought, described):
            return SeenOutput("", tokens)
        codes = self._exit_codes(listing, brought, tokens[-1]) if final else {}
        return SeenOutput(tokens[-1], tokens[:-1], codes)

    def _store(self, listing: Listing, into: Path) -> list[str]:
        """Write the objects that are new; returns what could not be read."""
        new = {path: item for path, item in listing.items() if self._is_new(into / path, item)}
        problems = []
        for path, (item, data) in self._read(new):
            if isinstance(data, str):
                problems.append(data)
                logger.warning("not fetched: %s", data)
                continue
            write_whole(into / path, data)
            self._fetched[into / path] = item.etag
        return problems

    def _is_new(self, target: Path, item: ListedObject) -> bool:
        is_there = target.is_file() and target.stat().st_size == item.size
        return not is_there or self._fetched.get(target) != item.etag

    def _read(self, listing: Listing) -> Iterable[tuple[str, tuple[ListedObject, bytes | str]]]:
        objects = s3_objects.read_all(self._clients, self._places.reports, listing.values(), OBJECT_BYTES)
        return zip(listing, objects, strict=True)

    def _exit_codes(self, listing: Listing, brought: Iterable[ChannelFiles], attempt: str) -> dict[str, int]:
        """The exit codes that the agents of this attempt recorded; an agent that recorded none is absent."""
        top = f"{attempt}/agent/"
        records = {path: item for path, item in listing.items() if path.startswith(top)}
        wanted = {p: item for p, item in records.items() if self._records.get(p, ("",))[0] != item.etag}
        for path, (item, data) in self._read(wanted):
            if isinstance(data, bytes):
                self._records[path] = item.etag, data
        files = {path: self._records[path][1] for path in records if path in self._records}
        for channel in brought:
            files |= {path: data for path, (_, data) in channel.files.items() if path.startswith(top)}
        codes = {path[len(top) :].removesuffix(".json"): exit_code_of(data) for path, data in files.items()}
        return {host: code for host, code in sorted(codes.items()) if code is not None}

    def _rest(self, ended: Described, silent: str = "") -> tuple[ChannelFiles, ...]:
        """The weaker channels in their order, until one has brought all; an ended job writes nothing more."""
        if self._others is not None:
            return self._others
        fetched: list[ChannelFiles] = []
        for brought in others(self._clients, self._places, ended, silent):
            fetched.append(brought)
            for problem in brought.problems:
                logger.warning("%s: %s", self._places.job, problem)
            files = {path: data for channel in fetched for path, (_, data) in channel.files.items()}
            if _complete(files, _tokens({}, fetched), ended):
                break
        if not any(brought.problems for brought in fetched):
            self._others = tuple(fetched)
        return tuple(fetched)

    def _silent(self, listing: Listing, brought: Iterable[ChannelFiles], described: Described) -> bool:
        """Whether the last start that SageMaker made left no file; those before it may have left none either."""
        left, dates = _starts(listing, brought), job_states.starts(described)
        return len(left) < len(dates) and not (left and left[-1][-1].began >= dates[-1])

    def _lacks(self, into: Path, listing: Listing, brought: Iterable[ChannelFiles], ended: Described) -> bool:
        tokens = _tokens(listing, brought)
        if not tokens or self._silent(listing, brought, ended):
            return True
        kinds = ("agent/{}.json", "nodes/{}.json", "started/{}")
        names = [f"{tokens[-1]}/{form.format(host)}" for host in hosts_of(ended) for form in kinds]
        files = {name: (into / name).read_bytes() for name in names if (into / name).is_file()}
        return not _complete(files, tokens, ended)


def _starts(listing: Listing, brought: Iterable[ChannelFiles]) -> tuple[tuple[Attempt, ...], ...]:
    files = [Written(path, item.at) for path, item in listing.items()]
    return starts_of([*files, *(item for channel in brought for item, _ in channel.files.values())])


def _tokens(listing: Listing, brought: Iterable[ChannelFiles]) -> tuple[str, ...]:
    """Every attempt, the one that counts last."""
    return tuple(attempt.token for start in _starts(listing, brought) for attempt in start)


def _unordered(listing: Listing, brought: Iterable[ChannelFiles], described: Described) -> bool:
    """Whether a start of several is dated by its hosts' clocks alone: a wrong one would bring back a start before the last.

    A host with a wrong clock is the very one whose copies S3 refuses ("RequestTimeTooSkewed").
    """
    dated = {path.split("/")[0] for path in listing}
    dated |= {path.split("/")[0] for channel in brought if channel.dated for path in channel.files}
    return len(job_states.starts(described)) > 1 and not dated.issuperset(_tokens(listing, brought))


def _complete(files: Mapping[str, bytes], tokens: tuple[str, ...], ended: Described) -> bool:
    """Whether every host has told all in the attempt that counts."""
    return bool(tokens) and all(told_all(files, tokens[-1], host) for host in hosts_of(ended))


def _keep(into: Path, brought: ChannelFiles) -> None:
    """Take files that are missing, and files that were not finished when a better channel brought them."""
    for path, (_, data) in brought.files.items():
        target = into / path
        present = target.read_bytes() if target.is_file() else None
        if present is None or (not finished(path, present) and finished(path, data)):
            write_whole(target, data)


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
