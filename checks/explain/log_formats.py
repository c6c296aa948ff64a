"""Writes records of a kernel log in JSON, in journalctl's export format or with relative times as plain lines. Pure.

dmesg --json, --time-format delta and reltime (util-linux, sys-utils/dmesg.c); journalctl -o json, json-pretty, json-sse, json-seq and
export (systemd.io/JOURNAL_EXPORT_FORMATS); the events of SageMaker HyperPod's monitoring agent, which quote a line of the kernel.
Each record stands on the line of the text that has its message; the rest of its lines become blank.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta, timezone

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_AGENT = "HealthMonitoringAgentDetectionEvent"
_JSON = re.compile(rf'"(?:dmesg|MESSAGE|{_AGENT})"\s*:')
_MESSAGE = re.compile(r'"(?:MESSAGE|msg)"\s*:')
_EXPORT = re.compile(r"^__REALTIME_TIMESTAMP=\d+$", re.MULTILINE)
_FIELD = re.compile(r"([A-Z_][A-Z0-9_]*)=(.*)")
_RELATIVE = re.compile(
    r"(?P<level>[a-z]+\d? *:[a-z]+ *: )?"
    r"\[(?:(?P<minute>[A-Z][a-z]{2} ?\d{1,2} \d\d:\d\d)|(?:<| +\+| *\+(?=\d)) *(?P<seconds>\d+\.\d+)>?)\]"
    r"(?:\[ *[TC]\d+\])? ?(?P<message>.*)"
)
# What stands between the records of dmesg's document, of json-sse, and a time before a record.
_BETWEEN = re.compile(r'[\s{}\[\],]*|\s*\{?\s*"dmesg": *\[?\s*\{?|\s*data:\s*|[\dT:.Z+-]{19,} *')
_QUOTED = re.compile(r'is now: True, .*message: "(.+)"\s*$', re.DOTALL)


def is_of_records(text: str) -> bool:
    """Whether the records or the times of this text cannot be read line by line."""
    return bool(_JSON.search(text) or _EXPORT.search(text) or _begins_relative(text))


def to_plain_log(text: str) -> str:
    """The text with one plain line for each record; any other text as it is."""
    if _JSON.search(text):
        return _of_json(text)
    if _EXPORT.search(text):
        return "\n".join(_of_export(text.split("\n")))
    return "\n".join(_of_relative(text.split("\n"))) if _begins_relative(text) else text


def _begins_relative(text: str) -> bool:
    return any(_RELATIVE.match(line) for line in text[:4096].split("\n")[:20])


def _of_json(text: str) -> str:
    """What is no record and does not belong between two of them stays as it is. A document that is not complete has no last line."""
    decoder, at, done = json.JSONDecoder(), 0, 0
    records, between = list[str](), list[str]()
    while (start := text.find("{", at)) >= 0:
        at = start + 1
        try:
            value, end = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            continue
        line = _line(value)
        if line:
            between.append(text[done:start])
            message = _MESSAGE.search(text, start, end)
            above = text.count("\n", start, message.start() if message else start)
            records.append("\n" * above + line + "\n" * (text.count("\n", start, end) - above))
            at = done = end
    between.append(text[done:])
    whole = "".join(between)
    rest = [
        "\n".join("" if _BETWEEN.fullmatch(line) else line for line in part.split("\n")) for part in between
    ]
    plain = "".join(f"{before}{record}" for before, record in zip(rest, [*records, ""], strict=True))
    return plain if whole.count("[") == whole.count("]") else plain.rstrip("\n")


def _line(value: object) -> str:
    """The plain line of a record, "" if it is none."""
    if not isinstance(value, dict):
        return ""
    if isinstance(value.get("msg"), str) and "time" in value:
        return _of_dmesg(value, str(value["time"]))
    if _AGENT in value:
        event = next((part for part in value.values() if isinstance(part, dict)), {})
        quoted = _QUOTED.search(str(event.get("message")))
        return f"{event.get('timestamp')} kernel: {quoted[1]}" if quoted else ""
    return _of_journal(value) if "MESSAGE" in value else ""


def _of_dmesg(record: Mapping[str, object], moment: str) -> str:
    severity = record.get("pri", "")
    level = f"{record['fac']}:{severity}: " if "fac" in record else f"<{severity}>" if severity != "" else ""
    stamp = moment if re.match(r"\d{4}-", moment) else f"[{moment}]"
    return _joined(f"{level}{stamp} ", str(record["msg"]))


def _of_journal(record: Mapping[str, object]) -> str:
    message, moment = record["MESSAGE"], record.get("__REALTIME_TIMESTAMP")
    if isinstance(message, list):  # bytes that are no text
        message = bytes(message).decode("utf-8", "backslashreplace")
    if not isinstance(message, str) or not str(moment).isdigit():
        return ""
    stamp = (_EPOCH + timedelta(microseconds=int(str(moment)))).isoformat()
    name = record.get("SYSLOG_IDENTIFIER") or record.get("_COMM") or "unknown"
    by_kernel = record.get("_TRANSPORT", name) == "kernel"
    host = record.get("_HOSTNAME") or "-"
    return _joined(f"{stamp} {host} {'kernel' if by_kernel else f'{name}[0]'}: ", message)


def _joined(begins: str, message: str) -> str:
    """One line for each of the message, which the reader separates again."""
    return "\r".join(begins + line for line in message.splitlines() or [""])


def _of_export(lines: Sequence[str]) -> Sequence[str]:
    plain, fields, numbers = list(lines), dict[str, str](), dict[str, int]()
    for number, line in enumerate([*lines, ""]):
        if found := _FIELD.fullmatch(line):
            fields[found[1]], numbers[found[1]] = found[2], number
        elif not line:
            if made := _of_journal(fields) if "MESSAGE" in fields else "":
                for used in numbers.values():
                    plain[used] = ""
                plain[numbers["MESSAGE"]] = made
            fields, numbers = {}, {}
    return plain


def _of_relative(lines: Sequence[str]) -> Iterator[str]:
    """Each line says how long after the last one it came, or of which minute it is."""
    moment, form = _EPOCH, "%Y-%m-%dT%H:%M:%S+00:00"
    for line in lines:
        found = _RELATIVE.fullmatch(line)
        if found is None:
            yield line
            continue
        if found["minute"]:
            minute = found["minute"].replace(" ", "", found["minute"].count(" ") - 1)
            moment, form = datetime.strptime(f"1972{minute}+0000", "%Y%b%d %H:%M%z"), "%b %d %H:%M:%S"
        else:
            moment += timedelta(seconds=float(found["seconds"]))
        yield f"{found['level'] or ''}{moment.strftime(form)} kernel: {found['message']}"
