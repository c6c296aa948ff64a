"""AWS's script for CUDA's compatibility libraries, which the agent sources in the place of AWS's own entrypoint."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from container.agent import agent_run, cli
from container.agent.machine import cuda_compat
from container.agent.supervisor import Signals

BEFORE = "/opt/amazon/efa/lib"


@pytest.fixture(autouse=True)
def before(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the image sets."""
    monkeypatch.setenv("LD_LIBRARY_PATH", BEFORE)


def script(folder: Path, text: str) -> Path:
    """The image's script."""
    path = folder / "start_cuda_compat.sh"
    path.write_text(text)
    return path


def test_compat_script_is_run_by_bash_and_its_exports_reach_the_environment(tmp_path: Path) -> None:
    """AWS's script compares versions with `echo -e`, which prints "-e" in other shells. It prints the path as well, which is no part
    of the answer.
    """
    compare = 'if [ "$(echo -e "535\\n580" | sort -V | head -n1)" = 535 ]; then '
    text = compare + "export LD_LIBRARY_PATH=/usr/compat:$LD_LIBRARY_PATH; fi\necho $LD_LIBRARY_PATH\n"

    assert f"/usr/compat:{BEFORE}" in cuda_compat.prepare(script(tmp_path, text))
    assert f"/usr/compat:{BEFORE}" == os.environ["LD_LIBRARY_PATH"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("echo Skip CUDA compat libs setup as newer Nvidia driver is installed\n", "changed nothing"),
        ("unset LD_LIBRARY_PATH\n", "changed nothing"),
        ("export LD_LIBRARY_PATH=/broken\nexit 3\n", "exit code 3"),
        ("sleep 600\n", "did not end within 0.5 s"),  # nvidia-smi hangs on some broken drivers
    ],
    ids=["newer driver", "nothing left", "failed", "hangs"],
)
def test_compat_script_without_a_path_leaves_the_environment(tmp_path: Path, text: str, said: str) -> None:
    """And says so; of an image without the script nothing is said."""
    assert "" == cuda_compat.prepare(tmp_path / "none")
    assert said in cuda_compat.prepare(script(tmp_path, text), 0.5 if "sleep" in text else 60.0)
    assert BEFORE == os.environ["LD_LIBRARY_PATH"]


@pytest.mark.parametrize("verb", ["checks", "train"])
def test_the_agent_sources_it_before_anything_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], verb: str
) -> None:
    """Whichever way it was started: the code channel's start script becomes this agent too."""
    seen: list[str] = []

    def note(*_: object) -> int:
        seen.append(os.environ["LD_LIBRARY_PATH"])
        return 0

    monkeypatch.setattr(cuda_compat, "SCRIPT", script(tmp_path, "export LD_LIBRARY_PATH=/compat\n"))
    monkeypatch.setattr(os, "execve", note)
    monkeypatch.setattr(agent_run, "live", note)
    monkeypatch.setattr(cli, "read", lambda _: None)
    monkeypatch.setattr(Signals, "install", lambda _: None)

    cli.main([verb])

    assert "/compat" == seen[0]
    assert "set LD_LIBRARY_PATH to /compat" in capsys.readouterr().err
