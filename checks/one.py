"""The child of checks.isolate: run one node check and leave its observation in a file."""

from __future__ import annotations

import sys
from pathlib import Path

from checks import place
from checks.journal import write_whole
from checks.probe import probe
from checks.processes import die_with_parent
from checks.report import dump_plain


def main(argv: list[str]) -> int:
    """argv: NAME BUNDLE ROSTER NODE SCRATCH RESULT."""
    die_with_parent()
    name, bundle, roster, node, scratch, result = argv
    station = place.open_station(Path(bundle), Path(roster), node, Path(scratch))
    found = next(check for check in station.checks if check.name == name)
    row = probe(found, station.context(found), node)
    write_whole(Path(result), dump_plain(row))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
