"""disk.io: fio writes a file on the scratch disk, reads it back with checksums, and reads it in random order."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from checks.check import CheckError, Context, Measurement, Resource, check
from checks.documents.decode import Foreign, decode
from checks.model import Profile, Scope
from checks.probes.host.system import space_of
from checks.process import tool
from checks.value_types import Range

MIB = 1 << 20
LEAST_BYTES = 4 * MIB
# The file is small beside what is free, so that nobody else runs out of space.
MOST_OF_FREE = 0.05
# fio ends a job whose checksums do not fit with "Invalid or incomplete multibyte or wide character".
CORRUPT = errno.EILSEQ
# What says that the disk cannot be measured so, and not that it is broken.
NOT_THE_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EPERM, errno.EROFS, errno.EINVAL)


Count = Annotated[int, Range(0, 1e18)]
Rate = Annotated[float, Range(0, 1e18)]


@dataclass(frozen=True)
class Latency(Foreign):
    """The latency of fio's completions is in nanoseconds, by percentile."""

    percentile: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class FioDirection(Foreign):
    """One direction of a job; bandwidth in bytes/s."""

    io_bytes: Count
    bw_bytes: Rate
    iops: Rate
    clat_ns: Latency

    @property
    def p99_s(self) -> float | None:
        """The 99th percentile of the latency in seconds; None if nothing was read or written."""
        nanoseconds = self.clat_ns.percentile.get("99.000000")
        return None if nanoseconds is None else nanoseconds / 1e9

    def __str__(self) -> str:
        return f"{self.io_bytes} bytes, {self.bw_bytes:g} bytes/s, {self.iops:g} a second, 99 % within {self.p99_s} s"


@dataclass(frozen=True)
class FioJob(Foreign):
    """One fio job: `error` is an errno, 0 if well."""

    error: int
    read: FioDirection
    write: FioDirection

    def __str__(self) -> str:
        return f"error {self.error}; read: {self.read}; write: {self.write}"


@dataclass(frozen=True)
class FioOutput(Foreign):
    """What fio prints with --output-format=json."""

    jobs: tuple[FioJob, ...]


@check(
    "disk.io",
    Scope.NODE,
    timeout_s=360,
    metrics=("corrupt", "io_errors", "write_gbps", "read_gbps", "random_read_iops"),
    needs="fio",
    cost="seconds",
    profiles=(Profile.STANDARD, Profile.DEEP),
    uses=(Resource.DISK,),
)
def disk_io(context: Context) -> Measurement:
    """Writes and reads a file on the scratch disk with fio: bandwidth, random reads, and whether what comes back is right.

    `size_bytes` and `seconds` bound it, and a twentieth of what is free. `*_gbps` are 10^9 bytes/s, sequential, in blocks
    of 1 MiB; `random_read_iops` are reads of 4 KiB a second, four at a time. `direct` is 0 where the filesystem does not
    allow to go past the page cache: then the reads measure memory. `corrupt` and `io_errors` are 1 or 0.
    """
    path = context.scratch / "prelaunch-disk-io.dat"
    size = size_to_write(context.scratch, context.options.get("size_bytes", 256 * MIB))
    try:
        return measured(path, size, context.options.get("seconds", 2.0), context.timeout_s / 3)
    finally:
        path.unlink(missing_ok=True)


def size_to_write(folder: Path, wanted: float) -> int:
    """Bytes, whole MiB. Raises CheckError if too little is free."""
    space = space_of(folder)
    free = space.f_bavail * space.f_frsize
    size = int(min(wanted, free * MOST_OF_FREE)) // MIB * MIB
    if size < LEAST_BYTES:
        message = f"only {free} bytes are free on the disk of {folder}, which is too little to measure it"
        raise CheckError(message)
    return size


