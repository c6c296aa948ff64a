"""`--set A.B=VALUE`, which changes a value of a gate file for once, and what an option leads to that is a key of the gate file."""

from __future__ import annotations

import re

from checks.command_line import Parser

# What is typed as an option, and stands in the gate file alone.
IN_FILE = {"policy": "[policy] file, in the gate file"}
# Only such a value is repeated in the command to type; another one may be hostile, or of several words.
PLAIN_VALUE = re.compile(r"[A-Za-z0-9_.,:/-]{1,60}")


def add_set(parser: Parser) -> None:
    """Add the option; `--nodes 2` is then answered with `--set cluster.declared.nodes=2`."""
    parser.meant_by = meant_by
    parser.add_argument(
        "--set", action="append", default=[], metavar="A.B=VALUE", dest="overrides",
        help="change a value of the gate file (commands and paths cannot be changed)",
    )  # fmt: skip


def meant_by(option: str, value: str) -> str | None:
    """What to type in place of an option that does not exist, if one key of the gate file has its name; None otherwise."""
    from tasks.gate_file.read import is_locked, places_of  # pydantic, for a mistake alone
    from tasks.launchers.registry import kinds_with

    name = option.lstrip("-").replace("-", "_")
    places = tuple(place for place in places_of(name) if not is_locked(place))
    if name in IN_FILE:
        return IN_FILE[name]
    place = places[0] if len(places) == 1 else f"cluster.options.{name}"
    if len(places) > 1 or is_locked(place) or not (places or kinds_with(name)):
        return None
    return f"--set {place}={value if PLAIN_VALUE.fullmatch(value) else 'VALUE'}"
