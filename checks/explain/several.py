"""Whether a text holds more outputs than the one that its reader takes (pure): what stands beside it would pass unread."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class _Form:
    """How an output begins, and which module reads it. `again`: its reader takes all that follow one another."""

    module: str
    name: str
    begins: re.Pattern[str]
    again: bool


_FORMS = tuple(
    _Form(module, name, re.compile(begins, re.MULTILINE), again)
    for module, name, begins, again in (
        ("checks.dcgm.explain", "dcgmi diag as JSON", r'"DCGM (?:GPU )?Diagnostic"\s*:', False),
        ("checks.dcgm.explain", "dcgmi diag", r"^\s*\|\s*Diagnostic\s*\|\s*Result\s*\|", False),
        ("checks.dcgm.explain", "dcgmi health", r"\bHealth Monitor Report\b", False),
        ("checks.dcgm.explain", "dcgmi policy", r"\bPolicy Information\b", False),
        ("checks.gpu.explain", "nvidia-smi -q -x", r"<nvidia_smi_log\b", False),
        ("checks.nccl.explain", "nccl-tests -J", r'"average_bus_bandwidth"\s*:', False),
        ("checks.nccl.explain", "nccl-tests", r"#\s+size\s+count\s+type\s", True),
        ("checks.efa.explain", "fi_info", r"^\s*provider: \S+\s*$|fi_getinfo(?:\(\))?:[^\n]*?-\d+", True),
        ("checks.efa.explain", "fi_pingpong", r"bytes\s+#sent\s+#ack\s", True),
        ("checks.neuron.explain", "neuron-ls as JSON", r'"neuron_device"\s*:\s*\d+\s*,\s*"bdf"', True),
        ("checks.neuron.explain", "neuron-ls", r"^\s*\|\s*NEURON\s*\|\s*NEURON\s*\|", False),
        ("checks.neuron.explain", "neuron-monitor", r'"neuron_hw_counters"\s*:', True),
    )
)


def unread_beside(text: str, module: str) -> str:
    """What the module's reader may leave out: "dcgmi health begins in line 40 ...", or ""."""
    found = sorted(
        ((at.start(), form) for form in _FORMS for at in form.begins.finditer(text)), key=lambda pair: pair[0]
    )
    own = next((form for _, form in found if form.module == module), None)
    taken = False
    for at, form in found:
        if form is not own or (taken and not form.again):
            line = text.count("\n", 0, at) + 1
            return f"it holds several outputs: {form.name} begins in line {line}. Explain them one by one."
        taken = True
    return ""
