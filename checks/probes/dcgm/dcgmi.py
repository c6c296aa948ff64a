"""Runs dcgmi so that it stops what it started, because the diagnostic runs in the host engine and not in dcgmi."""

from __future__ import annotations

from collections.abc import Sequence

from checks.check import CheckError
from checks.process import tool
from checks.process.tool import ToolMissing, ToolResult

NO_ENGINE = ("unable to connect to host engine", "unable to establish a connection")
START = "Start it on this node: nv-hostengine (or systemctl start nvidia-dcgm)."
# coreutils' timeout: 124 if it sent the signal, 137 if the process also had to be killed.
STOPPED = (124, 137)
GRACE_S = 10.0


def ask(*arguments: str, timeout_s: float) -> ToolResult:
    """The answer of dcgmi to a short question. Raises CheckError if it did not answer, ToolMissing."""
    said = tool.run(("dcgmi", *arguments), timeout_s)
    refuse(said)
    return said


def run_to_deadline(arguments: Sequence[str], deadline_s: float) -> ToolResult:
    """The output of dcgmi. At the deadline it is interrupted, so that it aborts what runs in the host engine.

    If dcgmi were killed, the diagnostic would continue there. Raises CheckError at the deadline, ToolMissing.
    """
    path = tool.find("dcgmi")
    argv: tuple[str, ...] = (path, *arguments)
    try:
        stopper = tool.find("timeout")
        argv = (stopper, "-s", "INT", "-k", f"{GRACE_S:g}", f"{deadline_s:g}", *argv)
    except ToolMissing:
        pass  # without coreutils it is killed
    said = tool.run(argv, deadline_s + (2 * GRACE_S if len(argv) > len(arguments) + 1 else 0.0))
    if said.code in STOPPED and said.seconds >= deadline_s:
        raise CheckError(f"dcgmi was interrupted at its deadline of {deadline_s:g} s:\n{_short(said)}")
    refuse(said)
    return said


def refuse(said: ToolResult) -> None:
    """Raises CheckError if the output is not an answer."""
    text = f"{said.stdout}\n{said.stderr}"
    if any(words in text.lower() for words in NO_ENGINE):
        raise CheckError(f"no DCGM host engine answers on this node. {START}\n{_short(said)}")
    if said.code is None:
        raise CheckError(f"dcgmi did not end within its deadline:\n{_short(said)}")
    if said.cut:
        raise CheckError(f"dcgmi printed more than the 1 MiB that is read:\n{_short(said)}")


def _short(said: ToolResult) -> str:
    return said.account()[:600]
