"""What can go wrong when a gate is exported.

ExportError             the run was not, or not completely, logged; carries the remedy, and never a secret
`- ExportRejected       the address is none that can be used, or needs an extra that is not installed; nobody was asked
"""

from __future__ import annotations


class ExportError(Exception):
    """The run was not, or not completely, logged."""


class ExportRejected(ExportError):
    """The address is none that can be used here."""
