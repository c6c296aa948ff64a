"""A FAKE torch.nn.parallel."""

from __future__ import annotations

from . import DistributedDataParallel  # type: ignore[attr-defined]  # of package.py

__all__ = ["DistributedDataParallel"]
