"""`python -m checks`: what runs on a node. stdout is for results, stderr for the rest."""

from __future__ import annotations

import sys

from checks.cli import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
