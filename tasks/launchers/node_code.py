"""What a job brings along for nodes without Prelaunch: the checks and the agent as one archive, and the script that starts them.

The archive also carries nvidia-ml-py as it is installed here: one module of plain Python, and its metadata with the licence.
Equal sources give equal bytes, so that a retry writes what is there already.
"""

from __future__ import annotations

import functools
import gzip
import io
import tarfile
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from tasks.launchers.base import LaunchError

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("checks", "container/agent")
SINGLE = ("container/__init__.py",)
# Where checks/image_requirements.py looks for the modules that an image lacks.
LIBRARIES = "lib"
VENDORED, VENDORED_MODULE = "nvidia-ml-py", "pynvml.py"
# What pyproject.toml packs of them; not what an editor or an interpreter leaves beside it.
SUFFIXES = (".py", ".json", ".toml", ".sh", ".typed")


@functools.cache
def code_archive() -> bytes:
    """checks/ and container/agent of this installation as tar.gz, and the module that images lack."""
    return packed(ROOT, vendored())


@functools.cache
def start_script() -> bytes:
    """start.sh, which unpacks the archive beside it and becomes the agent."""
    return Path(__file__).with_name("start.sh").read_bytes()


@functools.cache
def node_zipapp() -> bytes:
    """One file that a node's Python runs: checks/, container/agent and the module that images lack, after its entry point.

    Nothing in it is compressed, so that its bytes do not depend on the zlib that is here.
    """
    files = {path.relative_to(ROOT).as_posix(): path.read_bytes() for path in sources(ROOT)}
    main = {"__main__.py": Path(__file__).with_name("zipapp_main.py").read_bytes()}
    data = io.BytesIO()
    data.write(b"#!/usr/bin/env python3\n")
    with zipfile.ZipFile(data, "a", zipfile.ZIP_STORED) as archive:
        for name, text in sorted((files | vendored() | main).items()):
            member = zipfile.ZipInfo(name)  # of 1980
            member.external_attr, member.create_system = 0o644 << 16, 3
            archive.writestr(member, text)
    return data.getvalue()


def packed(root: Path, extra_files: Mapping[str, bytes]) -> bytes:
    """The archive of any folder, with the files of `beside`: sorted, without times or owners."""
    files = {path.relative_to(root).as_posix(): path.read_bytes() for path in sources(root)}
    data = io.BytesIO()
    with (
        gzip.GzipFile("", "wb", fileobj=data, mtime=0) as stream,
        tarfile.open(fileobj=stream, mode="w", format=tarfile.USTAR_FORMAT) as archive,
    ):
        for name, text in sorted((files | dict(extra_files)).items()):
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(text), 0o644
            archive.addfile(member, io.BytesIO(text))
    return data.getvalue()


def sources(root: Path) -> Iterator[Path]:
    """The files of ours that the archive holds."""
    paths = [root / name for name in SINGLE]
    paths += [path for folder in FOLDERS for path in (root / folder).rglob("*") if path.suffix in SUFFIXES]
    return (path for path in paths if "__pycache__" not in path.parts and path.is_file())


def vendored() -> dict[str, bytes]:
    """The installed nvidia-ml-py by its name in the archive. Raises LaunchError if it is not whole."""
    from importlib import metadata

    try:
        package = metadata.distribution(VENDORED)
    except metadata.PackageNotFoundError as error:
        message = f"{VENDORED} is not installed here, and the nodes need it. Run make gate."
        raise LaunchError(message) from error
    files = {
        f"{LIBRARIES}/{path.as_posix()}": Path(str(package.locate_file(path))).read_bytes()
        for path in package.files or ()
        if path.name in (VENDORED_MODULE, "METADATA") and ".." not in path.parts
    }
    if len(files) != 2:
        raise LaunchError(f"{VENDORED} {package.version} holds {sorted(files)}. Install it again.")
    return files
