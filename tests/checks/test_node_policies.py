"""The policies that travel with the node checks are those that people edit."""

from __future__ import annotations

import os
from pathlib import Path

from checks.report import dump_plain
from tasks.policies import read_policy

ROOT = Path(__file__).resolve().parents[2]


def test_the_json_policies_are_current() -> None:
    """checks/policies/*.json are deployments/policies/*.toml; UPDATE_GOLDEN=1 writes them."""
    texts = {
        path.with_suffix(".json").name: dump_plain(read_policy(path))
        for path in (ROOT / "deployments" / "policies").glob("*.toml")
    }
    folder = ROOT / "checks" / "policies"
    if os.environ.get("UPDATE_GOLDEN"):
        for name, text in texts.items():
            (folder / name).write_bytes(text)

    assert texts == {path.name: path.read_bytes() for path in folder.glob("*.json")}
