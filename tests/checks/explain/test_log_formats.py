"""A kernel log gets the same answer in each form in which dmesg, journalctl and syslog daemons print it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from checks.explain.reading import Broken, ReadOptions
from checks.model import Answer, Verdict
from tasks.reports.explain import explain_text
from tasks.reports.large_log import open_large_log, require_kernel_log

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


def _relative(records: Sequence[Record]) -> str:
    lines, minute = [], ""
    for at, step, message in _steps(records):
        now = _at(at).strftime("%b%e %H:%M")
        stamp = f"[{now}]" if now != minute else f"[{step:+11.6f}]" if step >= 10 else f"[  {step:+8.6f}]"
        lines.append(f"{stamp} {message}\n")
        minute = now
    return "".join(lines)


def _delta(records: Sequence[Record]) -> str:
    return "".join(f"[<{step:12.6f}>] {message}\n" for _, step, message in _steps(records))


def _both(records: Sequence[Record]) -> str:
    return "".join(f"[{at:12.6f} <{step:12.6f}>] {message}\n" for at, step, message in _steps(records))


def _dmesg_json(records: Sequence[Record], severity: str = '"pri": 6') -> str:
    inside = (
        f'         {severity},\n         "time": {at:12.6f},\n         "msg": {json.dumps(m)}\n'
        for at, m in records
    )
    return '{\n   "dmesg": [\n      {\n' + "      },{\n".join(inside) + "      }\n   ]\n}\n"


def _journal(at: float, message: str) -> dict[str, str]:
    return {
        "__CURSOR": "s=1;i=2",
        "__REALTIME_TIMESTAMP": str(int(_at(at).timestamp() * 1e6)),
        "__MONOTONIC_TIMESTAMP": str(int(at * 1e6)),
        "_TRANSPORT": "kernel",
        "PRIORITY": "4",
        "SYSLOG_FACILITY": "0",
        "SYSLOG_IDENTIFIER": "kernel",
        "MESSAGE": message,
        "_HOSTNAME": "ip-10-1-2-3",
    }


def _export(records: Sequence[Record]) -> str:
    return "".join("".join(f"{k}={v}\n" for k, v in _journal(*record).items()) + "\n" for record in records)


FORMS: dict[str, Callable[[Sequence[Record]], str]] = {
    "dmesg --time-format reltime": _relative,
    "dmesg --time-format delta": _delta,
    "dmesg -d": _both,
    "dmesg --json": _dmesg_json,
    "dmesg --json -x": lambda records: _dmesg_json(records, '"fac": "kern",\n         "pri": "info"'),
    "journalctl -o short-full": _lines(lambda at, m: f"{_at(at):%a %Y-%m-%d %H:%M:%S} UTC ip-10-1-2-3 kernel: {m}"),
    "journalctl -o short-full, CET": _lines(lambda at, m: f"{_at(at):%a %Y-%m-%d %H:%M:%S} CET node7 kernel: {m}"),
    "journalctl -o short-unix": _lines(lambda at, m: f"{_at(at).timestamp():.6f} node7 kernel: {m}"),
    "journalctl -o short-iso-precise": _lines(lambda at, m: f"{_at(at):%Y-%m-%dT%H:%M:%S.%f+0000} node7 kernel: {m}"),
    "journalctl -o short-delta": _lines(lambda at, m: f"[{at:12.6f} <    0.000001 >] node7 kernel: {m}"),
    "journalctl -o json": _lines(lambda at, m: json.dumps(_journal(at, m))),
    "journalctl -o json, bytes": _lines(lambda at, m: json.dumps({**_journal(at, m), "MESSAGE": list(m.encode())})),
    "journalctl -o json-pretty": _lines(lambda at, m: json.dumps(_journal(at, m), indent="\t")),
    "journalctl -o json-sse": _lines(lambda at, m: f"data: {json.dumps(_journal(at, m))}\n"),
    "journalctl -o json-seq": _lines(lambda at, m: f"\x1e{json.dumps(_journal(at, m))}"),
    "journalctl -o export": _export,
    "RFC 5424": _lines(lambda at, m: f"<4>1 {_at(at):%Y-%m-%dT%H:%M:%S.%f+00:00} node7 kernel - - - {m}"),
    "RFC 5424 with data": _lines(lambda at, m: f'<4>1 {_at(at):%Y-%m-%dT%H:%M:%SZ} node7 kernel - - [a@1 b="c d"] \ufeff{m}'),
    "without a host": _lines(lambda at, m: f"{_at(at):%b %e %H:%M:%S}  {m}"),
}  # fmt: skip


def _verdict(text: str) -> Verdict:
    return explain_text("-", "-", text.encode(), None, None, ReadOptions()).verdict


@pytest.mark.parametrize("form", FORMS)
def test_a_healthy_log_is_a_go(form: str, record_property: Callable[[str, object], None]) -> None:
    verdict = _verdict(FORMS[form](HEALTHY))
    record_property("corpus", [form, "healthy", verdict.level.value])

    assert Answer.GO is verdict.answer, verdict.findings


@pytest.mark.parametrize("fault", FAULTS, ids=[fault[:24] for fault in FAULTS])
@pytest.mark.parametrize("form", FORMS)
def test_a_fault_is_no_go_and_named_by_its_line(
    form: str, fault: str, record_property: Callable[[str, object], None]
) -> None:
    text = FORMS[form]([*HEALTHY[:3], (80.0, fault), *HEALTHY[4:]])

    verdict = _verdict(text)
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
            assert Answer.CANNOT_TELL is _verdict(cut).answer, cut

    assert Answer.CANNOT_TELL is _verdict(FORMS[form](HEALTHY[2:4])).answer


def test_what_a_program_wrote_is_no_line_of_the_kernel() -> None:
    records = [json.dumps(_journal(*record)) for record in HEALTHY]
    quoted = {**_journal(80.0, FAULTS[0]), "_TRANSPORT": "syslog", "SYSLOG_IDENTIFIER": "trainer"}

    assert Answer.GO is _verdict("\n".join([*records, json.dumps(quoted)]) + "\n").answer


def test_a_record_of_several_lines_hides_no_fault() -> None:
    records = [(at, message) for at, message in HEALTHY]
    records.insert(4, (80.0, f"a first line\n{FAULTS[0]}"))
    for form in ("journalctl -o json", "dmesg --json"):
        assert Answer.NO_GO is _verdict(FORMS[form](records)).answer, form


@pytest.mark.parametrize("gap", ["", "junk between\n", "}\n"])
def test_what_stands_between_the_records_is_not_passed_over(gap: str) -> None:
    records = [json.dumps(_journal(*record)) + "\n" for record in HEALTHY]
    strange = "nvidia-smi: GPU is lost\n"

    assert Answer.CANNOT_TELL is _verdict("".join([*records[:2], gap, strange, *records[2:]])).answer


AGENT = {"level": "info", "ts": "2026-11-20T18:35:35Z", "msg": "NPD caught event: %v"}


def _agent(message: str, now: str = "True") -> str:
    said = f'Node condition NvidiaErrorReboot is now: {now}, reason: XidHardwareFailure, message: "{message}"'
    details = {
        "severity": "warn",
        "timestamp": "2026-11-20T20:59:29Z",
        "reason": "XidHardwareFailure",
        "message": said,
    }
    event = {**AGENT, "details: ": details, "HealthMonitoringAgentDetectionEvent": "HealthEvent"}
    return f"2026-11-20T11:35:35.532-07:00 {json.dumps(event)}\n"


@pytest.mark.parametrize("fault", [FAULTS[0], FAULTS[1], FAULTS[2]])
def test_an_event_of_hyperpods_agent_is_the_line_that_it_quotes(fault: str) -> None:
    assert Answer.NO_GO is _verdict(_agent(fault)).answer
    assert Answer.CANNOT_TELL is _verdict(_agent(fault)[:-90]).answer


@pytest.mark.parametrize(
    "text",
    [_agent("NoProblem", "False"), _agent("DCGM policy violation: power"), _agent(FAULTS[0], "Unknown")],
)
def test_an_event_without_a_line_of_the_kernel_names_the_command(text: str) -> None:
    verdict = _verdict(text)

    assert Answer.CANNOT_TELL is verdict.answer
    assert "journalctl" in " ".join(finding.remedy for finding in verdict.findings)


@pytest.mark.parametrize(
    "form", ["dmesg --json", "journalctl -o json", "journalctl -o export", "dmesg --time-format reltime"]
)
def test_a_file_too_large_to_be_held_names_the_form_that_is_searched(tmp_path: Path, form: str) -> None:
    path = tmp_path / "log"
    path.write_text(FORMS[form](HEALTHY) * 3, encoding="utf-8")
    with open_large_log(str(path), 100) as large:
        assert large is not None
        with pytest.raises(Broken) as raised:
            require_kernel_log(large, large.head.decode(), None)

    assert "journalctl -k -o short-iso" in raised.value.remedy
