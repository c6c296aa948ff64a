"""The container's entry point: `python3 -m container.agent train | check | gate -- COMMAND | checks ARGUMENTS`."""

from __future__ import annotations

import sys

from container.agent.cli import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
