"""Golden files, which show in a difference what a change does to the requests of the shipped gate files."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
GOLDEN = ROOT / "tests" / "golden"


def gates_of(launcher: str) -> list[Path]:
    """The shipped gate files for this launcher."""
    files = sorted((ROOT / "deployments" / "gates").glob("*.toml"))
    return [path for path in files if f'launcher = "{launcher}"' in path.read_text()]


def golden_text(path: Path, text: str) -> str:
    """The committed text. `text` is written there first if UPDATE_GOLDEN is set; then read the difference."""
    if os.environ.get("UPDATE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return path.read_text(encoding="utf-8")
