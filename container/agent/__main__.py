"""The container's entry point: `python3 -m container.agent train | check | gate -- COMMAND | checks ARGUMENTS`."""

from __future__ import annotations

import sys

from container.agent import cli

if __name__ == "__main__":
    arguments = sys.argv[1:]
    # With an instance type instead of a bundle the hosts make their bundle themselves, and only then is its code imported.
    if arguments[:1] == ["check"] and any(argument.startswith("--instance-type") for argument in arguments):
        from container.agent import allocation

        sys.exit(allocation.main(arguments))
    sys.exit(cli.main(arguments))
