"""Other programs: found, bounded, ended with all that they started."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from checks.process import tool
from checks.process.tree import alive, start_ticks
from tests.fakes.tools import Reply, install, on_path
from tests.waiting import until


def test_tool_returns_both_streams_and_the_exit_code(tmp_path: Path) -> None:
    """Both streams and the exit code; a failure is data, not an exception."""
    install(tmp_path, "dcgmi", [Reply("found 8 GPUs\n", asked="discovery", stderr="warning\n", code=226)])
    with on_path(tmp_path, processes=True):
        said = tool.run(("dcgmi", "discovery", "-l"), 10.0)

    assert (said.code, said.stdout, said.stderr, said.whole) == (226, "found 8 GPUs\n", "warning\n", True)
    assert said.account().startswith("$ dcgmi discovery -l\n[exit code 226 after ")


def test_a_program_that_is_missing_has_a_remedy(tmp_path: Path) -> None:
    """No traceback, no shell's 127: its name and what to do."""
    with (
        on_path(tmp_path, alone=True, processes=True),
        pytest.raises(tool.ToolMissing, match=r"no-such-tool is not installed.*Install"),
    ):
        tool.run(("no-such-tool",), 1.0)


def test_a_program_that_cannot_be_executed_is_said(tmp_path: Path) -> None:
    """A file of another machine's format is no missing tool."""
    path = tmp_path / "foreign"
    path.write_bytes(b"\x7fELF\x00not for this machine")
    path.chmod(0o755)
    said = tool.run((str(path),), 5.0)

    assert said.code not in (0, None)


def test_a_hung_program_is_ended_with_its_children_and_what_it_said_is_kept(tmp_path: Path) -> None:
    """A child in a session of its own, which holds the pipe, ends as well; the half that was printed is not whole."""
    pid_file = tmp_path / "pid"
    script = f'echo half; setsid sleep 3600 & echo $! > "{pid_file}"; sleep 3600'
    said = tool.run(("/bin/sh", "-c", script), 0.7)

    assert (said.code, said.stdout, said.whole) == (None, "half\n", False)
    assert "its deadline passed" in said.account()
    child = int(pid_file.read_text())
    until(lambda: not alive(child, start_ticks(child)))


def test_a_flood_is_cut_and_not_taken_for_the_whole() -> None:
    """The first MiB is kept; the program does not block on a full pipe."""
    said = tool.run(("/bin/sh", "-c", "yes 0123456789 | head -c 3000000"), 20.0)

    assert (said.code, said.cut, said.whole) == (0, True, False)
    assert len(said.stdout) < 1_100_000


def test_a_program_that_dies_of_a_signal_shows_it() -> None:
    """Minus the signal, as subprocess has it."""
    assert tool.run(("/bin/sh", "-c", "kill -SEGV $$"), 5.0).code == -signal.SIGSEGV
