"""GPU models by name: the instance table's "H100 80GB HBM3" is NVML's "NVIDIA H100 80GB HBM3"."""

from __future__ import annotations

MAKERS = ("nvidia", "tesla", "quadro")


def bare(name: str) -> str:
    """NVML's name without the maker's: "Tesla T4" -> "T4"."""
    words = name.split()
    while words and words[0].lower() in MAKERS:
        words = words[1:]
    return " ".join(words)


def is_model(name: str, model: str) -> bool:
    """Whether NVML's name is one of the model's: it begins with the model's words, whole ("L4" is no "L40S")."""
    said, wanted = _words(bare(name)), _words(model)
    return bool(wanted) and said[: len(wanted)] == wanted


def _words(text: str) -> list[str]:
    return text.lower().replace("server edition", "se").split()
