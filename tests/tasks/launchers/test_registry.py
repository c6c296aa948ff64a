"""Launchers by their names."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from checks.model import KernelLog
from tasks.gate.context import open_gate_context
from tasks.gate_file.request import GateRequest
from tasks.launchers.base import LaunchRejected
from tasks.launchers.local.launcher import LocalLauncher
from tasks.launchers.local.plan import LocalNetwork, LocalOptions
from tasks.launchers.registry import LAUNCHERS, kernel_log_of, launcher_for

ROOT = Path(__file__).resolve().parents[3]


def test_options_arrive(tmp_path: Path) -> None:
    """As the gate file says them."""
    launcher = launcher_for("local", {"network": "namespaces", "grace_s": 2, "subnet": "10.80.1"}, tmp_path)

    assert isinstance(launcher, LocalLauncher) and launcher.root == tmp_path
    assert launcher.options == LocalOptions(LocalNetwork.NAMESPACES, "10.80.1", grace_s=2.0)


@pytest.mark.parametrize(
    ("kind", "options", "says"),
    [
        ("locla", {}, "Did you mean 'local'"),
        ("", {}, "is none of local"),
        ("local", {"netwrok": "loopback"}, "options.netwrok: unknown key. Did you mean 'network'"),
        ("local", {"network": "namespace"}, "Did you mean 'namespaces'"),
        ("local", {"grace_s": "5"}, "options.grace_s: expected a number, found text '5'"),
        ("local", {"grace_s": -1}, "not between 0 and 600"),
        ("local", {"subnet": "10.78.0.0/24"}, "options.subnet"),
        ("local", {"prepared": "lab"}, "needs network = 'namespaces'"),
    ],
)
def test_launcher_registry_rejects_invalid_names_and_options(
    kind: str, options: dict[str, object], says: str
) -> None:
    """With the nearest valid word."""
    with pytest.raises(LaunchRejected, match=says.replace(".", r"\.")):
        launcher_for(kind, options, ROOT)


def test_a_back_end_is_imported_when_it_is_asked_for() -> None:
    """To know the names costs no SDK, and the launcher of SageMaker none before its first call."""
    code = "import sys, tasks.launchers.registry; print(*sys.modules); import tasks.launchers.sagemaker.launcher; print(*sys.modules)"
    done = subprocess.run((sys.executable, "-c", code), cwd=ROOT, capture_output=True, text=True, check=True)
    names, sagemaker = (set(line.split()) for line in done.stdout.splitlines())

    assert not names & set(LAUNCHERS.values())
    assert not sagemaker & {"boto3", "botocore", "sagemaker", "prefect", "torch", "numpy"}


def test_only_the_local_launcher_promises_the_kernel_log() -> None:
    """Containers and jobs of users have none. A launcher that says nothing has to show it: what should be readable and is not cannot
    pass.
    """
    withheld = {kind for kind in LAUNCHERS if kernel_log_of(kind) is KernelLog.WITHHELD}

    assert withheld == set(LAUNCHERS) - {"local"}
    assert kernel_log_of("another") is KernelLog.READABLE


def test_the_declaration_says_what_the_table_says() -> None:
    """Both that of the gate and that of the bundle, from which its nodes read it."""
    for name in ("local", "sagemaker-p5"):
        path = ROOT / "deployments" / "gates" / f"{name}.toml"
        context = open_gate_context(GateRequest(gate_file=str(path)))
        declared = {context.declared.kernel_log, context.bundle("gate-1").declared.kernel_log}

        assert declared == {kernel_log_of(context.engine.launcher)}
