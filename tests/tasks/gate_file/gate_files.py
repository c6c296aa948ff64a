"""Gate files that are changed, and then opened or refused as the file of a request."""

from __future__ import annotations

from pathlib import Path

import pytest

from tasks.gate.context import GateContext, open_gate_context
from tasks.gate_file.read import GateFileError
from tasks.gate_file.request import Advanced, GateRequest


def edit(path: Path, old: str, new: str) -> Path:
    """The file with the first of these texts replaced, which it has."""
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    return path


def opened(path: Path | str, *overrides: str, **advanced: str) -> GateContext:
    """The context of a request that names the file."""
    more = Advanced.model_validate({"overrides": overrides, **advanced})
    return open_gate_context(GateRequest(gate_file=str(path), advanced=more))


def refusal(path: Path | str, *overrides: str, **advanced: str) -> GateFileError:
    """The error of such a request."""
    with pytest.raises(GateFileError) as caught:
        opened(path, *overrides, **advanced)
    return caught.value
