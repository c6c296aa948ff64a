"""Clusters for tests of commissioning: each a folder with a gate file of its own, its nodes, and its store."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.flows.gates import FAKE, write_gate


def write_cluster(
    folder: Path,
    name: str,
    part: str = "healthy",
    policy: str = "",
    on_warn: str = "go",
    launcher: str = "local",
) -> Path:
    """A gate file `folder`/NAME.toml of cluster NAME, whose two nodes play a part; its store is `folder`/NAME/store."""
    path = write_gate(folder / name, policy=policy, on_warn=on_warn, launcher=launcher)
    text = path.read_text(encoding="utf-8").replace('name = "test"', f'name = "{name}"')
    text = text.replace('file = "policy.toml"', f'file = "{folder / name / "policy.toml"}"')
    interpreter = folder / name / "python"
    interpreter.write_text(f'#!/bin/sh\nFAKE_NODE={part} exec "{sys.executable}" "{FAKE}" "$@"\n')
    made = folder / f"{name}.toml"
    made.write_text(text, encoding="utf-8")
    path.unlink()
    return made
