"""The entry point of the file that `prelaunch node pack` writes: it unpacks itself into a private folder, and runs from there.

The checks start processes of their own by the paths of files, which a zip does not have.
"""

from __future__ import annotations

import sys


def main() -> int:
    """Run the words of the command line; the private folder is removed at the end."""
    if sys.version_info < (3, 10):  # noqa: UP036 - a node may have an older one
        print("prelaunch: this Python is older than 3.10, which the checks need.", file=sys.stderr)
        return 2
    import atexit
    import fcntl
    import os
    import shutil
    import tempfile
    import zipfile

    try:
        folder = tempfile.mkdtemp(prefix="prelaunch-code.")
        try:  # until this process ends: a later agent removes what nobody holds (container/agent/files/scratch.py)
            fcntl.flock(os.open(folder, os.O_RDONLY), fcntl.LOCK_SH)
        except OSError:
            folder = tempfile.mkdtemp(prefix="prelaunch-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        with zipfile.ZipFile(os.path.dirname(os.path.abspath(__file__))) as packed:
            packed.extractall(folder)
    except OSError as error:
        print(f"prelaunch: the checks cannot be unpacked: {error}. Set TMPDIR.", file=sys.stderr)
        return 3
    sys.path[0] = folder
    import importlib

    return int(importlib.import_module("container.agent.allocation").main(sys.argv[1:]))


if __name__ == "__main__":
    sys.exit(main())
