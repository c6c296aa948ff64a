"""Runs dcgmi so that it stops what it started, because the diagnostic runs in the host engine and not in dcgmi."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from checks.check import Basis, Body, Check, CheckError, check
from checks.documents.decode import Foreign, decode, parse_json
from checks.model import MachinePart, Scope, Value
from checks.model_details import Contents
from checks.process import tool
from checks.process.tool import ToolResult
from checks.process.tree import DEAD
from checks.value_types import DecodeError

NO_ENGINE = ("unable to connect to host engine", "unable to establish a connection")
START = "Start it on this node: nv-hostengine (or systemctl start nvidia-dcgm)."
NODE = "the node"
GRACE_S = 10.0
DIAGNOSTIC = "nvvs"  # the program that the host engine runs for a diagnostic
POLL_S = 0.1
MAX_BYTES = 8 << 20


def dcgm_check(name: str, metrics: tuple[str, ...], **more: Any) -> Callable[[Body], Check]:
    """Makes a function a check of a node's GPUs through DCGM."""
    return check(
        name, Scope.NODE, metrics=metrics, needs="dcgmi, nv-hostengine", part=MachinePart.GPU, **more
    )


def each_gpu_and_node(basis: Basis) -> tuple[Contents, ...]:
    """For checks whose lists have an element for each GPU and one for the node."""
    return (Contents("gpus", basis.declared.gpus_per_node, (NODE,)),)


def by_gpu_and_node(
    metrics: Iterable[str], texts_of: Iterable[tuple[str, int | None, str]], gpus: Sequence[int]
) -> dict[str, Value]:
    """The texts of each metric: one for each GPU and one for the node (None), "" where there is nothing; and their labels."""
    by_owner: dict[str, dict[int | None, list[str]]] = {name: {} for name in metrics}
    for name, owner, text in texts_of:
        by_owner[name].setdefault(owner, []).append(text)
    labels: Value = (*(f"GPU {gpu}" for gpu in gpus), NODE)
    texts = {
        name: tuple("; ".join(of_owner.get(owner, ())) for owner in (*gpus, None))
        for name, of_owner in by_owner.items()
    }
    return {"gpus": labels, **texts}


def document(text: str) -> dict[str, object]:
    """The JSON object in the text. Raises CheckError if there is none, or it is truncated."""
    start, end = text.find("{"), text.rfind("}")
    if start < 0:
        message = f"the output has no JSON document: {' '.join(text.split())[:200] or 'it printed nothing'}"
        raise CheckError(message)
    try:
        value = parse_json(text[start : end + 1] if end > start else text[start:], MAX_BYTES)
    except DecodeError as error:
        raise CheckError(f"the JSON document is truncated or garbled: {error}") from error
    if not isinstance(value, dict):
        raise CheckError("the JSON document is not an object")
    return value


@dataclass(frozen=True)
class DcgmiCell(Foreign):
    """A cell of a JSON table of dcgmi (DcgmiOutput.cpp): its value, the rest of a text that was broken, and the cells below it."""

    value: str = ""
    overflow: tuple[object, ...] = ()
    children: Mapping[str, DcgmiCell] = field(default_factory=dict)

    @property
    def rest(self) -> tuple[str, ...]:
        """The texts after the value."""
        return tuple(
            str(item.get("value", item) if isinstance(item, dict) else item) for item in self.overflow
        )


def table(text: str, title: str = "") -> dict[str, DcgmiCell]:
    """The cells of a JSON table. Raises CheckError if the output has no table of that title."""
    whole = document(text)
    try:
        body = decode(dict[str, DcgmiCell], whole.get("body"))
    except DecodeError as error:
        raise CheckError(f"the table has an unknown form: {error}") from error
    if not body or title not in str(whole.get("header")):
        raise CheckError(f"the output has no table {title!r}: {text[:200]!r}")
    return body


def ask(*arguments: str, timeout_s: float) -> ToolResult:
    """The answer of dcgmi to a short question. Raises CheckError if it did not answer, ToolMissing."""
    result = tool.run(("dcgmi", *arguments), timeout_s)
    refuse(result)
    return result


def run_to_deadline(arguments: Sequence[str], deadline_s: float) -> ToolResult:
    """The output of dcgmi. At the deadline it is interrupted, upon which it has the host engine stop the diagnostic (DCGM's
    dcgmi/Diag.cpp); if it were killed, the diagnostic would continue there and keep the GPUs busy.

    Raises CheckError at the deadline, which says whether the diagnostic was seen to continue; ToolMissing.
    """
    result = tool.run(("dcgmi", *arguments), deadline_s, interrupt_s=GRACE_S)
    if result.code is None:
        message = f"dcgmi was interrupted at its deadline of {deadline_s:g} s. {_after_interruption(result)}\n{_short(result)}"
        raise CheckError(message)
    refuse(result)
    return result


def _after_interruption(result: ToolResult) -> str:
    """What became of the diagnostic in the host engine."""
    ends = time.monotonic() + (0.0 if result.killed else GRACE_S)  # a dcgmi that was killed stops nothing
    while (running := _diagnostics()) and time.monotonic() < ends:
        time.sleep(POLL_S)
    if not (running or result.killed):
        return "It stopped the diagnostic in the host engine."
    reason = f"did not end within {GRACE_S:g} s" if result.killed else "ended"
    where = f"runs on as {DIAGNOSTIC} (process {', '.join(running)})" if running else "may run on"
    return (
        f"dcgmi {reason}, and the diagnostic {where} in the host engine, where it keeps the GPUs busy for what is measured next."
        " Restart the host engine: systemctl restart nvidia-dcgm."
    )


def _diagnostics() -> list[str]:
    """The ids of the processes that run a diagnostic, as far as this container sees them."""
    processes = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            name, _, state = (
                path.read_text(encoding="utf-8", errors="replace").partition(" (")[2].rpartition(") ")
            )
            if name == DIAGNOSTIC and state[0] not in DEAD:
                processes.append(path.parent.name)
    return processes


def refuse(result: ToolResult) -> None:
    """Raises CheckError if the output is not an answer."""
    text = f"{result.stdout}\n{result.stderr}"
    if any(phrase in text.lower() for phrase in NO_ENGINE):
        raise CheckError(f"no DCGM host engine answers on this node. {START}\n{_short(result)}")
    if result.code is None:
        raise CheckError(f"dcgmi did not end within its deadline:\n{_short(result)}")
    if result.cut:
        raise CheckError(f"dcgmi printed more than the 1 MiB that is read:\n{_short(result)}")


def _short(result: ToolResult) -> str:
    return result.account()[:600]
