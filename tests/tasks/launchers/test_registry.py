"""Launchers by their names."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tasks.launchers.base import LaunchRejected
from tasks.launchers.local import LocalLauncher, LocalNetwork, LocalOptions
from tasks.launchers.registry import BACK_ENDS, launcher_for

ROOT = Path(__file__).resolve().parents[3]


def test_options_arrive(tmp_path: Path) -> None:
    """As the gate file says them."""
    launcher = launcher_for("local", {"network": "namespaces", "grace_s": 2, "subnet": "10.80.1"}, tmp_path)

    assert isinstance(launcher, LocalLauncher)
    assert (launcher.root, launcher.options) == (
        tmp_path,
        LocalOptions(LocalNetwork.NAMESPACES, "10.80.1", grace_s=2.0),
    )


@pytest.mark.parametrize(
    ("kind", "options", "says"),
    [
        ("locla", {}, "Did you mean 'local'"),
        ("", {}, "is none of local"),
        ("local", {"netwrok": "loopback"}, "options.netwrok: unknown key. Did you mean 'network'"),
        ("local", {"network": "namespace"}, "Did you mean 'namespaces'"),
        ("local", {"network": True}, "options.network"),
        ("local", {"grace_s": "5"}, "options.grace_s: expected float"),
        ("local", {"grace_s": -1}, "not between 0 and 600"),
        ("local", {"subnet": "10.78.0.0/24"}, "options.subnet"),
        ("local", {"prepared": "lab"}, "needs network = 'namespaces'"),
    ],
)
def test_what_is_not_valid_is_rejected(kind: str, options: dict[str, object], says: str) -> None:
    """With the nearest valid word."""
    with pytest.raises(LaunchRejected, match=says.replace(".", r"\.")):
        launcher_for(kind, options, ROOT)


def test_a_back_end_is_imported_when_it_is_asked_for() -> None:
    """To know the names costs no SDK."""
    code = "import sys, tasks.launchers.registry; print(*sys.modules)"
    done = subprocess.run((sys.executable, "-c", code), cwd=ROOT, capture_output=True, text=True, check=True)

    assert not any(module in done.stdout.split() for module in BACK_ENDS.values())
