"""What notifiers get in tests: the means of a gate whose store is a folder, and pages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tasks.gate.context import GateContext, open_gate_context
from tasks.gate_file.request import GateRequest
from tasks.notifiers.base import Item, Notification, NotifierAccess, PageKind
from tasks.notifiers.deliver import means_of
from tests.flows.gates import write_gate

ITEM = Item(
    "FAIL HARDWARE",
    "HARDWARE",
    "node-1/gpu-5",
    "gpu.memory",
    "node-1, GPU 5 has 3 uncorrected errors in its memory",
    "Replace the GPU.",
    ("nvidia-smi -q -d ECC -i 5",),
    "volatile: 3",
)


def setting_of(folder: Path, notify: str = "") -> GateContext:
    """The context of a gate file with these tables."""
    path = write_gate(folder)
    path.write_text(path.read_text(encoding="utf-8") + notify, encoding="utf-8")
    return open_gate_context(GateRequest(gate_file=str(path)))


def means_in(folder: Path) -> NotifierAccess:
    """What the notifiers of a gate in this folder may use."""
    return means_of(setting_of(folder).store)


def page(kind: PageKind = PageKind.REFUSED, **more: Any) -> Notification:
    """A refusal for node-1 by gate g-1 of cluster p5."""
    told: dict[str, Any] = {
        "gate": "p5-prod",
        "topic": kind,
        "culprits": ("node-1",) if kind is PageKind.REFUSED else (),
        "items": (ITEM,),
        "facts": (("coverage", "2 of 2 nodes"), ("training", "was not started")),
        "costs": ("launching anyway loses 40 USD",),
    } | more
    gate_id = told.pop("gate_id", "g-1")
    title = told.pop("title", "NO-GO p5-prod: node-1, GPU 5 has 3 uncorrected errors in its memory")
    return Notification(
        gate_id, "p5", title, told.pop("text", "All of it."), told.pop("url", "https://x.test/r.html"), **told
    )
