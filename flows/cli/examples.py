"""`prelaunch site examples DIR`: copies the files that a person edits out of an installation. It overwrites nothing."""

from __future__ import annotations

import argparse
import os
import shutil
import stat
from pathlib import Path

from checks.exit_codes import Exit
from flows.cli.output import write_result, write_stderr
from flows.cli.shared_arguments import add_format
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
    parser.description = (
        "Copies the files that you edit, and prints their paths. A file that is there already stays as it is."
    )
    parser.add_argument(
        "folder", type=Path, metavar="DIR", help="the folder to write to, such as deployments"
    )
    add_format(parser)


def run(arguments: argparse.Namespace) -> int:
    """Copy the files and print their paths; exit code 2 if one cannot be written."""
    targets = {arguments.folder / name: SHIPPED / name for name in examples()}
    new = [target for target in targets if not os.path.lexists(target)]
    for target in new:
        _copy(targets[target], target)
    if len(new) < len(targets):
        present = len(targets) - len(new)
        write_stderr(f"prelaunch: {present} of the files were there already, and stay as they are")
    names = [str(target) for target in new]
    write_result(arguments.format, {"written": names}, "".join(f"{name}\n" for name in names))
    return int(Exit.GO)


def examples() -> tuple[Path, ...]:
    """The files that are copied, relative to SHIPPED."""
    files = (path.relative_to(SHIPPED) for path in sorted(SHIPPED.rglob("*")) if path.is_file())
    return tuple(
        path for path in files if path.as_posix() not in LEFT_OUT and "__pycache__" not in path.parts
    )


def _copy(source: Path, target: Path) -> None:
    """A copy that its owner may write, and that may be run if the source may. "x" fails for a file that appeared meanwhile."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with open(source, "rb") as data, open(target, "xb") as copy:
            shutil.copyfileobj(data, copy)
        if source.stat().st_mode & stat.S_IXUSR:
            readable = target.stat().st_mode
            target.chmod(readable | (readable & 0o444) >> 2)
    except OSError as error:
        message = f"it cannot be written ({error.strerror}). What was written before it stays."
        raise OutputError(target, message) from error
