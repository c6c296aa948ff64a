"""`prelaunch explain` of a kernel log with Xids: each line has one remedy."""

from __future__ import annotations

from pathlib import Path

from tests.flows.cli.conftest import Run

GPU = "NVRM: Xid (PCI:0000:b9:00): "


def log(folder: Path, *said: str) -> str:
    """A kernel's log from its start to an hour later, with these messages."""
    lines = [f"[ {900 + at}.000000] {line}" for at, line in enumerate(said)]
    path, begin = folder / "dmesg.txt", "[    0.000000] Linux version 6.1.119 (x)"
    path.write_text("\n".join([begin, *lines, "[ 3600.000000] all well", ""]))
    return str(path)


def test_a_gpu_that_fell_off_the_bus_has_one_first_action(run: Run, tmp_path: Path) -> None:
    """Two checks read the same line: the node is restarted, then replaced (NVIDIA's catalogue: RESTART_BM, then CONTACT_SUPPORT)."""
    said = f"{GPU}79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
    out = " ".join(run("explain", log(tmp_path, said)).out.split())

    assert 1 == out.count("Do: Restart the node (") and "Reset the node" not in out
    assert 1 == out.count("Do: what is said above about the same lines")
    assert out.index("Do: Restart") < out.index("If it returns, replace the node")
    assert out.index("FAIL HARDWARE kernel.xid") < out.index("FAIL HARDWARE kernel.hardware")
