"""`prelaunch examples DIR`: copies the files that a person edits out of an installation. It overwrites nothing."""

from __future__ import annotations

import argparse
import os
import shutil
import stat
from contextlib import suppress
from pathlib import Path

from checks.exit_codes import Exit
from flows.cli.output import json_text, write_stdout
from flows.cli.rejection import report_rejection
from tasks.reports.command_line import OutputError

SHIPPED = Path(__file__).parents[2] / "deployments"
# An image is built from a checkout. The last two hold passwords where a checkout itself is a server.
LEFT_OUT = (
    "server/Dockerfile",
    "server/Dockerfile.dockerignore",
    "server/compose.yaml",
    "server/.env",
    "server/worker.env",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """DIR --format text|json."""
    parser.add_argument(
        "folder",
        type=Path,
        metavar="DIR",
        help="the folder to write to, such as deployments; it is made where it does not exist",
    )
    parser.add_argument(
        "--format", choices=("text", "json"), default="text", help="format of stdout (default text)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Copy the files and print their paths; exit code 2 if one of them is there already, or cannot be written."""
    try:
        written = copy_examples(arguments.folder)
    except OutputError as error:
        return report_rejection(arguments.format, error)
    names = [str(path) for path in written]
    if arguments.format == "json":
        write_stdout(json_text({"written": names}))
    else:
        write_stdout("".join(f"{name}\n" for name in names))
    return int(Exit.GO)


def examples() -> tuple[Path, ...]:
    """The files that are copied, relative to SHIPPED."""
    found = (path.relative_to(SHIPPED) for path in sorted(SHIPPED.rglob("*")) if path.is_file())
    return tuple(
        path for path in found if path.as_posix() not in LEFT_OUT and "__pycache__" not in path.parts
    )


def copy_examples(folder: Path) -> tuple[Path, ...]:
    """Copy all files, or none. Raises OutputError, which names the file that is there already or cannot be written."""
    targets = {folder / name: SHIPPED / name for name in examples()}
    for target in targets:
        if os.path.lexists(target):
            raise OutputError(
                target, "it exists already, and nothing was written. Move it away, or name another folder."
            )
    made: list[Path] = []
    try:
        for target, source in targets.items():
            _make_folder(target.parent, made)
            _copy(source, target, made)
    except OSError as error:
        _remove(made)
        where = Path(error.filename or folder)
        raise OutputError(
            where, f"it cannot be written ({error.strerror}), and nothing was. Name another folder."
        ) from error
    except BaseException:  # somebody interrupted it
        _remove(made)
        raise
    return tuple(targets)


def _make_folder(folder: Path, made: list[Path]) -> None:
    if folder.is_dir():
        return
    if folder.parent != folder:
        _make_folder(folder.parent, made)
    folder.mkdir()
    made.append(folder)


def _copy(source: Path, target: Path, made: list[Path]) -> None:
    """A copy that its owner may write, and that may be run if the source may. "x" fails for a file that appeared meanwhile."""
    with open(source, "rb") as data, open(target, "xb") as copy:
        made.append(target)
        shutil.copyfileobj(data, copy)
    if source.stat().st_mode & stat.S_IXUSR:
        readable = target.stat().st_mode
        target.chmod(readable | (readable & 0o444) >> 2)


def _remove(made: list[Path]) -> None:
    for path in reversed(made):
        with suppress(OSError):
            if path.is_dir():
                path.rmdir()
            else:
                path.unlink()
