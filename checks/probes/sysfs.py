"""What several families read alike: a small file of the kernel's, and the address of a device. Pure but for the file."""

from __future__ import annotations

import re
from pathlib import Path

from checks.check import CheckError


def text_of(path: Path) -> str:
    """The file's text, or "": an unreadable file is an unknown value, never a zero."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip("\0 \t\n")
    except OSError:
        return ""


def required_text(path: Path) -> str:
    """The file's text as it is; the bytes of names that are no UTF-8 are kept. Raises CheckError."""
    try:
        return path.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError as error:
        raise CheckError(f"{path} cannot be read: {error.strerror}") from error


def pci_id(text: str) -> str:
    """One form for all PCI addresses: "00000000:B9:00", "b9:00.0" and "PCI:0000:b9:00" are "0000:b9:00.0"."""
    match = re.search(r"(?:([0-9A-Fa-f]+):)?([0-9A-Fa-f]{2}):([0-9A-Fa-f]{2})(?:\.([0-7]))?$", text.strip())
    if not match:
        return ""
    domain = int(match[1] or "0", 16)
    return f"{domain:04x}:{match[2].lower()}:{match[3].lower()}.{match[4] or '0'}"
