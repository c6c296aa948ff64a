"""The record of one GPU, whoever read it (NVML on a node, nvidia-smi's XML in `prelaunch explain`), and its model's name.

Model names are compared without the maker's words: "H100 80GB HBM3" of the instance table is NVML's "NVIDIA H100 80GB HBM3".
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from checks.model import Value

Number = int | float
MAKERS = ("nvidia", "tesla", "quadro")


@dataclass(frozen=True)
class Gpu:
    """One GPU. A field is in `values`, or in `unread` with the reason why ("GPU is lost"), never in both.

    `lines` holds the lines of the text that values rest on, where there is a text ("17: ...").
    """

    index: int
    pci: str
    values: Mapping[str, Number | str]
    unread: Mapping[str, str] = field(default_factory=dict)
    lines: Mapping[str, str] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """How findings name it: "GPU 5 (0000:ca:00.0)"."""
        return f"GPU {self.index} ({self.pci})" if self.pci else f"GPU {self.index}"

    def number(self, name: str) -> Number | None:
        """The field's number; None if it was not read."""
        value = self.values.get(name)
        return value if isinstance(value, (int, float)) else None

    def text(self, name: str) -> str:
        """The field's text; "" if it was not read."""
        value = self.values.get(name)
        return value if isinstance(value, str) else ""


def padded(gpus: Sequence[Gpu], expected: int) -> tuple[Gpu, ...]:
    """The GPUs, and a record for each one that is declared and was not listed: what nobody saw is not measured."""
    return (*gpus, *(Gpu(index, "", {}) for index in range(len(gpus), expected)))


def columns(gpus: Sequence[Gpu], names: Iterable[str]) -> dict[str, Value]:
    """Metric arrays in GPU order, None for what was not read, and `gpus`, the labels."""
    metrics: dict[str, Value] = {name: tuple(gpu.number(name) for gpu in gpus) for name in names}
    return {**metrics, "gpus": tuple(gpu.label for gpu in gpus)}


def texts(gpus: Sequence[Gpu], name: str) -> Value:
    """One text per GPU; None for all if one of them could not be read, because a column has one type."""
    return all_or_none(gpu.text(name) for gpu in gpus)


def all_or_none(values: Iterable[str]) -> Value:
    """The texts; None for each if one of them is empty, or there is none."""
    present = tuple(values)
    return present if present and all(present) else (None,) * max(1, len(present))


def values_as_text(gpus: Sequence[Gpu], names: Iterable[str]) -> str:
    """The values as text, one line per GPU, and why missing values were not read."""
    return "\n".join(_values_as_text(gpu, tuple(names)) for gpu in gpus)


def usable_value(value: object) -> Number | str | None:
    """A value that NVML can mean: no NaN, and none of the all-ones patterns that stand for "not available"."""
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    if isinstance(value, str):
        return value.strip() or None
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return None if value in (0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF) or abs(value) >= 1 << 63 else value


def _values_as_text(gpu: Gpu, names: Sequence[str]) -> str:
    if not gpu.values and not gpu.unread:
        return f"{gpu.label}: declared, but NVML does not list it"
    fields = [f"{name}={_rounded(gpu.values[name])}" for name in names if name in gpu.values]
    fields += [f"{name}: {gpu.unread.get(name, 'not read')}" for name in names if name not in gpu.values]
    return f"{gpu.label}: {', '.join(fields)}"


def _rounded(value: object) -> object:
    """A number as people write it: 652.3, and not 652.3000000000001."""
    return round(value, 6) if isinstance(value, float) else value


def bare(name: str) -> str:
    """NVML's name without the maker's: "Tesla T4" -> "T4"."""
    parts_of_name = name.split()
    while parts_of_name and parts_of_name[0].lower() in MAKERS:
        parts_of_name = parts_of_name[1:]
    return " ".join(parts_of_name)


def is_model(name: str, model: str) -> bool:
    """Whether NVML's name is one of the model's: it begins with the model's words, whole ("L4" is no "L40S")."""
    name_words, wanted = _name_words(bare(name)), _name_words(model)
    return bool(wanted) and name_words[: len(wanted)] == wanted


def _name_words(text: str) -> list[str]:
    return text.lower().replace("server edition", "se").split()
