"""The checks and the agent as a job's input channel carries them, for images that do not have them.

Equal sources give equal bytes, so that a retry writes what is there already.
"""

from __future__ import annotations

import functools
import gzip
import io
import tarfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
FOLDERS = ("checks", "container/agent")
SINGLE = ("container/__init__.py",)
# What pyproject.toml packs of them; not what an editor or an interpreter leaves beside it.
SUFFIXES = (".py", ".json", ".toml", ".sh", ".typed")


@functools.cache
def code_archive() -> bytes:
    """checks/ and container/agent of this installation as tar.gz."""
    return packed(ROOT)


@functools.cache
def start_script() -> bytes:
    """start.sh, which unpacks the archive beside it and becomes the agent."""
    return Path(__file__).with_name("start.sh").read_bytes()


def packed(root: Path) -> bytes:
    """The same below any folder: sorted, without times or owners."""
    data = io.BytesIO()
    with (
        gzip.GzipFile("", "wb", fileobj=data, mtime=0) as stream,
        tarfile.open(fileobj=stream, mode="w", format=tarfile.USTAR_FORMAT) as archive,
    ):
        for path in sources(root):
            text = path.read_bytes()
            member = tarfile.TarInfo(path.relative_to(root).as_posix())
            member.size, member.mode = len(text), 0o644
            archive.addfile(member, io.BytesIO(text))
    return data.getvalue()


def sources(root: Path) -> Iterator[Path]:
    """The files of the archive, in one order."""
    found = [root / name for name in SINGLE]
    found += [path for folder in FOLDERS for path in (root / folder).rglob("*") if path.suffix in SUFFIXES]
    return (path for path in sorted(found) if "__pycache__" not in path.parts and path.is_file())
