"""A kernel log gets the same answer in each form in which dmesg, journalctl and syslog daemons print it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

import pytest

from checks.model import Answer
from tests.corpus.case import RecordProperty
from tests.corpus.judging import explained

Record = tuple[float, str]
BOOT = datetime(2026, 11, 20, 3, 14, 5, tzinfo=UTC)
HEALTHY: Sequence[Record] = (
    (0.0, "Linux version 6.8.0-1021-aws (buildd@lcy02) (x86_64-linux-gnu-gcc-13 13.3.0)"),
    (0.25, 'Command line: BOOT_IMAGE=/vmlinuz root=LABEL="cloudimg-rootfs" {ro} [quiet]'),
    (7.125, "nvme nvme0: 8/0/0 default/read/poll queues"),
    (75.5, "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  570.133.20"),
    (93600.5, "IPv6: ADDRCONF(NETDEV_CHANGE): eth0: link becomes ready"),
)
FAULTS = (
    "NVRM: Xid (PCI:0000:b9:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
    "NVRM: Xid (PCI:0000:3b:00): 74, pid=<unknown>, name=<unknown>, NVLink: fatal error detected on link 6(0x10000, 0x0, 0x0)",
    "nvidia-nvswitch0: SXid (PCI:0000:c3:00.0): 24007, Fatal, Link 28 sourcetrack timeout error (First)",
    "mce: [Hardware Error]: CPU 4: Machine Check Exception: 5 Bank 7: be00000000800400",
    "EDAC MC0: 1 UE memory read error on CPU_SrcID#0_MC#1_Chan#0_DIMM#0 (channel:0 slot:0 page:0x1 offset:0x0 grain:32)",
    'NEURON_HW_ERR=SRAM_UNCORRECTABLE_ECC nd-id=3 (instance: "a")',
)


def _at(seconds: float) -> datetime:
    return BOOT + timedelta(seconds=seconds)


def _lines(form: Callable[[float, str], str]) -> Callable[[Sequence[Record]], str]:
    return lambda records: "".join(f"{form(at, message)}\n" for at, message in records)


def _steps(records: Sequence[Record]) -> Sequence[tuple[float, float, str]]:
    before = [records[0][0], *(at for at, _ in records)]
    return [(at, at - last, message) for (at, message), last in zip(records, before, strict=False)]


def _both(records: Sequence[Record]) -> str:
    return "".join(f"[{at:12.6f} <{step:12.6f}>] {message}\n" for at, step, message in _steps(records))


def _dmesg_json(records: Sequence[Record]) -> str:
    rows = [{"pri": 6, "time": at, "msg": message} for at, message in records]
    return json.dumps({"dmesg": rows}, indent=3) + "\n"


def _journal(at: float, message: str) -> dict[str, str]:
    epoch_us = str(int(_at(at).timestamp() * 1e6))
    return {"__REALTIME_TIMESTAMP": epoch_us, "_TRANSPORT": "kernel", "MESSAGE": message}


FORMS: dict[str, Callable[[Sequence[Record]], str]] = {
    "dmesg -d": _both,
    "dmesg of util-linux 2.41": _lines(lambda at, m: f"[{at:12.6f}] [    T4711] {m}"),
    "journalctl -o short-full": _lines(lambda at, m: f"{_at(at):%a %Y-%m-%d %H:%M:%S} UTC ip-10-1-2-3 kernel: {m}"),
    "journalctl -o short-full, CET": _lines(lambda at, m: f"{_at(at):%a %Y-%m-%d %H:%M:%S} CET node7 kernel: {m}"),
    "journalctl -o short-unix": _lines(lambda at, m: f"{_at(at).timestamp():.6f} node7 kernel: {m}"),
    "journalctl -o short-iso-precise": _lines(lambda at, m: f"{_at(at):%Y-%m-%dT%H:%M:%S.%f+0000} node7 kernel: {m}"),
    "journalctl -o short-delta": _lines(lambda at, m: f"[{at:12.6f} <    0.000001 >] node7 kernel: {m}"),
    "RFC 5424": _lines(lambda at, m: f"<4>1 {_at(at):%Y-%m-%dT%H:%M:%S.%f+00:00} node7 kernel - - - {m}"),
    "RFC 5424 with data": _lines(lambda at, m: f'<4>1 {_at(at):%Y-%m-%dT%H:%M:%SZ} node7 kernel - - [a@1 b="c d"] \ufeff{m}'),
    "without a host": _lines(lambda at, m: f"{_at(at):%b %e %H:%M:%S}  {m}"),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_a_healthy_log_is_a_go(form: str, record_property: RecordProperty) -> None:
    verdict = explained(FORMS[form](HEALTHY))
    record_property("corpus", [form, "healthy", verdict.level.value])

    assert Answer.GO is verdict.answer, verdict.findings


@pytest.mark.parametrize(
    ("form", "fault"),
    [*((form, FAULTS[0]) for form in FORMS), *(("RFC 5424", fault) for fault in FAULTS[1:])],
)
def test_a_fault_is_no_go_and_has_its_line(form: str, fault: str, record_property: RecordProperty) -> None:
    text = FORMS[form]([*HEALTHY[:3], (80.0, fault), *HEALTHY[4:]])

    verdict = explained(text)
    record_property("corpus", [form, "faulty", verdict.level.value])

    assert Answer.NO_GO is verdict.answer, verdict.findings
    shown = "\n".join(finding.evidence for finding in verdict.findings)
    lines = {number for number, line in enumerate(text.split("\n"), 1) if str(number) and fault[:20] in line}
    assert not lines or any(f"{number}: " in shown for number in range(min(lines) - 4, max(lines) + 1)), shown


@pytest.mark.parametrize("form", FORMS)
def test_a_log_that_was_cut_is_never_a_go(form: str) -> None:
    """Cut at every tenth of its bytes, and without its beginning."""
    text = FORMS[form](HEALTHY)
    for tenth in range(1, 10):
        cut = text[: len(text) * tenth // 10]
        if not cut.endswith("\n"):
            assert Answer.CANNOT_TELL is explained(cut).answer, cut

    assert Answer.CANNOT_TELL is explained(FORMS[form](HEALTHY[2:4])).answer


AGENT = {"level": "info", "ts": "2026-11-20T18:35:35Z", "msg": "NPD caught event: %v"}


def _agent(message: str, now: str = "True") -> str:
    said = f'Node condition NvidiaErrorReboot is now: {now}, reason: XidHardwareFailure, message: "{message}"'
    details = {"severity": "warn", "timestamp": "2026-11-20T20:59:29Z", "message": said}
    event = {**AGENT, "details: ": details, "HealthMonitoringAgentDetectionEvent": "HealthEvent"}
    return f"2026-11-20T11:35:35.532-07:00 {json.dumps(event)}\n"


NOT_READ: dict[str, Callable[[Sequence[Record]], str]] = {
    "dmesg --time-format delta": _lines(lambda at, m: f"[<{at:12.6f}>] {m}"),
    "dmesg --time-format reltime": _lines(lambda at, m: f"[  {at:+8.6f}] {m}"),
    "dmesg --json": _dmesg_json,
    "journalctl -o json": _lines(lambda at, m: json.dumps(_journal(at, m))),
    "journalctl -o export": lambda records: "".join(
        "".join(f"{key}={value}\n" for key, value in _journal(*record).items()) + "\n" for record in records
    ),
}


@pytest.mark.parametrize("form", NOT_READ)
@pytest.mark.parametrize("fault", [None, FAULTS[0]], ids=["healthy", "faulty"])
def test_a_form_that_is_not_read_names_the_command(form: str, fault: str | None) -> None:
    text = NOT_READ[form]([*HEALTHY, *([(93601.0, fault)] if fault else [])])

    for whole in (text, FORMS["dmesg -d"](HEALTHY) + text):
        assert Answer.CANNOT_TELL is explained(whole).answer
    assert "journalctl -k -o short-iso" in explained(text).findings[0].remedy


@pytest.mark.parametrize("event", [_agent("NoProblem", "False"), _agent(FAULTS[0])])
def test_an_event_of_hyperpods_agent_is_not_passed_over(event: str) -> None:
    """It quotes a line of the kernel, which is not read."""
    assert Answer.CANNOT_TELL is explained(event).answer
    assert Answer.CANNOT_TELL is explained(FORMS["RFC 5424"](HEALTHY) + event).answer
    assert "journalctl" in " ".join(finding.remedy for finding in explained(event).findings)