def measured(path: Path, size: int, seconds: float, deadline_s: float) -> Measurement:
    """Both runs. Raises ToolMissing, and CheckError where fio cannot tell."""
    sequential = (
        "--rw=write",
        "--bs=1m",
        "--verify=crc32c",
        "--do_verify=1",
        "--verify_fatal=1",
        "--end_fsync=1",
    )
    direct = True
    job, account = _run(path, size, "sequential", (*sequential, "--direct=1"), deadline_s)
    if job.error == errno.EINVAL:  # a filesystem in memory has no direct I/O
        direct = False
        job, account = _run(path, size, "sequential", (*sequential, "--direct=0"), deadline_s)
    whole_file(job, size)
    if job.error:
        return _broken(job.error, account)
    random = (
        "--rw=randread",
        "--bs=4k",
        "--numjobs=4",
        "--group_reporting",
        "--time_based",
        f"--runtime={seconds:g}",
    )
    other, also = _run(path, size, "random", (*random, f"--direct={int(direct)}"), deadline_s)
    return together(job, other, size, direct, f"{account}\n{also}")


def whole_file(job: FioJob, size: int) -> None:
    """Raise CheckError unless the sequential job failed, or wrote and verified all of it."""
    if not job.error and (job.write.io_bytes < size or job.read.io_bytes < job.write.io_bytes):
        message = f"fio wrote {job.write.io_bytes} and verified {job.read.io_bytes} of {size} bytes: not the whole file"
        raise CheckError(message)


def together(job: FioJob, other: FioJob, size: int, direct: bool, account: str) -> Measurement:
    """The metrics of both jobs. Raises CheckError if nothing was read in random order."""
    if other.error:
        return _broken(other.error, account)
    if other.read.io_bytes <= 0 or other.read.p99_s is None:
        raise CheckError("fio reports no random reads, or no read latency")
    return Measurement(
        {
            "corrupt": 0,
            "io_errors": 0,
            "size_bytes": size,
            "direct": int(direct),
            "write_gbps": job.write.bw_bytes / 1e9,
            "read_gbps": job.read.bw_bytes / 1e9,
            "random_read_iops": other.read.iops,
            "random_read_p99_s": other.read.p99_s,
        },
        account,
    )


def parse(text: str) -> FioJob:
    """The one job of a run with --output-format=json; other lines may stand before it. Raises CheckError."""
    begin = text.find("{") if text.startswith("{") else text.find("\n{") + 1
    if begin < 0 or text[begin : begin + 1] != "{":
        raise CheckError(f"fio printed no JSON: {text.strip()[:200]!r}")
    try:
        value, _ = json.JSONDecoder().raw_decode(text, begin)
        jobs = decode(FioOutput, value).jobs
    except ValueError as error:
        raise CheckError(f"fio's JSON is truncated or has an unknown form: {error}") from error
    if len(jobs) != 1:
        raise CheckError(f"fio reports {len(jobs)} jobs, but one was started")
    return jobs[0]


def _run(path: Path, size: int, name: str, arguments: Sequence[str], deadline_s: float) -> tuple[FioJob, str]:
    # After a wrong checksum fio would leave a file in the working folder, to go on from.
    fixed = ("--ioengine=psync", "--verify_state_save=0", f"--aux-path={path.parent}", "--output-format=json")
    argv = ("fio", f"--name={name}", f"--filename={path}", f"--size={size}", *arguments, *fixed)
    result = tool.run(argv, deadline_s)
    if not result.whole:
        reason = "did not end in time" if result.code is None else "printed more than can be read"
        raise CheckError(f"fio {reason}: {' '.join(result.argv)}")
    try:
        job = parse(result.stdout)
    except CheckError as error:
        raise CheckError(f"{error} (exit code {result.code}; {result.stderr.strip()[:300]})") from error
    if result.code and not job.error:
        raise CheckError(
            f"fio ended with exit code {result.code} without an error message: {result.stderr.strip()[:300]}"
        )
    return job, _account(result, job)


def _account(result: tool.ToolResult, job: FioJob) -> str:
    return f"$ {' '.join(result.argv)}\n[exit code {result.code} after {result.seconds:.1f} s]\n{job}\n{result.stderr.strip()[:1000]}"


def _broken(error: int, account: str) -> Measurement:
    if error in NOT_THE_DISK:
        raise CheckError(f"fio could not measure the disk: {os.strerror(error)}\n{account}")
    corrupt = error == CORRUPT
    metrics = {"write_gbps": 0.0, "read_gbps": 0.0, "random_read_iops": 0.0}
    return Measurement({"corrupt": int(corrupt), "io_errors": int(not corrupt), **metrics}, account)
