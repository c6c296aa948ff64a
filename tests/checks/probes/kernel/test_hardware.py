"""kernel.hardware: each fault's form, and not its look-alikes."""

from __future__ import annotations

import time

import pytest

from checks.check import fault_of
from checks.probes.kernel import hardware
from checks.probes.kernel.hardware import KINDS, measured
from tests.checks.local_policy import local_policy, verdicts
from tests.checks.probes.kernel.world import RECORDINGS, SYSLOG, XID, found, log_of, recorded_lines

FAULTS = [tuple(line.split(" | ", 1)) for line in recorded_lines("faults.txt") if " | " in line]


def test_every_fault_is_read() -> None:
    """Once."""
    kinds = {line: [event[0] for event in found(hardware.find, SYSLOG + line)] for _, line in FAULTS}

    assert kinds == {line: [] if kind == "none" else [kind] for kind, line in FAULTS}


def test_every_kind_has_a_recorded_form() -> None:
    """A metric that no line can raise would be a check that never fails."""
    assert {kind for kind, _ in FAULTS} - {"none"} == set(KINDS) - {"off_bus"}


@pytest.mark.parametrize(
    "line",
    [
        XID,
        "NVRM: Xid (PCI:0000:b3:00.0): 79",
        "NVRM: The NVIDIA GPU 0000:b3:00.0 fallen off the bus and is not responding to commands.",
    ],
)
def test_a_lost_gpu_is_found_by_its_code_or_the_words(line: str) -> None:
    """With an Xid, with an Xid without words, and without any."""
    assert [event[0] for event in found(hardware.find, line)] == ["off_bus"]


def test_a_lost_gpu_that_is_named_a_line_earlier_has_its_address() -> None:
    """The driver names it in one line and its fate in a later one."""
    text = "[1.0] NVRM: The NVIDIA GPU 0000:b3:00.0\n[1.0] NVRM: fallen off the bus and is not responding."

    assert found(hardware.find, text) == [("off_bus", None, "0000:b3:00.0")]


def test_a_recorded_ring() -> None:
    """A kernel's and a program's record both count, quoted text does not."""
    result = measured(log_of((RECORDINGS / "kmsg.txt").read_text(encoding="utf-8"), hardware.find))

    assert {kind: result.metrics[kind] for kind in KINDS if result.metrics[kind]} == {"off_bus": 2}
    assert result.metrics["records_lost"] == 0
    assert fault_of(hardware.hardware, result.metrics) == ""


def test_a_long_log_is_read_in_time() -> None:
    """20,000 ordinary lines within seconds, on a busy machine too."""
    line = "[ 9990.0] systemd[1]: Started a service with a line of about the usual length, number 12.\n"

    begun = time.process_time()
    log = log_of(line * 20_000, hardware.find)
    assert log.recent == ()
    assert time.process_time() - begun < 5


ZEROS = dict.fromkeys((*KINDS, *hardware.LIMITS, "records_lost", "earlier_boot"), 0) | {"covers_s": 86400}


def test_every_count_has_a_rule_in_the_local_policy() -> None:
    """And no event passes; the corpus has a case of each."""
    assert verdicts("kernel.hardware", ZEROS) == []
    ruled = {rule.metric for rule in local_policy().checks["kernel.hardware"].rules}
    assert ruled == set(ZEROS) - {*hardware.LIMITS}
