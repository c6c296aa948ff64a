"""`prelaunch examples DIR`: copies the files that a person edits out of an installation. It overwrites nothing."""

from __future__ import annotations

import argparse
import os
import shutil
import stat
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from checks.documents.decode import nearest
from checks.exit_codes import Exit
from flows.cli.output import json_text, write_stderr, write_stdout
from flows.cli.rejection import report_rejection
from tasks.reports.command_line import OutputError
from tasks.reports.read import InputError

SHIPPED = Path(__file__).parents[2] / "deployments"
# An image is built from a checkout. The last two hold passwords where a checkout itself is a server.
LEFT_OUT = (
    "server/Dockerfile",
    "server/Dockerfile.dockerignore",
    "server/compose.yaml",
    "server/.env",
    "server/worker.env",
)
# What the files of a part name by relative paths.
OF_GATES = ("examples", "policies", "schemas")
NEEDS = {"gates": OF_GATES, "github": ("ci", "gates", *OF_GATES), "policies": ("schemas",)}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """DIR --only PART[,PART] --missing --format text|json."""
    parser.add_argument(
        "folder",
        type=Path,
        metavar="DIR",
        help="the folder to write to, such as deployments; it is made where it does not exist",
    )
    parser.add_argument(
        "--only",
        metavar="PART[,PART]",
        default="",
        help=f"copy only these parts, and what they name: {', '.join(parts())}",
    )
    parser.add_argument(
        "--missing",
        action="store_true",
        help="write only the files that are not there yet; none is overwritten",
    )
    parser.add_argument(
        "--format", choices=("text", "json"), default="text", help="format of stdout (default text)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Copy the files and print their paths; exit code 2 if one of them is there already, or cannot be written."""
    try:
        wanted = examples(_chosen(arguments.only))
        present = _present(arguments.folder, wanted) if arguments.missing else ()
        written = copy_examples(arguments.folder, [name for name in wanted if name not in present])
    except (InputError, OutputError) as error:
        return report_rejection(arguments.format, error)
    if present:
        write_stderr(f"prelaunch: {len(present)} of the files were there already, and stay as they are")
    names = [str(path) for path in written]
    if arguments.format == "json":
        write_stdout(json_text({"written": names}))
    else:
        write_stdout("".join(f"{name}\n" for name in names))
    return int(Exit.GO)


def parts() -> tuple[str, ...]:
    """The names that --only takes: the folders of SHIPPED, and the files that lie in none."""
    return tuple(sorted({path.parts[0] for path in examples()}))


def _chosen(only: str) -> frozenset[str]:
    """The parts of a list with commas, and those that they need; all for "". Raises InputError."""
    names = [name.strip() for name in only.split(",") if name.strip()]
    for name in names:
        if name not in parts():
            said = f"there is no part {name!r:.80}. The parts are: {', '.join(parts())}"
            raise InputError("--only", said, nearest=nearest(name, parts()))
    return frozenset(each for name in names or parts() for each in (name, *NEEDS.get(name, ())))


def examples(chosen: Collection[str] | None = None) -> tuple[Path, ...]:
    """The files that are copied, relative to SHIPPED; of the chosen parts, or of all."""
    found = (path.relative_to(SHIPPED) for path in sorted(SHIPPED.rglob("*")) if path.is_file())
    return tuple(
        path
        for path in found
        if path.as_posix() not in LEFT_OUT
        and "__pycache__" not in path.parts
        and (chosen is None or path.parts[0] in chosen)
    )


def _present(folder: Path, wanted: Collection[Path]) -> frozenset[Path]:
    return frozenset(name for name in wanted if os.path.lexists(folder / name))


def copy_examples(folder: Path, wanted: Collection[Path]) -> tuple[Path, ...]:
    """Copy all of the files, or none. Raises OutputError, which names the file that is there already or cannot be written."""
    targets = {folder / name: SHIPPED / name for name in wanted}
    for target in targets:
        if os.path.lexists(target):
            raise OutputError(
                target,
                "it exists already, and nothing was written. Move it away, name another folder, choose parts (--only), or write "
                "what is not there yet (--missing).",
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
