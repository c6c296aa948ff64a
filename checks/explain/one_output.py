"""Whether a text holds more outputs than the one that its reader reads. Pure. The others would go unread."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class _Form:
    """How an output begins, and which module reads it. `again`: its reader reads several outputs that follow one another.

    The beginning contains one of the `needles` ("*": any letters), which are searched for first in a large text.
    """

    module: str
    name: str
    needles: tuple[str, ...]
    begins: re.Pattern[str]
    again: bool


_FORMS = tuple(
    _Form(module, name, tuple(needles.split("|")), re.compile(begins, re.MULTILINE), again)
    for module, name, needles, begins, again in (
        (
            "checks.probes.dcgm.explain",
            "dcgmi diag as JSON",
            "Diagnostic",
            r'"DCGM (?:GPU )?Diagnostic"\s*:',
            False,
        ),
        (
            "checks.probes.dcgm.explain",
            "dcgmi diag",
            "Diagnostic",
            r"^\s*\|\s*Diagnostic\s*\|\s*Result\s*\|",
            False,
        ),
        (
            "checks.probes.dcgm.explain",
            "dcgmi health",
            "Health Monitor Report",
            r"\bHealth Monitor Report\b",
            False,
        ),
        (
            "checks.probes.dcgm.explain",
            "dcgmi policy",
            "Policy Information",
            r"\bPolicy Information\b",
            False,
        ),
        ("checks.probes.gpu.explain", "nvidia-smi -q -x", "<nvidia_smi_log", r"<nvidia_smi_log\b", False),
        (
            "checks.probes.collectives.explain",
            "nccl-tests -J",
            "verage_bus_bandwidth",
            r'"average_bus_bandwidth"\s*:',
            False,
        ),
        (
            "checks.probes.collectives.explain",
            "nccl-tests",
            "ze *busbw",
            r"#\s+size\s+count\s+type\s[^\n]*\bbusbw\b",
            True,
        ),
        (
            "checks.probes.collectives.ras.explain",
            "ncclras",
            "communicators_count|Group *Comms",
            r'"communicators_count"\s*:|^Group +Comms +Nodes +Ranks ',
            True,
        ),
        (
            "checks.probes.collectives.ras.explain",
            "ncclras -D",
            "RAS Diagnostics",
            r"NCCL DIAG === RAS Diagnostics ===",
            False,
        ),
        (
            "checks.probes.efa.explain",
            "fi_info",
            "vider: |getinfo",
            r"^\s*provider: \S+\s*$|fi_getinfo(?:\(\))?:[^\n]*?-\d+",
            True,
        ),
        ("checks.probes.efa.explain", "fi_pingpong", "#sent", r"bytes\s+#sent\s+#ack\s", True),
        (
            "checks.probes.neuron.explain",
            "neuron-ls as JSON",
            '_device"',
            r'"neuron_device"\s*:\s*\d+\s*,\s*"bdf"',
            True,
        ),
        ("checks.probes.neuron.explain", "neuron-ls", "NEURON", r"^\s*\|\s*NEURON\s*\|\s*NEURON\s*\|", False),
        (
            "checks.probes.neuron.explain_nccom",
            "nccom-test",
            "ze(B)*algbw",
            r"size\(B\)[ \t]+count\(elems\)[^\n]*algbw",
            False,
        ),
        ("checks.probes.host.explain", "fio as JSON", "fio version", r'^\s*"fio version"\s*:', False),
        (
            "checks.probes.host.explain",
            "stress-ng",
            "ng: *dispatching",
            r"stress-ng: \w+: +\[\d+\] dispatching hogs",
            False,
        ),
        (
            "checks.explain.matrix",
            "p2pBandwidthLatencyTest",
            "P2P=",
            r"^[ \t]*(?:Uni|Bi)directional P2P=\w+ Bandwidth[^\n]* Matrix",
            True,
        ),
        (
            "checks.explain.matrix",
            "nvbandwidth",
            "(row)",
            r"\b[CG]PU\(row\) \S+ GPU\(column\)[^\n]*\)[ \t]*$",
            True,
        ),
        ("checks.probes.neuron.explain", "neuron-monitor", "_hw_counters", r'"neuron_hw_counters"\s*:', True),
    )
)


_OVER_LINES = '"neuron_device"'
NEEDLES = tuple(dict.fromkeys(needle for form in _FORMS for needle in form.needles))


def begun_in(line: str, module: str) -> str:
    """The output that begins in a line of a text that the module reads ("dcgmi health"), or "". It does not use the next line of
    JSON.
    """
    return next(
        (
            form.name
            for form in _FORMS
            if form.module != module and (form.begins.search(line) or _OVER_LINES in line)
        ),
        "",
    )


def unread_beside(text: str, module: str) -> str:
    """What the module's reader would leave out: "dcgmi health begins in line 40 ...", or ""."""
    possible = [form for form in _FORMS if any(_may_hold(text, needle) for needle in form.needles)]
    found = sorted(
        ((at.start(), form) for form in possible for at in form.begins.finditer(text)),
        key=lambda pair: pair[0],
    )
    own = next((form for _, form in found if form.module == module), None)
    taken = False
    for at, form in found:
        if form is not own or (taken and not form.again):
            line = text.count("\n", 0, at) + 1
            return f"it holds several outputs: {form.name} begins in line {line}. Explain them one by one."
        taken = True
    return ""


def _may_hold(text: str, needle: str) -> bool:
    """Whether the text contains the pieces of the needle. This search takes a hundredth of the time of a regular expression."""
    return all(piece in text for piece in needle.split("*"))
