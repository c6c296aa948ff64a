"""`prelaunch explain` of a kernel log with Xids: each line has one remedy."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from flows.cli.main import main

GPU = "NVRM: Xid (PCI:0000:b9:00): "


@pytest.fixture
def keep_signals() -> Iterator[None]:
    """The command sets its own answer to SIGTERM."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


pytestmark = pytest.mark.usefixtures("keep_signals")


def log(folder: Path, *said: str) -> str:
    """A kernel's log from its start to an hour later, with these messages."""
    lines = [
        "[    0.000000] Linux version 6.1.119 (x)",
        *(f"[ {900 + at}.000000] {line}" for at, line in enumerate(said)),
    ]
    path = folder / "dmesg.txt"
    path.write_text("\n".join([*lines, "[ 3600.000000] all well", ""]))
    return str(path)


def test_a_gpu_that_fell_off_the_bus_has_one_first_action(
    capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Two checks read the same line: the node is restarted, then replaced (NVIDIA's catalogue: RESTART_BM, then CONTACT_SUPPORT)."""
    main(["explain", log(tmp_path, f"{GPU}79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.")])
    out = " ".join(capfd.readouterr().out.split())

    assert 1 == out.count("do: Restart the node (") and "Reset the node" not in out
    assert 1 == out.count("do: what is said above about the same lines")
    assert out.index("do: Restart") < out.index("If it returns, replace the node")
    assert out.index("FAIL HARDWARE kernel.xid") < out.index("FAIL HARDWARE kernel.hardware")


def test_findings_that_other_lines_prove_keep_their_own_remedy(
    capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Two Xids of two GPUs are two tasks."""
    other = "NVRM: Xid (PCI:0000:aa:00): 48, pid=7, DBE"
    main(["explain", log(tmp_path, f"{GPU}74, x", other)])

    assert 0 == capfd.readouterr().out.count("what is said above")
