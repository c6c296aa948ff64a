"""The folder of gate files that may be asked for by name: PRELAUNCH_GATES, by default deployments/gates beside the code.

A deployment's form lists these names, and its server refuses any other. Empty (PRELAUNCH_GATES=) means no folder: then the form
asks for a path, as the command line does.
"""

from __future__ import annotations

import os
import re
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path

from checks.documents.nearest import nearest

VARIABLE = "PRELAUNCH_GATES"
SUFFIX = ".toml"
SHIPPED = Path(__file__).parents[2] / "deployments" / "gates"
# Where a name is looked for first, in a terminal.
HERE = Path("deployments/gates")
# A gate file with a mistake is offered all the same: whoever chooses it is told of the mistake.
CLUSTER = re.compile(r"^\s*\[\s*cluster\s*[\].]", re.MULTILINE)
READ_BYTES = 1 << 20


def folder_of(environ: Mapping[str, str]) -> Path | None:
    """The folder; None if there should be none."""
    folder = environ.get(VARIABLE)
    if folder is None:
        return SHIPPED
    return Path(folder).expanduser().absolute() if folder else None


def names_in(folder: Path | None) -> tuple[str, ...]:
    """The names of its gate files, by the alphabet; none if it cannot be read. Other TOML files, such as policies, are none."""
    if folder is None:
        return ()
    try:
        return tuple(
            sorted(path.stem for path in folder.iterdir() if path.suffix == SUFFIX and _is_gate_file(path))
        )
    except OSError:
        return ()


def _is_gate_file(path: Path) -> bool:
    """Whether the file has the table that every gate file has."""
    try:
        with open(path, "rb") as file:
            text = file.read(READ_BYTES).decode("utf-8", "replace")
    except OSError:
        return True  # to choose it says why it cannot be read
    try:
        return isinstance(tomllib.loads(text).get("cluster"), dict)
    except tomllib.TOMLDecodeError:
        return CLUSTER.search(text) is not None


def gate_file_names() -> tuple[str, ...]:
    """The names that a form offers now."""
    return names_in(folder_of(os.environ))


def path_of(name: str) -> Path:
    """Where a gate file is that was asked for: a bare name in the folder, else the path as it stands."""
    folder = folder_of(os.environ)
    if folder is not None and is_name(name) and (path := folder / f"{name}{SUFFIX}").is_file():
        return path
    return Path(name).expanduser()


def typed_path(argument: str) -> str:
    """What somebody typed in a terminal, as a path: a file that lies here goes before a name.

    A name is looked for in the current folder and its deployments/gates before the installation's, unless PRELAUNCH_GATES names one.
    Which file a name led to is said on stderr.
    """
    if Path(argument).expanduser().is_file():
        return argument
    near = [
        path for folder in (Path(), HERE) if (path := folder.absolute() / f"{argument}{SUFFIX}").is_file()
    ]
    path = near[0] if near and VARIABLE not in os.environ and is_name(argument) else path_of(argument)
    if is_name(argument) and path.is_file():
        sys.stderr.write(f"prelaunch: {argument} is {path}\n")
    return str(path)


def missing_name(gate_name: str) -> tuple[str, str | None] | None:
    """Why a bare name leads nowhere, and the nearest that does; None if it leads somewhere, or is a path."""
    folder = folder_of(os.environ)
    if folder is None or not is_name(gate_name) or path_of(gate_name).exists():
        return None
    here = HERE.absolute()
    own = VARIABLE not in os.environ and here != folder and here.is_dir()
    names_of = {path: names_in(path) for path in ((here, folder) if own else (folder,))}
    # The shipped ones are listed only where there are no others.
    listed = next((path for path, names in names_of.items() if names), folder)
    places = " or ".join(
        f"{path} (it has {', '.join(names)})" if path == listed and names else str(path)
        for path, names in names_of.items()
    )
    return f"there is no gate file of this name in {places}; {VARIABLE} names another folder", nearest(
        gate_name, tuple(dict.fromkeys(name for names in names_of.values() for name in names))
    )


def is_name(name: str) -> bool:
    """Whether the text is a name and no path."""
    return "/" not in name and not name.endswith(SUFFIX) and not name.startswith(("~", "."))
