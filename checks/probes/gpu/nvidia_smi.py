"""Reads GPU records from a text: the output of `nvidia-smi -q -x`.

If a field's text is not a value of its type, the field stays unread, with the text as the reason: N/A, [Not Supported],
[Unknown Error], [GPU is lost], [GPU requires reset] are not 0.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from xml.parsers import expat

from checks.check import CheckError
from checks.facts.provenance import table_bytes
from checks.probes.gpu.fields import TEMPERATURE_LIMITS_C
from checks.probes.gpu.record import Gpu, Number, usable_value
from checks.probes.sysfs import pci_id

ROOT = "nvidia_smi_log"
NOT_PRINTED = "not in the text"
Convert = Callable[[str], Number | str | None]


@dataclass
class XmlElement:
    """An element: its text, its line in the file, its children in order, and the first of each name."""

    name: str
    line: int
    attributes: Mapping[str, str] = field(default_factory=dict)
    text: str = ""
    children: list[XmlElement] = field(default_factory=list)
    first: dict[str, XmlElement] = field(default_factory=dict)

    def at(self, path: str) -> tuple[XmlElement | None, str]:
        """The element at "a/b"; or None, and what an element on the way says instead ("GPU is lost")."""
        here = self
        for name in path.split("/"):
            child = here.first.get(name)
            if child is None:
                return (None, here.text.strip() if here is not self and here.text.strip() else NOT_PRINTED)
            here = child
        return here, ""

    def text_at(self, path: str) -> str:
        """The text of the element at "a/b"; "" if there is none."""
        element, _ = self.at(path)
        return element.text.strip() if element else ""


@dataclass(frozen=True)
class Document:
    """Everything that is read of the text. `attached` is how many GPUs it says that it describes."""

    driver: str
    cuda: str
    attached: int
    gpus: tuple[Gpu, ...]
    lines: Mapping[str, str]


def parse(text: str) -> Document:
    """The document in the text. Raises CheckError."""
    root = _tree(text)
    raw = text.splitlines()
    lines = {child.name: cited_line(raw, child.line) for child in root.children}
    driver, cuda, attached = map(root.text_at, ("driver_version", "cuda_version", "attached_gpus"))
    if not re.fullmatch(r"\d+", attached):
        raise CheckError("the document lacks the number of attached GPUs (attached_gpus)")
    nodes = [child for child in root.children if child.name == "gpu"]
    if len(nodes) != int(attached):
        raise CheckError(f"the document states {attached} attached GPUs but describes {len(nodes)}")
    gpus = tuple(_gpu(node, index, raw) for index, node in enumerate(nodes))
    return Document(driver, cuda, len(nodes), gpus, lines)


def cited_line(raw: list[str], line: int) -> str:
    """A line as readers cite it: "17: <uuid>...</uuid>"."""
    return f"{line}: {raw[line - 1].strip()}" if 0 < line <= len(raw) else f"{line}:"


def _tree(text: str) -> XmlElement:
    parser = expat.ParserCreate()
    top = XmlElement("", 0)
    stack = [top]

    def start(name: str, attributes: dict[str, str]) -> None:
        node = XmlElement(name, parser.CurrentLineNumber, attributes)
        stack[-1].children.append(node)
        stack[-1].first.setdefault(name, node)
        stack.append(node)

    def end(_: str) -> None:
        stack.pop()

    def data(piece: str) -> None:
        stack[-1].text += piece

    def refuse(*_: object) -> None:
        raise CheckError("the XML declares entities, which nvidia-smi never does")

    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.CharacterDataHandler, parser.EntityDeclHandler = data, refuse
    try:
        parser.Parse(text.encode("utf-8", "replace"), True)
    except expat.ExpatError as error:
        raise CheckError(f"line {error.lineno}: {expat.errors.messages.get(error.code, error)}") from error
    if not top.children or top.children[0].name != ROOT:
        raise CheckError(f"the root element is not {ROOT}")
    return top.children[0]


def _gpu(node: XmlElement, index: int, raw: list[str]) -> Gpu:
    values: dict[str, Number | str] = {}
    unread: dict[str, str] = {}
    lines: dict[str, str] = {}
    for name, ways in FIELDS.items():
        reason = ""
        for path, convert in ways:
            element, instead = node.at(path)
            if element is None:
                reason = reason or instead
                continue
            lines[name] = f"{lines.get(name, '')}\n{cited_line(raw, element.line)}".strip()
            value = usable_value(convert(element.text.strip()))
            if value is not None:
                values[name] = value
                break
            # What an older format does not say explains nothing.
            if reason != NOT_PRINTED or element.text.strip() != "N/A":
                reason = element.text.strip() or "empty"
        if name not in values:
            unread[name] = reason
    for path, (name, number) in ALARMS.items():
        element, _ = node.at(path)
        if element is not None and element.text.strip() == "Yes":
            values[name], lines[name] = number, cited_line(raw, element.line)
            unread.pop(name, None)
    _derive(values, unread, lines)
    _processes(node, values, unread, lines, raw)
    return Gpu(index, pci_id(node.attributes.get("id", "")), values, unread, lines)


def _derive(values: dict[str, Number | str], unread: dict[str, str], lines: dict[str, str]) -> None:
    """Fields that are made of several: the sum of both SRAM counters, the margin before T.LIMIT."""
    for when in ("volatile", "aggregate"):
        names = [f"sram_{counter}_{when}" for counter in ("parity", "secded")]
        whole = f"sram_uncorrected_{when}"
        values_read = [value for name in names if isinstance(value := values.pop(name, None), (int, float))]
        if whole not in values and len(values_read) == len(names):
            values[whole] = sum(values_read)
            unread.pop(whole, None)
            lines[whole] = "\n".join(lines[name] for name in names)
        elif whole in unread:
            unread[whole] = next((unread[name] for name in names if name in unread), unread[whole])
        for name in names:
            unread.pop(name, None)
            lines.pop(name, None)
    limit, hot = values.pop("limit_c", None), values.get("temperature_c")
    if "margin_c" in unread and isinstance(limit, int) and isinstance(hot, int):
        low, high = TEMPERATURE_LIMITS_C
        if low <= limit <= high and "lost" not in unread["margin_c"]:
            values["margin_c"] = limit - hot
            lines["margin_c"] = f"{lines['temperature_c']}\n{lines['limit_c']}"
            del unread["margin_c"]
    unread.pop("limit_c", None)


def _processes(
    node: XmlElement,
    values: dict[str, Number | str],
    unread: dict[str, str],
    lines: dict[str, str],
    raw: list[str],
) -> None:
    listed, instead = node.at("processes")
    if listed is None or listed.text.strip():
        reason = instead or (listed.text.strip() if listed else "")
        unread.update(dict.fromkeys(("processes", "graphics_mib"), reason))
        return
    drawing = [_drawing_mib(child) for child in listed.children]
    values["processes"] = drawing.count(None)
    values["graphics_mib"] = sum(used for used in drawing if used is not None)
    lines["processes"] = lines["graphics_mib"] = "\n".join(
        cited_line(raw, element.line) for child in listed.children for element in child.children
    )


def _drawing_mib(process: XmlElement) -> int | None:
    """The memory in MiB of a process that only draws (type G); None for any other, and where it is not told."""
    mebibytes = _MIB(process.text_at("used_memory")) if process.text_at("type") == "G" else None
    return mebibytes if isinstance(mebibytes, int) else None


def _number(unit: str = "", sign: str = "") -> Convert:
    """Whole numbers with this unit and no other."""
    form = re.compile(rf"({sign}\d+){re.escape(unit)}")
    return lambda text: int(match[1]) if (match := form.fullmatch(text)) else None


def _watts(text: str) -> float | None:
    match = re.fullmatch(r"(\d+(?:\.\d+)?) W", text)
    return float(match[1]) if match else None


def _word_table(**meaning: int) -> Convert:
    """Words, with "_" or a blank between them: nvidia-smi prints both ("Exclusive_Process", "Not Active")."""
    return lambda text: meaning.get(text.lower().replace(" ", "_"))


def _name(text: str) -> str | None:
    return None if text.strip("[]") in NO_VALUE else text


NO_VALUE = ("", "N/A", "Not Supported", "Unknown Error", "GPU is lost", "GPU requires reset", "ERR!")
_MIB = _number(" MiB")
# A "Yes" here gives the field this number, whatever other elements say; nothing else is read of it. Memory that cannot be repaired
# (driver 580 and later) calls for what a failed remap calls for; drivers before 565 print gpu_reset_status, no recovery action.
ALARMS = {
    "ecc_errors/unrepairable_memory": ("remap_failed", 1),
    "gpu_reset_status/drain_and_reset_recommended": ("recovery_action", 4),
}
# How the text of an element is read, by what nvidia_smi_fields.json says of it; else that is a table of words, or the name of one.
CONVERTERS: Mapping[str, Convert] = {
    "text": _name, "count": _number(), "MiB": _MIB, "%": _number(" %"), "x": _number("x"), "bank(s)": _number(" bank(s)"),
    "C": _number(" C", "-?"), "W": _watts,
}  # fmt: skip
_TABLE = json.loads(table_bytes(Path(__file__).with_name("nvidia_smi_fields.json")))


def _converter(how: str | Mapping[str, int]) -> Convert:
    if isinstance(how, str) and how in CONVERTERS:
        return CONVERTERS[how]
    return _word_table(**(_TABLE["words"][how] if isinstance(how, str) else how))


# Field -> where it is, newest format first; the first place that holds a figure counts.
FIELDS: Mapping[str, Sequence[tuple[str, Convert]]] = {
    name: [(path, _converter(how)) for path, how in places] for name, places in _TABLE["fields"].items()
}
