"""A made-up tool's output and its reader: "fake tool", then "metric value" a line, then "end". For tests alone."""

from __future__ import annotations

from checks.explain.reading import CheckData, Garbled, NotRecognised, OutputKind, Reading, ReadOptions


def detect(text: str) -> bool:
    """By the first line."""
    return text.startswith("fake tool")


def read(text: str, asked: ReadOptions) -> Reading:
    """One part, `dcgm.diag`, of all values; a text without its last line is cut."""
    lines = text.splitlines()
    if not detect(text):
        raise NotRecognised("its first line is another")
    if lines[-1:] != ["end"]:
        raise Garbled(f"it ends at line {len(lines)}, before its end")
    pairs = [line.split() for line in lines[1:-1]]
    numbers = {name: int(value) for name, value in pairs}
    shown = {name: f"{at}: {name} {value}" for at, (name, value) in enumerate(pairs, 2)}
    gpus = asked.declared.gpus_per_node if asked.declared else "any"
    every, parts = frozenset(range(1, len(lines) + 1)), (CheckData("dcgm.diag", numbers, shown),)
    return Reading(OutputKind.DCGMI, f"fake tool of {gpus} GPUs", parts, understood=every)
