"""Programs that tests write: files that can be started by their name, Python's among them."""

from __future__ import annotations

import sys
from pathlib import Path

# The longest first line of a script that every kernel of Linux reads whole (fs/binfmt_script.c).
MOST = 127


def python_line(*options: str) -> str:
    """The first line of a program that this interpreter runs. Where its path has a blank, /bin/sh starts it."""
    line = " ".join((f"#!{sys.executable}", *options))
    if " " not in sys.executable and len(line.encode()) <= MOST:
        return line
    words = " ".join((f'"{sys.executable}"', *options))
    return f"#!/bin/sh\n'''exec' {words} \"$0\" \"$@\"\n' '''"


def executable(path: Path, text: str) -> Path:
    """The path, now of a program of this text."""
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
    return path
