"""What /opt/ml/output/data held, out of SageMaker's output.tar.gz: files of attempts, and nothing else.

The archive was made on machines that are under suspicion, and may hold a training's own results beside ours.
"""

from __future__ import annotations

import tarfile
import zlib
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import IO

from tasks.launchers.sagemaker.attempts import Written, safe

FILE_BYTES = 8 << 20
ALL_BYTES = 256 << 20
MEMBERS = 200_000
# Beyond this an archive is a training's, and too long to look through for a few reports.
ARCHIVE_BYTES = 512 << 20


class Broken(Exception):
    """The archive ends early or is none; what was read until then is good."""


def members(file: IO[bytes]) -> Iterator[tuple[Written, bytes]]:
    """Each file of an attempt, in the archive's order, with the time that its host gave it. Raises Broken.

    Links, devices, absolute names, "..", other folders and what is too large are left out.
    """
    taken = 0
    try:
        with tarfile.open(fileobj=file, mode="r|gz") as archive:
            for number, member in enumerate(archive):
                if number >= MEMBERS or taken > ALL_BYTES:
                    raise Broken(f"it holds more than {MEMBERS} members or {ALL_BYTES >> 20} MiB of reports")
                path = member.name.removeprefix("./")
                if not member.isreg() or member.size > FILE_BYTES or not _plain(path):
                    continue
                reader = archive.extractfile(member)
                data = reader.read() if reader else b""
                if len(data) != member.size:
                    raise Broken(f"{path!r:.80} is cut off")
                taken += len(data)
                yield Written(path, datetime.fromtimestamp(max(0.0, member.mtime), UTC)), data
    except (tarfile.TarError, EOFError, OSError, zlib.error, ValueError, OverflowError) as error:
        raise Broken(f"it cannot be read to its end: {error}") from error


def _plain(path: str) -> bool:
    return safe(path) and path == str(PurePosixPath(path))
