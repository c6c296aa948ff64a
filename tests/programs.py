"""Programs that tests write: Python files that can be started by their name."""

from __future__ import annotations

import sys

# The longest first line of a script that every kernel of Linux reads whole (fs/binfmt_script.c).
MOST = 127


def python_line(*options: str) -> str:
    """The first line of a program that this interpreter runs. Where its path has a blank, /bin/sh starts it."""
    line = " ".join((f"#!{sys.executable}", *options))
    if " " not in sys.executable and len(line.encode()) <= MOST:
        return line
    words = " ".join((f'"{sys.executable}"', *options))
    return f"#!/bin/sh\n'''exec' {words} \"$0\" \"$@\"\n' '''"
