"""What nodes on this machine lack is said before a server starts."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from tests.flows.cli.conftest import Run
from tests.flows.gates import write_gate

DEPLOYMENTS = Path(__file__).parents[3] / "deployments"


def test_nodes_of_this_machine_without_torch_are_told_before_a_server_starts(
    tmp_path: Path, run: Run
) -> None:
    """By the very command that installs it; the cluster is not locked, and nothing waits for a server."""
    python = tmp_path / "bare-python"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" -I -S "$@"\n')
    python.chmod(0o755)
    path = write_gate(tmp_path)
    text = re.sub(r"(?m)^python = .*", f'python = "{python}"', path.read_text())
    path.write_text(text.replace('"policy.toml"', json.dumps(str(DEPLOYMENTS / "policies/local.toml"))))

    ended = run("gate", path, "--format", "json")

    assert 2 == ended.code and "server" not in ended.err
    assert f"{python}, which runs the nodes, has no module torch" in str(ended.document["error"])
