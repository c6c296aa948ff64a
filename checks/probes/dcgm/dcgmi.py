"""dcgmi, run so that it stops what it started: the diagnostic lives in the host engine, not in dcgmi."""

from __future__ import annotations

from collections.abc import Sequence

from checks.check import CheckError
from checks.process import tool
from checks.process.tool import Said, ToolMissing

NO_ENGINE = ("unable to connect to host engine", "unable to establish a connection")
START = "Start it on this node: nv-hostengine (or systemctl start nvidia-dcgm)."
# coreutils' timeout: 124 when it sent the signal, 137 when the signal to kill was needed as well.
STOPPED = (124, 137)
GRACE_S = 10.0


def ask(*arguments: str, timeout_s: float) -> Said:
    """What dcgmi said to a short question. Raises CheckError if it did not answer, ToolMissing."""
    said = tool.run(("dcgmi", *arguments), timeout_s)
    refuse(said)
    return said


def run_to_deadline(arguments: Sequence[str], deadline_s: float) -> Said:
    """What dcgmi said; at the deadline it is interrupted, so that it aborts what runs in the host engine.

    dcgmi that is killed leaves the diagnostic running there. Raises CheckError at the deadline, ToolMissing.
    """
    path = tool.find("dcgmi")
    argv: tuple[str, ...] = (path, *arguments)
    try:
        stopper = tool.find("timeout")
        argv = (stopper, "-s", "INT", "-k", f"{GRACE_S:g}", f"{deadline_s:g}", *argv)
    except ToolMissing:
        pass  # without coreutils it is ended the hard way
    said = tool.run(argv, deadline_s + (2 * GRACE_S if len(argv) > len(arguments) + 1 else 0.0))
    if said.code in STOPPED and said.seconds >= deadline_s:
        raise CheckError(f"dcgmi was interrupted at its deadline of {deadline_s:g} s:\n{_short(said)}")
    refuse(said)
    return said


def refuse(said: Said) -> None:
    """Raise CheckError for an answer that is none."""
    text = f"{said.stdout}\n{said.stderr}"
    if any(words in text.lower() for words in NO_ENGINE):
        raise CheckError(f"no DCGM host engine answers on this node. {START}\n{_short(said)}")
    if said.code is None:
        raise CheckError(f"dcgmi did not end within its deadline:\n{_short(said)}")
    if said.cut:
        raise CheckError(f"dcgmi printed more than the 1 MiB that is read:\n{_short(said)}")


def _short(said: Said) -> str:
    return said.account()[:600]
