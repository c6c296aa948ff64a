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
    named = environ.get(VARIABLE)
    if named is None:
        return SHIPPED
    return Path(named).expanduser().absolute() if named else None


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


def path_of(named: str) -> Path:
    """Where a gate file is that was asked for: a bare name in the folder, else the path as it stands."""
    folder = folder_of(os.environ)
    if folder is not None and is_name(named) and (path := folder / f"{named}{SUFFIX}").is_file():
        return path
    return Path(named).expanduser()


def typed_path(word: str) -> str:
    """What somebody typed in a terminal, as a path: a file that lies here goes before a name.

    A name is looked for in deployments/gates of the current folder before the installation's, unless PRELAUNCH_GATES names a folder.
    Which file a name led to is said on stderr.
    """
    if Path(word).expanduser().is_file():
        return word
    here = HERE.absolute() / f"{word}{SUFFIX}"
    own = VARIABLE not in os.environ and is_name(word) and here.is_file()
    found = here if own else path_of(word)
    if is_name(word) and found.is_file():
        sys.stderr.write(f"prelaunch: {word} is {found}\n")
    return str(found)


def missing_name(named: str) -> tuple[str, str | None] | None:
    """Why a bare name leads nowhere, and the nearest that does; None if it leads somewhere, or is a path."""
    folder = folder_of(os.environ)
    if folder is None or not is_name(named) or path_of(named).exists():
        return None
    here = HERE.absolute()
    own = VARIABLE not in os.environ and here != folder and here.is_dir()
    found = {one: names_in(one) for one in ((here, folder) if own else (folder,))}
    # The shipped ones are listed only where there are no others.
    listed = next((one for one, names in found.items() if names), folder)
    places = " or ".join(
        f"{one} (it has {', '.join(names)})" if one == listed and names else str(one)
        for one, names in found.items()
    )
    said = f"there is no gate file {named!r} in {places}; {VARIABLE} names another folder"
    return said, nearest(named, tuple(dict.fromkeys(name for names in found.values() for name in names)))


def is_name(named: str) -> bool:
    """Whether the text is a name and no path."""
    return "/" not in named and not named.endswith(SUFFIX) and not named.startswith(("~", "."))
