"""Imports each module that is named, with the standard library alone, and prints what went wrong as JSON.

Run as `python -S -I stdlib_only.py ROOT MODULE...`: no site-packages, no PYTHONPATH.
"""

from __future__ import annotations

import importlib
import json
import sys


def main(root: str, names: list[str]) -> None:
    """Print {module: error}: what could not be imported, and what of the operator's came along."""
    sys.path.insert(0, root)
    failed: dict[str, str] = {}
    for name in names:
        try:
            importlib.import_module(name)
        except Exception as error:
            failed[name] = f"{type(error).__name__}: {error}"
    failed.update({name: "came along" for name in ("flows", "tasks") if name in sys.modules})
    print(json.dumps(failed))


main(sys.argv[1], sys.argv[2:])
