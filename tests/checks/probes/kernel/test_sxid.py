"""kernel.sxid: how bad it is, and each incident once."""

from __future__ import annotations

import pytest

from checks.probes.kernel import sxid
from checks.probes.kernel.sxid import SxidSeverity, measured, severity_of
from tests.checks.probes.kernel.world import found, log_of, recorded_lines

LINES = [line for line in recorded_lines("public_lines.txt") if "SXid" in line]


def test_every_public_line_is_read() -> None:
    """One event each; the driver's own word decides."""
    assert LINES
    for line in LINES:
        ((kind, _, _),) = found(sxid.find, line)

        assert kind == "fatal" or ", Fatal," not in line or "): xyz" in line, line
        assert kind == "non_fatal" or ", Non-fatal" not in line, line


@pytest.mark.parametrize(
    ("code", "rest", "severity"),
    [
        (20009, ", Non-fatal, Li", SxidSeverity.NON_FATAL),
        (11012, ", Fatal, Link 3", SxidSeverity.FATAL),
        (12033, ", Severity 1 Engine instance 00 Sub-engine instance 00", SxidSeverity.UNREAD),
        (99999, "", SxidSeverity.UNREAD),
        (None, "", SxidSeverity.UNREAD),
    ],
)
def test_how_bad_it_is(code: int | None, rest: str, severity: SxidSeverity) -> None:
    """The line's own word, then the table, then nobody knows."""
    assert severity_of(code, rest) is severity


def test_details_without_their_incident_still_count() -> None:
    """Its first line may have been overwritten."""
    line = "[ 9990.0] nvidia-nvswitch0: SXid (PCI:0000:c3:00.0): 12033, Severity 1 Engine instance 00\n"

    assert measured(log_of(line, sxid.find)).metrics["unread"] == 1
